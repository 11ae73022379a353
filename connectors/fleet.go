package connectors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

const (
	// leaseTime is how long the fleet's probe stays with a worker of which nothing is
	// heard. It is measured by each other worker from when it saw the last sign, so
	// that clocks need not agree.
	leaseTime   = 5 * time.Second
	leaseRenew  = 1500 * time.Millisecond
	maxProbe    = 5 * time.Minute // renewed no longer
	claimWithin = 2 * time.Second
	slowClaims  = 3 // claims that found no answer before a worker probes on its own
	writeWithin = 2 * time.Second
	writeAgain  = time.Second
	maxWrites   = 10 // tries to tell the fleet of one change
)

// breakerRecord is a tenant's breaker as the fleet shares it, in the bucket
// toolbridge_breakers under <origin>.<tenant>. Every change is a compare-and-set.
type breakerRecord struct {
	State  string    `json:"state"` // closed, open, half_open
	Worker string    `json:"worker"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until"` // open: when the cooldown ends
	Beat   int       `json:"beat"`  // half_open: signs of life of the worker that probes
}

// fleet shares what workers learn about the gateway. What it can not tell or hear,
// because the bucket can not be reached, leaves each worker to its own breaker.
type fleet struct {
	b      *Breakers
	nc     *nats.Conn
	state  *state.State
	kv     jetstream.KeyValue
	origin string // token of a key
	worker string
	log    *slog.Logger

	base   context.Context
	cancel context.CancelFunc
	owned  sync.WaitGroup

	mu      sync.Mutex
	waiting map[*circuit]bool // to be written
	wake    chan struct{}
	ended   bool
}

func newFleet(b *Breakers, nc *nats.Conn, st *state.State, kv jetstream.KeyValue, origin, worker string, log *slog.Logger) *fleet {
	sum := sha256.Sum256([]byte(origin))
	f := &fleet{
		b: b, nc: nc, state: st, kv: kv, origin: hex.EncodeToString(sum[:8]), worker: worker, log: log,
		waiting: map[*circuit]bool{}, wake: make(chan struct{}, 1),
	}
	f.base, f.cancel = context.WithCancel(context.Background())
	return f
}

func (f *fleet) key(tenant string) string { return f.origin + "." + tenant }

// start follows the bucket; it returns when what stands there has been read.
func (f *fleet) start(ctx context.Context) error {
	w, err := f.kv.Watch(f.base, f.origin+".*")
	if err != nil {
		return fmt.Errorf("watching %s: %w", subjects.BucketBreakers, err)
	}
	ready := make(chan struct{})
	f.owned.Go(func() { f.follow(w, ready) })
	f.owned.Go(f.write)
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("reading %s: %w", subjects.BucketBreakers, ctx.Err())
	}
}

// follow hears records until the end; a watch that ends is made anew.
func (f *fleet) follow(w jetstream.KeyWatcher, ready chan struct{}) {
	for {
		f.listen(w, ready)
		ready = nil
		for w = nil; w == nil; {
			if !f.pause(writeAgain) {
				return
			}
			var err error
			if w, err = f.kv.Watch(f.base, f.origin+".*"); err != nil {
				f.log.Debug("watching the breakers of the fleet", "error", err)
			}
		}
	}
}

// listen hears records until the watch ends, and closes ready after those that stood
// there.
func (f *fleet) listen(w jetstream.KeyWatcher, ready chan struct{}) {
	defer func() { _ = w.Stop() }()
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case ok && e != nil:
				if e.Operation() == jetstream.KeyValuePut {
					f.heard(strings.TrimPrefix(e.Key(), f.origin+"."), e.Value(), e.Revision())
				}
			default:
				if ready != nil {
					close(ready)
					ready = nil
				}
				if !ok {
					return
				}
			}
		case <-f.base.Done():
			return
		}
	}
}

// pause waits; false means that everything ends.
func (f *fleet) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.base.Done():
		return false
	}
}

// stop ends everything and then writes what others have still to be told, as long as
// ctx lasts.
func (f *fleet) stop(ctx context.Context) {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.cancel()
	f.owned.Wait()
	for _, c := range f.list() {
		if err := f.writeOne(ctx, c); err != nil {
			return // the others do without
		}
	}
}

// heard takes a record of another worker, or an own one that came back.
func (f *fleet) heard(tenant string, value []byte, revision uint64) {
	if subjects.CheckToken("tenant", tenant) != nil {
		return
	}
	var r breakerRecord
	if err := subjects.Decode(value, &r); err != nil {
		f.log.Warn("a breaker's record can not be read", "tenant", tenant, "error", err)
		return
	}
	c := f.b.circuit(tenant)
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision <= c.revision {
		return
	}
	c.revision = revision
	if r.Worker != f.worker {
		f.obey(c, r)
	}
}

// obey follows another worker's record. The circuit is locked.
func (f *fleet) obey(c *circuit, r breakerRecord) {
	now := time.Now()
	switch r.State {
	case StateOpen:
		c.until = now.Add(min(max(0, r.Until.Sub(now)), f.b.cfg.Cooldown)) // their clock may be another
		c.other, c.probe, c.tell = time.Time{}, 0, ""
		f.b.turn(c, StateOpen)
	case StateHalfOpen:
		c.other = now.Add(leaseTime)
		c.probe, c.tell = 0, ""
		if c.state == StateClosed {
			c.until = now
		}
		f.b.turn(c, StateHalfOpen)
	case StateClosed:
		if c.tell == StateOpen && c.probe == 0 { // what this worker saw is newer
			return
		}
		c.tell = ""
		if c.state != StateClosed {
			f.b.close(c)
		}
	}
}

// claim takes the fleet's one probe for this worker, where it is that of the id. When
// the bucket can not be reached this worker's own is enough; a server that is only
// slow is asked again first.
func (f *fleet) claim(ctx context.Context, c *circuit, id uint64) bool {
	if !f.nc.IsConnected() {
		return true
	}
	limited, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	for {
		c.mu.Lock()
		wanted, revision := c.probe == id, c.revision
		c.mu.Unlock()
		if !wanted { // another's probe was heard of; what it wrote must not be written over
			return false
		}
		now := time.Now().UTC()
		got, err := f.put(limited, c, breakerRecord{State: StateHalfOpen, Worker: f.worker, At: now, Until: now}, revision)
		if err == nil && got == beaten && limited.Err() == nil {
			continue // by an older write of its own
		}
		if err == nil {
			c.mu.Lock()
			c.slow = 0
			c.mu.Unlock()
			return got == wrote
		}
		if ctx.Err() != nil {
			return false
		}
		if limited.Err() != nil {
			c.mu.Lock()
			c.slow++
			alone := c.slow >= slowClaims
			c.mu.Unlock()
			if !alone {
				return false
			}
		}
		f.log.Warn("the probe of the gateway is this worker's own: the shared state can not be reached", "tenant", c.tenant, "error", err)
		return true
	}
}

// outcome of a compare-and-set.
type casOutcome uint8

const (
	wrote  casOutcome = iota
	lost              // another worker was faster; its record has been obeyed
	beaten            // an own earlier write was, or the record has expired: once more
)

// put writes a record over the revision that this worker knows.
func (f *fleet) put(ctx context.Context, c *circuit, r breakerRecord, revision uint64) (casOutcome, error) {
	value, err := subjects.Encode(r)
	if err != nil {
		return lost, err
	}
	var at uint64
	if revision == 0 {
		at, err = f.kv.Create(ctx, f.key(c.tenant), value)
	} else {
		at, err = f.kv.Update(ctx, f.key(c.tenant), value, revision)
	}
	if err == nil {
		c.mu.Lock()
		c.revision = max(c.revision, at)
		c.mu.Unlock()
		return wrote, nil
	}
	if !raced(err) {
		return lost, fmt.Errorf("writing %s of bucket %s: %w", f.key(c.tenant), subjects.BucketBreakers, err)
	}
	now, at, reading := f.state.GetFresh(ctx, subjects.BucketBreakers, f.key(c.tenant))
	gone := errors.Is(reading, jetstream.ErrKeyNotFound)
	if reading != nil && !gone {
		return lost, reading
	}
	if gone {
		c.mu.Lock()
		c.revision = 0
		c.mu.Unlock()
		return beaten, nil //nolint:nilerr // that it is gone is what was asked
	}
	f.heard(c.tenant, now, at)
	var stands breakerRecord
	if readable := subjects.Decode(now, &stands) == nil; !readable || stands.Worker == f.worker {
		c.mu.Lock()
		c.revision = at
		c.mu.Unlock()
		return beaten, nil
	}
	return lost, nil
}

// raced reports whether a write failed because another came before it.
func raced(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) ||
		errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == errCodeWrongLastConstant)
}

// errCodeWrongLastConstant is the server's other code for a revision that is not the
// last.
const errCodeWrongLastConstant jetstream.ErrorCode = 10164

// renew keeps the fleet's probe while it runs; the function that it returns ends
// that. The circuit is locked.
func (f *fleet) renew(c *circuit, id uint64) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return func() {}
	}
	life, end := context.WithTimeout(f.base, maxProbe)
	f.owned.Go(func() {
		defer end()
		tick := time.NewTicker(leaseRenew)
		defer tick.Stop()
		for beat := 1; ; beat++ {
			select {
			case <-tick.C:
			case <-life.Done():
				return
			}
			c.mu.Lock()
			mine, revision := c.probe == id, c.revision
			c.mu.Unlock()
			if !mine {
				return
			}
			now := time.Now().UTC()
			ctx, cancel := context.WithTimeout(life, leaseRenew)
			_, err := f.put(ctx, c, breakerRecord{State: StateHalfOpen, Worker: f.worker, At: now, Until: now, Beat: beat}, revision)
			cancel()
			if err != nil && life.Err() == nil {
				f.log.Debug("the probe of the gateway could not be renewed", "tenant", c.tenant, "error", err)
			}
		}
	})
	return end
}

// tell has a circuit's change written. The circuit is locked.
func (f *fleet) tell(c *circuit) {
	f.mu.Lock()
	f.waiting[c] = true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// write tells the fleet of changes, one after another.
func (f *fleet) write() {
	for {
		select {
		case <-f.wake:
		case <-f.base.Done():
			return
		}
		for all := f.list(); len(all) > 0; all = f.list() {
			unreached := false
			for _, c := range all {
				unreached = f.writeOne(f.base, c) != nil || unreached
			}
			if f.base.Err() != nil || unreached && !f.pause(writeAgain) {
				return
			}
		}
	}
}

func (f *fleet) list() []*circuit {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*circuit, 0, len(f.waiting))
	for c := range f.waiting {
		all = append(all, c)
	}
	return all
}

// writeOne tries once to write a circuit's change.
func (f *fleet) writeOne(ctx context.Context, c *circuit) error {
	c.mu.Lock()
	told, revision, until := c.tell, c.revision, c.until
	if c.attempts++; told == "" || c.attempts > maxWrites {
		c.tell = ""
		f.told(c)
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	now := time.Now().UTC()
	r := breakerRecord{State: told, Worker: f.worker, At: now, Until: now}
	if told == StateOpen {
		r.Until = until.UTC()
	}
	got, err := f.put(ctx, c, r, revision)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if c.attempts == 1 {
			f.log.Warn("the other workers can not be told of the gateway's breaker", "tenant", c.tenant, "state", told, "error", err)
		}
		return err
	}
	// Of a closing that lost, the other's word is newer. An opening is written over
	// whatever stands there, save another's open or half-open record, which obey took.
	if c.tell == told && (got == wrote || got == lost && told == StateClosed) {
		c.tell = ""
	}
	if c.tell == "" {
		f.told(c)
	}
	return nil
}

// told takes a circuit off the list. The circuit is locked.
func (f *fleet) told(c *circuit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, c)
}
