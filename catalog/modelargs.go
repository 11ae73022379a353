package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// refused is a refusal of the arguments of search or describe.
func refused(format string, args ...any) *subjects.SlotError {
	return &subjects.SlotError{Code: subjects.CodeInvalidArguments, Message: fmt.Sprintf(format, args...)}
}

// modelArguments reads what a model sent as the arguments of a bridge tool: an
// object, or a string that holds one. Nothing, null and blank text are an empty
// object. usage is the shape that a refusal shows.
func modelArguments(args []byte, usage string) ([]member, *subjects.SlotError) {
	args = bytes.TrimSpace(args)
	if len(args) > 0 && args[0] == '"' {
		if v := jsontext.Value(args); !v.IsValid(jsontext.AllowInvalidUTF8(true)) {
			return nil, refused("the arguments are a string that can not be read; send %s", usage)
		}
		args = []byte(strings.TrimSpace(unquote(args)))
	}
	if len(args) == 0 || string(args) == "null" {
		return nil, nil
	}
	list, err := members(args)
	if errors.Is(err, errNotObject) {
		return nil, refused("the arguments must be an object; send %s", usage)
	}
	if err != nil {
		return nil, refused("the arguments can not be used: %v; send %s", err, usage)
	}
	return list, nil
}

// textOf is the trimmed text of one item of a list of texts. Nothing is "": null,
// false, 0, empty lists and objects; numbers count as they are written. ok is
// false for what is no text at all: true, lists and objects.
func textOf(v jsontext.Value) (text string, ok bool) {
	switch v.Kind() {
	case '"':
		return trim(unquote(v)), true
	case 'n', 'f':
		return "", true
	case '0':
		if f, _ := number(v); f == 0 {
			return "", true
		}
		return string(v), true
	case '[', '{':
		c := v.Clone()
		if c.Compact() == nil && len(c) == 2 {
			return "", true
		}
	default: // true is no text
	}
	return "", false
}
