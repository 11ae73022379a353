package catalog

import (
	"bytes"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// reader takes one definition apart in one pass, without knowing its dialect
// beforehand. All its values are parts of text.
type reader struct {
	dec  *jsontext.Decoder
	text []byte

	whole span // the definition in text
	top   parts
	fn    parts // inside "function"
	own   []span
	twice string // a member that stands there twice
}

// parts are the members of a definition, or of its "function", that matter. A
// value that is not there is nil.
type parts struct {
	seen                                           uint32
	kind, name, description                        jsontext.Value
	function                                       bool // holds an object
	parameters, inputSchema, camelSchema           schema
	toolset, annotations, parallel, aliases, owner jsontext.Value
	cutter                                         cutter
}

// schema is a parameter schema and what the index and the records need of it.
type schema struct {
	value      jsontext.Value
	properties []string
	required   []string
}

// item reads the object that the decoder stands before.
func (r *reader) item() error {
	r.top, r.fn, r.own, r.twice = parts{}, parts{}, nil, ""
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	r.whole.start = int(r.dec.InputOffset()) - 1
	if err := r.members(&r.top, true); err != nil {
		return err
	}
	r.whole.end = int(r.dec.InputOffset())
	return nil
}

// members reads the members of an object up to its end.
func (r *reader) members(p *parts, top bool) error {
	for r.dec.PeekKind() != '}' {
		key, at, err := r.key()
		if err != nil {
			return err
		}
		bit, own := known(key, top)
		if bit != 0 && p.seen&bit != 0 && r.twice == "" {
			r.twice = key
		}
		p.seen |= bit
		if !own {
			r.own = p.cutter.keep(r.own, at)
		}
		if err := r.value(p, bit); err != nil {
			return err
		}
		end := int(r.dec.InputOffset())
		if own {
			r.own = p.cutter.drop(r.own, at, end)
		}
		p.cutter.previous = end
	}
	r.own = p.cutter.done(r.own)
	_, err := r.dec.ReadToken()
	return err
}

// The members that are known, as bits of parts.seen.
const (
	bitKind uint32 = 1 << iota
	bitName
	bitDescription
	bitFunction
	bitParameters
	bitInputSchema
	bitCamelSchema
	bitToolset
	bitAnnotations
	bitParallel
	bitAliases
	bitOwner
)

// known is the bit of a member, and whether it is one of Toolbridge's own. Inside
// "function" only the function's members and the owner count.
func known(key string, top bool) (bit uint32, own bool) {
	switch key {
	case "name":
		return bitName, false
	case "description":
		return bitDescription, false
	case "parameters":
		return bitParameters, false
	case "_hermes_source_name":
		return bitOwner, true
	}
	if !top {
		return 0, false
	}
	switch key {
	case "type":
		return bitKind, false
	case "function":
		return bitFunction, false
	case "input_schema":
		return bitInputSchema, false
	case "inputSchema":
		return bitCamelSchema, false
	case "toolset":
		return bitToolset, true
	case "annotations":
		return bitAnnotations, true
	case "parallel":
		return bitParallel, true
	case "aliases":
		return bitAliases, true
	}
	return 0, false
}

// value reads the value of a member and keeps it where it is known.
func (r *reader) value(p *parts, bit uint32) (err error) {
	switch bit {
	case 0:
		return r.dec.SkipValue()
	case bitFunction:
		if r.dec.PeekKind() != '{' {
			return r.dec.SkipValue()
		}
		p.function = true
		if _, err := r.dec.ReadToken(); err != nil {
			return err
		}
		r.fn = parts{}
		return r.members(&r.fn, false)
	case bitParameters:
		return r.schema(&p.parameters)
	case bitInputSchema:
		return r.schema(&p.inputSchema)
	case bitCamelSchema:
		return r.schema(&p.camelSchema)
	}
	v, err := r.raw()
	switch bit {
	case bitKind:
		p.kind = v
	case bitName:
		p.name = v
	case bitDescription:
		p.description = v
	case bitToolset:
		p.toolset = v
	case bitAnnotations:
		p.annotations = v
	case bitParallel:
		p.parallel = v
	case bitAliases:
		p.aliases = v
	case bitOwner:
		p.owner = v
	}
	return err
}

// schema reads a parameter schema: its bytes, the names of its properties and
// the strings of its "required".
func (r *reader) schema(s *schema) error {
	*s = schema{}
	if r.dec.PeekKind() != '{' {
		v, err := r.raw()
		s.value = v
		return err
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	start := int(r.dec.InputOffset()) - 1
	for r.dec.PeekKind() != '}' {
		key, _, err := r.key()
		if err != nil {
			return err
		}
		switch {
		case key == "properties" && r.dec.PeekKind() == '{':
			s.properties, err = r.propertyNames(s.properties[:0])
		case key == "required" && r.dec.PeekKind() == '[':
			s.required, err = r.strings(s.required[:0])
		default:
			err = r.dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	end := int(r.dec.InputOffset())
	s.value = jsontext.Value(r.text[start:end:end])
	return nil
}

func (r *reader) propertyNames(out []string) ([]string, error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return out, err
	}
	for r.dec.PeekKind() != '}' {
		key, _, err := r.key()
		if err != nil {
			return out, err
		}
		if err := r.dec.SkipValue(); err != nil {
			return out, err
		}
		if out == nil {
			out = make([]string, 0, 4)
		}
		out = append(out, key)
	}
	_, err := r.dec.ReadToken()
	return out, err
}

// strings reads the strings of an array; other elements are passed over.
func (r *reader) strings(out []string) ([]string, error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return out, err
	}
	for r.dec.PeekKind() != ']' {
		v, err := r.raw()
		if err != nil {
			return out, err
		}
		if v.Kind() == '"' {
			out = append(out, text(v))
		}
	}
	_, err := r.dec.ReadToken()
	return out, err
}

// key reads the name of a member and where it begins.
func (r *reader) key() (name string, start int, err error) {
	v, err := r.raw()
	if err != nil {
		return "", 0, err
	}
	return text(v), int(r.dec.InputOffset()) - len(v), nil
}

// raw reads one value as a part of the text.
func (r *reader) raw() (jsontext.Value, error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(r.dec.InputOffset())
	return jsontext.Value(r.text[end-len(v) : end : end]), nil
}

// text is the content of a JSON string. It shares the bytes of v unless an escape
// has to be undone.
func text(v jsontext.Value) string {
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		return unquote(v)
	}
	if len(inner) == 0 {
		return ""
	}
	// Nobody writes to these bytes any more: Decode's callers leave them alone.
	return unsafe.String(&inner[0], len(inner)) //nolint:gosec // see above
}

// cutter finds the bytes to leave out of an object so that some members vanish
// and the rest stays as it is: a member goes with the comma before it, the first
// ones with the comma behind them.
type cutter struct {
	kept     bool // a member that stays has been seen
	leading  bool // members that go stand before the first that stays
	lead     int  // where they begin
	previous int  // end of the member before
}

// keep notes a member that stays and begins at.
func (c *cutter) keep(cuts []span, at int) []span {
	if c.leading {
		cuts = append(cuts, span{c.lead, at})
	}
	c.kept, c.leading = true, false
	return cuts
}

// drop notes a member that goes.
func (c *cutter) drop(cuts []span, at, end int) []span {
	if c.kept {
		return append(cuts, span{c.previous, end})
	}
	if !c.leading {
		c.leading, c.lead = true, at
	}
	return cuts
}

// done closes the object.
func (c *cutter) done(cuts []span) []span {
	if c.leading {
		cuts = append(cuts, span{c.lead, c.previous})
	}
	return cuts
}
