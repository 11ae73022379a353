package config

import (
	"fmt"
	"strings"

	"toolbridge/connectors/mcp"
)

// LoadCatalog reads the operator's catalog of MCP servers that users may have
// installed: a YAML mapping whose key servers holds, by name, what mcp.servers
// holds, and a description of each. An *Error says what is wrong with it.
func LoadCatalog(path string) ([]mcp.Offer, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the catalog of MCP servers: %w", err)
	}
	offers, problems := ParseCatalog(data)
	if len(problems) > 0 {
		return nil, &Error{Name: path, Problems: problems}
	}
	return offers, nil
}

// ParseCatalog reads a catalog's content, and says everything that is wrong with it.
func ParseCatalog(data []byte) ([]mcp.Offer, []Problem) {
	root, fault := parse(data)
	if fault != nil {
		return nil, []Problem{*fault}
	}
	var offers []mcp.Offer
	r := &reader{}
	r.mapping(root, "", []field{{"servers", func(n *node, key string) { offers = r.offers(n, key) }}})
	return offers, r.problems
}

func (r *reader) offers(n *node, key string) []mcp.Offer {
	if n.kind == kindNull {
		return nil
	}
	if n.kind != kindMapping {
		r.wrong(n, key, "a mapping of names to servers")
		return nil
	}
	if len(n.members) > maxServers {
		r.reportf(n.line, n.column, key, "%d servers; at most %d are offered", len(n.members), maxServers)
		return nil
	}
	var offers []mcp.Offer
	seen := map[string]int{}
	for _, m := range n.members {
		at := key + "." + clip(m.key, 80)
		if first, ok := seen[strings.ToLower(m.key)]; ok {
			r.reportf(m.line, m.column, at, "the server stands here for the second time, first in line %d", first)
			continue
		}
		seen[strings.ToLower(m.key)] = m.line
		o := mcp.Offer{Server: mcp.ServerConfig{Name: m.key}}
		before := len(r.problems)
		fields := append(serverFields(r, &o.Server), field{"description", func(n *node, key string) { r.text(n, key, &o.Description) }})
		read := r.mapping(m.value, at, fields)
		switch {
		case len(r.problems) > before:
		case !read:
			r.reportf(m.line, m.column, at, "a server needs command or url")
		default:
			if err := o.Server.Check(); err != nil {
				r.reportf(m.line, m.column, at, "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("MCP server %q: ", m.key)))
				continue
			}
			offers = append(offers, o)
		}
	}
	return offers
}
