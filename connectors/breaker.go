package connectors

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"toolbridge/tracing"
)

// States of a breaker.
const (
	StateClosed   = "closed"
	StateOpen     = "open"
	StateHalfOpen = "half_open" // one probe of the whole fleet is let through
)

const (
	defaultThreshold = 5
	defaultCooldown  = 10 * time.Second
	// probeRetry is when to ask again while another's probe is under way.
	probeRetry  = time.Second
	maxCircuits = 10_000 // tenants kept in memory
)

// Breakers are the circuit breakers before one gateway, one for each tenant.
//
// Each worker judges for itself (gobreaker counts entries that failed in a row) and
// tells the others what came of it; see fleet. An entry fails when the gateway could
// not be reached, did not answer in time or answered 5xx. Any other answer, a
// refusal or a rate limit too, proves that the gateway is there and starts the count
// anew. What says nothing about the gateway counts neither way: a caller who went
// away or left it no time, a user without a token.
//
// While a breaker is open nothing is sent. After the cooldown one entry of the whole
// fleet is the probe: when it succeeds the breaker closes on every worker, when it
// fails it stays open for one more cooldown. No lock is held while an entry runs.
type Breakers struct {
	cfg   BreakerConfig
	log   *slog.Logger
	fleet *fleet // nil: this worker alone

	mu       sync.Mutex
	circuits map[string]*circuit
}

// circuit is one tenant's breaker on this worker.
type circuit struct {
	tenant string

	mu    sync.Mutex
	state string
	judge *judge    // of the closed state
	until time.Time // when the cooldown ends; not when closed
	probe uint64    // of the probe that this worker has under way; 0: none
	count uint64    // probes so far
	other time.Time // until when another worker's probe is taken to be under way

	revision uint64 // of the fleet's record that was last seen
	tell     string // the state that the fleet has still to be told of; "": none
	attempts int    // to tell it
	slow     int    // claims in a row that brought no answer
}

// judge decides when a closed breaker opens.
type judge struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	tripped atomic.Bool
}

func newBreakers(cfg BreakerConfig, log *slog.Logger) *Breakers {
	if cfg.Threshold < 1 {
		cfg.Threshold = defaultThreshold
	}
	if cfg.Cooldown <= 0 {
		cfg.Cooldown = defaultCooldown
	}
	return &Breakers{cfg: cfg, log: log, circuits: map[string]*circuit{}}
}

func (b *Breakers) newJudge(tenant string) *judge {
	j := &judge{}
	j.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: tenant, Timeout: b.cfg.Cooldown,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int64(c.ConsecutiveFailures) >= int64(b.cfg.Threshold) },
		IsSuccessful: func(err error) bool { return verdictOf(err) == saysUp },
		IsExcluded:   func(err error) bool { v := verdictOf(err); return v == saysNothing || v == saysGarbage },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				j.tripped.Store(true)
			}
		},
	})
	return j
}

// verdict is what the outcome of an entry says about the gateway.
type verdict uint8

const (
	saysUp      verdict = iota // it is there
	saysDown                   // it is not
	saysNothing                // nothing
	saysGarbage                // it is there, but does not speak as it should: no reason to open, and none to close
)

func verdictOf(err error) verdict {
	if err == nil {
		return saysUp
	}
	f, ok := AsFailure(err)
	if !ok {
		return saysNothing
	}
	switch f.Kind {
	case KindServer, KindTransport:
		return saysDown
	case KindTimeout:
		if f.early {
			return saysNothing
		}
		return saysDown
	case KindNoToken, KindCancelled, KindOpen:
		return saysNothing
	case KindMalformed:
		return saysGarbage
	}
	if f.Status == 0 && f.Kind != KindTooLarge { // refused before it was sent
		return saysNothing
	}
	return saysUp
}

// Allow asks whether an entry may be sent. It may when failure is nil; done must
// then be called once, with the outcome of the whole entry: nil for an answer,
// whatever it says of its tools, or the error. Otherwise failure is KindOpen with the
// time until the next try may be let through, and done is nil.
//
// It waits only where it asks the fleet for the probe, at most two seconds.
func (b *Breakers) Allow(ctx context.Context, tenant string) (done func(err error), failure *Failure) {
	if b.cfg.Disabled {
		return func(error) {}, nil
	}
	if done, failure = b.allow(ctx, tenant); failure != nil {
		b.cfg.Metrics.Count(tracing.BreakerRefused, 1)
	}
	return done, failure
}

func (b *Breakers) allow(ctx context.Context, tenant string) (done func(err error), failure *Failure) {
	c := b.circuit(tenant)
	c.mu.Lock()
	if c.state == StateClosed {
		judge := c.judge
		c.mu.Unlock()
		report, err := judge.Allow()
		if err != nil { // it tripped a moment ago
			return nil, openFailure(b.cfg.Cooldown)
		}
		return onceOnly(func(err error) {
			report(err)
			if judge.tripped.Load() {
				b.trip(c, judge)
			}
		}), nil
	}
	now := time.Now()
	if wait := c.wait(now); wait > 0 {
		c.mu.Unlock()
		return nil, openFailure(wait)
	}
	c.count++
	id := c.count
	c.probe = id
	c.mu.Unlock()

	if b.fleet != nil && !b.fleet.claim(ctx, c, id) { // another worker has the probe
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.probe == id {
			c.probe = 0
		}
		return nil, openFailure(max(c.wait(time.Now()), probeRetry/10))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe != id { // closed by another worker meanwhile
		return nil, openFailure(probeRetry / 10)
	}
	b.turn(c, StateHalfOpen)
	var renewing func()
	if b.fleet != nil {
		renewing = b.fleet.renew(c, id)
	}
	return onceOnly(func(err error) {
		if renewing != nil {
			renewing()
		}
		b.probed(c, id, err)
	}), nil
}

func onceOnly(f func(error)) func(error) {
	var once sync.Once
	return func(err error) { once.Do(func() { f(err) }) }
}

// wait is how long until this worker may try for the probe; 0 when it may now. The
// circuit is locked, and not closed.
func (c *circuit) wait(now time.Time) time.Duration {
	switch {
	case now.Before(c.until):
		return c.until.Sub(now)
	case c.probe != 0, now.Before(c.other):
		return probeRetry
	}
	return 0
}

func openFailure(wait time.Duration) *Failure {
	return &Failure{Kind: KindOpen, Message: "connected apps are not available at the moment: the gateway has failed repeatedly", RetryAfter: wait}
}

// trip opens a circuit whose judge has seen enough.
func (b *Breakers) trip(c *circuit, j *judge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != StateClosed || c.judge != j {
		return
	}
	c.until = time.Now().Add(b.cfg.Cooldown)
	b.turn(c, StateOpen)
	b.tell(c, StateOpen)
}

// probed ends this worker's probe.
func (b *Breakers) probed(c *circuit, id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe != id { // the fleet has decided without it
		return
	}
	c.probe = 0
	switch verdictOf(err) {
	case saysUp:
		b.close(c)
		b.tell(c, StateClosed)
		return
	case saysDown, saysGarbage:
		c.until = time.Now().Add(b.cfg.Cooldown)
	case saysNothing: // the next entry is the probe
		c.until = time.Now()
	}
	b.turn(c, StateOpen)
	b.tell(c, StateOpen)
}

// close lets everything through again. The circuit is locked.
func (b *Breakers) close(c *circuit) {
	c.judge = b.newJudge(c.tenant)
	c.until, c.other, c.probe = time.Time{}, time.Time{}, 0
	b.turn(c, StateClosed)
}

// turn changes a circuit's state. The circuit is locked.
func (b *Breakers) turn(c *circuit, to string) {
	from := c.state
	if from == to {
		return
	}
	c.state = to
	level := slog.LevelInfo
	if to == StateOpen {
		level = slog.LevelWarn
	}
	b.log.Log(context.Background(), level, "circuit breaker before the gateway", "tenant", c.tenant, "from", from, "to", to)
	if b.cfg.OnTransition != nil {
		b.cfg.OnTransition(c.tenant, from, to)
	}
}

// tell has the fleet told of a state. The circuit is locked.
func (b *Breakers) tell(c *circuit, state string) {
	if b.fleet == nil {
		return
	}
	c.tell, c.attempts = state, 0
	b.fleet.tell(c)
}

// State is a tenant's state on this worker and, when it is open, how long until a
// try may be let through. It sends nothing.
func (b *Breakers) State(tenant string) (state string, retryAfter time.Duration) {
	b.mu.Lock()
	c := b.circuits[tenant]
	b.mu.Unlock()
	if c == nil || b.cfg.Disabled {
		return StateClosed, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == StateClosed {
		return StateClosed, 0
	}
	now := time.Now()
	if now.Before(c.until) {
		return StateOpen, c.until.Sub(now)
	}
	return StateHalfOpen, c.wait(now)
}

// Worst is the worst state that any tenant's breaker is in on this worker.
func (b *Breakers) Worst() string {
	b.mu.Lock()
	tenants := make([]string, 0, len(b.circuits))
	for t := range b.circuits {
		tenants = append(tenants, t)
	}
	b.mu.Unlock()
	worst := StateClosed
	for _, t := range tenants {
		switch s, _ := b.State(t); {
		case s == StateOpen:
			return s
		case s != StateClosed:
			worst = s
		}
	}
	return worst
}

func (b *Breakers) circuit(tenant string) *circuit {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[tenant]
	if c == nil {
		if len(b.circuits) >= maxCircuits {
			b.forget()
		}
		c = &circuit{tenant: tenant, state: StateClosed, judge: b.newJudge(tenant)}
		b.circuits[tenant] = c
	}
	return c
}

// forget drops closed circuits that remember nothing worth it.
func (b *Breakers) forget() {
	for tenant, c := range b.circuits {
		c.mu.Lock()
		idle := c.state == StateClosed && c.tell == "" && c.judge.Counts().ConsecutiveFailures == 0
		c.mu.Unlock()
		if idle {
			delete(b.circuits, tenant)
		}
	}
}
