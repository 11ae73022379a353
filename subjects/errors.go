package subjects

import "encoding/json"

// Warning names one tool, toolset or setting that was left out or repaired, and
// why. It never stops an assembly.
type Warning struct {
	Code    WarningCode `json:"code"`
	Tool    string      `json:"tool,omitempty"` // tool, toolset or key it is about
	Message string      `json:"message"`
}

// Error is the body of a request that could not be served, {"error": {…}}, and
// of a failed slot. Fields after RetryAfterMS go with single codes.
type Error struct {
	Code         Code   `json:"code"`
	Message      string `json:"message"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// NewError is an Error with the code's own word on whether to retry.
func NewError(code Code, message string) *Error {
	return &Error{Code: code, Message: message, Retryable: code.Retryable()}
}

// ErrorReply is the JSON body of a request that could not be served.
type ErrorReply struct {
	Error *Error `json:"error"`
}

// SlotError is what the model reads about one failed execution, or a refused
// envelope.
type SlotError struct {
	Code         Code            `json:"code"`
	Message      string          `json:"message"`
	Reason       string          `json:"reason,omitempty"`     // e.g. no_approver, rule
	Path         string          `json:"path,omitempty"`       // INVALID_ARGUMENTS: where
	Constraint   string          `json:"constraint,omitempty"` // INVALID_ARGUMENTS: which keyword
	Parameters   json.RawMessage `json:"parameters,omitempty"` // INVALID_ARGUMENTS: the tool's own schema
	Hint         string          `json:"hint,omitempty"`
	ExecutorCode string          `json:"executor_code,omitempty"` // TOOL_ERROR: the executor's own code
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	Halt         bool            `json:"halt,omitempty"` // the agent should stop asking
}
