package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"toolbridge/subjects"
)

// compiled are the contract's schemas by name. Nothing is loaded from elsewhere.
var compiled = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.Draft, c.AssertFormat = jsonschema.Draft2020, true
	c.LoadURL = func(url string) (io.ReadCloser, error) { return nil, fmt.Errorf("%s is none of the schemas", url) }
	names, err := fs.Glob(subjects.Schemas(), "*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(subjects.Schemas(), name)
		if err != nil {
			return nil, err
		}
		if err := c.AddResource("schema:///"+name, bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	out := map[string]*jsonschema.Schema{}
	for _, name := range names {
		s, err := c.Compile("schema:///" + name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = s
	}
	return out, nil
})

// valid holds a JSON text against one of the contract's schemas and returns it
// decoded, numbers as they are written.
func valid(t *testing.T, schema string, text []byte) map[string]any {
	t.Helper()
	schemas, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := schemas[schema+".json"]
	if !ok {
		t.Fatalf("the contract has no schema %q", schema)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v in %.300s", schema, err, text)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %#v\nin %.600s", schema, err, text)
	}
	return v
}
