package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// maxErrorText bounds, in bytes, the message of a tool's or a server's error.
const maxErrorText = 2048

// Codes of an executor that the contract does not name; a worker passes them on
// as the executor's own code of a TOOL_ERROR.
const (
	// CodeProtocolError: the server answered with a JSON-RPC error.
	CodeProtocolError subjects.Code = "MCP_PROTOCOL_ERROR"
	// CodeInvalidResult: what it answered is no result of tools/call.
	CodeInvalidResult subjects.Code = "MCP_INVALID_RESULT"
	// CodeInputRequired: the tool asks for input that nobody can give here.
	CodeInputRequired subjects.Code = "MCP_INPUT_REQUIRED"
)

// toolResult is a result of tools/call, taken apart. The JSON is the server's.
type toolResult struct {
	content    jsontext.Value // an array; nil when absent
	structured jsontext.Value // nil when absent or null
	texts      []string       // of the text blocks
	other      int            // blocks that are not text
	isError    bool
	needsInput bool
}

func readResult(raw jsontext.Value) (r toolResult, err error) {
	err = members(raw, func(name string, value jsontext.Value) error {
		switch name {
		case "content":
			if value.Kind() == '[' {
				r.content = value.Clone()
			} else if value.Kind() != 'n' {
				return errors.New("content is not an array")
			}
		case "structuredContent":
			r.structured = nil
			if value.Kind() != 'n' {
				r.structured = value.Clone()
			}
		case "isError":
			r.isError = value.Kind() == 't'
		case "resultType":
			kind, _ := text(value)
			r.needsInput = kind == "input_required"
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	if r.content == nil && r.structured == nil && !r.isError && !r.needsInput {
		return r, errors.New("it has neither content nor structuredContent")
	}
	if r.content == nil {
		return r, nil
	}
	return r, elements(r.content, func(block jsontext.Value) error {
		var kind, words string
		isText := false
		if block.Kind() == '{' {
			_ = members(block, func(name string, value jsontext.Value) error {
				switch name {
				case "type":
					kind, _ = text(value)
				case "text":
					words, isText = text(value)
				}
				return nil
			})
		}
		if kind == "text" && isText {
			r.texts = append(r.texts, words)
		} else {
			r.other++
		}
		return nil
	})
}

// MapResult turns a result of tools/call into the tool's own result as the bus
// contract has it. Numbers and key order are the server's.
//
//   - structuredContent, when the text blocks say the same JSON, or the value of
//     its only member (servers wrap what is no object: {"result":5}), or nothing;
//   - {"structuredContent":…,"content":[…]} when they say something else, or
//     there are other blocks;
//   - {"content":[…]} when there is a block that is not text: image, audio,
//     resource, resource link, or one of a kind not known here;
//   - else the text: several blocks are joined by a line break; when the whole is
//     a JSON object or array, it is that, otherwise a JSON string, "" for none.
//
// A result with isError becomes TOOL_ERROR with the text, and what
// structuredContent adds to it, cut to 2048 bytes.
func MapResult(raw []byte) (jsontext.Value, *subjects.ExecError) {
	r, err := readResult(raw)
	if err != nil {
		return nil, &subjects.ExecError{Code: CodeInvalidResult, Message: cut("the server's answer is no tool result: "+err.Error(), maxErrorText)}
	}
	joined := strings.Join(r.texts, "\n")
	switch {
	case r.isError:
		return nil, &subjects.ExecError{Code: subjects.CodeToolError, Message: r.errorText(joined)}
	case r.needsInput:
		return nil, &subjects.ExecError{Code: CodeInputRequired, Message: "the tool asks for further input from a user, which can not be given through the bridge"}
	case r.structured != nil && r.other == 0 && r.saysSame(joined):
		return r.structured, nil
	case r.structured != nil:
		return wrap(`{"structuredContent":`, r.structured, `,"content":`, r.content, `}`), nil
	case r.other > 0:
		return wrap(`{"content":`, r.content, `}`), nil
	}
	if whole, ok := objectOrArray(joined); ok {
		return whole, nil
	}
	return quote(joined), nil
}

func wrap(parts ...any) jsontext.Value {
	var b bytes.Buffer
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b.WriteString(p)
		case jsontext.Value:
			b.Write(p)
		}
	}
	return b.Bytes()
}

// saysSame reports whether the text adds nothing to the structured content.
func (r toolResult) saysSame(joined string) bool {
	if strings.TrimSpace(joined) == "" || sameAsText(r.structured, joined) {
		return true
	}
	inner := onlyMember(r.structured)
	if inner == nil {
		return false
	}
	if sameAsText(inner, joined) {
		return true
	}
	if inner.Kind() != '[' {
		return false
	}
	i := 0 // a list whose items are the blocks
	err := elements(inner, func(item jsontext.Value) error {
		if i == len(r.texts) || !sameAsText(item, r.texts[i]) {
			return errors.New("differs")
		}
		i++
		return nil
	})
	return err == nil && i == len(r.texts)
}

// sameAsText reports whether a text is the value: as JSON, or, for a string, as
// it is.
func sameAsText(value jsontext.Value, words string) bool {
	if s, ok := text(value); ok && strings.TrimSpace(s) == strings.TrimSpace(words) {
		return true
	}
	return sameJSON(value, jsontext.Value(strings.TrimSpace(words)))
}

// onlyMember is the value of the one member of an object, else nil.
func onlyMember(value jsontext.Value) (inner jsontext.Value) {
	if value.Kind() != '{' {
		return nil
	}
	n := 0
	_ = members(value, func(_ string, v jsontext.Value) error {
		n++
		inner = v.Clone()
		return nil
	})
	if n != 1 {
		return nil
	}
	return inner
}

// objectOrArray is the text as JSON when the whole of it is an object or array.
func objectOrArray(s string) (jsontext.Value, bool) {
	v := jsontext.Value(strings.TrimSpace(s))
	if k := v.Kind(); k != '{' && k != '[' {
		return nil, false
	}
	if !v.IsValid(lenient()...) {
		return nil, false
	}
	return v, true
}

func (r toolResult) errorText(joined string) string {
	message := strings.TrimSpace(joined)
	if r.structured != nil && !r.saysSame(joined) || message == "" && r.structured != nil {
		message = strings.TrimSpace(message + "\n" + string(r.structured))
	}
	if r.other > 0 {
		message = strings.TrimSpace(fmt.Sprintf("%s\n(left out: %d of the content blocks, not text)", message, r.other))
	}
	if message == "" {
		message = "the tool reported an error and said nothing about it"
	}
	return cut(message, maxErrorText)
}

// toolFailed reports whether a result of tools/call has isError, and its words.
func toolFailed(raw jsontext.Value) (failed bool, words string) {
	r, err := readResult(raw)
	if err != nil || !r.isError {
		return false, ""
	}
	return true, r.errorText(strings.Join(r.texts, "\n"))
}
