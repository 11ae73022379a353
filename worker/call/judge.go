package call

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"toolbridge/approval"
	"toolbridge/catalog"
	"toolbridge/catalog/arguments"
	"toolbridge/subjects"
)

// Judgement is what policy and hints say of one tool.
type Judgement struct {
	Parallel      bool // may run beside others
	Repeatable    bool // safe to run again
	ReadOnly      bool // by a trusted server's hint
	NeedsApproval bool
	Denied        bool
	Rule          string // what decided: a rule, the default, or the grant
	Reason        string
}

// Judge says it before the arguments are known.
func (e *Engine) Judge(d *catalog.Definition, trusted func(string) bool, grant string) Judgement {
	return e.judge(d, trusted, grant, nil)
}

// Refused says why a guardrail never lets a tool run, or nil.
func (e *Engine) Refused(tool string) *subjects.SlotError {
	if e.checks == nil {
		return nil
	}
	return e.checks.Refused(tool)
}

// judge applies the hints that count. A session's own definitions have none but
// those for its own parallel lane; a registry's count when its server is trusted,
// save for `parallel`, which the host publishes by the server's own setting.
func (e *Engine) judge(d *catalog.Definition, trusted func(string) bool, grant string, args []byte) Judgement {
	hinted := d.Registry && trusted(d.Toolset)
	readOnly := isTrue(d.Annotations.ReadOnlyHint)
	j := Judgement{
		Parallel:   d.Parallel || readOnly && (hinted || !d.Registry),
		Repeatable: hinted && (readOnly || isTrue(d.Annotations.IdempotentHint)),
		ReadOnly:   hinted && readOnly,
	}
	decision := e.cfg.Policy.Decide(approval.Request{
		Tool: d.Name, Toolset: d.Toolset, ReadOnly: hinted && readOnly, Arguments: args, Grant: grant,
	})
	j.Rule = decision.Rule
	switch decision.Action {
	case approval.Deny:
		j.Denied, j.Reason = true, "denied by "+decision.Rule
	case approval.Ask:
		j.NeedsApproval, j.Reason = true, "asked for by "+decision.Rule
	}
	return j
}

func isTrue(b *bool) bool { return b != nil && *b }

// idempotencyKey is the same for every attempt at one entry and differs between
// sessions.
func idempotencyKey(tenant, session, id string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + session + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}

// schemas keeps compiled schemas by the hash of their definition.
type schemas struct {
	mu     sync.Mutex
	byHash map[string]*arguments.Schema
}

// maxSchemas bounds the cache; when it is full it starts again, which costs
// compiling only.
const maxSchemas = 4096

func (s *schemas) of(d *catalog.Definition) *arguments.Schema {
	key := d.SHA256()
	s.mu.Lock()
	compiled, ok := s.byHash[key]
	s.mu.Unlock()
	if ok {
		return compiled
	}
	compiled = arguments.Compile(d.Parameters)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHash == nil || len(s.byHash) >= maxSchemas {
		s.byHash = map[string]*arguments.Schema{}
	}
	s.byHash[key] = compiled
	return compiled
}
