package catalog

import (
	"strings"
	"unicode/utf8"

	"toolbridge/subjects"
)

// Names that a session may not define itself.
const (
	// ToolSearch, ToolDescribe and ToolCall are the bridge tools.
	ToolSearch   = "tool_search"
	ToolDescribe = "tool_describe"
	ToolCall     = "tool_call"
	// ConnectorPrefix begins the names of tools behind the hosted gateway.
	ConnectorPrefix = subjects.ConnectorPrefix
	// ManageConnections is the tool by which a session asks for connectors.
	ManageConnections = "manage_connections"

	mcpNamePrefix    = "mcp__"
	mcpToolsetPrefix = "mcp-"
)

// IsBridge reports whether name is one of the three bridge tools.
func IsBridge(name string) bool {
	return name == ToolSearch || name == ToolDescribe || name == ToolCall
}

// likeBridge is the bridge tool whose name differs from this one at most in case,
// "-", "_" or space, "" when there is none.
func likeBridge(name string) string {
	if f := fold(name); IsBridge(f) {
		return f
	}
	return ""
}

// IsConnector reports whether name is spelled like a connector's tool.
func IsConnector(name string) bool { return strings.HasPrefix(name, ConnectorPrefix) }

// cleanName is a name as a model may see it: trimmed, and every run of control
// characters, line breaks, white space other than spaces and what has no width is
// one "_", so that two names that differ look different.
func cleanName(name string) string {
	if plainASCII(name) {
		return strings.Trim(name, " ")
	}
	name = trim(name)
	bad := func(r rune) bool { return r != ' ' && (space(r) || unprintable(r) || joiner(r)) }
	if strings.IndexFunc(name, bad) < 0 {
		return name
	}
	var b strings.Builder
	b.Grow(len(name))
	run := false
	for _, r := range name {
		if !bad(r) {
			b.WriteRune(r)
		} else if !run {
			b.WriteByte('_')
		}
		run = bad(r)
	}
	return b.String()
}

// fold is what names are compared by when none is spelled exactly so: trimmed,
// in lower case, with "_" for "-" and space.
func fold(name string) string {
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' || c == '-' || c <= ' ' {
			return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(cleanName(name)))
		}
	}
	return name
}

// mcpToolset is the toolset of a name of the form mcp__<server>__<tool>, "" for
// any other.
func mcpToolset(name string) string {
	rest, ok := strings.CutPrefix(name, mcpNamePrefix)
	if !ok {
		return ""
	}
	server, tool, ok := strings.Cut(rest, "__")
	if !ok || server == "" || tool == "" {
		return ""
	}
	return mcpToolsetPrefix + server
}
