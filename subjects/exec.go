package subjects

import "encoding/json"

// ExecRequest is what an executor gets.
type ExecRequest struct {
	ExecutionID      string          `json:"execution_id"` // "<call id>.<index>"
	Session          string          `json:"session"`
	Tool             string          `json:"tool"`
	DefinitionSHA256 string          `json:"definition_sha256"`
	Arguments        json.RawMessage `json:"arguments"`
	IdempotencyKey   string          `json:"idempotency_key"`
	StartBy          int64           `json:"start_by"` // unix milliseconds; refused with TOO_LATE after it
	Deadline         int64           `json:"deadline"` // unix milliseconds
}

// ExecReply is what it answers: one of the two.
type ExecReply struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *ExecError      `json:"error,omitempty"`
}

// ExecError is an executor's failure in its own words.
type ExecError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// ExecWorking may be the body of an interim message, which its header
// (HeaderStatus) marks; an empty body says as much.
type ExecWorking struct {
	ExecutionID string `json:"execution_id,omitempty"`
	Message     string `json:"message,omitempty"` // progress, for people
}

// ExecCancel asks the executors to stop one execution. Who runs it answers the
// ExecRequest with CANCELLED once it has stopped.
//
// Execution ids are unique within a session only, so a worker names the session
// too; an executor that serves several goes by both.
type ExecCancel struct {
	ExecutionID string `json:"execution_id"`
	Session     string `json:"session,omitempty"`
}
