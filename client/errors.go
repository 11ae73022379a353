package client

import (
	"fmt"

	"toolbridge/subjects"
)

// ResultError is a reply with is_error where a typed result was expected: what
// the model, or whoever made the arguments, did wrong.
type ResultError struct {
	Reply subjects.BridgeReply
	Slot  subjects.SlotError // its zero value when the result holds no error object
}

func newResultError(reply *subjects.BridgeReply) *ResultError {
	e := &ResultError{Reply: *reply}
	var failure subjects.CallFailure
	if err := subjects.Decode(reply.Result, &failure); err == nil && failure.Error != nil {
		e.Slot = *failure.Error
	}
	return e
}

func (e *ResultError) Error() string {
	if e.Slot.Code == "" {
		return fmt.Sprintf("%s failed: %s", e.Reply.Name, e.Reply.Result)
	}
	return fmt.Sprintf("%s: %s: %s", e.Reply.Name, e.Slot.Code, e.Slot.Message)
}

// ToolError is an executor's failure in its own words; a handler returns it to
// choose the code that the worker hears. The zero Code means TOOL_ERROR.
type ToolError struct {
	Code    subjects.Code
	Message string
}

func (e *ToolError) Error() string { return string(e.Code) + ": " + e.Message }
