package arguments

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// firstEntry reads what can be read of the caller's own first entry out of an
// envelope that was refused: its name, "" when there is none, and its
// arguments for a message. A bridge call nested in a bridge call is opened.
func firstEntry(source []byte) (name, arguments string) {
	text := bytes.Trim(source, " \t\r\n")
	if len(text) > DefaultMaxBytes {
		return "", echoUnknown
	}
	for range 10 { // text, envelope, calls as text, array; the same once more for a nested bridge call
		inner, isEntry := towardsEntry(text)
		if isEntry {
			break
		}
		if inner == nil {
			return scanName(text), echoUnknown
		}
		text = inner
	}
	list, err := members(text)
	if err != nil {
		return scanName(text), echoUnknown
	}
	arguments = echoUnknown
	for _, m := range list {
		switch m.Name {
		case "name":
			name, _ = nameText(m.Value)
		case "arguments":
			arguments = echoOf(m.Value)
		}
	}
	return name, arguments
}

// towardsEntry goes one step from an envelope, or text that holds one, towards its
// first entry; isEntry is true when v is already an entry.
func towardsEntry(text []byte) (inner []byte, isEntry bool) {
	v := jsontext.Value(text)
	switch v.Kind() {
	case '"':
		content, ok := unquote(v)
		if !ok {
			return nil, false
		}
		read, err := readOnce([]byte(content))
		if err != nil {
			return []byte(content), false
		}
		return read, false
	case '[':
		if list, err := elements(v); err == nil && len(list) > 0 {
			return list[0], false
		}
		return nil, false
	case '{':
	default:
		return nil, false
	}
	list, err := members(v)
	if err != nil {
		return nil, false
	}
	var name, calls, arguments jsontext.Value
	for _, m := range list {
		switch m.Name {
		case "name":
			name = m.Value
		case "calls":
			calls = m.Value
		case "arguments":
			arguments = m.Value
		}
	}
	if calls != nil && calls.Kind() != 'n' {
		return calls, false
	}
	if n, _ := nameText(name); n == "tool_call" && (arguments.Kind() == '{' || arguments.Kind() == '"') {
		return arguments, false
	}
	return nil, true
}

// echoOf is an arguments member for a message, when it is an object that says
// one thing.
func echoOf(v jsontext.Value) string {
	if v.Kind() == '"' {
		text, ok := unquote(v)
		if !ok {
			return echoUnknown
		}
		if trimSpace(text) == "" {
			return "{}"
		}
		read, err := readOnce([]byte(text))
		if err != nil {
			return echoUnknown
		}
		v = read
	}
	if v.Kind() == 'n' {
		return "{}"
	}
	if v.Kind() != '{' || !v.IsValid(jsontext.AllowInvalidUTF8(true)) {
		return echoUnknown
	}
	return Echo(v)
}

// scanName finds the first member called name in text that breaks off.
func scanName(text []byte) string {
	dec, err := newDecoder(text, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return ""
	}
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return ""
		}
		if tok.Kind() != '"' || tok.String() != "name" {
			continue
		}
		if kind, n := dec.StackIndex(dec.StackDepth()); kind != '{' || n%2 == 0 {
			continue // a value, not a member's name
		}
		if next, err := dec.ReadToken(); err == nil && next.Kind() == '"' {
			return trimSpace(next.String())
		}
		return ""
	}
}
