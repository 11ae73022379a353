package catalog

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// SHA256 is the hash by which executors check that they run the definition that
// was meant: SHA-256, as lower-case hex, over the compact JSON of the object
// {"description", "name", "parameters"}. Members are sorted by code point at
// every level, numbers stay as they are written, strings are escaped as little
// as JSON allows, and non-ASCII stays. Name and description are as they came; a
// missing description is "", a missing schema {}.
func (d *Definition) SHA256() string {
	description, parameters := d.Description, d.Parameters
	if d.whole != "" {
		description = d.whole
	}
	if d.hashed != nil {
		parameters = d.hashed
	}
	name := d.Original
	if name == "" {
		name = d.Name
	}
	b := append(make([]byte, 0, len(description)+len(parameters)+128), `{"description":`...)
	b = appendString(b, description)
	b = append(b, `,"name":`...)
	b = appendString(b, name)
	b = append(b, `,"parameters":`...)
	b = appendCanonical(b, parameters)
	b = append(b, '}')
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// appendCanonical appends a JSON value in that form. The value is valid JSON, as
// Decode has seen to, and nests no deeper than Limits.Depth.
func appendCanonical(b []byte, v jsontext.Value) []byte {
	if len(v) == 0 {
		return append(b, `{}`...)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	b, err := canonical(b, d)
	if err != nil {
		return append(b, v...) // never for what Decode gave
	}
	return b
}

func canonical(b []byte, d *jsontext.Decoder) ([]byte, error) {
	switch d.PeekKind() {
	case '{':
		return canonicalObject(b, d)
	case '[':
		return canonicalArray(b, d)
	default:
	}
	v, err := d.ReadValue()
	if err != nil {
		return b, err
	}
	if v.Kind() == '"' {
		return appendString(b, unquote(v)), nil
	}
	return append(b, v...), nil
}

func canonicalArray(b []byte, d *jsontext.Decoder) ([]byte, error) {
	if _, err := d.ReadToken(); err != nil {
		return b, err
	}
	b = append(b, '[')
	for i := 0; d.PeekKind() != ']'; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = canonical(b, d); err != nil {
			return b, err
		}
	}
	_, err := d.ReadToken()
	return append(b, ']'), err
}

// canonicalObject writes the members one behind the other, then brings them into
// order.
func canonicalObject(b []byte, d *jsontext.Decoder) ([]byte, error) {
	if _, err := d.ReadToken(); err != nil {
		return b, err
	}
	type part struct {
		name string
		text []byte
	}
	var parts []part
	for d.PeekKind() != '}' {
		key, err := d.ReadValue()
		if err != nil {
			return b, err
		}
		p := part{name: unquote(key)}
		p.text = append(appendString(nil, p.name), ':')
		if p.text, err = canonical(p.text, d); err != nil {
			return b, err
		}
		parts = append(parts, p)
	}
	if _, err := d.ReadToken(); err != nil {
		return b, err
	}
	// Byte order of UTF-8 is the order of code points.
	slices.SortStableFunc(parts, func(x, y part) int { return cmp.Compare(x.name, y.name) })
	b = append(b, '{')
	for i, p := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, p.text...)
	}
	return append(b, '}'), nil
}
