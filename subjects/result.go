package subjects

import "encoding/json"

// SourceKind says where a found tool comes from.
type SourceKind string

// Kinds of sources.
const (
	SourceMCP        SourceKind = "mcp"
	SourcePlugin     SourceKind = "plugin"
	SourceConnectors SourceKind = "connectors"
	SourceOther      SourceKind = "other"
)

// SearchResult is the result of a tool_search.
type SearchResult struct {
	Queries        []string             `json:"queries"`
	TotalAvailable int                  `json:"total_available"`
	Results        []SearchGroup        `json:"results"`              // one a query, in their order
	Tools          map[string]FoundTool `json:"tools"`                // every name of the groups
	Connectors     *ConnectorsNotice    `json:"connectors,omitempty"` // when the gateway gave no hits
}

// SearchGroup is what one query found.
type SearchGroup struct {
	Query            string   `json:"query"`
	Matches          []string `json:"matches"`
	NearMatches      []string `json:"near_matches,omitempty"`      // weaker, never mixed into Matches
	UnmatchedTerms   []string `json:"unmatched_terms,omitempty"`   // words that no tool contains
	AvailableSources []Source `json:"available_sources,omitempty"` // when nothing matched
	Hint             string   `json:"hint,omitempty"`
}

// Source is one group of tools that could be searched.
type Source struct {
	Name        string `json:"name"`
	ToolCount   int    `json:"tool_count"`
	Unavailable string `json:"unavailable,omitempty"` // why its tools are hidden now
}

// FoundTool is a found tool in short.
type FoundTool struct {
	Source      SourceKind `json:"source"`
	SourceName  string     `json:"source_name"`
	Description string     `json:"description"`
	Required    []string   `json:"required"`
}

// ConnectorsNotice says why remote tools are missing from a payload.
type ConnectorsNotice struct {
	Status string   `json:"status"`           // unavailable, not_set_up
	Reason string   `json:"reason,omitempty"` // sign_in_expired, unreachable
	Hint   string   `json:"hint,omitempty"`
	Names  []string `json:"names,omitempty"` // tool_describe: the names it concerns
}

// DescribeResult is the result of a tool_describe.
type DescribeResult struct {
	Tools      map[string]DescribedTool `json:"tools"`
	NotFound   []string                 `json:"not_found,omitempty"`
	Hint       string                   `json:"hint,omitempty"`
	Errors     map[string]string        `json:"errors,omitempty"`
	Connectors *ConnectorsNotice        `json:"connectors,omitempty"`
}

// DescribedTool is a tool as its owner defined it.
type DescribedTool struct {
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema
}

// CallResults is the result of a tool_call with several entries or with a
// connector entry.
type CallResults struct {
	Results      []CallSlot `json:"results"` // in input order
	SuccessCount int        `json:"success_count"`
	ErrorCount   int        `json:"error_count"`
	TotalCount   int        `json:"total_count"`
}

// CallSlot is the outcome of one entry: one of Response and Error.
type CallSlot struct {
	Index    int             `json:"index"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response,omitempty"`
	Error    *SlotError      `json:"error,omitempty"`
	Account  string          `json:"account,omitempty"` // alias of the connected account it ran under
}

// CallFailure is the result of a tool_call with one local entry that failed,
// and of a bridge call whose envelope was refused.
type CallFailure struct {
	Error *SlotError `json:"error"`
}

// SlotError is what the model reads about one failed execution, or a refused
// envelope.
type SlotError struct {
	Code         Code            `json:"code"`
	Message      string          `json:"message"`
	Reason       string          `json:"reason,omitempty"`     // e.g. no_approver, rule
	Path         string          `json:"path,omitempty"`       // INVALID_ARGUMENTS: where
	Constraint   string          `json:"constraint,omitempty"` // INVALID_ARGUMENTS: which keyword
	Parameters   json.RawMessage `json:"parameters,omitempty"` // INVALID_ARGUMENTS: the tool's own schema
	Hint         string          `json:"hint,omitempty"`
	ExecutorCode string          `json:"executor_code,omitempty"` // TOOL_ERROR: the executor's own code
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	Halt         bool            `json:"halt,omitempty"` // the agent should stop asking

	// Of connector entries. The link stands only where the surface shows links.
	Connector            string `json:"connector,omitempty"`
	ConnectURL           string `json:"connect_url,omitempty"`
	ConnectCardAvailable bool   `json:"connect_card_available,omitempty"`
	ConnectionID         string `json:"connection_id,omitempty"`
}
