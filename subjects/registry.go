package subjects

// Registration is the value of one executor's key in the toolset registry.
//
// The blob is a JSON array of definitions. Revision repeats, in every heartbeat,
// the KV revision at which this executor first wrote this hash, so that a worker
// that starts later knows it too; it is absent in that first write.
type Registration struct {
	DefinitionsSHA256 string `json:"definitions_sha256"`
	Blob              string `json:"blob"`
	Since             string `json:"since"` // RFC 3339, UTC
	Revision          uint64 `json:"revision,omitempty"`
	State             string `json:"state,omitempty"`  // "" or ready, connecting, unavailable
	Reason            string `json:"reason,omitempty"` // why not ready
	ToolCount         int    `json:"tool_count,omitempty"`
	Trusted           bool   `json:"trusted,omitempty"` // hints of its definitions count
}

// States of a Registration; an empty state is StateReady.
const (
	StateReady       = "ready"
	StateConnecting  = "connecting"
	StateUnavailable = "unavailable"
)
