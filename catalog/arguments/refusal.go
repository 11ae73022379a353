package arguments

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// RefusalCode says why an envelope was refused.
type RefusalCode string

// Why an envelope is refused.
const (
	RefusedInvalidEnvelope  RefusalCode = "envelope_invalid_json"    // the arguments of tool_call are no JSON
	RefusedEnvelopeType     RefusalCode = "envelope_not_object"      // they are JSON, but no object
	RefusedMissingCalls     RefusalCode = "missing_calls"            // neither calls nor a name
	RefusedInvalidCalls     RefusalCode = "calls_invalid_json"       // calls is text that is no JSON
	RefusedCallsType        RefusalCode = "calls_not_nonempty_array" // calls is no array, or an empty one
	RefusedTooManyEntries   RefusalCode = "too_many_entries"         // more entries than one call may have
	RefusedEntryType        RefusalCode = "entry_not_object"         // an entry is no object
	RefusedMissingName      RefusalCode = "entry_missing_name"       // an entry without a tool's name
	RefusedNameType         RefusalCode = "entry_name_not_text"      // a name that is true, an object or an array
	RefusedBridgeName       RefusalCode = "bridge_name"              // a bridge tool called through the bridge
	RefusedInvalidArguments RefusalCode = "arguments_invalid_json"   // arguments is text that is no JSON
	RefusedArgumentsType    RefusalCode = "arguments_not_object"     // arguments is neither an object nor empty
	RefusedNumber           RefusalCode = "number_not_json"          // NaN or Infinity
	RefusedDuplicate        RefusalCode = "duplicate_member"         // the same name twice in one object
	RefusedStray            RefusalCode = "members_beside_calls"     // members that belong to no entry
	RefusedTooLarge         RefusalCode = "too_large"                // more bytes than are read
	RefusedTooDeep          RefusalCode = "too_deep"                 // nested more deeply than is read
)

// Refusal is the answer to an envelope that was refused whole: nothing of it
// may run.
type Refusal struct {
	Refused  RefusalCode
	Position int    // of the entry that is at fault, from 0; -1 when none is
	Name     string // of that entry, or the one that is at fault, where it can be read
	Path     string // of the value at fault inside the arguments, "" when none is
	Problem  string // what is wrong, one short sentence
	// Message is for the model: the problem, that nothing was run, and the
	// valid shape with the caller's own first entry.
	Message string
	Shape   string // the valid shape alone, JSON
	// Key is the same for the same refused input, white space aside: the
	// SHA-256 in hex. By it a worker counts identical refusals.
	Key string
}

// Error is the message, so that a Refusal can travel as an error.
func (r *Refusal) Error() string { return r.Message }

// Code is the code of the bus contract.
func (r *Refusal) Code() subjects.Code { return subjects.CodeInvalidArguments }

// Wording is the message for the n-th identical refusal in a row, counted from
// 1, and whether the agent should stop asking.
func (r *Refusal) Wording(n int) (message string, halt bool) {
	return Wording(r.Message, r.Problem, n)
}

// keyOf is the hex digest of an input.
func keyOf(parts ...[]byte) string {
	h := sha256.New()
	for i, p := range parts {
		if i > 0 {
			h.Write([]byte{0})
		}
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxEcho bounds, in characters, the caller's own arguments in a message.
const maxEcho = 1500

// maxEchoName bounds, in characters, a name in a message.
const maxEchoName = 200

// Arguments in a shape that can not be the caller's own.
const (
	echoUnknown = `{"<parameter>":"<value>"}`
	echoTooLong = `{"<as in your call>":"..."}`
)

// Echo is an entry's arguments as compact JSON for a message to the model; a
// marker stands in place of more than 1,500 characters.
func Echo(arguments jsontext.Value) string {
	c := compact(arguments)
	if utf8.RuneCount(c) > maxEcho {
		return echoTooLong
	}
	return string(c)
}

// Shape is the valid form of a tool_call with this one entry.
func Shape(name string, arguments jsontext.Value) string {
	return shape(name, Echo(arguments))
}

func shape(name, arguments string) string {
	if name == "" {
		name = "<tool name>"
	}
	return `{"calls":[{"name":` + quoteText(cut(name, maxEchoName)) + `,"arguments":` + arguments + `}]}`
}
