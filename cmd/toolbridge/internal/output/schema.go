package output

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Parameter is one top-level property of a tool's JSON Schema.
type Parameter struct {
	Name, Type, Description string
	Required                bool
}

// Parameters lists a schema's top-level properties in the order they are
// written; nil when the schema can not be read.
func Parameters(schema []byte) []Parameter {
	var s struct {
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil || s.Properties.Kind() != '{' {
		return nil
	}
	d := jsontext.NewDecoder(strings.NewReader(string(s.Properties)))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	var out []Parameter
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return out
		}
		p := Parameter{Name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return out
		}
		var of struct {
			Type        any               `json:"type"`
			Description string            `json:"description"`
			Enum        []json.RawMessage `json:"enum"`
		}
		if json.Unmarshal(value, &of) == nil {
			p.Type, p.Description = typeName(of.Type, of.Enum), of.Description
		}
		p.Required = slices.Contains(s.Required, p.Name)
		out = append(out, p)
	}
	return out
}

func typeName(t any, enum []json.RawMessage) string {
	if len(enum) > 0 {
		words := make([]string, 0, len(enum))
		for _, e := range enum {
			words = append(words, string(e))
		}
		if joined := strings.Join(words, "|"); len(joined) <= 60 {
			return joined
		}
	}
	switch t := t.(type) {
	case string:
		return t
	case []any:
		words := make([]string, 0, len(t))
		for _, e := range t {
			if s, ok := e.(string); ok {
				words = append(words, s)
			}
		}
		return strings.Join(words, "|")
	}
	return "any"
}

// Indented is JSON over several lines, numbers and text as they are; what is no
// JSON comes back unchanged.
func Indented(raw []byte) string {
	v := slices.Clone(jsontext.Value(raw))
	if err := v.Indent(jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true)); err != nil {
		return string(raw)
	}
	return string(v)
}
