package subjects

// ConnectionStatus is the state of one target of a connection operation.
type ConnectionStatus string

// States of a target.
const (
	ConnectionPending      ConnectionStatus = "pending"
	ConnectionConnected    ConnectionStatus = "connected"
	ConnectionFailed       ConnectionStatus = "failed"
	ConnectionExpired      ConnectionStatus = "expired"
	ConnectionSkipped      ConnectionStatus = "skipped"
	ConnectionNotConnected ConnectionStatus = "not_connected" // the operation ended first
)

// ConnectionTarget is one app or MCP server of an operation, as its card shows
// it.
type ConnectionTarget struct {
	Target     string           `json:"target"` // what connection.answer names
	Name       string           `json:"name"`
	Alias      string           `json:"alias,omitempty"`
	MCP        bool             `json:"mcp,omitempty"`
	Status     ConnectionStatus `json:"status"`
	ConnectURL string           `json:"connect_url,omitempty"`
	Reason     string           `json:"reason,omitempty"` // why it failed
}

// ConnectionAction is what the user did on a card.
type ConnectionAction string

// Actions on a card.
const (
	ConnectionSkip     ConnectionAction = "skip"
	ConnectionContinue ConnectionAction = "continue" // go on without what is not connected
	ConnectionRetry    ConnectionAction = "retry"
)

// ConnectionAnswer is the body on …connection.answer. Continue is about the
// whole operation and needs no target.
type ConnectionAnswer struct {
	Operation string           `json:"operation"`
	Target    string           `json:"target,omitempty"`
	Action    ConnectionAction `json:"action"`
}

// ConnectionAnswerReply answers it. Accepted is false when the operation, or the
// target's wait, had ended before.
type ConnectionAnswerReply struct {
	Operation string             `json:"operation"`
	Accepted  bool               `json:"accepted"`
	Reason    string             `json:"reason,omitempty"`
	Targets   []ConnectionTarget `json:"targets,omitempty"`
}
