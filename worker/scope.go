package worker

import (
	"crypto/sha256"
	"time"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// scope is what one session may see and call now: the chain of its grant and
// its parents' grants. It is an immutable value; the zero value is a session
// without a grant outside dev, which sees its own definitions and nothing of the
// registry.
type scope struct {
	unbounded bool             // dev without a grant: everything
	chain     []subjects.Grant // own grant first; every link must agree
	closed    bool             // a link is missing, expired, broken or circular: only the session's own plain tools are left
	print     [32]byte         // tells scopes apart that decide differently
}

// maxChain bounds how deep sessions may descend from one another.
const maxChain = 16

// allows decides for one definition. The session's own definitions without a
// toolset come with its job: only deny can take them away. Everything else must
// be matched by every grant of the chain; a definition of the registry needs a
// grant at all, outside dev.
func (s *scope) allows(d *catalog.Definition) bool {
	for i := range s.chain {
		for _, glob := range s.chain[i].Deny {
			if subjects.MatchGuard(glob, d.Name) || d.Toolset != "" && subjects.MatchGlob(glob, d.Toolset) {
				return false
			}
		}
	}
	if !d.Registry && d.Toolset == "" {
		return true
	}
	if s.unbounded {
		return true
	}
	if s.closed {
		return false
	}
	if len(s.chain) == 0 {
		return !d.Registry
	}
	for i := range s.chain {
		if !granted(&s.chain[i], d) {
			return false
		}
	}
	return true
}

// open reports whether the scope may leave anything of the registry.
func (s *scope) open() bool { return s.unbounded || !s.closed && len(s.chain) > 0 }

// granted reports whether a grant's own lists name the definition: with neither
// list everything, else a glob of either must match.
func granted(g *subjects.Grant, d *catalog.Definition) bool {
	if g.Toolsets == nil && g.Tools == nil {
		return true
	}
	if g.Toolsets != nil && d.Toolset != "" {
		for _, glob := range *g.Toolsets {
			if subjects.MatchGlob(glob, d.Toolset) {
				return true
			}
		}
	}
	if g.Tools != nil {
		for _, glob := range *g.Tools {
			if subjects.MatchGlob(glob, d.Name) {
				return true
			}
		}
	}
	return false
}

// approval is the strictest word of the chain: deny, then ask, then nothing
// (the configured default), then auto, which every link must say.
func (s *scope) approval() string {
	auto := 0
	ask := false
	for i := range s.chain {
		switch s.chain[i].Approval {
		case "deny":
			return "deny"
		case "ask":
			ask = true
		case "auto":
			auto++
		case "":
		default: // a word that means nothing must not ease anything
			ask = true
		}
	}
	switch {
	case ask:
		return "ask"
	case auto > 0 && auto == len(s.chain):
		return "auto"
	}
	return ""
}

// user is whom the session belongs to: only its own grant says so.
func (s *scope) user() string {
	if len(s.chain) == 0 {
		return ""
	}
	return s.chain[0].User
}

// filter returns the definitions in scope; the same slice when all are.
func (s *scope) filter(defs []catalog.Definition) []catalog.Definition {
	for i := range defs {
		if s.allows(&defs[i]) {
			continue
		}
		kept := append([]catalog.Definition(nil), defs[:i]...)
		for j := i + 1; j < len(defs); j++ {
			if s.allows(&defs[j]) {
				kept = append(kept, defs[j])
			}
		}
		return kept
	}
	return defs
}

// sources are the unavailable sources of a catalog that are in scope.
func (s *scope) sources(c *content) []catalog.Unavailable {
	var kept []catalog.Unavailable
	for i, u := range c.Input.Unavailable {
		if i < len(c.Header.Hidden) && s.allows(&catalog.Definition{Toolset: c.Header.Hidden[i], Registry: true}) {
			kept = append(kept, u)
		}
	}
	return kept
}

// newScope reads a chain of grants as it stands at the given moment. values are
// the JSON of the session's grant, its parent's, and so on; complete is false
// when a named parent has no grant.
func newScope(values [][]byte, complete, dev bool, now time.Time) scope {
	if len(values) == 0 {
		s := scope{unbounded: dev}
		if dev {
			s.print[0] = 1
		}
		return s
	}
	s := scope{closed: !complete && !dev}
	h := sha256.New()
	for _, v := range values {
		var g subjects.Grant
		if err := subjects.Decode(v, &g); err != nil {
			s.closed = true
			continue
		}
		if g.ExpiresAt != "" {
			if until, err := time.Parse(time.RFC3339, g.ExpiresAt); err != nil || !now.Before(until) {
				s.closed = true
			}
		}
		if g.Approval != "" && g.Approval != "ask" && g.Approval != "auto" && g.Approval != "deny" {
			s.closed = true // whoever wrote it meant to bound something
		}
		s.chain = append(s.chain, g)
		h.Write(v)
		h.Write([]byte{0})
	}
	if s.closed {
		h.Write([]byte{1})
	}
	h.Sum(s.print[:0])
	return s
}
