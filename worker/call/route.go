package call

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Place says who executes an entry.
type Place string

// The places.
const (
	OnBus     Place = ""        // executors of a toolset, or the session's own process
	AtGateway Place = "gateway" // the hosted gateway, for the tools of connectors
	InWorker  Place = "worker"  // the worker that runs the call
)

// Outcome is the end of one execution: a response or an error.
type Outcome struct {
	Response json.RawMessage
	Error    *subjects.SlotError
	Account  string // alias of the connected account it ran under
	// Unsent, with an error: this start had no effect, since it was not sent or was
	// refused before it ran. It says nothing of starts before it.
	Unsent bool
	// Again, with an error: the worker is stopping, what was sent may have taken
	// effect, and another worker may safely send it again. The error is what stands
	// when none may.
	Again bool
}

// BatchExecutor can also run several executions in one go. There is one outcome
// for each, in their order.
type BatchExecutor interface {
	Executor
	ExecuteAll(ctx context.Context, list []Execution) []Outcome
}

// Route sends each execution to the executor of its place. Gateway and Worker may
// be nil; then what is theirs is not run.
type Route struct {
	Bus     Executor
	Gateway BatchExecutor
	Worker  Executor
}

// Execute implements Executor.
func (r Route) Execute(ctx context.Context, e Execution) Outcome {
	switch {
	case e.Place == OnBus:
		return r.Bus.Execute(ctx, e)
	case e.Place == AtGateway && r.Gateway != nil:
		return r.Gateway.Execute(ctx, e)
	case e.Place == InWorker && r.Worker != nil:
		return r.Worker.Execute(ctx, e)
	}
	return notHere(e)
}

// ExecuteAll implements BatchExecutor. The executions are all the gateway's.
func (r Route) ExecuteAll(ctx context.Context, list []Execution) []Outcome {
	if r.Gateway != nil {
		return r.Gateway.ExecuteAll(ctx, list)
	}
	out := make([]Outcome, len(list))
	for i := range list {
		out[i] = notHere(list[i])
	}
	return out
}

// notHere is the outcome on a worker that is configured otherwise than the one that
// accepted the call.
func notHere(e Execution) Outcome {
	return Outcome{Unsent: true, Error: &subjects.SlotError{
		Code: subjects.CodeExecutorUnavailable, Message: "this worker can not run " + e.Name + ": connectors are not configured here; it was not started",
	}}
}

// Stopped reports whether an execution's context has ended because of a stop. Any
// other end is the worker's own.
func Stopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopped) }

// Outlive is the context of something that a stop does not cut off: it ends with the
// worker's other reasons to cancel ctx, and when the worker leaves. stop is closed by
// a stop. end must be called when the thing is over.
func Outlive(ctx context.Context, leaving <-chan struct{}) (running context.Context, stop <-chan struct{}, end func()) {
	stopped := make(chan struct{})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() {
		if Stopped(ctx) {
			close(stopped)
			return
		}
		cancel()
	})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-leaving:
			cancel()
		case <-running.Done():
		}
	})
	return running, stopped, func() {
		cancel()
		watch.Wait()
		undo()
	}
}

// execution is an entry as its executor gets it.
func (l *live) execution(index int, entry *Entry, record *Record) Execution {
	k := l.key
	id := executionID(k.id, index)
	tool, key := entry.Tool, entry.Key
	if tool == "" {
		tool = entry.Name
	}
	if key == "" {
		key = idempotencyKey(k.tenant, k.session, id)
	}
	return Execution{
		Tenant: k.tenant, Session: k.session, CallID: k.id, Index: index, ID: id,
		Place: entry.Place, User: record.User, Surface: record.Surface,
		Name: entry.Name, Tool: tool, Toolset: entry.Toolset, Registry: entry.Registry,
		SHA256: entry.SHA256, Arguments: entry.Arguments, IdempotencyKey: key,
		StartBy: l.startBy(), Timeout: l.e.cfg.Timeout, Repeatable: entry.Repeatable, Trace: record.Trace,
		Sent: l.e.sent(k), Continue: l.goesOn, Parks: l.park, Leaving: l.e.base.Done(),
	}
}

// goesOn looks into the journal whether this worker's part of the call goes on. What
// can not be read now is not known to have ended.
func (l *live) goesOn() bool {
	r, _, err := l.e.journal.load(l.e.writing(), l.key)
	if err != nil {
		return l.ctx.Err() == nil
	}
	return !r.Stopped && r.Lease != nil && r.Lease.Epoch == l.epoch
}

// ending is the end of an execution as it is written down.
type ending struct {
	index    int
	entry    Entry
	out      Outcome
	kept     *Kept
	handBack bool // this worker is stopping; another one does it
	finished bool // by the last write
}

// settle makes what is written down of an outcome: the truth about all starts, seen
// by the post hooks, a large response in the object store.
func (l *live) settle(index int, entry *Entry, record *Record, out Outcome) ending {
	l.e.step(StepReplied, l.key)
	x := ending{index: index, entry: *entry}
	x.handBack = l.e.base.Err() != nil && out.Error != nil &&
		(out.Again || out.Unsent && out.Error.Code == subjects.CodeInterrupted)
	out.Error = entry.truth(out)
	if out.Error == nil && l.e.checks != nil {
		// The result is there; neither a stop nor the worker's end keeps a hook
		// from seeing it.
		out.Response, out.Error = l.e.checks.After(l.e.writing(), l.check(index, *entry, record), out.Response)
	}
	kept, err := l.e.keep(l.e.writing(), out.Response)
	if err != nil && out.Error == nil {
		out.Error = &subjects.SlotError{Code: subjects.CodeResultTooLarge, Message: entry.Name + " has run, but its result could not be kept: " + err.Error()}
	}
	if out.Error == nil {
		x.kept = kept
	}
	x.out = out
	if !x.handBack {
		// Before the journal says so: who reads a result finds it in the audit.
		l.audit(record, index, out.Error)
	}
	return x
}

// audit writes down how an execution ended.
func (l *live) audit(record *Record, index int, err *subjects.SlotError) {
	sent := l.e.auditFinished(l.key, record, index, err)
	if sent == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.audits = append(l.audits, sent)
}

// audited waits until the audit has what this worker wrote there of the call. It was
// sent before the last write of the journal, so there is hardly ever anything to
// wait for.
func (l *live) audited() {
	l.mu.Lock()
	list := l.audits
	l.audits = nil
	l.mu.Unlock()
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.e.writing(), auditGrace)
	defer cancel()
	for _, sent := range list {
		l.e.outbox.taken(ctx, sent)
	}
}

// write changes the record.
func (x *ending) write(r *Record) bool {
	x.finished = false
	switch {
	case x.handBack && !r.Stopped && x.out.Again:
		r.Entries[x.index].State = Received // it may have been sent: its start stands
	case x.handBack && !r.Stopped:
		r.unstart(x.index)
	default:
		r.Entries[x.index].Account = x.out.Account
		r.finish(x.index, x.kept, x.out.Error)
		x.finished = true
	}
	return true
}

// told reports an ending once it is written, or could not be.
func (x *ending) told(l *live, record *Record, err error) {
	switch {
	case err == nil && !x.finished:
	case errors.Is(err, errLost):
		l.e.late(l.key, record, x.index, x.out.Response, x.out.Error)
	case err != nil:
		l.giveAway(err)
	default:
		if x.handBack { // stopped meanwhile, so that it ended here
			l.audit(record, x.index, x.out.Error)
		}
		l.e.finished(l.key, record, x.index, x.out.Error)
	}
}

// startableTogether are the entries that may start in one request: all that are
// left, once each of them is ready.
func (r *Record) startableTogether() []int {
	var list []int
	for i := range r.Entries {
		switch e := &r.Entries[i]; {
		case e.State == Done:
		case e.State == Received && e.ready():
			list = append(list, i)
		default:
			return nil
		}
	}
	return list
}

// runTogether sends the entries that run in one request and writes their outcomes
// down in one write.
func (l *live) runTogether() {
	l.mu.Lock()
	record := l.record
	l.mu.Unlock()
	var list []int
	var batch []Execution
	var spans []tracing.Span
	ctx, began := l.ctx, time.Now()
	for i := range record.Entries {
		if entry := &record.Entries[i]; entry.State == Running {
			under, span := l.attempt(l.ctx, record, i, entry)
			if len(list) == 0 {
				ctx = under // of the one request
			}
			x := l.execution(i, entry, record)
			x.Trace = span.Values(record.Trace)
			list, batch, spans = append(list, i), append(batch, x), append(spans, span)
			l.e.event(l.key, record.Trace, subjects.Event{Type: subjects.EventToolStarted, Index: ptr(i), Tool: entry.Name})
		}
	}
	if len(list) == 0 {
		return
	}
	outcomes := make([]Outcome, len(list))
	if together, ok := l.e.executor.(BatchExecutor); ok {
		outcomes = together.ExecuteAll(ctx, batch)
	} else {
		for i := range batch {
			outcomes[i] = notHere(batch[i])
		}
	}
	ends := make([]ending, len(list))
	for n, i := range list {
		l.e.cfg.Tracer.Content(spans[n], tracing.GenAIToolResult, outcomes[n].Response)
		l.attempted(spans[n], &record.Entries[i], began, outcomes[n].Error)
		ends[n] = l.settle(i, &record.Entries[i], record, outcomes[n])
	}
	err := l.done(list[0], func(r *Record) bool {
		for n := range ends {
			ends[n].write(r)
		}
		return true
	}, list[1:]...)
	for n := range ends {
		ends[n].told(l, record, err)
	}
}
