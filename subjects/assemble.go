package subjects

import "encoding/json"

// AssembleRequest is the body on …assemble. At least one of Tools and Toolsets.
type AssembleRequest struct {
	Tools            json.RawMessage `json:"tools,omitempty"`           // array of definitions, any dialect
	Toolsets         []string        `json:"toolsets,omitempty"`        // names from the live registry
	EnabledToolsets  []string        `json:"enabled_toolsets,omitzero"` // nil: all; else only these
	DisabledToolsets []string        `json:"disabled_toolsets,omitzero"`
	ContextLength    *int64          `json:"context_length,omitempty"`    // tokens; absent, 0 or negative: unknown
	Surface          string          `json:"surface,omitempty"`           // desktop, tui, cli, messaging, scheduled, side
	Dialect          string          `json:"dialect,omitempty"`           // openai, responses, anthropic, mcp; default: that of the first tool
	Config           json.RawMessage `json:"config,omitempty"`            // overrides tools.tool_search for this assembly
	RegistryRevision *uint64         `json:"registry_revision,omitempty"` // pins the registry; UNKNOWN_CATALOG when it moved on
}

// Surfaces: where the user of a session sits.
const (
	SurfaceDesktop   = "desktop"
	SurfaceTUI       = "tui"
	SurfaceCLI       = "cli"
	SurfaceMessaging = "messaging"
	SurfaceScheduled = "scheduled"
	SurfaceSide      = "side" // a side agent
)

// AssembleReply answers it. Tools hold the visible tools, then the bridges.
type AssembleReply struct {
	Catalog             string            `json:"catalog"` // "sha256:<hex>"
	RegistryRevision    uint64            `json:"registry_revision"`
	Activated           bool              `json:"activated"`
	Tier                int               `json:"tier"`         // 0 inactive, 1 with a listing of names, 2 without
	ListingForm         string            `json:"listing_form"` // full, names, mixed, groups, none
	DeferredCount       int               `json:"deferred_count"`
	DeferredTokens      int               `json:"deferred_tokens"`
	ListingTokens       int               `json:"listing_tokens"`
	ListingBudgetTokens int               `json:"listing_budget_tokens"`
	Tools               []json.RawMessage `json:"tools"`
	Warnings            []Warning         `json:"warnings"`
}

// Warning names one tool, toolset or setting that was left out or repaired, and
// why. It never stops an assembly.
type Warning struct {
	Code    WarningCode `json:"code"`
	Tool    string      `json:"tool,omitempty"` // tool, toolset or key it is about
	Message string      `json:"message"`
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

// Binding is the value of a session's binding to a catalog.
type Binding struct {
	Catalog          string `json:"catalog"`
	RegistryRevision uint64 `json:"registry_revision,omitempty"`
	At               string `json:"at"` // RFC 3339, UTC
}
