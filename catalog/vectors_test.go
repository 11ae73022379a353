package catalog

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// readVectors reads a file of testdata/vectors. Numbers stay as they are written.
func readVectors(tb testing.TB, name string, into any) {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		tb.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
}

// vectorTool is a tool as the vectors spell it.
type vectorTool struct {
	Name        *string         `json:"name"`
	Description json.RawMessage `json:"description"`
	Params      []string        `json:"params"`
	Parameters  json.RawMessage `json:"parameters"`
	Toolset     string          `json:"toolset"`
	Owner       *string         `json:"owner"`
}

// definition is the tool as a definition in the openai dialect; params are the
// names of string parameters.
func (v vectorTool) definition() []byte {
	b := []byte(`{"type":"function","function":{`)
	if v.Name != nil {
		b = append(b, `"name":`...)
		b = appendString(b, *v.Name)
		b = append(b, ',')
	} else {
		b = append(b, `"name":null,`...)
	}
	if v.Description != nil {
		b = append(b, `"description":`...)
		b = append(b, v.Description...)
		b = append(b, ',')
	}
	switch {
	case v.Parameters != nil:
		b = append(b, `"parameters":`...)
		b = append(b, v.Parameters...)
	case v.Params != nil:
		b = append(b, `"parameters":{"type":"object","properties":{`...)
		for i, p := range v.Params {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, p)
			b = append(b, `:{"type":"string"}`...)
		}
		b = append(b, `}}`...)
	default:
		b = bytes.TrimSuffix(b, []byte(","))
	}
	b = append(b, `}`...)
	if v.Toolset != "" {
		b = append(b, `,"toolset":`...)
		b = appendString(b, v.Toolset)
	}
	if v.Owner != nil {
		b = append(b, `,"_hermes_source_name":`...)
		b = appendString(b, *v.Owner)
	}
	return append(b, '}')
}

// toolsArray is the JSON array of the tools.
func toolsArray(tools []vectorTool) []byte {
	b := []byte{'['}
	for i, v := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v.definition()...)
	}
	return append(b, ']')
}

// each decodes every tool on its own, so that twins stay; nameless tools give
// nothing.
func each(tb testing.TB, tools []vectorTool) []Definition {
	tb.Helper()
	var out []Definition
	for _, v := range tools {
		out = append(out, decode(tb, append(append([]byte{'['}, v.definition()...), ']'))...)
	}
	return out
}

func decode(tb testing.TB, tools []byte) []Definition {
	tb.Helper()
	d, _, err := Decode(tools, Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func names(d []Definition) []string {
	out := []string{}
	for i := range d {
		out = append(out, d[i].Name)
	}
	return out
}

func pointers(d []Definition) []*Definition {
	out := make([]*Definition, len(d))
	for i := range d {
		out[i] = &d[i]
	}
	return out
}

func chars(s string) int { return utf8.RuneCountInString(s) }
