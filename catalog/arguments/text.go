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
	if len(opts) == 0 {
		return jsontext.NewDecoder(bytes.NewBuffer(src), jsontext.AllowInvalidUTF8(true)), nil
	}
	opts = append([]jsontext.Options{jsontext.AllowInvalidUTF8(true)}, opts...)
	return jsontext.NewDecoder(bytes.NewBuffer(src), opts...), nil
}

// readValue reads the next value as a part of src, which dec reads.
func readValue(dec *jsontext.Decoder, src []byte) (jsontext.Value, error) {
	v, err := dec.ReadValue()
	if err != nil {
		return nil, asUnexpectedEnd(err)
	}
	end := int(dec.InputOffset())
	return src[end-len(v) : end : end], nil
}

// readOnce reads the one JSON value that a text holds. A text that holds the
// same object or array twice and nothing else, as streams produce that repeat
// their last chunk, is taken once.
func readOnce(text []byte) (jsontext.Value, error) {
	dec, err := newDecoder(text)
	if err != nil {
		return nil, err
	}
	first, err := readValue(dec, text)
	if err != nil {
		return nil, err
	}
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

// members takes a JSON object apart, in order. Where a name stands twice both
// are given: duplicates were refused when the text was first read.
func members(object jsontext.Value) (list []Member, err error) {
	err = takeApart(object, '}', func(dec *jsontext.Decoder) error {
		name, err := dec.ReadToken()
		if err != nil {
			return asUnexpectedEnd(err)
		}
		m := Member{Name: name.String()}
		if m.Value, err = readValue(dec, object); err != nil {
			return err
		}
		list = append(list, m)
		return nil
	})
	return list, err
}

// elements takes a JSON array apart.
func elements(array jsontext.Value) (list []jsontext.Value, err error) {
	err = takeApart(array, ']', func(dec *jsontext.Decoder) error {
		v, err := readValue(dec, array)
		if err != nil {
			return err
		}
		list = append(list, v)
		return nil
	})
	return list, err
}

// takeApart enters a container and calls next until it ends.
func takeApart(container jsontext.Value, end jsontext.Kind, next func(*jsontext.Decoder) error) error {
	dec, err := newDecoder(container, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return err
	}
	if _, err := dec.ReadToken(); err != nil {
		return asUnexpectedEnd(err)
	}
	for dec.PeekKind() != end {
		if err := next(dec); err != nil {
			return err
		}
	}
	return nil
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
