package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// lenient is how a server's JSON is read: duplicate members and unpaired
// surrogates are the server's business, and no reason to lose its answer.
func lenient() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

var errNotObject = errors.New("not a JSON object")

// members calls visit for every member of the one JSON object in data. The
// value's bytes are those of data, valid until visit returns.
func members(data []byte, visit func(name string, value jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), lenient()...)
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return errNotObject
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(key, value); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	return atEnd(dec)
}

// elements calls visit for every element of the one JSON array in data; see
// members.
func elements(data []byte, visit func(value jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), lenient()...)
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '[' {
		return errors.New("not a JSON array")
	}
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(value); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	return atEnd(dec)
}

func atEnd(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("more than one JSON value")
		}
		return err
	}
	return nil
}

// text is the Go string of a JSON string; ok is false for any other kind.
func text(value jsontext.Value) (s string, ok bool) {
	if value.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, value)
	if err != nil && !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	return string(b), true
}

// quote is the JSON string of s, without HTML escaping.
func quote(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, bytes.ToValidUTF8([]byte(s), []byte("\uFFFD")))
	if err != nil {
		panic(fmt.Sprintf("quoting valid UTF-8: %v", err)) // cannot happen
	}
	return b
}

// validUTF8 is data itself, or a copy with every invalid byte replaced, so that
// what is passed on is JSON for any reader.
func validUTF8(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}

// cut shortens s to at most n bytes on a character boundary and marks the cut.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	end := max(0, n-len(mark))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// rawJSON is a value for encoding/json, which the SDK encodes with; it drops
// the white space between tokens and nothing else.
func rawJSON(value jsontext.Value) json.RawMessage { return json.RawMessage(value) }
