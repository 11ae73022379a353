package connectors

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newTestBreakers(cfg BreakerConfig) *Breakers {
	return newBreakers(cfg, slog.New(slog.DiscardHandler))
}

var (
	errTimeout   = &Failure{Kind: KindTimeout, Sent: true}
	errTransport = &Failure{Kind: KindTransport}
	err503       = &Failure{Kind: KindServer, Status: 503}
)

// entry runs one entry through a breaker: sent says whether it was let through.
func entry(t testing.TB, b *Breakers, outcome error) (sent bool, refusal *Failure) {
	t.Helper()
	done, refusal := b.Allow(t.Context(), "acme")
	if (done == nil) == (refusal == nil) {
		t.Fatal("Allow must return one of both")
	}
	if refusal != nil {
		return false, refusal
	}
	done(outcome)
	return true, nil
}

// gated runs one entry against a gateway, as callers do.
func gated(t testing.TB, b *Breakers, c *Client) ([]Result, error) {
	t.Helper()
	done, refusal := b.Allow(t.Context(), "acme")
	if refusal != nil {
		return nil, refusal
	}
	r, err := execute(t.Context(), c)
	done(err)
	return r, err
}

func TestK07ToolErrorsKeepTheBreakerClosed(t *testing.T) {
	notFound := well(`{"results":[{"error":{"code":"TOOL_NOT_FOUND","message":"not found"}}]}`)
	o := answering(t, notFound, notFound, notFound, well(`{"results":[{"data":"ok"}]}`))
	b, c := newTestBreakers(BreakerConfig{Threshold: 3}), newTestClient(t, o)
	var last []Result
	for range 4 {
		var err error
		if last, err = gated(t, b, c); err != nil {
			t.Fatal(err)
		}
	}
	if state, _ := b.State("acme"); len(o.heard()) != 4 || string(last[0].Data) != `"ok"` || state != StateClosed {
		t.Errorf("%d requests, last %+v, %s", len(o.heard()), last, state)
	}
}

func TestK08RateLimitsKeepTheBreakerClosedAndPassTheWaitOn(t *testing.T) {
	limited := turn{status: 429, header: http.Header{"Retry-After": {"7"}}}
	o := answering(t, limited, limited, limited, well(`{"results":[{"data":"ok"}]}`))
	b, c := newTestBreakers(BreakerConfig{Threshold: 3}), newTestClient(t, o)
	for range 3 {
		_, err := gated(t, b, c)
		if f := failureOf(t, err); f.Kind != KindRateLimited || f.RetryAfter != 7*time.Second {
			t.Fatalf("%+v", f)
		}
	}
	if _, err := gated(t, b, c); err != nil {
		t.Error(err)
	}
	if state, _ := b.State("acme"); state != StateClosed || len(o.heard()) != 4 {
		t.Errorf("%s after %d requests", state, len(o.heard()))
	}
}

func TestK09AnOpenBreakerClosesAgainByOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var transitions []string
		b := newTestBreakers(BreakerConfig{Threshold: 3, Cooldown: 60 * time.Second, OnTransition: func(tenant, from, to string) {
			transitions = append(transitions, tenant+" "+from+" "+to)
		}})
		var sent []bool
		for _, outcome := range []error{errTimeout, errTimeout, errTimeout, nil} {
			s, refusal := entry(t, b, outcome)
			sent = append(sent, s)
			if !s && (refusal.Kind != KindOpen || refusal.RetryAfter != 60*time.Second || refusal.Sent) {
				t.Errorf("%+v", refusal)
			}
		}
		time.Sleep(59 * time.Second)
		if s, refusal := entry(t, b, nil); s || refusal.RetryAfter != time.Second {
			t.Errorf("before the cooldown is over: %v, %+v", s, refusal)
		}
		if state, wait := b.State("acme"); state != StateOpen || wait != time.Second {
			t.Errorf("%s, %s", state, wait)
		}
		time.Sleep(time.Second)
		if state, wait := b.State("acme"); state != StateHalfOpen || wait != 0 {
			t.Errorf("%s, %s", state, wait)
		}
		for range 2 {
			s, _ := entry(t, b, nil)
			sent = append(sent, s)
		}
		if diff := cmp.Diff([]bool{true, true, true, false, true, true}, sent); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"acme closed open", "acme open half_open", "acme half_open closed"}, transitions); diff != "" {
			t.Error(diff)
		}
		for range 3 { // it counts anew
			entry(t, b, err503)
		}
		if state, _ := b.State("acme"); state != StateOpen {
			t.Errorf("after three more failures: %s", state)
		}
	})
}

func TestK09AFailedProbeKeepsItOpenForOneMoreCooldown(t *testing.T) {
	for name, outcome := range map[string]error{"timeout": errTimeout, "5xx": err503, "garbage": &Failure{Kind: KindMalformed, Status: 200}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestBreakers(BreakerConfig{Threshold: 1, Cooldown: 10 * time.Second})
				entry(t, b, errTransport)
				for range 5 {
					time.Sleep(10 * time.Second)
					if s, _ := entry(t, b, outcome); !s {
						t.Fatal("no probe after the cooldown")
					}
					if s, refusal := entry(t, b, nil); s || refusal.RetryAfter != 10*time.Second {
						t.Fatalf("after the failed probe: %v, %+v", s, refusal)
					}
				}
			})
		})
	}
}

func TestK09ProbesDoNotRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBreakers(BreakerConfig{Threshold: 1, Cooldown: time.Second})
		entry(t, b, errTransport)
		time.Sleep(time.Second)
		var running, most, through atomic.Int32
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				done, refusal := b.Allow(t.Context(), "acme")
				if refusal != nil {
					if refusal.RetryAfter <= 0 {
						t.Errorf("%+v", refusal)
					}
					return
				}
				through.Add(1)
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				done(errTransport)
				done(nil) // counts once
			})
		}
		all.Wait()
		if most.Load() != 1 || through.Load() != 1 {
			t.Errorf("%d probes, %d at once", through.Load(), most.Load())
		}
		if state, _ := b.State("acme"); state != StateOpen {
			t.Errorf("it is %s", state)
		}
	})
}

func TestAProbeThatSaysNothingLetsTheNextOneProbe(t *testing.T) {
	for name, outcome := range map[string]error{"cancelled": &Failure{Kind: KindCancelled}, "no token": &Failure{Kind: KindNoToken, Status: 401}, "caller's own": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestBreakers(BreakerConfig{Threshold: 1, Cooldown: time.Second})
				entry(t, b, errTransport)
				time.Sleep(time.Second)
				for range 3 {
					if s, _ := entry(t, b, outcome); !s {
						t.Fatal("not let through")
					}
				}
				if s, _ := entry(t, b, nil); !s {
					t.Fatal("no probe")
				}
				if state, _ := b.State("acme"); state != StateClosed {
					t.Errorf("it is %s", state)
				}
			})
		})
	}
}

func TestWhatCountsAgainstTheGateway(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string // after this outcome between failures: open, closed, or reset (closed, and counting anew)
	}{
		"5xx":                        {err503, "open"},
		"transport":                  {errTransport, "open"},
		"timeout":                    {errTimeout, "open"},
		"success":                    {nil, "reset"},
		"429":                        {&Failure{Kind: KindRateLimited, Status: 429}, "reset"},
		"400":                        {&Failure{Kind: KindRefused, Status: 400}, "reset"},
		"401":                        {&Failure{Kind: KindAuth, Status: 401}, "reset"},
		"403":                        {&Failure{Kind: KindForbidden, Status: 403}, "reset"},
		"404":                        {&Failure{Kind: KindDark, Status: 404}, "reset"},
		"409":                        {&Failure{Kind: KindConflict, Status: 409}, "reset"},
		"too large":                  {&Failure{Kind: KindTooLarge, Status: 200}, "reset"},
		"malformed":                  {&Failure{Kind: KindMalformed}, "closed"},
		"cancelled":                  {&Failure{Kind: KindCancelled}, "closed"},
		"no token":                   {&Failure{Kind: KindNoToken, Status: 401}, "closed"},
		"a caller in too much haste": {&Failure{Kind: KindTimeout, early: true}, "closed"},
		"never sent":                 {&Failure{Kind: KindRefused}, "closed"},
		"foreign error":              {errors.New("bug"), "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestBreakers(BreakerConfig{Threshold: 3})
			entry(t, b, errTransport)
			entry(t, b, errTransport)
			entry(t, b, c.err)
			if state, _ := b.State("acme"); state != StateOpen && c.want == "open" || state == StateOpen && c.want != "open" {
				t.Fatalf("it is %s", state)
			}
			if c.want == "open" {
				return
			}
			entry(t, b, errTransport)
			if state, _ := b.State("acme"); (state == StateClosed) != (c.want == "reset") {
				t.Errorf("after one more failure it is %s", state)
			}
		})
	}
}

func TestTenantsHaveBreakersOfTheirOwn(t *testing.T) {
	b := newTestBreakers(BreakerConfig{Threshold: 1})
	entry(t, b, errTransport)
	if _, refusal := b.Allow(t.Context(), "other"); refusal != nil {
		t.Error("another tenant is cut off")
	}
	if state, _ := b.State("never seen"); state != StateClosed {
		t.Errorf("a tenant that never came is %s", state)
	}
}

func TestTheDefaultsOfTheBreaker(t *testing.T) {
	b := newTestBreakers(BreakerConfig{})
	for n := range 5 {
		if s, _ := entry(t, b, err503); !s {
			t.Fatalf("cut off after %d failures", n)
		}
	}
	if _, refusal := entry(t, b, nil); refusal == nil || refusal.RetryAfter > 10*time.Second || refusal.RetryAfter < 9*time.Second {
		t.Errorf("%+v", refusal)
	}
	b = newTestBreakers(BreakerConfig{Disabled: true, Threshold: 1})
	for range 20 {
		if s, _ := entry(t, b, err503); !s {
			t.Fatal("a breaker that is switched off refused")
		}
	}
}

func TestManyTenantsAreForgottenAgain(t *testing.T) {
	b := newTestBreakers(BreakerConfig{Threshold: 1})
	entry(t, b, errTransport) // open: not forgotten
	name := func(n int) string { return "t" + string(rune('a'+n%26)) + time.Duration(n).String() }
	for n := range maxCircuits + 100 {
		done, _ := b.Allow(t.Context(), name(n))
		done(nil)
	}
	b.mu.Lock()
	n := len(b.circuits)
	b.mu.Unlock()
	if state, _ := b.State("acme"); n > maxCircuits+1 || state != StateOpen {
		t.Errorf("%d tenants are kept; the open one is %s", n, state)
	}
}
