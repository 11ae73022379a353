package arguments

import (
	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// Invalid is the answer to arguments that a tool can not take: the tool was
// not invoked.
type Invalid struct {
	// Path is where: arguments, arguments.rows[1].x, arguments["with space"].
	Path string
	// Constraint is the keyword of the schema that failed; "schema" for the
	// schema false, "json" for text that is no JSON.
	Constraint string
	// Reason is what is wrong, one short sentence without a full stop.
	Reason string
	// Message is for the model, at most 600 characters: that the tool was not
	// invoked, the path and the reason.
	Message string
	// Missing are the required parameters that are not there, all of them, when
	// that is what is wrong at the top level.
	Missing []string
	// Parameters is the tool's schema as it came; nil when it is larger than
	// 64 KiB, or there is none.
	Parameters jsontext.Value
	// Hint is what to do next.
	Hint string
}

// NotInvoked is how the message of an Invalid begins.
const NotInvoked = "The tool was NOT invoked. "

// maxMessage bounds a message, in characters.
const maxMessage = 600

// maxParameters bounds, in bytes, the schema that is sent back.
const maxParameters = 64 << 10

// Error is the message, so that an Invalid can travel as an error.
func (e *Invalid) Error() string { return e.Message }

// Code is the code of the bus contract.
func (e *Invalid) Code() subjects.Code { return subjects.CodeInvalidArguments }

// Wording is the message for the n-th identical refusal in a row, counted from
// 1, and whether the agent should stop asking.
func (e *Invalid) Wording(n int) (message string, halt bool) {
	return Wording(e.Message, cut(e.Path+": "+e.Reason, maxMessage/2)+".", n)
}

func (s *Schema) invalid(at []step, constraint, reason string) *Invalid {
	e := &Invalid{Path: pathOf(at), Constraint: constraint, Reason: reason}
	e.Message = cut(NotInvoked+e.Path+": "+reason+".", maxMessage)
	e.Hint = `Correct the arguments and call the tool again; "parameters" is its schema.`
	if constraint == "required" {
		e.Hint = `Add what is missing to the arguments and call the tool again; "parameters" is its schema.`
	}
	if len(s.source) > 0 && len(s.source) <= maxParameters {
		e.Parameters = s.source
	} else {
		e.Hint = "Correct the arguments and call the tool again; tool_describe shows its schema."
	}
	return e
}
