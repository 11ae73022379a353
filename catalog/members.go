package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// member is one member of a JSON object, its value as it came.
type member struct {
	name  string
	value jsontext.Value
}

// errNotObject says that the value is JSON, but no object.
var errNotObject = errors.New("not a JSON object")

// members reads the members of one JSON object in source order. A member named
// twice, trailing data and broken JSON are errors; errNotObject when it is some
// other value.
func members(raw []byte) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return nil, readable(err)
		}
		return nil, errNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, readable(err)
	}
	var out []member
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, readable(err)
		}
		m := member{name: name.String()}
		for i := range out {
			if out[i].name == m.name {
				return nil, fmt.Errorf("the member %s stands there twice", quoteShort(m.name))
			}
		}
		v, err := d.ReadValue()
		if err != nil {
			return nil, readable(err)
		}
		m.value = bytes.Clone(v)
		if out = append(out, m); len(out) > maxMembers {
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, readable(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows after the JSON value")
	}
	return out, nil
}

// maxMembers bounds the objects that members reads: settings and arguments of
// search and describe have a handful.
const maxMembers = 64

// elements reads the elements of a JSON array that is known to be valid.
func elements(raw jsontext.Value) []jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	var out []jsontext.Value
	for d.PeekKind() != ']' {
		v, err := d.ReadValue()
		if err != nil {
			return out
		}
		out = append(out, bytes.Clone(v))
	}
	return out
}

// unquote is the text of a JSON string that is known to be valid.
func unquote(raw jsontext.Value) string {
	b, _ := jsontext.AppendUnquote(nil, raw) // its error only says that broken UTF-8 was replaced
	return string(b)
}

// readable puts a tokenizer's error into one short line.
func readable(err error) error {
	var s *jsontext.SyntacticError
	if errors.As(err, &s) {
		if s.Err != nil {
			return fmt.Errorf("not valid JSON at byte %d: %s", s.ByteOffset, oneLine(s.Err.Error(), 120))
		}
		return fmt.Errorf("not valid JSON at byte %d", s.ByteOffset)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("empty")
	}
	return errors.New(oneLine(err.Error(), 160))
}
