package config

import (
	"encoding/json"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "tools: {tool_search: {enabled: off, defer: [a, 1]}}\n", "breaker: {threshold: 0}\n",
		"a: &a [1]\nb: *a\nc:\n  <<: {x: y}\n", "? q\n: r\n", "a: |\n  x\n", "mcp: {servers: {a: {command: [x], env: {B: \"${C}\"}}}}\n",
		"approvals:\n  rules:\n    - {match: x, action: ask}\n", "a: !!str 5\nb: .nan\nc: 0x1F\n", "[[[[", "- - - -", "\xff", "a: \"\\uD800\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, problems := Parse(data)
		if root, fault := parse(data); fault == nil && root != nil && !json.Valid(root.json()) {
			t.Errorf("%q became no JSON: %q", data, root.json())
		}
		for _, p := range problems {
			if p.Line < 1 || p.Message == "" {
				t.Errorf("problem without place or words: %+v", p)
			}
		}
		for _, s := range c.Servers {
			if err := s.Check(); err != nil {
				t.Errorf("a server that can not run was accepted: %v", err)
			}
		}
	})
}
