package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"toolbridge/subjects"
	"toolbridge/worker/call"
)

func (c *Config) readGuardrails(r *reader, n *node, key string) {
	g := &c.Guardrails
	r.mapping(n, key, []field{
		{"rate", func(n *node, key string) {
			if off(n) {
				g.Rate = call.Rate{}
			} else if rate, ok := parseRate(n); ok {
				g.Rate = rate
			} else {
				r.wrong(n, key, "off, or calls per time such as 60/m (s, m, h)")
			}
		}},
		{"repeat", func(n *node, key string) {
			if off(n) {
				g.Repeat = 0
			} else if n.kind == kindNumber {
				r.integer(n, key, &g.Repeat, 1_000_000)
			} else {
				r.wrong(n, key, "off, or a number of identical calls in a row")
			}
		}},
		{"deny", func(n *node, key string) { r.texts(n, key, &g.Deny) }},
		{"arguments", func(n *node, key string) {
			r.list(n, key, "a list of {match, pattern}", func(n *node, key string) {
				var p call.Pattern
				if !r.entry(n, key, "pattern", []field{
					{"match", func(n *node, key string) { r.text(n, key, &p.Match) }},
					{"pattern", func(n *node, key string) { p.Pattern = r.pattern(n, key) }},
				}) {
					return
				}
				g.Arguments = append(g.Arguments, p)
			})
		}},
	})
}

func (c *Config) readHooks(r *reader, n *node, key string) {
	named := map[string]int{} // phase and name, and their line
	r.list(n, key, "a list of {name, match, phase, timeout, on_failure}", func(n *node, key string) {
		h := call.Hook{Phase: subjects.PhasePre}
		if !r.entry(n, key, "name", []field{
			{"name", func(n *node, key string) { r.token(n, key, &h.Name) }},
			{"match", func(n *node, key string) { r.text(n, key, &h.Match) }},
			{"phase", func(n *node, key string) {
				var phase string
				if r.choice(n, key, &phase, string(subjects.PhasePre), string(subjects.PhasePost)); phase != "" {
					h.Phase = subjects.HookPhase(phase)
				}
			}},
			{"timeout", func(n *node, key string) {
				r.duration(n, key, &h.Timeout)
				if h.Timeout > maxHookTimeout {
					r.reportf(n.line, n.column, key, "must be at most 10m, not %s", clip(n.text, 40))
				}
			}},
			{"on_failure", func(n *node, key string) {
				var word string
				r.choice(n, key, &word, "block", "allow")
				h.FailOpen = word == "allow"
			}},
		}) {
			return
		}
		same := string(h.Phase) + " " + h.Name + " " + h.Match
		if line, ok := named[same]; ok && h.Name != "" {
			r.reportf(n.line, n.column, key, "the same hook stands in line %d already", line)
		}
		named[same] = n.line
		c.Hooks = append(c.Hooks, h)
	})
}

// maxHookTimeout is the longest that a hook may be waited for.
const maxHookTimeout = 10 * time.Minute

// list reads the items of a list; one without a value is empty.
func (r *reader) list(n *node, key, want string, read func(n *node, key string)) {
	switch n.kind {
	case kindNull:
	case kindList:
		for i, item := range n.items {
			read(item, fmt.Sprintf("%s[%d]", key, i))
		}
	default:
		r.wrong(n, key, want)
	}
}

// entry reads a mapping in a list that must hold one key.
func (r *reader) entry(n *node, key, needed string, fields []field) bool {
	if n.kind == kindNull {
		r.wrong(n, key, "a mapping")
	}
	if !r.mapping(n, key, fields) {
		return false
	}
	if n.member(needed) == nil {
		r.reportf(n.line, n.column, key, "%s is missing", needed)
		return false
	}
	return true
}

// token reads a name that stands in a subject.
func (r *reader) token(n *node, key string, into *string) {
	var s string
	before := len(r.problems)
	if r.text(n, key, &s); len(r.problems) > before {
		return
	}
	if !subjects.ValidToken(s) {
		r.reportf(n.line, n.column, key, "1 to 64 characters of A-Z, a-z, 0-9, _ and - are expected: it stands in a subject")
		return
	}
	*into = s
}

// off reports whether a value switches something off: off, no or false, quoted
// or not.
func off(n *node) bool {
	return n.kind == kindBool && !n.truth || n.kind == kindText && (n.text == "off" || n.text == "no" || n.text == "false")
}

func parseRate(n *node) (call.Rate, bool) {
	if n.kind != kindText {
		return call.Rate{}, false
	}
	calls, unit, ok := strings.Cut(n.text, "/")
	count, err := strconv.Atoi(strings.TrimSpace(calls))
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[strings.TrimSpace(unit)]
	if !ok || err != nil || count < 1 || count > 1_000_000 || per == 0 {
		return call.Rate{}, false
	}
	return call.Rate{Calls: count, Per: per}, true
}
