package connectors

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"toolbridge/subjects"
)

// news is what a look at the outside found, as a change of the operation.
type news func(*operation) bool

// finding is the news of one target; nil for none.
type finding struct {
	index int
	news
}

// watching is one run that waits on an open operation.
type watching struct {
	m     *Manage
	c     ManageCall
	key   string
	run   string // tells this run's attempts from those of a lost one
	found chan finding
	looks sync.WaitGroup
	busy  map[int]bool // targets that are being looked at
	until time.Time    // nobody is looked at before
	mu    sync.Mutex   // over until
}

// looksAtOnce bounds the targets of one operation that are looked at side by side.
const looksAtOnce = 8

// watch waits until an operation is settled: by what the gateway and MCP hosts say,
// by the user, by its deadline or a stop. Everything that it learns is written before
// it counts.
func (m *Manage) watch(ctx context.Context, c ManageCall, key string) ManageEnd {
	w := &watching{m: m, c: c, key: key, run: nuid.Next(), found: make(chan finding), busy: map[int]bool{}}
	looking, cancel := context.WithCancel(ctx)
	defer w.looks.Wait()
	defer cancel()
	wake, done := m.operations.watch(looking, key)
	defer done()
	o, _, err := m.operations.load(looking, key)
	if err == nil && o.Phase == open {
		if o.Card && c.Parks != nil {
			c.Parks()
		}
		m.event(c.Tenant, c.Session, o, subjects.EventConnectionRequest) // again by each run: the card may be gone
		o, err = w.apply(looking, w.recover)
	}
	tick := time.NewTicker(m.cfg.Tick)
	defer tick.Stop()
	failures := 0
	for {
		switch {
		case err != nil:
			if failures++; failures > maxStoreFailures || !pause(ctx, nil, m.cfg.Tick) {
				return m.unstored(ctx, err)
			}
			o, _, err = m.operations.load(ctx, key)
			continue
		case o.Phase == settled:
			return o.end()
		}
		failures = 0
		w.start(looking, o)
		deadline := time.NewTimer(max(time.Until(o.deadline()), time.Millisecond))
		select {
		case <-wake:
			o, _, err = m.operations.load(ctx, key)
		case f := <-w.found:
			delete(w.busy, f.index)
			if f.news != nil {
				o, err = w.apply(ctx, f.news)
			}
		case <-tick.C:
			if o, _, err = m.operations.load(ctx, key); err == nil && o.Phase == open {
				w.look(looking, o)
			}
		case <-deadline.C:
			o, err = w.apply(ctx, settleBy(settledDeadline))
		case <-c.Stop:
			o, err = w.apply(context.WithoutCancel(ctx), settleBy(settledInterrupt))
		case <-ctx.Done():
			deadline.Stop()
			return ManageEnd{Error: &subjects.SlotError{Code: subjects.CodeInterrupted, Message: "the worker is stopping; another one goes on waiting"}, Again: true}
		}
		deadline.Stop()
	}
}

// maxStoreFailures is for how many looks the bucket may be away.
const maxStoreFailures = 30

func settleBy(by string) news {
	return func(o *operation) bool {
		if o.Phase != open || by == settledDeadline && time.Now().Before(o.deadline()) {
			return false
		}
		o.settle(by)
		return true
	}
}

// apply writes a change, and tells the feed where it counted.
func (w *watching) apply(ctx context.Context, f news) (*operation, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	o, written, err := w.m.operations.change(ctx, w.key, func(o *operation) bool {
		changed := f(o)
		if o.Phase != open {
			return changed
		}
		if !o.Card { // there is nobody to choose
			for i := range o.Targets {
				if t := &o.Targets[i]; t.stuck() {
					t.Chosen, changed = true, true
				}
			}
		}
		if changed {
			o.settleIfResolved()
		}
		return o.hurry(time.Now(), w.m.cfg.Patience) || changed
	})
	if err == nil && written {
		w.m.event(w.c.Tenant, w.c.Session, o, subjects.EventConnectionUpdate)
	}
	return o, err
}

// recover settles what an earlier run had under way: the start of an app's
// connection that was sent is not sent again, that of a server may be.
func (w *watching) recover(o *operation) bool {
	changed := false
	for i := range o.Targets {
		t := &o.Targets[i]
		if t.Start != sent || t.Epoch == w.run || o.Phase != open {
			continue
		}
		changed = true
		if t.MCP {
			t.Start, t.Epoch = wanted, ""
			continue
		}
		t.Start, t.Epoch, t.State, t.URL = "", "", subjects.ConnectionFailed, ""
		t.Detail = mintUnknown("the worker that asked for it was lost").Message
	}
	return changed
}

// start does what the user wants started.
func (w *watching) start(ctx context.Context, o *operation) {
	for i := range o.Targets {
		if o.Targets[i].Start != wanted || w.busy[i] {
			continue
		}
		taken, name := false, o.Targets[i].Name
		now, err := w.apply(ctx, func(o *operation) bool {
			t := &o.Targets[i]
			if taken = o.Phase == open && t.Name == name && t.Start == wanted; taken {
				t.Start, t.Epoch = sent, w.run
			}
			return taken
		})
		if err != nil || !taken {
			continue // the next look finds out
		}
		t := now.Targets[i]
		w.spawn(ctx, i, func() news {
			if t.MCP {
				return w.startServer(ctx, i, t, o.Action)
			}
			return w.retry(ctx, i, t)
		})
	}
}

// spawn runs one look or start; what it found is applied by watch.
func (w *watching) spawn(ctx context.Context, index int, f func() news) {
	w.busy[index] = true
	w.looks.Go(func() {
		select {
		case w.found <- finding{index, f()}:
		case <-ctx.Done():
		}
	})
}

// retry asks the gateway for another link.
func (w *watching) retry(ctx context.Context, index int, t target) news {
	request := MintRequest{Connectors: []string{t.Name}, Reinitiate: true, Alias: t.Alias, ReturnTo: w.m.gateway.Config().ReturnTo}
	if t.Connection != "" {
		request.Alias, request.ConnectionID = "", t.Connection
	}
	reply, err := w.m.mint(ctx, w.c.Who, request)
	return func(o *operation) bool {
		t := &o.Targets[index]
		if o.Phase != open || t.Start != sent || t.Epoch != w.run {
			return false
		}
		t.Start, t.Epoch = "", ""
		if err != nil {
			t.State, t.URL, t.Detail = subjects.ConnectionFailed, "", notMinted(err).Message
			return true
		}
		t.minted(reply, nil)
		if t.State == subjects.ConnectionPending {
			t.State, t.Detail = subjects.ConnectionFailed, "the gateway said nothing about it"
		}
		return true
	}
}

// look reads the state of every target that waits for the outside: once a tick each,
// and none while the gateway asks for patience.
func (w *watching) look(ctx context.Context, o *operation) {
	w.mu.Lock()
	parked := time.Now().Before(w.until)
	w.mu.Unlock()
	for i := range o.Targets {
		t := o.Targets[i]
		if w.busy[i] || len(w.busy) >= looksAtOnce {
			continue
		}
		switch {
		case t.MCP && t.State == subjects.ConnectionInitiated && t.Start == "":
			w.spawn(ctx, i, func() news { return w.lookAtServer(ctx, i, t) })
		case t.watched() && !parked:
			left := time.Until(o.deadline())
			w.spawn(ctx, i, func() news { return w.lookAtAccount(ctx, i, t, left) })
		}
	}
}

func (w *watching) lookAtAccount(ctx context.Context, index int, t target, left time.Duration) news {
	ctx, cancel := context.WithTimeout(ctx, min(max(left, time.Second), 10*time.Second))
	defer cancel()
	var account *Account
	err := w.m.gateway.entry(ctx, w.c.Who.Tenant, func() (err error) {
		account, err = w.m.gateway.Client.Account(ctx, w.c.Who, t.Connection)
		return err
	})
	if f, ok := AsFailure(err); ok && (f.Kind == KindRateLimited || f.Kind == KindOpen) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if until := time.Now().Add(max(f.RetryAfter, time.Second)); until.After(w.until) {
			w.until = until
		}
	}
	if err != nil { // nothing is known; it is looked at again
		return nil
	}
	status := account.Status
	return func(o *operation) bool {
		t := &o.Targets[index]
		return o.Phase == open && t.Connection == account.ConnectionID && t.observe(status)
	}
}
