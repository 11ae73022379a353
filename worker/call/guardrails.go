package call

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"toolbridge/approval"
	"toolbridge/subjects"
)

// Guardrails are built-in rules about single calls. They see the underlying
// tool's name and the final arguments. The zero value has none.
type Guardrails struct {
	// Deny are globs over tools' names; what one matches is never run.
	Deny []string
	// Arguments are patterns of arguments that are never run.
	Arguments []Pattern
	// Rate is how often a session may run one tool.
	Rate Rate
	// Repeat is how often in a row a session may make the same call: the same
	// tool with equal arguments, no other call in between. 0 means any number.
	Repeat int
}

// Pattern refuses arguments by their text.
type Pattern struct {
	Match string // glob over the tool's name; "" matches every tool
	// Pattern is looked for in the exact argument text, and in the same value
	// written compactly without escapes, so that "\u0072m" is found as "rm".
	Pattern *regexp.Regexp
}

// Rate is a number of calls in any stretch of time of that length. The zero value
// is no limit.
type Rate struct {
	Calls int
	Per   time.Duration
}

// String is "60 in 1m0s".
func (r Rate) String() string { return fmt.Sprintf("%d in %s", r.Calls, r.Per) }

func (g *Guardrails) empty() bool {
	return len(g.Deny) == 0 && len(g.Arguments) == 0 && !g.counts()
}

// counts reports whether calls have to be counted.
func (g *Guardrails) counts() bool { return g.Rate.Calls > 0 || g.Repeat > 0 }

func (g *Guardrails) validate() error {
	for i, p := range g.Arguments {
		if p.Pattern == nil {
			return fmt.Errorf("argument pattern %d has no pattern", i+1)
		}
	}
	switch {
	case g.Rate.Calls < 0 || g.Rate.Per < 0, g.Rate.Calls > 0 && g.Rate.Per < time.Millisecond:
		return fmt.Errorf("a rate of %s is none", g.Rate)
	case g.Repeat < 0:
		return errors.New("repeat is less than 0")
	}
	return nil
}

// looksAt reports whether a rule is about this tool.
func (g *Guardrails) looksAt(tool string) bool {
	for _, p := range g.Arguments {
		if p.matches(tool) {
			return true
		}
	}
	return g.deniedBy(tool) != ""
}

func (p *Pattern) matches(tool string) bool {
	return p.Match == "" || subjects.MatchGuard(p.Match, tool)
}

func (g *Guardrails) deniedBy(tool string) string {
	for _, glob := range g.Deny {
		if subjects.MatchGuard(glob, tool) {
			return glob
		}
	}
	return ""
}

// denied refuses a tool whatever its arguments.
func (g *Guardrails) denied(tool string) *subjects.SlotError {
	glob := g.deniedBy(tool)
	if glob == "" {
		return nil
	}
	return &subjects.SlotError{
		Code: subjects.CodeBlocked, Reason: "deny",
		Message: tool + " was not run: a guardrail denies " + glob + ". Do not repeat it, with whatever arguments",
	}
}

// matched refuses arguments that a pattern finds.
func (g *Guardrails) matched(tool string, args []byte) *subjects.SlotError {
	var plain []byte
	for _, p := range g.Arguments {
		if !p.matches(tool) {
			continue
		}
		if !p.Pattern.Match(args) {
			if plain == nil {
				plain = approval.Unescaped(args)
			}
			if !p.Pattern.Match(plain) {
				continue
			}
		}
		return &subjects.SlotError{
			Code: subjects.CodeBlocked, Reason: "arguments",
			Message: tool + " was not run: a guardrail refuses arguments that match " + oneLine(p.Pattern.String()) + ". Change the arguments, or do without it",
		}
	}
	return nil
}

// tooOften is the answer of the rate limit.
func tooOften(tool string, r Rate, wait time.Duration) *subjects.SlotError {
	seconds := (wait + time.Second - 1) / time.Second
	return &subjects.SlotError{
		Code: subjects.CodeBlocked, Reason: "rate", RetryAfterMS: max(1, wait.Milliseconds()),
		Message: fmt.Sprintf("%s was not run: this session may call it %d times in %s, and has. Wait %d s before you call it again, or do something else",
			tool, r.Calls, shortDuration(r.Per), max(1, seconds)),
	}
}

// tooAlike is the answer to one call too many of the same kind.
func tooAlike(tool string, limit int) *subjects.SlotError {
	return &subjects.SlotError{
		Code: subjects.CodeBlocked, Reason: "repeat",
		Message: fmt.Sprintf("%s was not run: the same call has been made %d times in a row already. Use the results that you have, change the arguments, or tell the user what stands in the way",
			tool, limit),
	}
}

// shortDuration is 1m0s as 1m.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
