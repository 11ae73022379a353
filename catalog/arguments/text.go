package arguments

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errTrailing = errors.New("more text after the JSON value")
	errNotUTF8  = errors.New("the text is not UTF-8")
)

// newDecoder reads src, which is used in place and never changed. jsontext
// refuses duplicate members; the escape of a lone surrogate, which JSON's
// grammar allows, is let through.
func newDecoder(src []byte, opts ...jsontext.Options) (*jsontext.Decoder, error) {
	if !utf8.Valid(src) {
		return nil, errNotUTF8
	}
	opts = append([]jsontext.Options{jsontext.AllowInvalidUTF8(true)}, opts...)
	return jsontext.NewDecoder(bytes.NewBuffer(src), opts...), nil
}

// readOnce reads the one JSON value that a text holds. A text that holds the
// same object or array twice and nothing else, as streams produce that repeat
// their last chunk, is taken once.
func readOnce(text []byte) (jsontext.Value, error) {
	dec, err := newDecoder(text)
	if err != nil {
		return nil, err
	}
	read, err := dec.ReadValue()
	if err != nil {
		return nil, asUnexpectedEnd(err)
	}
	first := read.Clone() // the decoder owns what it gave until it reads on
	if isBlankJSON(text[dec.InputOffset():]) {
		return first, nil
	}
	second, err := dec.ReadValue()
	if err != nil || !isBlankJSON(text[dec.InputOffset():]) {
		return nil, errTrailing
	}
	if k := first.Kind(); k == '{' || k == '[' {
		if bytes.Equal(compact(first), compact(second)) {
			return first, nil
		}
	}
	return nil, errTrailing
}

func asUnexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func isBlankJSON(text []byte) bool {
	return len(bytes.Trim(text, " \t\r\n")) == 0
}

// compact is v without insignificant white space, strings and numbers as
// written. Text that is not JSON comes back trimmed.
func compact(v []byte) []byte {
	c := jsontext.Value(v).Clone()
	if err := c.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return bytes.TrimSpace(v)
	}
	return c
}

// unquote is the content of a JSON string; false when it holds what Go text
// can not carry, a lone surrogate.
func unquote(v jsontext.Value) (string, bool) {
	text, err := jsontext.AppendUnquote(nil, v)
	return string(text), err == nil
}

// Member is one member of a JSON object, its value as it was written.
type Member struct {
	Name  string
	Value jsontext.Value
}

// members takes a JSON object apart, in order.
func members(object jsontext.Value, opts ...jsontext.Options) ([]Member, error) {
	dec, err := newDecoder(object, opts...)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, asUnexpectedEnd(err)
	}
	var list []Member
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, asUnexpectedEnd(err)
		}
		m := Member{Name: name.String()}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, asUnexpectedEnd(err)
		}
		m.Value = v.Clone()
		list = append(list, m)
	}
	return list, nil
}

// elements takes a JSON array apart.
func elements(array jsontext.Value) ([]jsontext.Value, error) {
	dec, err := newDecoder(array)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, asUnexpectedEnd(err)
	}
	var list []jsontext.Value
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return nil, asUnexpectedEnd(err)
		}
		list = append(list, v.Clone())
	}
	return list, nil
}

// depth is the greatest nesting of a valid JSON text.
func depth(text []byte) int {
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
