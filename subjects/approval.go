package subjects

import "encoding/json"

// Choice is what an approver may decide.
type Choice string

// Choices of an approver. Session remembers tool, definition and executor for
// the session, Always the same for its user, never for another.
const (
	ChoiceOnce    Choice = "once"
	ChoiceSession Choice = "session"
	ChoiceAlways  Choice = "always"
	ChoiceDeny    Choice = "deny"
)

// Choices are those of a new approval, in the order they are offered.
func Choices() []Choice { return []Choice{ChoiceOnce, ChoiceSession, ChoiceAlways, ChoiceDeny} }

// ApprovalState is how an approval ended.
type ApprovalState string

// States of a settled approval. Forgotten answers the withdrawal of a
// remembered choice.
const (
	ApprovalApproved  ApprovalState = "approved"
	ApprovalDenied    ApprovalState = "denied"
	ApprovalExpired   ApprovalState = "expired"
	ApprovalWithdrawn ApprovalState = "withdrawn"
	ApprovalForgotten ApprovalState = "forgotten"
)

// Approval is one pending question to a person: the body on
// …_approvals.requested, an item of a list, and a value of the approvals bucket.
type Approval struct {
	ID               string          `json:"id"`
	Session          string          `json:"session"`
	CallID           string          `json:"call_id"`
	Index            int             `json:"index"`
	Tool             string          `json:"tool"`
	Arguments        json.RawMessage `json:"arguments"`
	ArgumentsJSON    string          `json:"arguments_json"`   // the exact text that will be dispatched
	ArgumentsSHA256  string          `json:"arguments_sha256"` // hex, over the bytes of ArgumentsJSON
	DefinitionSHA256 string          `json:"definition_sha256"`
	Rule             string          `json:"rule"`   // which rule asks
	Reason           string          `json:"reason"` // why, for people
	RequestedAt      string          `json:"requested_at"`
	ExpiresAt        string          `json:"expires_at"`
	Choices          []Choice        `json:"choices"`
	User             string          `json:"user,omitempty"`     // of the session, when it has one
	Executor         string          `json:"executor,omitempty"` // who would run it: a toolset, or "session"
}

// ApprovalListRequest is the body on …_approvals.list.<approver>; it may be
// empty.
type ApprovalListRequest struct {
	Session string `json:"session,omitempty"` // only this session's
}

// ApprovalListReply answers it, oldest first.
type ApprovalListReply struct {
	Approvals  []Approval   `json:"approvals"`
	Remembered []Remembered `json:"remembered"`
	Omitted    int          `json:"omitted,omitempty"` // how many had no room in the reply
}

// Remembered is a choice that spares later questions.
type Remembered struct {
	ID               string `json:"id"`
	Choice           Choice `json:"choice"`            // session or always
	Session          string `json:"session,omitempty"` // with session
	User             string `json:"user,omitempty"`    // with always
	Tool             string `json:"tool"`
	DefinitionSHA256 string `json:"definition_sha256"`
	Executor         string `json:"executor"`
	By               string `json:"by"`
	At               string `json:"at"`
}

// ApprovalDecideRequest is the body on …_approvals.decide.<approver>: ID and
// Choice, or Forget alone, the id of a remembered choice to withdraw.
type ApprovalDecideRequest struct {
	ID              string `json:"id,omitempty"`
	Choice          Choice `json:"choice,omitempty"`
	ArgumentsSHA256 string `json:"arguments_sha256,omitempty"` // of what the approver saw
	Reason          string `json:"reason,omitempty"`
	Forget          string `json:"forget,omitempty"`
}

// Decision is how an approval ended: the answer to decide, the body on
// …_approvals.settled, and the standing decision in an ALREADY_DECIDED. Choice
// and By are empty where nobody chose.
type Decision struct {
	ID     string        `json:"id"`
	State  ApprovalState `json:"state"`
	Choice Choice        `json:"choice"`
	By     string        `json:"by"` // approver
	At     string        `json:"at"`
	Reason string        `json:"reason,omitempty"`
}
