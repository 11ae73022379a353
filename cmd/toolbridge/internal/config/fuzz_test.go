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
		if c.ToolSearch != nil && !json.Valid(c.ToolSearch) {
			t.Errorf("tool_search is not JSON: %q", c.ToolSearch)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Message == "" {
				t.Errorf("problem without place or words: %+v", p)
			}
		}
		c.Expand(func(string) (string, bool) { return "", false })
	})
}
