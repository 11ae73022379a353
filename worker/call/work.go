package call

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// live is a call that this worker holds the lease of.
type live struct {
	e     *Engine
	key   key
	epoch uint64
	ctx   context.Context // of its executions
	abort context.CancelCauseFunc

	mu         sync.Mutex
	record     *Record
	revision   uint64
	busy       map[int]bool // entries with a task under way
	before     uint64       // epoch of the lost worker that had the call before; 0: none
	lostWorker string       // that one
	lostStarts []lostStart  // what it had running

	lost     bool       // another worker has taken over
	spent    bool       // this claim was one too many
	stopped  bool       // a stop was seen, the executions are cancelled
	tasks    int        // under way
	idle     *sync.Cond // on mu: the last task has ended
	parallel chan struct{}
	checked  *sync.Cond // on mu: an entry's task has ended
}

// claim results.
type claimed uint8

const (
	ours claimed = iota
	isFinal
	held    // by another worker that is alive
	isEmpty // the record is a stop's that came before its call
)

// work takes one message of the queue as far as it goes.
func (e *Engine) work(msg jetstream.Msg) {
	k, ok := e.keyOf(msg)
	if !ok {
		e.bury(msg, key{}, "the subject names no call", 0)
		return
	}
	delivered := uint64(1)
	if meta, err := msg.Metadata(); err == nil {
		delivered = meta.NumDelivered
	}
	if delivered > 1 {
		e.cfg.Metrics.Count(tracing.Redeliveries, 1)
	}
	var body courierBody
	if err := subjects.Decode(msg.Data(), &body); err != nil {
		e.bury(msg, k, "the message is not readable: "+err.Error(), int(delivered))
		return
	}
	if delivered > 1 {
		body.Record = nil // the journal knows better
	}
	l, outcome, err := e.claim(e.base, k, body.Record, body.Revision)
	switch {
	case errors.Is(err, errNoRecord):
		e.bury(msg, k, "the journal has no record of this call", int(delivered))
		return
	case errors.Is(err, errUnreadable):
		e.bury(msg, k, err.Error(), int(delivered))
		return
	case err != nil:
		e.log.Warn("a call could not be claimed; it comes again", "call", k.String(), "error", err)
		_ = msg.NakWithDelay(retryDelay)
		return
	case outcome == held:
		// Its holder has a message of its own and reads the record again before
		// it lets go; should it be lost, this one comes again.
		_ = msg.NakWithDelay(l.untilFree())
		return
	case outcome == isEmpty:
		e.ack(msg)
		return
	case outcome == isFinal:
		if _, err := e.publish(e.base, k, l.record); err != nil {
			e.log.Warn("a result could not be published; it is tried again", "call", k.String(), "error", err)
			_ = msg.NakWithDelay(retryDelay)
			return
		}
		e.ack(msg)
		return
	case outcome == ours:
	}
	e.step(StepClaimed, k)
	if l.spent {
		if err := e.deadLetter(k, msg.Subject(), msg.Data(), spentReason, l.record.Attempts); err != nil {
			e.log.Error("a dead letter could not be written", "call", k.String(), "error", err)
		}
	}
	e.attend(l, msg, delivered)
	l.mu.Lock()
	lost, record := l.lost, l.record
	l.mu.Unlock()
	switch {
	case lost:
		return // whoever took over has the message, or gets it
	case record.Final:
		if _, err := e.publish(e.writing(), k, record); err != nil {
			e.log.Warn("a result could not be published; it is tried again", "call", k.String(), "error", err)
			_ = msg.NakWithDelay(retryDelay)
			return
		}
	case e.base.Err() != nil && record.unfinished():
		_ = msg.Nak() // this worker is stopping; another one goes on
		return
	}
	e.ack(msg)
}

// attend works on a call that this worker has the lease of, as far as it goes.
// msg is the call's message, or nil.
func (e *Engine) attend(l *live, msg jetstream.Msg, delivered uint64) {
	span := l.workSpan(msg != nil, delivered)
	defer span.End()
	e.hold(l)
	beat := e.heartbeat(l, msg)
	l.run()
	beat()
	e.release(l)
}

// spentReason is why a call that loses every worker ends.
const spentReason = "every worker that took this call was lost"

const retryDelay = time.Second

// ack acknowledges and waits for the server's word, so that nothing settled
// comes again. When that fails the message comes again, and finds a final call.
func (e *Engine) ack(msg jetstream.Msg) {
	if k, ok := e.keyOf(msg); ok {
		e.step(StepAck, k)
	}
	ctx, cancel := context.WithTimeout(context.Background(), ackWithin)
	defer cancel()
	if err := msg.DoubleAck(ctx); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		e.log.Debug("a call's message was not acknowledged; it comes again", "subject", msg.Subject(), "error", err)
	}
}

const ackWithin = 5 * time.Second

func (e *Engine) keyOf(msg jetstream.Msg) (k key, ok bool) {
	k.tenant, k.session, k.id, ok = e.cfg.Space.ParseQueued(msg.Subject())
	return k, ok
}

// untilFree is when it is worth looking again at a call that another worker
// holds: when its lease has ended unless it is renewed.
func (l *live) untilFree() time.Duration {
	const soonest = 20 * time.Millisecond
	if l.record.Lease == nil {
		return soonest
	}
	return max(soonest, time.Until(time.UnixMilli(l.record.Lease.Until))+soonest)
}

// claim takes the lease of a call. r may be nil; else it is the record as it was
// at that revision.
func (e *Engine) claim(ctx context.Context, k key, r *Record, revision uint64) (*live, claimed, error) {
	if r != nil && (r.Version != recordVersion || revision == 0) {
		r = nil
	}
	var outcome claimed
	l, claim := e.newLive(k), e.claims.Add(1)
	record, at, err := e.journal.change(ctx, k, r, revision, func(r *Record) bool {
		now := time.Now()
		switch {
		case r.Body == "":
			outcome = isEmpty
			return false
		case r.Final:
			outcome = isFinal
			return false
		case r.Lease != nil && r.Lease.Worker == e.id && r.Lease.Claim == claim:
			outcome, l.epoch = ours, r.Epoch // it was written, only the answer was lost
			return false
		case r.Lease != nil && now.UnixMilli() < r.Lease.Until:
			outcome = held
			return false
		}
		outcome = ours
		l.before, l.lostStarts = 0, nil
		if r.Lease != nil { // its worker was lost
			l.noteLost(r)
			r.Attempts++
			r.recover(e.cfg.MaxAttempts)
		}
		if l.spent = r.Attempts > e.cfg.MaxAttempts; l.spent {
			r.giveUp()
		}
		l.lease(r, claim, now)
		return true
	})
	l.record, l.revision = record, at
	if err == nil && outcome == ours {
		l.ctx, l.abort = context.WithCancelCause(e.contextOf(record))
		if l.before > 0 {
			l.takenOver()
		}
	}
	return l, outcome, err
}

func (e *Engine) newLive(k key) *live {
	l := &live{e: e, key: k, busy: map[int]bool{}, parallel: make(chan struct{}, e.cfg.Concurrency)}
	l.idle, l.checked = sync.NewCond(&l.mu), sync.NewCond(&l.mu)
	return l
}

// lease makes the call this worker's and marks what starts at once.
func (l *live) lease(r *Record, claim uint64, now time.Time) {
	r.Epoch++
	l.epoch = r.Epoch
	r.Lease = &Lease{Worker: l.e.id, Claim: claim, Inbox: l.e.inbox, Epoch: r.Epoch, Until: now.Add(l.e.cfg.Lease).UnixMilli()}
	l.claimStarts(r, now)
}

// giveUp settles a call that has lost too many workers.
func (r *Record) giveUp() {
	for i := range r.Entries {
		if r.Entries[i].State != Done {
			r.interrupt(i, "not started: "+spentReason+"; its dead letter says more")
		}
	}
}

// claimStarts marks what may start now as running, in the same write. A worker
// that is stopping starts nothing any more.
func (l *live) claimStarts(r *Record, now time.Time) {
	if !r.Stopped && l.e.base.Err() == nil {
		r.start(r.startable(), now.UnixMilli())
	}
}

// task is something to do for one entry.
type task struct {
	kind  taskKind
	index int
}

type taskKind uint8

const (
	runTask taskKind = iota
	checkTask
	askTask
)

// due are the tasks that the record calls for and that are not under way.
// Called with mu held.
func (l *live) due() []task {
	var list []task
	stopping := l.e.base.Err() != nil // then only what is running is seen to its end
	for i := range l.record.Entries {
		e := &l.record.Entries[i]
		if l.busy[i] {
			continue
		}
		switch {
		case e.State == Running:
			list = append(list, task{runTask, i})
		case stopping:
			continue
		case e.State == Received && !e.ready():
			list = append(list, task{checkTask, i})
		case e.State == Awaiting && !e.Asked:
			list = append(list, task{askTask, i})
		default:
			continue
		}
		l.busy[i] = true
	}
	return list
}

// run does everything that can be done now and returns when nothing of the call
// is under way: it is final, or it waits for people and the lease is given up,
// or another worker has it.
func (l *live) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spawn(l.due())
	for {
		for l.tasks > 0 {
			l.idle.Wait()
		}
		if l.leave() {
			return
		}
	}
}

// spawn starts tasks. Called with mu held.
func (l *live) spawn(list []task) {
	l.tasks += len(list)
	for _, t := range list {
		go func() {
			defer l.ended()
			switch t.kind {
			case runTask:
				l.runEntry(t.index)
			case checkTask:
				l.checkEntry(t.index)
			case askTask:
				l.askEntry(t.index)
			}
		}()
	}
}

// ended is the end of a task; run waits for the last.
func (l *live) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks--; l.tasks == 0 {
		l.idle.Broadcast()
	}
}

// leave closes the call, or gives the lease up while it waits for people. It
// returns false when there is more to do after all. Called with mu held, and no
// task under way.
func (l *live) leave() bool {
	if l.lost || l.record.Final {
		return true
	}
	err := l.write(func(r *Record) bool {
		if r.allDone() {
			return true // write closes it
		}
		l.claimStarts(r, time.Now())
		if r.count(Running) > 0 || r.undecided() && l.e.base.Err() == nil {
			return true
		}
		r.Lease = nil // for people, or for another worker when this one is stopping
		return true
	})
	if err != nil {
		if !errors.Is(err, errLost) {
			l.e.log.WarnContext(l.ctx, "a call's record could not be written; another worker takes over", "call", l.key.String(), "error", err)
		}
		l.lost = true
		return true
	}
	if l.record.Final || l.record.Lease == nil {
		return true
	}
	list := l.due()
	l.spawn(list)
	return len(list) == 0
}

// undecided reports whether an entry waits for checks, or to be asked for.
func (r *Record) undecided() bool {
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.State == Received && !e.ready() || e.State == Awaiting && !e.Asked {
			return true
		}
	}
	return false
}

// unfinished reports whether a call that nobody holds has something to do.
func (r *Record) unfinished() bool {
	return !r.Final && r.Lease == nil && (len(r.startable()) > 0 || r.undecided() || r.allDone())
}

// errLost says that the lease went to another worker.
var errLost = errors.New("another worker has taken over")

// write applies a change under the lease; a record whose entries are all done is
// closed by the same write, and the lease is renewed by every other. While the
// journal can not be reached it is tried again: what happened is known here only.
// Called with mu held.
func (l *live) write(f func(*Record) bool) error {
	for {
		err := l.writeOnce(f)
		if err == nil || errors.Is(err, errLost) || lasting(err) || !l.e.wait(writeRetry) {
			return err
		}
		l.e.log.DebugContext(l.ctx, "a call's record could not be written; it is tried again", "call", l.key.String(), "error", err)
	}
}

const (
	writeRetry = 200 * time.Millisecond
	// writeGrace is how long a worker that is stopping goes on trying.
	writeGrace = 5 * time.Second
)

func (l *live) writeOnce(f func(*Record) bool) error {
	lost := false
	var closing error
	record, revision, err := l.e.journal.change(l.e.writing(), l.key, l.record, l.revision, func(r *Record) bool {
		lost, closing = false, nil
		if r.Final && r.Closed == l.epoch {
			return false // by this very write, whose answer was lost
		}
		if lost = r.Final || r.Lease == nil || r.Lease.Epoch != l.epoch; lost {
			return false
		}
		if !f(r) {
			return false
		}
		switch {
		case r.allDone():
			if closing = l.e.close(l.e.writing(), l.key, r, nil); closing != nil {
				return false
			}
			r.Lease, r.Closed = nil, l.epoch
		case r.Lease != nil:
			r.Lease.Until = time.Now().Add(l.e.cfg.Lease).UnixMilli()
		}
		return true
	})
	switch {
	case err != nil:
		return err
	case closing != nil:
		return closing
	}
	l.record, l.revision = record, revision
	if lost {
		l.lost = true
		return errLost
	}
	return nil
}

// writing is the context of journal writes: they outlive the worker's grace, so
// that what happened is written down.
func (e *Engine) writing() context.Context { return context.WithoutCancel(e.base) }

// done is what every task ends with: a change, and the tasks that follow from it.
func (l *live) done(index int, f func(*Record) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.checked.Broadcast()
	delete(l.busy, index)
	if l.lost {
		return errLost
	}
	err := l.write(func(r *Record) bool {
		if !f(r) {
			return false
		}
		if !r.allDone() {
			l.claimStarts(r, time.Now())
		}
		return true
	})
	if err == nil {
		l.obey()
	}
	return err
}

// runEntry sends one entry and writes its outcome down.
func (l *live) runEntry(index int) {
	l.mu.Lock()
	entry, record := l.record.Entries[index], l.record
	l.mu.Unlock()
	if entry.Parallel {
		l.parallel <- struct{}{}
		defer func() { <-l.parallel }()
	}
	k := l.key
	id := executionID(k.id, index)
	l.e.event(k, record.Trace, subjects.Event{Type: subjects.EventToolStarted, Index: ptr(index), Tool: entry.Name})
	tool := entry.Tool
	if tool == "" {
		tool = entry.Name
	}
	ctx, span := l.attempt(l.ctx, record, index, &entry)
	began := time.Now()
	response, slotErr := l.e.executor.Execute(ctx, Execution{
		Tenant: k.tenant, Session: k.session, ID: id, Name: entry.Name, Tool: tool, Toolset: entry.Toolset, Registry: entry.Registry,
		SHA256: entry.SHA256, Arguments: entry.Arguments, IdempotencyKey: idempotencyKey(k.tenant, k.session, id),
		StartBy: l.startBy(), Timeout: l.e.cfg.Timeout, Repeatable: entry.Repeatable, Trace: span.Values(record.Trace), Sent: l.e.sent(k),
	})
	l.e.cfg.Tracer.Content(span, tracing.GenAIToolResult, response)
	l.attempted(span, &entry, began, slotErr)
	l.e.step(StepReplied, k)
	handBack := slotErr != nil && slotErr.Code == subjects.CodeInterrupted && l.e.base.Err() != nil
	slotErr = entry.truth(slotErr)
	if slotErr == nil && l.e.checks != nil {
		// The result is there; neither a stop nor the worker's end keeps a hook
		// from seeing it.
		response, slotErr = l.e.checks.After(l.e.writing(), l.check(index, entry, record), response)
	}
	kept, err := l.e.keep(l.e.writing(), response)
	if err != nil && slotErr == nil {
		slotErr = &subjects.SlotError{Code: subjects.CodeResultTooLarge, Message: entry.Name + " has run, but its result could not be kept: " + err.Error()}
	}
	if slotErr != nil {
		kept = nil
	}
	err = l.done(index, func(r *Record) bool {
		if handBack && !r.Stopped { // it was not sent; another worker does it
			r.unstart(index)
			return true
		}
		r.finish(index, kept, slotErr)
		return true
	})
	if handBack && err == nil {
		return
	}
	if errors.Is(err, errLost) {
		l.e.late(k, record, index, response, slotErr)
		return
	}
	if err != nil {
		l.giveAway(err)
		return
	}
	l.e.finished(k, record, index, slotErr)
}

// startBy is until when what is sent now may start: well before the lease ends,
// after which another worker may settle the call without it.
func (l *live) startBy() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost || l.record.Lease == nil {
		return time.Time{}
	}
	return time.UnixMilli(l.record.Lease.Until).Add(-l.e.cfg.Lease / 3)
}

// giveAway ends this worker's part of a call that it can no longer write.
func (l *live) giveAway(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.checked.Broadcast()
	l.lost = true
	l.e.log.WarnContext(l.ctx, "a call's record could not be written; another worker takes over", "call", l.key.String(), "error", err)
}

func (l *live) check(index int, entry Entry, record *Record) Check {
	return Check{Tenant: l.key.tenant, Session: l.key.session, CallID: l.key.id, Index: index, Tool: entry.Name, Arguments: entry.Arguments, Trace: l.e.traceOf(record, index)}
}

// hold and release keep what this worker works on, for pokes and for Stop.
func (e *Engine) hold(l *live) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[l.key] = l
}

func (e *Engine) release(l *live) {
	l.abort(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live[l.key] == l { // a later claim of this worker stays
		delete(e.live, l.key)
	}
}

// heartbeat keeps the message and the lease alive until the returned function is
// called, and follows what others write.
func (e *Engine) heartbeat(l *live, msg jetstream.Msg) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(e.cfg.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if msg != nil {
					_ = msg.InProgress()
				}
				l.renew()
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// renew writes the lease further and obeys what the record says by then.
func (l *live) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost || l.record.Final || l.record.Lease == nil {
		return
	}
	err := l.write(func(r *Record) bool {
		l.claimStarts(r, time.Now())
		return true
	})
	if err != nil {
		return // the next write says more
	}
	l.obey()
}

// obey cancels what runs when a stop has been here, and starts what a decision
// has freed. Called with mu held.
func (l *live) obey() {
	if l.record.Stopped && !l.stopped {
		l.stopped = true
		l.abort(errStopped)
	}
	if !l.record.Final {
		l.spawn(l.due())
	}
}

// executionID names one execution of a call.
func executionID(callID string, index int) string { return callID + "." + itoa(index) }

// late reports a true answer that came after the outcome was settled without it.
func (e *Engine) late(k key, r *Record, index int, response json.RawMessage, err *subjects.SlotError) {
	event := subjects.Event{Type: subjects.EventToolLate, Index: ptr(index), Tool: r.Entries[index].Name, IsError: ptr(err != nil), Response: response}
	if err != nil {
		event.Code = err.Code
	}
	e.event(k, r.Trace, event)
	e.audit(k, r, index, subjects.AuditRecord{Type: string(subjects.EventToolLate), Code: event.Code, Response: response})
}
