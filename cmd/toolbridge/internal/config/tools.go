package config

import (
	"slices"
	"strings"

	"toolbridge/catalog"
)

// toolSearchKeys are the keys of tools.tool_search.
func toolSearchKeys() []string {
	return []string{
		"enabled", "threshold_pct", "search_default_limit", "max_search_limit",
		"listing", "listing_max_tokens", "defer", "ranking", "near_matches",
	}
}

func (c *Config) readTools(r *reader, n *node, key string) {
	r.mapping(n, key, []field{
		{"tool_search", func(n *node, key string) {
			var warnings []catalog.Warning
			c.ToolSearch, warnings = catalog.ParseConfig(r.known(n, key, toolSearchKeys()).json())
			r.carry(n, key, warnings)
		}},
		{"connectors", func(n *node, key string) {
			var warnings []catalog.Warning
			c.Connectors.Enabled, warnings = catalog.ParseConnectors(r.known(n, key, []string{"enabled"}).json())
			r.carry(n, key, warnings)
		}},
	})
}

// known leaves out of a mapping the keys that are not known, with a word on
// each.
func (r *reader) known(n *node, key string, keys []string) *node {
	if n.kind != kindMapping {
		return n
	}
	kept := *n
	kept.members = nil
	for _, m := range n.members {
		if !slices.Contains(keys, m.key) {
			r.reportf(m.line, m.column, key, "%s", unknownKey(m.key, keys))
			continue
		}
		kept.members = append(kept.members, m)
	}
	return &kept
}

// carry reports what tool search found wrong with its settings, with their
// places in the file.
func (r *reader) carry(n *node, key string, warnings []catalog.Warning) {
	for _, w := range warnings {
		at := n
		if name, ok := strings.CutPrefix(w.Tool, key+"."); ok && n.member(name) != nil {
			at = n.member(name)
		}
		message := strings.TrimPrefix(w.Message, w.Tool+" ")
		r.problems = append(r.problems, Problem{Line: at.line, Column: at.column, Key: w.Tool, Message: message, Warning: true})
	}
}
