package subjects

import "encoding/json"

// EventType says what happened.
type EventType string

// Types of events.
const (
	EventCallAccepted      EventType = "call.accepted"
	EventApprovalRequested EventType = "approval.requested"
	EventApprovalSettled   EventType = "approval.settled"
	EventToolStarted       EventType = "tool.started"
	EventToolFinished      EventType = "tool.finished"
	EventToolLate          EventType = "tool.late" // a true answer after OUTCOME_UNKNOWN
	EventCallFinished      EventType = "call.finished"
	EventConnectionRequest EventType = "connection.request"
	EventConnectionUpdate  EventType = "connection.update"
	EventCatalogChanged    EventType = "catalog.changed"
)

// Event is one line of a session's activity feed. Tool is always the underlying
// tool. Which of the further fields stand, the type says.
type Event struct {
	Type   EventType `json:"type"`
	At     string    `json:"at"`
	CallID string    `json:"call_id,omitempty"`
	Index  *int      `json:"index,omitempty"`
	Tool   string    `json:"tool,omitempty"`

	// call.accepted: how many entries; call.finished: how they ended.
	TotalCount   *int `json:"total_count,omitempty"`
	SuccessCount *int `json:"success_count,omitempty"`
	ErrorCount   *int `json:"error_count,omitempty"`

	// tool.finished, call.finished and tool.late.
	IsError    *bool           `json:"is_error,omitempty"`
	Code       Code            `json:"code,omitempty"`        // of the slot, when it failed
	DurationMS *int64          `json:"duration_ms,omitempty"` // from the start of the tool, or of the call
	Response   json.RawMessage `json:"response,omitempty"`    // tool.late only

	// approval.requested and approval.settled.
	Approval *Approval `json:"approval,omitempty"`
	Decision *Decision `json:"decision,omitempty"`

	// connection.request and connection.update. Seq grows with every event of
	// an operation, so that an older one is known as such.
	Operation  string             `json:"operation,omitempty"`
	Seq        uint64             `json:"seq,omitempty"`
	Targets    []ConnectionTarget `json:"targets,omitempty"` // all of them, as they stand
	DeadlineAt string             `json:"deadline_at,omitempty"`
	// TimeoutSeconds is how long a connection.request waits in all.
	TimeoutSeconds int  `json:"timeout_seconds,omitempty"`
	Done           bool `json:"done,omitempty"` // the operation has ended

	// catalog.changed.
	Catalog          string `json:"catalog,omitempty"` // the one it replaces
	Toolset          string `json:"toolset,omitempty"`
	RegistryRevision uint64 `json:"registry_revision,omitempty"`
}
