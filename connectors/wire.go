package connectors

import "encoding/json"

// This file holds the bodies of the gateway's HTTP interface, as they stand on
// the wire. Answers are read leniently where that costs no truth: unknown members
// are ignored, unknown codes kept.

// Routes, below the origin of the gateway and of the portal.
const (
	RouteSearch      = "v1/connectors/search"      // POST SearchRequest
	RouteSchemas     = "v1/connectors/schemas"     // POST SchemasRequest
	RouteExecute     = "v1/connectors/execute"     // POST ExecuteRequest, x-idempotency-key
	RouteConnections = "v1/connectors/connections" // POST MintRequest
	RouteConnectors  = "v1/connectors"             // GET ?limit=&cursor=
	RouteAccounts    = "v1/connectors/accounts"    // GET …/{connectionId}
	RouteGuest       = "v1/identity/guest"         // POST GuestRequest, x-idempotency-key

	RoutePortalAccounts = "api/v1/connectors/accounts" // GET; PATCH and DELETE …/{connectionId}
)

// HeaderIdempotencyKey goes with execute and with the creation of a guest. A
// receiver has one effect for all requests that carry the same key.
const HeaderIdempotencyKey = "x-idempotency-key"

// Limits of the wire.
const (
	MaxUseCases = 7  // queries in one search
	MaxExecute  = 10 // entries in one batch
	ListPage    = 50 // connectors in one page
	MaxPages    = 20
)

// SearchRequest asks for tools by what they are wanted for.
type SearchRequest struct {
	Queries []UseCase `json:"queries"` // at most MaxUseCases
}

// UseCase is one query.
type UseCase struct {
	UseCase string `json:"useCase"`
}

// SearchReply answers it. Groups belong to queries by their position.
type SearchReply struct {
	Results     []SearchGroup         `json:"results"`
	Schemas     map[string]ToolSchema `json:"schemas"` // by slug
	Connections json.RawMessage       `json:"connections,omitempty"`
	NextSteps   json.RawMessage       `json:"nextSteps,omitempty"`
}

// SearchGroup is what one query found.
type SearchGroup struct {
	Index        int             `json:"index"`
	UseCase      string          `json:"useCase,omitempty"`
	Tools        []string        `json:"tools"` // slugs, best first
	RelatedTools []string        `json:"relatedTools,omitempty"`
	Connectors   []string        `json:"connectors,omitempty"`
	Guidance     string          `json:"guidance,omitempty"`
	PlanSteps    json.RawMessage `json:"planSteps,omitempty"`
	Pitfalls     json.RawMessage `json:"pitfalls,omitempty"`
	Error        json.RawMessage `json:"error,omitempty"`
}

// ToolSchema is a hosted tool.
type ToolSchema struct {
	Connector   string          `json:"connector"`
	Tool        string          `json:"tool"` // slug
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// SchemasRequest asks for tools by slug.
type SchemasRequest struct {
	Tools []string `json:"tools"`
}

// SchemasReply answers it.
type SchemasReply struct {
	Schemas     map[string]ToolSchema `json:"schemas"` // by slug
	NotFound    []string              `json:"notFound"`
	Suggestions json.RawMessage       `json:"suggestions,omitempty"`
}

// ExecuteRequest runs tools of connected accounts.
type ExecuteRequest struct {
	Tools    []ToolCall `json:"tools"`
	ReturnTo string     `json:"returnTo,omitempty"` // where a connection page leads back to
	Op       string     `json:"op,omitempty"`
}

// ToolCall is one tool to run.
type ToolCall struct {
	Connector string          `json:"connector"`
	Tool      string          `json:"tool"` // slug
	Arguments json.RawMessage `json:"arguments"`
}

// ExecuteReply answers it, one result for each tool, by position.
type ExecuteReply struct {
	Results []ToolResult `json:"results"`
}

// ToolResult is the outcome of one tool: Data or Error.
type ToolResult struct {
	Index     int             `json:"index"`
	Connector string          `json:"connector"`
	Tool      string          `json:"tool"`
	Data      json.RawMessage `json:"data,omitempty"`
	Error     *ToolError      `json:"error,omitempty"`
	Account   string          `json:"account,omitempty"` // alias that it ran under
}

// ToolError is why a tool did not succeed.
type ToolError struct {
	Code         string `json:"code"`
	Message      string `json:"message,omitempty"`
	Hint         string `json:"hint,omitempty"`
	Connector    string `json:"connector,omitempty"`
	ConnectURL   string `json:"connectUrl,omitempty"`
	ConnectionID string `json:"connectionId,omitempty"`
	RetryAfterMS int64  `json:"retryAfterMs,omitempty"`
}

// MintRequest starts the connection of apps. It is never sent twice: there is no
// key that would make the second one harmless.
type MintRequest struct {
	Connectors   []string `json:"connectors"`
	Reinitiate   bool     `json:"reinitiate"`
	Alias        string   `json:"alias,omitempty"`
	ConnectionID string   `json:"connectionId,omitempty"`
	ReturnTo     string   `json:"returnTo,omitempty"`
	Op           string   `json:"op,omitempty"`
}

// MintReply answers it.
type MintReply struct {
	Results []Minted `json:"results"`
}

// Minted is the state of one app after a mint: active, initiated or failed.
type Minted struct {
	Connector    string `json:"connector"`
	Status       string `json:"status"`
	StatusReason string `json:"statusReason,omitempty"`
	ConnectURL   string `json:"connectUrl,omitempty"`
	ConnectionID string `json:"connectionId,omitempty"`
	Alias        string `json:"alias,omitempty"`
}

// ListReply is a page of the apps that there are.
type ListReply struct {
	Items      []App   `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

// App is one app.
type App struct {
	Connector        string   `json:"connector"`
	Connected        bool     `json:"connected"`
	Enabled          bool     `json:"enabled"`
	ConnectionStatus string   `json:"connectionStatus,omitempty"`
	StatusReason     string   `json:"statusReason,omitempty"`
	DisabledTools    []string `json:"disabledTools,omitempty"`
}

// Account is a connected account, as gateway and portal show it.
type Account struct {
	ConnectionID string  `json:"connectionId"`
	Connector    string  `json:"connector"`
	Status       string  `json:"status"` // pending, active, failed, revoked, inactive, expired
	Label        string  `json:"label"`
	Alias        *string `json:"alias"`
	Active       bool    `json:"active"`
	Disabled     bool    `json:"disabled"`
	Retired      bool    `json:"retired,omitempty"`
	CreatedAt    string  `json:"createdAt,omitempty"`
	UpdatedAt    string  `json:"updatedAt,omitempty"`
}

// AccountsReply lists the accounts of a user.
type AccountsReply struct {
	Accounts []Account `json:"accounts"`
}

// RenameRequest gives an account another alias.
type RenameRequest struct {
	Alias string `json:"alias"`
}

// GuestRequest creates the identity of a user who has none. The same key gives
// the same identity.
type GuestRequest struct {
	Tenant string `json:"tenant"`
	User   string `json:"user"`
}

// GuestReply answers it.
type GuestReply struct {
	Identity string `json:"identity"` // id
	Token    string `json:"token"`    // bearer token of the identity
}
