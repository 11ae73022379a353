package config

import (
	"fmt"
	"regexp"
	"strings"

	"toolbridge/approval"
)

func (a *Approvals) read(r *reader, n *node, key string) {
	r.mapping(n, key, []field{
		{"default", func(n *node, key string) { r.action(n, key, &a.Policy.Default) }},
		{"timeout", func(n *node, key string) { r.duration(n, key, &a.Timeout) }},
		{"wait", func(n *node, key string) { r.boolean(n, key, &a.Wait) }},
		{"rules", func(n *node, key string) { a.readRules(r, n, key) }},
	})
}

func (r *reader) action(n *node, key string, into *approval.Action) {
	var word string
	r.choice(n, key, &word, string(approval.Allow), string(approval.Ask), string(approval.Deny))
	*into = approval.Action(word)
}

func (a *Approvals) readRules(r *reader, n *node, key string) {
	if n.kind == kindNull {
		return
	}
	if n.kind != kindList {
		r.wrong(n, key, "a list of rules")
		return
	}
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", key, i)
		var rule approval.Rule
		if !r.mapping(item, at, []field{
			{"match", func(n *node, key string) { r.text(n, key, &rule.Match) }},
			{"toolset", func(n *node, key string) { r.text(n, key, &rule.Toolset) }},
			{"read_only", func(n *node, key string) {
				var b bool
				r.boolean(n, key, &b)
				rule.ReadOnly = &b
			}},
			{"arguments", func(n *node, key string) { rule.Arguments = r.pattern(n, key) }},
			{"action", func(n *node, key string) { r.action(n, key, &rule.Action) }},
		}) {
			if item.kind == kindNull {
				r.wrong(item, at, "a rule")
			}
			continue
		}
		if item.member("action") == nil {
			r.reportf(item.line, item.column, at, "the rule has no action: allow, ask or deny")
		}
		a.Policy.Rules = append(a.Policy.Rules, rule)
	}
}

// pattern reads a regular expression of Go's syntax, at most 1,000 bytes.
func (r *reader) pattern(n *node, key string) *regexp.Regexp {
	var text string
	before := len(r.problems)
	if r.text(n, key, &text); len(r.problems) > before {
		return nil
	}
	if len(text) > 1000 {
		r.reportf(n.line, n.column, key, "the pattern has %d bytes; at most 1000", len(text))
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		r.reportf(n.line, n.column, key, "not a regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re
}
