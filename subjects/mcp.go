package subjects

// MCPAction is what a worker wants of the hosts of a tenant's MCP servers.
type MCPAction string

// Actions on …_mcp.list (list; every host answers) and …_mcp.manage.<executor>
// (the others; one host).
const (
	MCPList      MCPAction = "list"      // the servers of the host and of its catalog file
	MCPStatus    MCPAction = "status"    // how one server stands
	MCPInstall   MCPAction = "install"   // add the server of that name of the host's catalog file
	MCPEnable    MCPAction = "enable"    // connect a configured server that is disabled
	MCPAuthorize MCPAction = "authorize" // connect a configured server again, with the credentials that the host has now
)

// States of a managed server, beside those of a registration (ready, connecting,
// unavailable).
const (
	ServerDisabled = "disabled" // configured, and not connected until somebody enables it
	ServerOffered  = "offered"  // in the catalog file, not installed
)

// MCPRequest is the body of a worker's request. A host takes only names from it:
// what is started stands in its own configuration and catalog file.
type MCPRequest struct {
	Action  MCPAction `json:"action"`
	Server  string    `json:"server,omitempty"` // not for list
	User    string    `json:"user,omitempty"`   // for whom, for the host's log
	Session string    `json:"session,omitempty"`
	CallID  string    `json:"call_id,omitempty"`
}

// MCPReply answers it.
type MCPReply struct {
	Executor string       `json:"executor"` // whom …_mcp.manage names
	Servers  []ManagedMCP `json:"servers"`  // list: all; else the one, or none when the host has none of that name
}

// ManagedMCP is one server of a host.
type ManagedMCP struct {
	Name        string        `json:"name"`
	State       string        `json:"state"` // ready, connecting, unavailable, disabled, offered
	Reason      string        `json:"reason,omitempty"`
	Description string        `json:"description,omitempty"` // of a catalog entry
	Tools       []ManagedTool `json:"tools,omitempty"`       // status: of a ready server, at most 1,000
}

// ManagedTool is one tool of a ready server, with the beginning of its description.
type ManagedTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}
