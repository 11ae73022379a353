package subjects

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

//go:embed examples/*.json
var exampleFiles embed.FS

//go:embed asyncapi.yaml
var asyncAPI []byte

// Schemas holds one JSON Schema (2020-12) per message and per value of the
// shared state, <name>.json. They refer to each other by file name, so that a
// program that reads one loads the others from beside it.
func Schemas() fs.FS { return below(schemaFiles, "schemas") }

// Examples holds completed messages, <schema>.json or <schema>.<variant>.json.
// Together they tell one story: the session s-7f3a91 of the tenant acme.
func Examples() fs.FS { return below(exampleFiles, "examples") }

// Schema returns the text of one schema by its name without ".json", for
// example "bridge-request".
func Schema(name string) ([]byte, error) {
	text, err := schemaFiles.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("schema %q: %w", name, err)
	}
	return text, nil
}

// AsyncAPI returns the AsyncAPI 3 document of the bus contract, YAML. Its
// references to schemas are relative to the folder of this package.
func AsyncAPI() []byte { return bytes.Clone(asyncAPI) }

func below(files embed.FS, dir string) fs.FS {
	sub, err := fs.Sub(files, dir)
	if err != nil { // only for an invalid name, and dir is a constant
		panic(err)
	}
	return sub
}
