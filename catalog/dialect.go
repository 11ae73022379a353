package catalog

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Dialect is the shape of a tool definition.
type Dialect string

// The dialects that are read and written.
const (
	OpenAI    Dialect = "openai"    // {"type":"function","function":{"name","description","parameters"}}
	Responses Dialect = "responses" // {"type":"function","name","description","parameters"}
	Anthropic Dialect = "anthropic" // {"name","description","input_schema"}
	MCP       Dialect = "mcp"       // {"name","description","inputSchema"}
	Plain     Dialect = "plain"     // {"name","description","parameters"}
)

// Valid reports whether d is one of the dialects above.
func (d Dialect) Valid() bool {
	switch d {
	case OpenAI, Responses, Anthropic, MCP, Plain:
		return true
	}
	return false
}

// Render writes the definition in a dialect: as compact JSON of name,
// description and schema, the schema's bytes as they came. In its own dialect a
// definition is its Visible bytes.
func (d *Definition) Render(to Dialect) []byte {
	if to == d.Dialect || !to.Valid() {
		return d.Visible()
	}
	return renderTool(to, d.Name, d.Description, d.Parameters)
}

// renderTool writes one definition. Strings are escaped as little as JSON allows.
func renderTool(to Dialect, name, description string, parameters []byte) []byte {
	b := make([]byte, 0, len(name)+len(description)+len(parameters)+96)
	key := `,"parameters":`
	tail := `}`
	switch to {
	case Responses:
		b = append(b, `{"type":"function","name":`...)
	case Anthropic:
		b, key = append(b, `{"name":`...), `,"input_schema":`
	case MCP:
		b, key = append(b, `{"name":`...), `,"inputSchema":`
	case Plain:
		b = append(b, `{"name":`...)
	default:
		b, tail = append(b, `{"type":"function","function":{"name":`...), `}}`
	}
	b = appendString(b, name)
	b = append(b, `,"description":`...)
	b = appendString(b, description)
	b = append(b, key...)
	b = append(b, parameters...)
	return append(b, tail...)
}

// appendString appends s as a JSON string: non-ASCII stays, nothing is escaped
// that JSON does not ask for, broken UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	if asItIs(s) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	b, _ = jsontext.AppendQuote(b, s) // its error only says that broken UTF-8 was replaced
	return b
}

// asItIs reports whether s needs no escape: the usual case, told fast.
func asItIs(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendStrings appends a JSON array of strings.
func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}
