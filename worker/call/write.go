package call

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

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
		l.e.log.Debug("a call's record could not be written; it is tried again", "call", l.key.String(), "error", err)
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
// also are further entries that the task was about.
func (l *live) done(index int, f func(*Record) bool, also ...int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.checked.Broadcast()
	delete(l.busy, index)
	for _, i := range also {
		delete(l.busy, i)
	}
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
	if err == nil && l.record.Final && l.record.Reply.Blob == "" {
		l.e.deliver(l.key, l.record.Reply.JSON) // who waits here need not wait for the rest
	}
	return err
}

// giveAway ends this worker's part of a call that it can no longer write.
func (l *live) giveAway(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.checked.Broadcast()
	l.lost = true
	l.e.log.Warn("a call's record could not be written; another worker takes over", "call", l.key.String(), "error", err)
}

// heartbeat keeps the message and the lease alive until the returned function is
// called, and follows what others write. Most calls end before its first beat.
func (e *Engine) heartbeat(l *live, msg jetstream.Msg) (stop func()) {
	var mu sync.Mutex // held while it beats
	var timer *time.Timer
	stopped := false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(e.cfg.Lease/3, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		if msg != nil {
			_ = msg.InProgress()
		}
		l.renew()
		timer.Reset(e.cfg.Lease / 3)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
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
