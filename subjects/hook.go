package subjects

import "encoding/json"

// HookPhase says when a hook is asked.
type HookPhase string

// Phases of a hook.
const (
	PhasePre  HookPhase = "pre"
	PhasePost HookPhase = "post"
)

// HookAction is a hook's answer. Only Allow counts in the post phase.
type HookAction string

// Actions of a hook.
const (
	HookAllow HookAction = "allow"
	HookBlock HookAction = "block"
	HookAsk   HookAction = "ask" // ask a person
)

// HookRequest is what a hook gets: the underlying tool and its final arguments.
type HookRequest struct {
	Phase     HookPhase       `json:"phase"`
	Session   string          `json:"session"`
	CallID    string          `json:"call_id"`
	Index     int             `json:"index"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result,omitempty"` // post only
}

// HookAnswer is what it answers. Arguments replace those of the call (pre; they
// are validated again), Result that of the tool (post).
type HookAnswer struct {
	Action    HookAction      `json:"action"`
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}
