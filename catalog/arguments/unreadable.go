package arguments

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// unreadable is the refusal for a part of the envelope that is not JSON as we
// take it.
func (n *normalizer) unreadable(code RefusalCode, what string, text []byte, err error) *Refusal {
	position := -1
	r := refuseUnreadable(code, what, text, err, func(p jsontext.Pointer) string {
		position, p = locate(p)
		return pathOfPointer(p)
	})
	r.Position = position
	return r
}

func refuseUnreadable(code RefusalCode, what string, text []byte, err error, path func(jsontext.Pointer) string) *Refusal {
	r := fault(code, "%s must be valid JSON: %s.", what, readError(err))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		r.Problem = what + " must be valid JSON, but the text ends too early."
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return r
	}
	at := path(syntax.JSONPointer)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		r.Refused, r.Path = RefusedDuplicate, at
		r.Problem = fmt.Sprintf("%s must not name %s twice: it is not clear which value is meant.", what, at)
	case isNotANumber(text, syntax.ByteOffset):
		r.Refused, r.Path = RefusedNumber, at
		r.Problem = fmt.Sprintf("%s can not hold NaN or Infinity at %s: JSON has no such number.", what, at)
	}
	return r
}

// locate splits a pointer into an envelope into the entry's position and the
// rest below its arguments.
func locate(p jsontext.Pointer) (int, jsontext.Pointer) {
	s := string(p)
	position := -1
	if rest, ok := strings.CutPrefix(s, "/calls/"); ok {
		number, below, _ := strings.Cut(rest, "/")
		if i, err := strconv.Atoi(number); err == nil {
			position, s = i, "/"+below
		}
	}
	if below, ok := strings.CutPrefix(s, "/arguments"); ok && (below == "" || below[0] == '/') {
		return max(position, 0), jsontext.Pointer(below)
	}
	return position, p
}

func isNotANumber(text []byte, offset int64) bool {
	if offset < 0 || offset >= int64(len(text)) {
		return false
	}
	rest := text[offset:]
	return bytes.HasPrefix(rest, []byte("NaN")) || bytes.HasPrefix(rest, []byte("Infinity"))
}

// readError is the reader's own short reason, without its prefix.
func readError(err error) string {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) && syntax.Err != nil {
		return cut(syntax.Err.Error(), 120) + " at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	}
	return err.Error()
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "text"
	case '0':
		return "a number"
	case 't', 'f':
		return "a truth value"
	}
	return "null"
}
