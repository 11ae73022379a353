package subjects

// ConnectionStatus is the state of one target of a connection operation.
type ConnectionStatus string

// States of a target.
const (
	ConnectionPending      ConnectionStatus = "pending"   // not started: a server that waits for the user's word, an app that the gateway said nothing of
	ConnectionInitiated    ConnectionStatus = "initiated" // the user has a link, or a server is being started
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
	State      ConnectionStatus `json:"state"`
	ConnectURL string           `json:"connect_url,omitempty"`
	Detail     string           `json:"detail,omitempty"` // why it failed
}

// ConnectionAction is what the user did on a card.
type ConnectionAction string

// Actions on a card.
const (
	ConnectionSkip     ConnectionAction = "skip"     // go on without this target
	ConnectionContinue ConnectionAction = "continue" // end the operation; with a target, end that one's wait, or start a server that waits for the user's word
	ConnectionRetry    ConnectionAction = "retry"    // start this target, or start it again
)

// ConnectionAnswer is the body on …connection.answer. Without a target, continue
// is about the whole operation.
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
