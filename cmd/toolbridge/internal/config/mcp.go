package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var headerNames = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

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
		r.report(n.line, n.column, key, "%d servers; at most %d are hosted", len(n.members), maxServers)
		return
	}
	seen := map[string]int{}
	for _, m := range n.members {
		at := key + "." + clip(m.key, 80)
		if first, ok := seen[m.key]; ok {
			r.report(m.line, m.column, at, "the server stands here for the second time, first in line %d", first)
			continue
		}
		seen[m.key] = m.line
		if strings.TrimSpace(m.key) == "" {
			r.report(m.line, m.column, key, "a server needs a name")
			continue
		}
		c.readServer(r, m, at)
	}
}

func (c *Config) readServer(r *reader, m member, key string) {
	s := Server{Name: m.key, Line: m.line}
	before := len(r.problems)
	n := m.value
	if !r.mapping(n, key, []field{
		{"command", func(n *node, key string) { r.command(n, key, &s.Command) }},
		{"url", func(n *node, key string) { r.url(n, key, &s.URL, "https", "http") }},
		{"env", func(n *node, key string) { r.pairs(n, key, &s.Env, envNames, "the name of an environment variable") }},
		{"headers", func(n *node, key string) { r.pairs(n, key, &s.Headers, headerNames, "the name of an HTTP header") }},
		{"trusted", func(n *node, key string) { r.boolean(n, key, &s.Trusted) }},
		{"supports_parallel_tool_calls", func(n *node, key string) { r.boolean(n, key, &s.ParallelToolCalls) }},
	}) {
		if n.kind == kindNull {
			r.report(m.line, m.column, key, "a server needs command or url")
		}
		return
	}
	if len(r.problems) > before {
		return
	}
	command, url, env, headers := n.member("command"), n.member("url"), n.member("env"), n.member("headers")
	switch {
	case command == nil && url == nil:
		r.report(m.line, m.column, key, "a server needs command or url")
	case command != nil && url != nil:
		r.report(url.line, url.column, key+".url", "a server has command or url, not both")
	case command != nil && headers != nil:
		r.report(headers.line, headers.column, key+".headers", "headers belong to a server with url; use env")
	case url != nil && env != nil:
		r.report(env.line, env.column, key+".env", "env belongs to a server with command; use headers")
	default:
		c.Servers = append(c.Servers, s)
	}
}

// command reads [program, argument, …]; numbers and booleans among the
// arguments are taken as they are written.
func (r *reader) command(n *node, key string, into *[]string) {
	switch {
	case n.kind == kindText:
		r.report(n.line, n.column, key, "a list is expected: [program, argument, …]")
		return
	case n.kind != kindList:
		r.wrong(n, key, "a list [program, argument, …]")
		return
	case len(n.items) == 0:
		r.report(n.line, n.column, key, "the list is empty; its first item is the program")
		return
	}
	var out []string
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		text, ok := item.scalar()
		switch {
		case !ok:
			r.wrong(item, at, "a text")
		case i == 0 && strings.TrimSpace(text) == "":
			r.report(item.line, item.column, at, "the program must not be blank")
		case strings.ContainsRune(text, 0):
			r.report(item.line, item.column, at, "must not contain a NUL character")
		default:
			out = append(out, text)
		}
	}
	*into = out
}

// pairs reads a mapping of names to texts.
func (r *reader) pairs(n *node, key string, into *map[string]string, names *regexp.Regexp, what string) {
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
		case !names.MatchString(m.key):
			r.report(m.line, m.column, key, "%s is expected, not %q", what, clip(m.key, 40))
		case twice:
			r.report(m.line, m.column, at, "the key stands here for the second time")
		case !ok:
			r.wrong(m.value, at, "a text")
		case strings.ContainsAny(text, "\x00\r\n"):
			r.report(m.value.line, m.value.column, at, "must be one line")
		default:
			out[m.key] = text
			if name, bad := badReference(text); bad {
				r.report(m.value.line, m.value.column, at, "${%s is not closed or names no environment variable; write ${NAME}, or $$ for a dollar sign", clip(name, 40))
			}
		}
	}
	*into = out
}

// scalar is the text of a text, number or boolean.
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

var reference = regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// badReference finds a "${" that begins no reference.
func badReference(s string) (string, bool) {
	rest := reference.ReplaceAllString(s, "")
	if _, after, found := strings.Cut(rest, "${"); found {
		return after, true
	}
	return "", false
}

// Expand puts the values of environment variables in place of ${NAME} in the
// servers' env and headers; $$ is a dollar sign. A variable that is not set is
// a fault: the server would run with less than the file says.
func (c *Config) Expand(lookup func(string) (string, bool)) []Problem {
	var problems []Problem
	for i := range c.Servers {
		s := &c.Servers[i]
		for _, group := range []struct {
			name  string
			pairs map[string]string
		}{{"env", s.Env}, {"headers", s.Headers}} {
			for _, key := range sortedKeys(group.pairs) {
				text, missing := expand(group.pairs[key], lookup)
				for _, name := range missing {
					problems = append(problems, Problem{
						Line: s.Line, Column: 1, Key: "mcp.servers." + s.Name + "." + group.name + "." + key,
						Message: fmt.Sprintf("environment variable %s is not set", name),
					})
				}
				group.pairs[key] = text
			}
		}
	}
	return problems
}

func expand(s string, lookup func(string) (string, bool)) (string, []string) {
	var missing []string
	out := reference.ReplaceAllStringFunc(s, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		name := ref[2 : len(ref)-1]
		value, ok := lookup(name)
		if !ok {
			missing = append(missing, name)
		}
		return value
	})
	return out, missing
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
