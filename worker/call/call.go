package call

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"toolbridge/approval"
	"toolbridge/catalog"
	"toolbridge/catalog/arguments"
	"toolbridge/subjects"
)

// Config is what the call path needs to know; worker.Config names the defaults.
type Config struct {
	Policy             approval.Policy
	Dev                bool
	RejectLocalBatches bool
	Timeout            time.Duration // of one execution, from its start
	Concurrency        int           // parallel-safe entries of one batch at once
}

// Executor runs one execution. It returns when the outcome is known, or when
// nobody can know it any more; it never returns both parts.
type Executor interface {
	Execute(ctx context.Context, e Execution) (json.RawMessage, *subjects.SlotError)
}

// Execution is one entry, ready to be sent.
type Execution struct {
	Tenant, Session string
	ID              string // "<call id>.<index>"
	Definition      *catalog.Definition
	Arguments       json.RawMessage
	IdempotencyKey  string
	Timeout         time.Duration
	Repeatable      bool // a trusted server calls it safe to repeat
	Rivals          bool // several executors may answer; one may have other definitions
	Trace           [3]string
}

// Live is what the registry knows of a toolset now.
type Live struct {
	State, Reason string
	Executors     int
}

// Call is one tool_call of one session.
type Call struct {
	Tenant, Session, ID string
	Arguments           []byte // the envelope as the model wrote it
	Trace               [3]string
	Catalog             *catalog.Catalog // what the session may see
	Trusted             func(toolset string) bool
	Approval            string // the strictest word of the session's grants
	Live                func(toolset string) (Live, bool)
}

// Result is what the model reads.
type Result struct {
	Result  []byte
	IsError bool
}

// Path runs calls. It is safe for concurrent use and holds only a cache of
// compiled schemas.
type Path struct {
	cfg      Config
	executor Executor
	schemas  schemas
}

// New returns a Path over an executor.
func New(cfg Config, executor Executor) *Path {
	cfg.Policy.Dev = cfg.Dev
	return &Path{cfg: cfg, executor: executor}
}

// slot is one entry on its way and its outcome.
type slot struct {
	name       string
	definition *catalog.Definition
	execution  Execution
	judgement  Judgement
	response   json.RawMessage
	err        *subjects.SlotError
}

// Run takes a call to its result. It returns when every entry has ended; a
// cancelled ctx cancels what has started and does not start the rest.
func (p *Path) Run(ctx context.Context, c Call) Result {
	entries, refusal := arguments.Normalize(c.Arguments, arguments.NormalizeOptions{})
	if refusal != nil {
		return refused(&subjects.SlotError{Code: subjects.CodeInvalidArguments, Message: refusal.Message})
	}
	connector := false
	for _, e := range entries {
		connector = connector || catalog.IsConnector(e.Name)
	}
	if p.cfg.RejectLocalBatches && len(entries) > 1 {
		for _, e := range entries {
			if !catalog.IsConnector(e.Name) {
				return refused(oneAtATime(entries))
			}
		}
	}
	slots := make([]slot, len(entries))
	for i, e := range entries {
		p.prepare(&slots[i], i, e, c)
	}
	p.execute(ctx, slots)
	if len(slots) == 1 && !connector {
		if slots[0].err != nil {
			return refused(slots[0].err)
		}
		return Result{Result: slots[0].response}
	}
	return batch(slots)
}

// prepare takes one entry as far as it goes without running anything.
func (p *Path) prepare(s *slot, index int, e arguments.Entry, c Call) {
	s.name = e.Name
	found := c.Catalog.Resolve(e.Name)
	if s.err = found.Refusal(); s.err != nil {
		return
	}
	if found.Definition == nil { // a connector's tool: no gateway serves this session
		s.err = NoConnectors(e.Name)
		return
	}
	s.name = found.Definition.Name // a folded name runs under its exact one
	s.definition = found.Definition
	schema := p.schemas.of(s.definition)
	adopted, invalid := schema.Adopt(e)
	var args []byte
	if invalid == nil {
		args, invalid = schema.Repair(adopted)
	}
	if invalid != nil {
		s.err = &subjects.SlotError{
			Code: subjects.CodeInvalidArguments, Message: invalid.Message, Path: invalid.Path,
			Constraint: invalid.Constraint, Parameters: json.RawMessage(invalid.Parameters), Hint: invalid.Hint,
		}
		return
	}
	s.judgement = p.judge(s.definition, c.Trusted, c.Approval, args)
	switch {
	case s.judgement.Denied:
		s.err = &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: "rule", Message: s.judgement.Reason}
		return
	case s.judgement.NeedsApproval:
		s.err = &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: "no_approver",
			Message: "this call needs a person's approval (" + s.judgement.Reason + "), and there is nobody to ask; do not repeat it"}
		return
	}
	if s.definition.Registry {
		if s.err = p.Reachable(s.definition, c.Live); s.err != nil {
			return
		}
	}
	id := c.ID + "." + strconv.Itoa(index)
	s.execution = Execution{
		Tenant: c.Tenant, Session: c.Session, ID: id, Definition: s.definition, Arguments: args,
		IdempotencyKey: idempotencyKey(c.Tenant, c.Session, id),
		Timeout:        p.cfg.Timeout, Repeatable: s.judgement.Repeatable, Trace: c.Trace,
	}
	if s.definition.Registry {
		live, _ := c.Live(s.definition.Toolset)
		s.execution.Rivals = live.Executors > 1
	}
}

// execute runs what was prepared: the parallel-safe entries at once, up to the
// configured number, and the others in order beside them.
func (p *Path) execute(ctx context.Context, slots []slot) {
	var all sync.WaitGroup
	free := make(chan struct{}, p.cfg.Concurrency)
	var ordered []*slot
	for i := range slots {
		s := &slots[i]
		switch {
		case s.err != nil:
		case !s.judgement.Parallel:
			ordered = append(ordered, s)
		default:
			all.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				p.one(ctx, s)
			})
		}
	}
	for _, s := range ordered {
		p.one(ctx, s)
	}
	all.Wait()
}

func (p *Path) one(ctx context.Context, s *slot) {
	if ctx.Err() != nil {
		s.err = &subjects.SlotError{Code: subjects.CodeInterrupted, Message: "the worker stopped before this call was started; it had no effect"}
		return
	}
	s.response, s.err = p.executor.Execute(ctx, s.execution)
}

// oneAtATime refuses a batch where local batches are switched off.
func oneAtATime(entries []arguments.Entry) *subjects.SlotError {
	first := entries[0]
	return &subjects.SlotError{Code: subjects.CodeInvalidArguments, Message: fmt.Sprintf(
		"Nothing was run: one tool_call takes one local tool here. Send the first alone, %s, then the %d left, one tool_call each.",
		arguments.Shape(first.Name, first.Arguments), len(entries)-1)}
}

// NoConnectors is the answer for a connector's tool where connectors are not
// available: the same as for any unknown name.
func NoConnectors(name string) *subjects.SlotError {
	return &subjects.SlotError{Code: subjects.CodeToolNotFound,
		Message: "there is no tool " + strconv.Quote(name) + " in this session: connectors are not available"}
}

// Reachable says why a registry tool can not be executed now, or nil.
func (p *Path) Reachable(d *catalog.Definition, live func(string) (Live, bool)) *subjects.SlotError {
	now, ok := live(d.Toolset)
	switch {
	case !ok:
		return &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: "no live executor offers the toolset of " + d.Name + " now; the call was not sent"}
	case now.State != subjects.StateReady:
		reason := now.Reason
		if reason == "" {
			reason = now.State
		}
		return &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: "the executor of " + d.Name + " is not available (" + reason + "); the call was not sent"}
	}
	return nil
}
