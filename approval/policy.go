package approval

import (
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// Action is what a policy says of one execution.
type Action string

// The actions, from the most lenient to the strictest.
const (
	Allow Action = "allow"
	Ask   Action = "ask"
	Deny  Action = "deny"
)

func (a Action) strictness() int {
	switch a {
	case Allow:
		return 0
	case Ask:
		return 1
	}
	return 2
}

// ParseAction reads an action as configured.
func ParseAction(s string) (Action, error) {
	switch a := Action(s); a {
	case Allow, Ask, Deny:
		return a, nil
	}
	return "", fmt.Errorf("%.40q is no action: allow, ask or deny", s)
}

// Rule is one line of approvals.rules. Every condition that is given must hold.
type Rule struct {
	Match    string // glob over the tool's name; "" matches every name
	Toolset  string // glob over the toolset; "" matches every toolset, also none
	ReadOnly *bool  // whether a trusted server calls the tool read-only
	// Arguments is looked for in the exact argument text and in the same text
	// without escapes: to ask or deny it must stand in one, to allow in both.
	Arguments *regexp.Regexp
	Action    Action
}

// Policy is the configured part of the decision. The zero value asks for
// everything save trusted read-only tools, or allows everything in dev.
type Policy struct {
	Default Action // of what no rule matches; "" as described above
	Rules   []Rule // the first that matches decides
	Dev     bool
}

// Request is one execution to be judged.
type Request struct {
	Tool, Toolset string
	ReadOnly      bool   // by the hint of a trusted server
	Arguments     []byte // the exact text that would be dispatched; nil when it is not known yet
	Grant         string // the strictest word of the session's grants: auto, ask, deny or ""
}

// Decision is an action and where it comes from, for people to read.
type Decision struct {
	Action Action
	Rule   string // "rule 2 (mcp__bank__pay*)", "default" or "grant"
}

// Decide judges one execution.
func (p Policy) Decide(r Request) Decision {
	d := Decision{Action: p.fallback(r), Rule: "default"}
	if r.Grant == "auto" {
		d = Decision{Allow, "grant"}
	}
	for i, rule := range p.Rules {
		if rule.matches(r) {
			d = Decision{rule.Action, fmt.Sprintf("rule %d (%s)", i+1, rule.name())}
			break
		}
	}
	if g := Action(r.Grant); (g == Ask || g == Deny) && g.strictness() > d.Action.strictness() {
		d = Decision{g, "grant"}
	}
	return d
}

func (p Policy) fallback(r Request) Action {
	switch {
	case p.Default != "":
		return p.Default
	case p.Dev, r.ReadOnly:
		return Allow
	}
	return Ask
}

func (r Rule) matches(q Request) bool {
	match := subjects.MatchGuard
	if r.Action == Allow {
		match = subjects.MatchGlob
	}
	return (r.Match == "" || match(r.Match, q.Tool)) &&
		(r.Toolset == "" || subjects.MatchGlob(r.Toolset, q.Toolset)) &&
		(r.ReadOnly == nil || *r.ReadOnly == q.ReadOnly) &&
		(r.Arguments == nil || r.matchesText(q.Arguments))
}

func (r Rule) matchesText(args []byte) bool {
	lenient := r.Action == Allow
	if args == nil { // not known yet: count against
		return !lenient
	}
	if r.Arguments.Match(args) != lenient {
		return !lenient
	}
	return r.Arguments.Match(Unescaped(args))
}

// Unescaped is the same JSON value, compact and with every character written as
// itself where JSON allows that, so that no spelling of it slips past a pattern.
func Unescaped(args []byte) []byte {
	v := jsontext.Value(args).Clone()
	if err := v.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(false)); err != nil {
		return args
	}
	return v
}

func (r Rule) name() string {
	switch {
	case r.Match != "":
		return r.Match
	case r.Toolset != "":
		return "toolset " + r.Toolset
	}
	return "any tool"
}
