package call

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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
	busy       map[int]bool             // entries with a task under way
	lost       bool                     // another worker has taken over
	spent      bool                     // this claim was one too many
	before     uint64                   // epoch of the lost worker that had the call before; 0: none
	lostWorker string                   // that one
	lostStarts []lostStart              // what it had running
	stopped    bool                     // a stop was seen, the executions are cancelled
	slot       *slot                    // where the call has its place, until it is parked
	audits     []jetstream.PubAckFuture // records of the audit on their way
	parked     bool                     // it waits for a person and holds no slot
	tasks      int                      // under way
	idle       *sync.Cond               // on mu: the last task has ended
	parallel   chan struct{}
	checked    *sync.Cond // on mu: an entry's task has ended
}

// claim results.
type claimed uint8

const (
	ours claimed = iota
	isFinal
	held    // by another worker that is alive
	isEmpty // the record is a stop's that came before its call
)

// spentReason is why a call that loses every worker ends.
const spentReason = "every worker that took this call was lost"

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
	var taken bool // from a worker that was lost
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
		outcome, taken = ours, r.Lease != nil
		l.before, l.lostStarts = 0, nil
		if taken {
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
		if taken {
			e.auditAgain(k, record)
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
