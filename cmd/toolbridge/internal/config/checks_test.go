package config

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"toolbridge/subjects"
	"toolbridge/worker/call"
)

func TestHooksAndGuardrailsAreRead(t *testing.T) {
	c, problems := Parse([]byte(`
guardrails:
  rate: 60/m
  repeat: 5
  deny: ["mcp__bank__*", terminal]
  arguments:
    - {match: "*shell*", pattern: 'rm\s+-rf'}
    - {pattern: "(?i)password"}
hooks:
  - {name: budget, match: "mcp__shop__*", timeout: 2s}
  - {name: redact, phase: post, on_failure: block}
  - {name: watch, phase: pre, on_failure: allow}
`))
	if len(problems) != 0 {
		t.Fatalf("problems: %v", problems)
	}
	want := call.Guardrails{
		Deny: []string{"mcp__bank__*", "terminal"},
		Arguments: []call.Pattern{
			{Match: "*shell*", Pattern: regexp.MustCompile(`rm\s+-rf`)}, {Pattern: regexp.MustCompile("(?i)password")},
		},
		Rate: call.Rate{Calls: 60, Per: time.Minute}, Repeat: 5,
	}
	text := cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() })
	if diff := cmp.Diff(want, c.Guardrails, text); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]call.Hook{
		{Name: "budget", Match: "mcp__shop__*", Phase: subjects.PhasePre, Timeout: 2 * time.Second},
		{Name: "redact", Phase: subjects.PhasePost},
		{Name: "watch", Phase: subjects.PhasePre, FailOpen: true},
	}, c.Hooks); diff != "" {
		t.Error(diff)
	}
	if err := (call.ChecksConfig{Hooks: c.Hooks, Guardrails: c.Guardrails}).Validate(); err != nil {
		t.Errorf("what was read is refused: %v", err)
	}
}

func TestFaultsOfHooksAndGuardrailsStopTheProgramWithTheirLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"hooks as a mapping", "hooks: {name: x}", "line 1: hooks: a list of {name, match, phase, timeout, on_failure} is expected"},
		{"a hook that is a text", "hooks:\n  - x", "line 2: hooks[0]: a mapping is expected"},
		{"an empty hook", "hooks:\n  -", "hooks[0]: a mapping is expected"},
		{"a hook without a name", "hooks:\n  - {match: x}", "line 2: hooks[0]: name is missing"},
		{"a name that is no token", "hooks:\n  - {name: a.b}", "line 2: hooks[0].name: 1 to 64 characters of"},
		{"a phase", "hooks:\n  - name: a\n    phase: before", "line 3: hooks[0].phase: one of pre, post is expected"},
		{"a timeout without unit", "hooks:\n  - {name: a, timeout: 5}", "line 2: hooks[0].timeout: a duration needs its unit"},
		{"a timeout too long", "hooks:\n  - {name: a, timeout: 1h}", "line 2: hooks[0].timeout: must be at most 10m"},
		{"on_failure", "hooks:\n  - {name: a, on_failure: open}", "line 2: hooks[0].on_failure: one of block, allow is expected"},
		{"an unknown key", "hooks:\n  - {name: a, on_fail: allow}", `line 2: hooks[0]: unknown key "on_fail": did you mean "on_failure"?`},
		{"the same hook twice", "hooks:\n  - {name: a}\n  - {name: a}", "line 3: hooks[1]: the same hook stands in line 2 already"},
		{"deny that is no list", "guardrails: {deny: x}", "line 1: guardrails.deny: a list of texts is expected"},
		{"a blank glob", "guardrails: {deny: [' ']}", "line 1: guardrails.deny[0]: must not be blank"},
		{"patterns that are no list", "guardrails: {arguments: x}", "line 1: guardrails.arguments: a list of {match, pattern} is expected"},
		{"a pattern that is none", "guardrails:\n  arguments:\n    - {pattern: '('}", "line 3: guardrails.arguments[0].pattern: not a regular expression: missing closing )"},
		{"a match without pattern", "guardrails:\n  arguments:\n    - {match: x}", "line 3: guardrails.arguments[0]: pattern is missing"},
		{"an unknown key of a pattern", "guardrails:\n  arguments:\n    - {pattern: a, glob: x}", `line 3: guardrails.arguments[0]: unknown key "glob"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := Parse([]byte(c.text))
			if len(problems) != 1 || problems[0].Warning || !strings.Contains(problems[0].String(), c.want) {
				t.Errorf("problems: %v\nwant: %s", problems, c.want)
			}
		})
	}
}
