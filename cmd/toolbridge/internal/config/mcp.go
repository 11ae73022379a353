package config

import (
	"fmt"
	"strings"
	"time"

	"toolbridge/connectors/mcp"
)

const maxServers = 256

func (c *Config) readServers(r *reader, n *node, key string) {
	if n.kind == kindNull {
		return
	}
	if n.kind != kindMapping {
		r.wrong(n, key, "a mapping of names to servers")
		return
	}
	if len(n.members) > maxServers {
		r.reportf(n.line, n.column, key, "%d servers; at most %d are hosted", len(n.members), maxServers)
		return
	}
	seen := map[string]int{}
	for _, m := range n.members {
		at := key + "." + clip(m.key, 80)
		if first, ok := seen[m.key]; ok {
			r.reportf(m.line, m.column, at, "the server stands here for the second time, first in line %d", first)
			continue
		}
		seen[m.key] = m.line
		c.readServer(r, m, at)
	}
}

func (c *Config) readServer(r *reader, m member, key string) {
	s := mcp.ServerConfig{Name: m.key}
	before := len(r.problems)
	read := r.mapping(m.value, key, serverFields(r, &s))
	if len(r.problems) > before {
		return
	}
	if !read {
		r.reportf(m.line, m.column, key, "a server needs command or url")
		return
	}
	if err := s.Check(); err != nil {
		r.reportf(m.line, m.column, key, "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("MCP server %q: ", s.Name)))
		return
	}
	c.Servers = append(c.Servers, s)
}

func serverFields(r *reader, s *mcp.ServerConfig) []field {
	fields := []field{
		{"command", func(n *node, key string) { r.command(n, key, &s.Command) }},
		{"args", func(n *node, key string) { r.words(n, key, &s.Args) }},
		{"env", func(n *node, key string) { r.pairs(n, key, &s.Env) }},
		{"env_from", func(n *node, key string) { r.texts(n, key, &s.EnvFrom) }},
		{"dir", func(n *node, key string) { r.text(n, key, &s.Dir) }},
		{"url", func(n *node, key string) { r.text(n, key, &s.URL) }},
		{"headers", func(n *node, key string) { r.pairs(n, key, &s.Headers) }},
		{"disabled", func(n *node, key string) { r.boolean(n, key, &s.Disabled) }},
		{"trusted", func(n *node, key string) { r.boolean(n, key, &s.Trusted) }},
		{"supports_parallel_tool_calls", func(n *node, key string) { r.boolean(n, key, &s.SupportsParallelToolCalls) }},
	}
	for _, d := range []struct {
		key  string
		into *time.Duration
	}{
		{"timeout", &s.Timeout},
		{"connect_timeout", &s.ConnectTimeout},
		{"list_timeout", &s.ListTimeout},
		{"cancel_grace", &s.CancelGrace},
		{"terminate_grace", &s.TerminateGrace},
		{"ping", &s.Ping},
	} {
		fields = append(fields, field{d.key, func(n *node, key string) {
			if d.key == "ping" && off(n) {
				s.Ping = -1 // never
				return
			}
			r.duration(n, key, d.into)
		}})
	}
	for _, i := range []struct {
		key  string
		into *int
	}{
		{"max_concurrent", &s.MaxConcurrent},
		{"max_pending", &s.MaxPending},
		{"max_tools", &s.MaxTools},
		{"max_pages", &s.MaxPages},
		{"max_list_bytes", &s.MaxListBytes},
		{"max_tool_bytes", &s.MaxToolBytes},
		{"max_message", &s.MaxMessage},
	} {
		fields = append(fields, field{i.key, func(n *node, key string) { r.integer(n, key, i.into, 1<<30) }})
	}
	return fields
}

// command reads [program, argument, …], or one text that is split as a shell
// would.
func (r *reader) command(n *node, key string, into *mcp.CommandLine) {
	if n.kind == kindText {
		words, err := mcp.SplitCommand(n.text)
		switch {
		case err != nil:
			r.reportf(n.line, n.column, key, "%s", err)
		case len(words) == 0:
			r.reportf(n.line, n.column, key, "must not be blank")
		default:
			*into = words
		}
		return
	}
	var words []string
	before := len(r.problems)
	if r.words(n, key, &words); len(r.problems) > before {
		return
	}
	if len(words) == 0 || strings.TrimSpace(words[0]) == "" {
		r.reportf(n.line, n.column, key, "the first item of the list is the program")
		return
	}
	*into = words
}

// words reads a list of texts; numbers and booleans among them are taken as
// they are written.
func (r *reader) words(n *node, key string, into *[]string) {
	if n.kind != kindList {
		r.wrong(n, key, "a list [program, argument, …]")
		return
	}
	out := make([]string, 0, len(n.items))
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		text, ok := item.scalar()
		switch {
		case !ok:
			r.wrong(item, at, "a text")
		case strings.ContainsRune(text, 0):
			r.reportf(item.line, item.column, at, "must not contain a NUL character")
		default:
			out = append(out, text)
		}
	}
	*into = out
}

// pairs reads a mapping of names to texts.
func (r *reader) pairs(n *node, key string, into *map[string]string) {
	if n.kind == kindNull {
		return
	}
	if n.kind != kindMapping {
		r.wrong(n, key, "a mapping of names to texts")
		return
	}
	out := make(map[string]string, len(n.members))
	for _, m := range n.members {
		at := key + "." + clip(m.key, 80)
		text, ok := m.value.scalar()
		_, twice := out[m.key]
		switch {
		case twice:
			r.reportf(m.line, m.column, at, "the key stands here for the second time")
		case !ok:
			r.wrong(m.value, at, "a text")
		case strings.ContainsAny(text, "\x00\r\n"):
			r.reportf(m.value.line, m.value.column, at, "must be one line")
		default:
			out[m.key] = text
		}
	}
	*into = out
}

// scalar is the text of a text, number or boolean, as it is written.
func (n *node) scalar() (string, bool) {
	switch n.kind {
	case kindText, kindNumber:
		return n.text, true
	case kindBool:
		if n.text != "" {
			return n.text, true
		}
		if n.truth {
			return "true", true
		}
		return "false", true
	}
	return "", false
}
