package approval

import (
	"regexp"
	"testing"
)

func TestTheStrictestOfRuleGrantAndDefaultWins(t *testing.T) {
	yes := true
	rules := []Rule{
		{Match: "mcp__bank__pay*", Action: Ask},
		{Toolset: "mcp-files", ReadOnly: &yes, Action: Allow},
		{Toolset: "mcp-files", Arguments: regexp.MustCompile(`"/etc/`), Action: Deny},
	}
	for _, c := range []struct {
		name   string
		policy Policy
		in     Request
		want   Decision
	}{
		{"outside dev a tool is asked for", Policy{}, Request{Tool: "x"}, Decision{Ask, "default"}},
		{"a trusted read-only tool is not", Policy{}, Request{Tool: "x", ReadOnly: true}, Decision{Allow, "default"}},
		{"in dev everything is allowed", Policy{Dev: true}, Request{Tool: "x"}, Decision{Allow, "default"}},
		{"a configured default counts for read-only tools too", Policy{Default: Deny}, Request{Tool: "x", ReadOnly: true}, Decision{Deny, "default"}},
		{"auto replaces the default", Policy{Default: Deny}, Request{Tool: "x", Grant: "auto"}, Decision{Allow, "grant"}},
		{"auto does not lift a rule", Policy{Rules: rules}, Request{Tool: "mcp__bank__pay_bill", Grant: "auto"}, Decision{Ask, "rule 1 (mcp__bank__pay*)"}},
		{"a grant makes stricter than a rule", Policy{Rules: rules}, Request{Tool: "mcp__files__read", Toolset: "mcp-files", ReadOnly: true, Grant: "ask"}, Decision{Ask, "grant"}},
		{"the first match decides", Policy{Rules: rules}, Request{Tool: "mcp__files__read", Toolset: "mcp-files", ReadOnly: true, Arguments: []byte(`{"p":"/etc/x"}`)}, Decision{Allow, "rule 2 (toolset mcp-files)"}},
		{"arguments narrow a rule", Policy{Rules: rules, Dev: true}, Request{Tool: "mcp__files__write", Toolset: "mcp-files", Arguments: []byte(`{"p":"/etc/x"}`)}, Decision{Deny, "rule 3 (toolset mcp-files)"}},
		{"other arguments fall through", Policy{Rules: rules, Dev: true}, Request{Tool: "mcp__files__write", Toolset: "mcp-files", Arguments: []byte(`{"p":"/tmp/x"}`)}, Decision{Allow, "default"}},
		{"an escaped spelling does not slip past", Policy{Rules: rules, Dev: true}, Request{Tool: "mcp__files__write", Toolset: "mcp-files", Arguments: []byte(`{"p": "\u002fetc/x"}`)}, Decision{Deny, "rule 3 (toolset mcp-files)"}},
		{"to allow, both spellings must match", Policy{Rules: []Rule{{Arguments: regexp.MustCompile(`^[^/]*$`), Action: Allow}}}, Request{Tool: "x", Arguments: []byte(`{"p":"\u002fetc"}`)}, Decision{Ask, "default"}},
		{"unknown arguments count against", Policy{Rules: rules, Dev: true}, Request{Tool: "mcp__files__write", Toolset: "mcp-files"}, Decision{Deny, "rule 3 (toolset mcp-files)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.policy.Decide(c.in); got != c.want {
				t.Errorf("Decide = %+v, want %+v", got, c.want)
			}
		})
	}
}

// A rule that asks or denies covers a connector's tool in every spelling, one that
// allows in its own alone.
func TestNoSpellingOfAConnectorsToolIsAllowedByAnother(t *testing.T) {
	p := Policy{Rules: []Rule{
		{Match: "connectors__gmail__SEND", Action: Deny},
		{Match: "connectors__gmail__*D", Action: Allow},
		{Match: "connectors__gmail__*", Action: Ask},
	}}
	for tool, want := range map[string]Action{
		"connectors__gmail__SEND": Deny, "connectors__gmail__send": Deny, "connectors__gmail__gmail_Send": Deny,
		"connectors__gmail__READ": Allow, "connectors__gmail__read": Ask, "connectors__gmail__LIST": Ask,
	} {
		if got := p.Decide(Request{Tool: tool}).Action; got != want {
			t.Errorf("%s: %s, want %s", tool, got, want)
		}
	}
}
