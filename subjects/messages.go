package subjects

import "encoding/json"

// AssembleRequest is the body on …assemble. At least one of Tools and Toolsets.
type AssembleRequest struct {
	Tools            json.RawMessage `json:"tools,omitempty"`            // array of definitions, any dialect
	Toolsets         []string        `json:"toolsets,omitempty"`         // names from the live registry
	EnabledToolsets  []string        `json:"enabled_toolsets,omitempty"` // null: all; else only these
	DisabledToolsets []string        `json:"disabled_toolsets,omitempty"`
	ContextLength    *int64          `json:"context_length,omitempty"`    // tokens; absent, 0 or negative: unknown
	Surface          string          `json:"surface,omitempty"`           // desktop, tui, cli, messaging, scheduled, side
	Dialect          string          `json:"dialect,omitempty"`           // openai, responses, anthropic, mcp; default: that of the first tool
	Config           json.RawMessage `json:"config,omitempty"`            // overrides tools.tool_search for this assembly
	RegistryRevision *uint64         `json:"registry_revision,omitempty"` // pins the registry; UNKNOWN_CATALOG when it moved on
}

// AssembleReply answers it. Tools hold the visible tools, then the bridges.
type AssembleReply struct {
	Catalog             string            `json:"catalog"` // "sha256:<hex>"
	RegistryRevision    uint64            `json:"registry_revision"`
	Activated           bool              `json:"activated"`
	Tier                int               `json:"tier"`
	ListingForm         string            `json:"listing_form"` // full, names, mixed, groups, none
	DeferredCount       int               `json:"deferred_count"`
	DeferredTokens      int               `json:"deferred_tokens"`
	ListingTokens       int               `json:"listing_tokens"`
	ListingBudgetTokens int               `json:"listing_budget_tokens"`
	Tools               []json.RawMessage `json:"tools"`
	Warnings            []Warning         `json:"warnings"`
}

// BridgeRequest is the body on …bridge and …call: a bridge tool as the model
// called it. Instead of Catalog it may carry what an AssembleRequest carries.
type BridgeRequest struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // object, or a JSON string that holds one
	Catalog   string          `json:"catalog,omitempty"`
	AssembleRequest
}

// BridgeReply answers it, also when the model was wrong (IsError).
type BridgeReply struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	IsError bool            `json:"is_error"`
	Result  json.RawMessage `json:"result,omitempty"`
	Blob    *Blob           `json:"blob,omitempty"`    // in place of Result when it is too large
	Preview string          `json:"preview,omitempty"` // with Blob
}

// Blob points at a large body in the object store.
type Blob struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// CallStored answers …call.
type CallStored struct {
	ID     string `json:"id"`
	Stored bool   `json:"stored"`
}

// FetchRequest is the body on …fetch: a late result, or a chunk of a blob.
type FetchRequest struct {
	CallID string `json:"call_id,omitempty"`
	Blob   string `json:"blob,omitempty"`
	Offset int64  `json:"offset,omitempty"`
}

// FetchPending answers a fetch of a call that is not final.
type FetchPending struct {
	Pending bool `json:"pending"`
}

// PreflightRequest is the body on …preflight.
type PreflightRequest struct {
	Names   []string `json:"names"`
	Catalog string   `json:"catalog"`
}

// PreflightReply answers it, by the names as they were asked.
type PreflightReply struct {
	Tools map[string]Preflight `json:"tools"`
}

// Preflight says whether one tool could be called now.
type Preflight struct {
	Callable      bool   `json:"callable"`
	Code          Code   `json:"code,omitempty"`
	Reason        string `json:"reason,omitempty"`
	Parallel      bool   `json:"parallel"`
	NeedsApproval bool   `json:"needs_approval"`
}

// ExecRequest is what an executor gets.
type ExecRequest struct {
	ExecutionID      string          `json:"execution_id"` // "<call id>.<index>"
	Session          string          `json:"session"`
	Tool             string          `json:"tool"`
	DefinitionSHA256 string          `json:"definition_sha256"`
	Arguments        json.RawMessage `json:"arguments"`
	IdempotencyKey   string          `json:"idempotency_key"`
	StartBy          int64           `json:"start_by"` // unix milliseconds
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

// ExecCancel asks the executors to stop one execution.
type ExecCancel struct {
	ExecutionID string `json:"execution_id"`
}

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

// Grant is what a session may see and call; written by orchestrators only.
// Absent lists mean all, empty ones nothing.
type Grant struct {
	User      string    `json:"user,omitempty"`
	Toolsets  *[]string `json:"toolsets,omitempty"` // globs
	Tools     *[]string `json:"tools,omitempty"`    // globs
	Deny      []string  `json:"deny,omitempty"`     // globs
	Approval  string    `json:"approval,omitempty"` // ask, auto, deny
	Parent    string    `json:"parent,omitempty"`   // session whose grant bounds this one
	ExpiresAt string    `json:"expires_at,omitempty"`
}

// Binding is the value of a session's binding to a catalog.
type Binding struct {
	Catalog          string `json:"catalog"`
	RegistryRevision uint64 `json:"registry_revision,omitempty"`
	At               string `json:"at"` // RFC 3339, UTC
}
