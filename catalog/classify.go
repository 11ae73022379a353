package catalog

import (
	"strings"

	"toolbridge/subjects"
)

// deferral decides which definitions are deferred under one configuration.
type deferral struct {
	named map[string]struct{}
}

func newDeferral(c Config) deferral {
	if c.Defer == nil {
		return deferral{set(DefaultDefer()...)}
	}
	return deferral{set(c.Defer...)}
}

// of decides for one definition, in this order: the bridges and
// manage_connections never; a name in Config.Defer always; core tools not; tools
// without a toolset not; MCP servers' tools; other toolsets' tools, save those of
// a few that stay visible.
func (r deferral) of(d *Definition) bool {
	switch {
	case IsBridge(d.Name), d.Name == ManageConnections:
		return false
	case has(r.named, d.Name):
		return true
	case IsCore(d.Name), d.Toolset == "":
		return false
	case strings.HasPrefix(d.Toolset, mcpToolsetPrefix):
		return true
	}
	return !direct(d.Toolset)
}

// Kinds of sources, as search results name them.
const (
	sourceMCP        = "mcp"
	sourcePlugin     = "plugin"
	sourceConnectors = "connectors"
	sourceOther      = "other"
)

// source is where a tool comes from: its kind, and the name of the server,
// plugin or owner, "" when nothing is known.
func (d *Definition) source() (kind, name string) {
	switch {
	case strings.HasPrefix(d.Toolset, mcpToolsetPrefix):
		return sourceMCP, d.Toolset
	case d.Toolset != "":
		return sourcePlugin, d.Toolset
	case d.SourceName != "":
		return sourcePlugin, d.SourceName
	}
	return sourceOther, ""
}

// labelChars bounds the label of a source.
const labelChars = 64

// Label is the name of a tool's source as listings and answers show it: the
// toolset without "mcp-", the owner where there is no toolset, or "other". It is
// one line of at most 64 characters and an ellipsis.
func (d *Definition) Label() string {
	_, name := d.source()
	return sourceLabel(name)
}

func sourceLabel(name string) string {
	name = strings.TrimPrefix(name, mcpToolsetPrefix)
	if len(name) > labelChars || !plainASCII(name) {
		name = oneLine(name, labelChars)
	}
	if name == "" {
		return sourceOther
	}
	return name
}

// split parts definitions into visible and deferred, in order. The bridges'
// names are in neither, nor is manage_connections where no connectors are
// available, which gives a warning, or where the session may not connect any.
func (in Input) split() (visible, deferred []*Definition, granted bool, warnings []Warning) {
	rule := newDeferral(in.Config)
	deferred = make([]*Definition, 0, len(in.Definitions))
	for i := range in.Definitions {
		d := &in.Definitions[i]
		switch {
		case IsBridge(d.Name):
		case d.Name == ManageConnections && !in.Connectors:
			warnings = append(warnings, Warning{Code: subjects.WarnConnectorsMissing, Tool: d.Name, Message: ManageConnections + " is left out: connectors are not available to this session"})
		case d.Name == ManageConnections && in.ConnectOnly:
			granted = true
		case rule.of(d):
			deferred = append(deferred, d)
		default:
			granted = granted || d.Name == ManageConnections
			visible = append(visible, d)
		}
	}
	return visible, deferred, granted, warnings
}
