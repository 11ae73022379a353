package subjects

import "encoding/json"

// AuditRecord is one entry of the audit stream: who ran or decided what, when,
// and by which rule.
type AuditRecord struct {
	Type             string          `json:"type"` // an EventType, or another word for what has no event
	At               string          `json:"at"`
	Tenant           string          `json:"tenant"`
	Session          string          `json:"session,omitempty"`
	User             string          `json:"user,omitempty"`
	CallID           string          `json:"call_id,omitempty"`
	Index            *int            `json:"index,omitempty"`
	Tool             string          `json:"tool,omitempty"`
	DefinitionSHA256 string          `json:"definition_sha256,omitempty"`
	ArgumentsSHA256  string          `json:"arguments_sha256,omitempty"`
	Rule             string          `json:"rule,omitempty"`
	By               string          `json:"by,omitempty"` // who decided
	Decision         *Decision       `json:"decision,omitempty"`
	Code             Code            `json:"code,omitempty"` // of the slot, when it failed
	Reason           string          `json:"reason,omitempty"`
	Account          string          `json:"account,omitempty"`  // id of the connected account that a desktop back end changed
	Response         json.RawMessage `json:"response,omitempty"` // of tool.late only
}

// DeadLetter is one entry of the stream of what could not be served, and why.
type DeadLetter struct {
	At       string `json:"at"`
	Tenant   string `json:"tenant"`
	Session  string `json:"session"`
	CallID   string `json:"call_id,omitempty"`
	Subject  string `json:"subject"` // of the message
	Code     Code   `json:"code"`
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts"`
	Body     string `json:"body,omitempty"` // the message's first bytes, as text
}
