package subjects

import "encoding/json"

// Names of the bridge tools.
const (
	ToolSearch   = "tool_search"
	ToolDescribe = "tool_describe"
	ToolCall     = "tool_call"
)

// ToolConnections is the worker's own tool beside them: it stands in the model's
// list where connectors are available, and goes over …bridge and …call under its
// name.
const ToolConnections = "manage_connections"

// BridgeRequest is the body on …bridge and …call: a bridge tool as the model
// called it. Instead of Catalog it may carry what an AssembleRequest carries.
type BridgeRequest struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // object, or a JSON string that holds one
	Catalog   string          `json:"catalog,omitempty"`
	AssembleRequest
}

// BridgeReply answers it, also when the model was wrong (IsError). It is what
// …result.<call_id> carries, too.
type BridgeReply struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	IsError bool            `json:"is_error"`
	Result  json.RawMessage `json:"result,omitempty"`
	Blob    *Blob           `json:"blob,omitempty"`    // in place of Result when it is too large
	Preview string          `json:"preview,omitempty"` // with Blob: the beginning of the result's text
}

// Blob points at a large body in the object store.
type Blob struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// CallStored answers …call.
type CallStored struct {
	ID     string `json:"id"`
	Stored bool   `json:"stored"`
}

// FetchRequest is the body on …fetch: a late result by CallID, or a chunk of a
// blob that begins at Offset.
type FetchRequest struct {
	CallID string `json:"call_id,omitempty"`
	Blob   string `json:"blob,omitempty"`
	Offset int64  `json:"offset,omitempty"` // bytes
}

// FetchPending answers a fetch of a call that is not final.
type FetchPending struct {
	Pending bool `json:"pending"`
}
