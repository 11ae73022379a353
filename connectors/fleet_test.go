package connectors

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

// crew are workers that share a bus, each with a gateway of its own.
type crew struct {
	t      *testing.T
	server *server.Server
	nc     *nats.Conn
	cfg    BreakerConfig

	mu          sync.Mutex
	transitions []string
}

// inBubble runs a test in the time of a bubble, with a real NATS server in it.
func inBubble(t *testing.T, cfg BreakerConfig, f func(t *testing.T, c *crew)) {
	t.Helper()
	runtime.GC() // pools hold timers of other bubbles
	runtime.GC()
	defer func() { runtime.GC(); runtime.GC() }()
	synctest.Test(t, func(t *testing.T) {
		s := bus.Server(t, func(o *server.Options) { o.DontListen = true })
		f(t, &crew{t: t, server: s, nc: bus.Connect(t, s, nats.InProcessServer(s)), cfg: cfg})
	})
}

// worker adds a worker on a connection of its own.
func (c *crew) worker() (*Gateway, *nats.Conn) {
	c.t.Helper()
	nc := bus.Connect(c.t, c.server, nats.InProcessServer(c.server))
	st, err := state.Open(c.t.Context(), nc, subjects.Space{}, state.Config{})
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := c.cfg
	cfg.OnTransition = func(_, from, to string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.transitions = append(c.transitions, from+" "+to)
	}
	g, err := New(Config{Client: ClientConfig{URL: "http://gateway.invalid"}, Breaker: cfg, Logger: slog.New(slog.DiscardHandler)}, nc, st)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := g.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			c.t.Error(err)
		}
	})
	return g, nc
}

// settle lets everything happen that is on its way, which takes no time but for the
// pauses of the library.
func settle() {
	for range 20 {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
}

func (c *crew) states(all ...*Gateway) []string {
	var out []string
	for _, g := range all {
		state, _ := g.Breakers.State("acme")
		out = append(out, state)
	}
	return out
}

func (c *crew) wantStates(want string, all ...*Gateway) {
	c.t.Helper()
	for n, got := range c.states(all...) {
		if got != want {
			c.t.Errorf("worker %d is %s, want %s", n, got, want)
		}
	}
}

func (c *crew) record() breakerRecord {
	c.t.Helper()
	js, err := jetstream.New(c.nc)
	if err != nil {
		c.t.Fatal(err)
	}
	kv, err := js.KeyValue(c.t.Context(), subjects.BucketBreakers)
	if err != nil {
		c.t.Fatal(err)
	}
	keys, err := kv.Keys(c.t.Context())
	if err != nil || len(keys) != 1 {
		c.t.Fatalf("records: %v (%v)", keys, err)
	}
	e, err := kv.Get(c.t.Context(), keys[0])
	if err != nil {
		c.t.Fatal(err)
	}
	var r breakerRecord
	if err := json.Unmarshal(e.Value(), &r); err != nil {
		c.t.Fatal(err)
	}
	return r
}

// rush sends entries through all workers at once, several each, and returns how many
// were let through. Each takes this long and has this outcome.
func (c *crew) rush(takes time.Duration, outcome error, all ...*Gateway) int {
	var through atomic.Int32
	var entries sync.WaitGroup
	for range 20 {
		for _, g := range all {
			entries.Go(func() {
				done, refusal := g.Breakers.Allow(c.t.Context(), "acme")
				if refusal != nil {
					return
				}
				through.Add(1)
				time.Sleep(takes)
				done(outcome)
			})
		}
	}
	entries.Wait()
	return int(through.Load())
}

func TestABreakerOpensAndClosesOnEveryWorkerByOneProbe(t *testing.T) {
	inBubble(t, BreakerConfig{Threshold: 3, Cooldown: 10 * time.Second}, func(t *testing.T, c *crew) {
		one, _ := c.worker()
		two, _ := c.worker()
		three, _ := c.worker()
		for range 3 {
			entry(t, one.Breakers, errTransport)
		}
		settle()
		c.wantStates(StateOpen, one, two, three)
		if n := c.rush(0, nil, one, two, three); n != 0 {
			t.Fatalf("%d entries passed an open breaker", n)
		}
		if r := c.record(); r.State != StateOpen || r.Until.Before(r.At) {
			t.Errorf("the record: %+v", r)
		}
		for round := range 3 { // probes that fail
			time.Sleep(10 * time.Second)
			if n := c.rush(2*time.Second, err503, one, two, three); n != 1 {
				t.Fatalf("round %d: %d probes", round, n)
			}
			settle()
			c.wantStates(StateOpen, one, two, three)
			time.Sleep(5 * time.Second)
			if n := c.rush(0, nil, one, two, three); n != 0 {
				t.Fatalf("round %d: %d entries passed within the cooldown", round, n)
			}
			time.Sleep(5 * time.Second)
			settle()
			c.wantStates(StateHalfOpen, one, two, three)
		}
		if n := c.rush(2*time.Second, nil, one, two, three); n != 1 {
			t.Fatalf("%d probes", n)
		}
		settle()
		c.wantStates(StateClosed, one, two, three)
		if n := c.rush(0, nil, one, two, three); n != 60 {
			t.Errorf("%d entries passed a closed breaker", n)
		}
	})
}

func TestAWorkerThatComesLaterFindsTheBreakerAsItIs(t *testing.T) {
	inBubble(t, BreakerConfig{Threshold: 1, Cooldown: 10 * time.Second}, func(t *testing.T, c *crew) {
		one, _ := c.worker()
		entry(t, one.Breakers, errTransport)
		settle()
		time.Sleep(4 * time.Second)
		two, _ := c.worker()
		c.wantStates(StateOpen, two)
		if _, wait := two.Breakers.State("acme"); wait <= 0 || wait > 6*time.Second {
			t.Errorf("it waits %s", wait)
		}
		time.Sleep(7 * time.Second)
		if n := c.rush(time.Second, nil, two); n != 1 {
			t.Errorf("%d probes", n)
		}
		settle()
		c.wantStates(StateClosed, one, two)
	})
}

func TestAProbeThatTakesLongStaysTheOnlyOne(t *testing.T) {
	inBubble(t, BreakerConfig{Threshold: 1, Cooldown: time.Second}, func(t *testing.T, c *crew) {
		one, _ := c.worker()
		two, _ := c.worker()
		entry(t, one.Breakers, errTransport)
		settle()
		time.Sleep(time.Second)
		done, refusal := one.Breakers.Allow(t.Context(), "acme")
		if refusal != nil {
			t.Fatal(refusal)
		}
		for range 60 {
			time.Sleep(time.Second)
			if n := c.rush(0, nil, one, two); n != 0 {
				t.Fatalf("%d entries passed beside the probe", n)
			}
		}
		done(nil)
		settle()
		c.wantStates(StateClosed, one, two)
	})
}

func TestALostProbersLeaseEnds(t *testing.T) {
	inBubble(t, BreakerConfig{Threshold: 1, Cooldown: time.Second}, func(t *testing.T, c *crew) {
		one, nc := c.worker()
		two, _ := c.worker()
		three, _ := c.worker()
		entry(t, one.Breakers, errTransport)
		settle()
		time.Sleep(time.Second)
		done, refusal := one.Breakers.Allow(t.Context(), "acme")
		if refusal != nil {
			t.Fatal(refusal)
		}
		settle()
		nc.Close() // as when the process is killed
		time.Sleep(leaseTime - 2*time.Second)
		if n := c.rush(0, nil, two, three); n != 0 {
			t.Fatalf("%d entries passed while the lease lasted", n)
		}
		time.Sleep(leaseTime)
		if n := c.rush(time.Second, nil, two, three); n != 1 {
			t.Fatalf("%d probes after it", n)
		}
		settle()
		c.wantStates(StateClosed, two, three)
		done(errTransport) // the lost one's word counts no more for the others
		settle()
		c.wantStates(StateClosed, two, three)
	})
}

func TestWithoutTheSharedStateEachWorkerHasItsOwnBreaker(t *testing.T) {
	inBubble(t, BreakerConfig{Threshold: 2, Cooldown: time.Second}, func(t *testing.T, c *crew) {
		one, _ := c.worker()
		two, _ := c.worker()
		js, err := jetstream.New(c.nc)
		if err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteKeyValue(t.Context(), subjects.BucketBreakers); err != nil {
			t.Fatal(err)
		}
		entry(t, one.Breakers, errTransport)
		entry(t, one.Breakers, errTransport)
		settle()
		c.wantStates(StateOpen, one)
		c.wantStates(StateClosed, two)
		if n := c.rush(0, nil, one); n != 0 {
			t.Errorf("%d entries passed", n)
		}
		time.Sleep(30 * time.Second)
		probes := 0
		for range 10 {
			probes += c.rush(time.Second, nil, one)
			if s := c.states(one)[0]; s == StateClosed {
				break
			}
			time.Sleep(time.Second)
		}
		if probes != 1 {
			t.Errorf("%d probes", probes)
		}
		c.wantStates(StateClosed, one)
	})
}

func TestWorkersThatOpenAtOnceAgree(t *testing.T) {
	inBubble(t, BreakerConfig{Threshold: 1, Cooldown: 10 * time.Second}, func(t *testing.T, c *crew) {
		one, _ := c.worker()
		two, _ := c.worker()
		var both sync.WaitGroup
		for _, g := range []*Gateway{one, two} {
			both.Go(func() { entry(t, g.Breakers, errTransport) })
		}
		both.Wait()
		settle()
		c.wantStates(StateOpen, one, two)
		time.Sleep(11 * time.Second)
		if n := c.rush(time.Second, nil, one, two); n != 1 {
			t.Errorf("%d probes", n)
		}
		settle()
		c.wantStates(StateClosed, one, two)
	})
}

func TestAnotherGatewaysBreakerIsAnother(t *testing.T) {
	inBubble(t, BreakerConfig{Threshold: 1}, func(t *testing.T, c *crew) {
		one, _ := c.worker()
		two, nc := c.worker()
		st, err := state.Open(t.Context(), nc, subjects.Space{}, state.Config{})
		if err != nil {
			t.Fatal(err)
		}
		other, err := New(Config{Client: ClientConfig{URL: "http://other.invalid"}, Logger: slog.New(slog.DiscardHandler)}, nc, st)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Stop(context.Background()) }()
		entry(t, one.Breakers, errTransport)
		settle()
		if diff := cmp.Diff([]string{StateOpen, StateOpen, StateClosed}, c.states(one, two, other)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatOthersWriteIsJudgedBeforeItIsObeyed(t *testing.T) {
	inBubble(t, BreakerConfig{Threshold: 1, Cooldown: 10 * time.Second}, func(t *testing.T, c *crew) {
		one, _ := c.worker()
		js, err := jetstream.New(c.nc)
		if err != nil {
			t.Fatal(err)
		}
		kv, err := js.KeyValue(t.Context(), subjects.BucketBreakers)
		if err != nil {
			t.Fatal(err)
		}
		put := func(value string) {
			if _, err := kv.Put(t.Context(), one.Breakers.fleet.key("acme"), []byte(value)); err != nil {
				t.Fatal(err)
			}
			settle()
		}
		for _, value := range []string{"", "garbage", "{}", `{"state":"melted","worker":"x"}`, `[]`} {
			put(value)
			c.wantStates(StateClosed, one)
		}
		put(`{"state":"open","worker":"x","at":"2000-01-01T00:00:00Z","until":"2999-01-01T00:00:00Z","beat":0}`)
		if state, wait := one.Breakers.State("acme"); state != StateOpen || wait > 10*time.Second {
			t.Errorf("%s for %s: a foreign clock decides", state, wait)
		}
		time.Sleep(11 * time.Second)
		if n := c.rush(time.Second, nil, one); n != 1 {
			t.Errorf("%d probes", n)
		}
	})
}
