package catalog

import (
	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// Warning names one tool, toolset or setting that was left out or repaired.
type Warning = subjects.Warning

// Annotations are the hints of a definition. A nil field was not given. They
// count for nothing unless the server that gave them is trusted; that is for the
// caller to decide.
type Annotations struct {
	ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool
}

// Definition is one tool definition, decoded. Its parts share the bytes that
// Decode was given.
type Definition struct {
	// Name is what the model sees and calls: the name as it came, except that
	// control characters and line breaks became "_" (then a warning was given).
	Name string
	// Original is the name as it came, which the tool's executor knows.
	Original string
	// Description is the text as it came, cut to Limits.DescriptionChars.
	Description string
	// Toolset is "" when there is none. "mcp-<server>" names the tools of an MCP
	// server, any other a plugin's.
	Toolset string
	Dialect Dialect
	// Raw is the definition as it came.
	Raw jsontext.Value
	// Parameters are the schema's bytes as they came: an object or true. "{}" when
	// there were none, and a schema that takes any object when they were unusable.
	Parameters jsontext.Value
	// Properties are the top-level parameter names in source order, Required the
	// strings among the schema's "required".
	Properties, Required []string

	Annotations Annotations
	Parallel    bool // the caller says that calls may run side by side
	Aliases     []string
	// SourceName is the owner that the definition itself names
	// (_hermes_source_name); it counts when there is no toolset.
	SourceName string
	// Registry says that the definition is the live registry's, not the session's.
	// Decode never sets it.
	Registry bool

	own   []span // parts of Raw that are Toolbridge's own fields, in order
	chars int    // characters of the visible definition as compact JSON
	whole string // the description as it came when Description had to be cut
	// hashed is the schema as it came when Parameters had to be replaced.
	hashed jsontext.Value
}

// span is a half-open range of bytes.
type span struct{ start, end int }

// Visible is what a model may see of the definition: Raw without Toolbridge's
// own fields (toolset, annotations, parallel, aliases, _hermes_source_name), and
// byte for byte the same otherwise. It shares Raw when there were none.
func (d *Definition) Visible() jsontext.Value {
	if len(d.own) == 0 {
		return d.Raw
	}
	n := len(d.Raw)
	for _, s := range d.own {
		n -= s.end - s.start
	}
	out := make(jsontext.Value, 0, n)
	at := 0
	for _, s := range d.own {
		out = append(out, d.Raw[at:s.start]...)
		at = s.end
	}
	return append(out, d.Raw[at:]...)
}
