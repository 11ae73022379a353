package config

import (
	"slices"
	"strings"
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
		{"tool_search", func(n *node, key string) { c.readToolSearch(r, n, key) }},
		{"connectors", func(n *node, key string) { c.readConnectors(r, n, key) }},
	})
}

// readConnectors reads a boolean or a mapping with enabled. Texts count as the
// feature's users know it: false, 0, no, off and "" are false, others true;
// anything malformed is enabled.
func (c *Config) readConnectors(r *reader, n *node, key string) {
	switch n.kind {
	case kindNull:
	case kindMapping:
		r.mapping(n, key, []field{{"enabled", func(n *node, key string) { c.readSwitch(r, n, key) }}})
	case kindList:
		r.wrong(n, key, "true, false or a mapping with enabled")
	default:
		c.readSwitch(r, n, key)
	}
}

func (c *Config) readSwitch(r *reader, n *node, key string) {
	switch n.kind {
	case kindNull:
	case kindBool:
		c.Connectors.Enabled = n.truth
	case kindNumber:
		c.Connectors.Enabled = strings.Trim(n.text, "-0.") != ""
	case kindText:
		switch strings.ToLower(strings.TrimSpace(n.text)) {
		case "false", "0", "no", "off", "":
			c.Connectors.Enabled = false
		case "true", "1", "yes", "on":
			c.Connectors.Enabled = true
		default:
			r.wrong(n, key, "true or false")
		}
	default:
		r.wrong(n, key, "true or false")
	}
}

func (c *Config) readToolSearch(r *reader, n *node, key string) {
	if n.kind == kindMapping {
		kept := *n
		kept.members = nil
		for _, m := range n.members {
			if !slices.Contains(toolSearchKeys(), m.key) {
				r.report(m.line, m.column, key, "%s", unknownKey(m.key, toolSearchKeys()))
				continue
			}
			kept.members = append(kept.members, m)
		}
		n = &kept
	}
	c.ToolSearch = n.json()
}
