package connectors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"toolbridge/state"
)

// Gateway is everything that a worker needs of the hosted gateway. Start it before
// the worker that uses it, and Stop it after.
type Gateway struct {
	Client      *Client
	Breakers    *Breakers
	Credentials Credentials // of the configuration, then guests'
	// Identities are the guests'; nil before Start, and without shared state.
	Identities *Identities
	// Accounts are the buckets of what belongs to users' accounts; nil as Identities.
	Accounts *state.Accounts

	cfg    Config
	nc     *nats.Conn
	state  *state.State
	guests *lateGuests

	available availability

	mu               sync.Mutex
	started, stopped bool
}

// New checks the configuration and makes a Gateway that is not started. It sends
// nothing. Without st the breakers are this worker's alone, and there are no guests.
func New(cfg Config, nc *nats.Conn, st *state.State) (*Gateway, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.SearchWait == 0 {
		cfg.SearchWait = time.Second
	}
	if st != nil && nc == nil {
		return nil, errors.New("a gateway with shared state needs a NATS connection")
	}
	g := &Gateway{cfg: cfg, nc: nc, state: st, guests: &lateGuests{}}
	chain := Chain{}
	if cfg.Client.Credentials != nil {
		chain = append(chain, cfg.Client.Credentials)
	}
	g.Credentials = append(chain, g.guests)
	client := cfg.Client
	client.Credentials = g.Credentials
	client.Metrics = cfg.Metrics
	if client.Transport == nil {
		client.Transport = cfg.Tracer.Transport
	}
	var err error
	if g.Client, err = NewClient(client); err != nil {
		return nil, err
	}
	breaker, outer := cfg.Breaker, cfg.Breaker.OnTransition
	breaker.Metrics = cfg.Metrics
	breaker.OnTransition = func(tenant, from, to string) {
		if to == StateOpen {
			g.Client.CloseIdle() // of a gateway that is gone
		}
		cfg.Metrics.BreakerChanged(to)
		if outer != nil {
			outer(tenant, from, to)
		}
	}
	g.Breakers = newBreakers(breaker, cfg.Logger)
	return g, nil
}

// Config is the configuration with its defaults filled in.
func (g *Gateway) Config() Config { return g.cfg }

// Start opens the shared state that is missing and begins to follow the fleet's
// breakers. It may be called once.
func (g *Gateway) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started || g.stopped {
		return errors.New("starting the gateway: it was started or stopped before")
	}
	g.started = true
	if g.state == nil {
		return nil
	}
	js, err := jetstream.New(g.nc)
	if err != nil {
		return fmt.Errorf("starting the gateway: %w", err)
	}
	if g.Accounts, err = state.OpenAccounts(ctx, js, g.cfg.State); err != nil {
		return fmt.Errorf("starting the gateway: %w", err)
	}
	// Hosts use this one, and may have no right to create it.
	if _, err := state.OpenServers(ctx, js, g.cfg.State); err != nil {
		return fmt.Errorf("starting the gateway: %w", err)
	}
	g.Identities = NewIdentities(IdentitiesConfig{Create: g.Client.CreateGuest, State: g.state, Disabled: g.cfg.NoGuests}, g.Accounts.Identities)
	g.guests.Store(g.Identities)
	if g.cfg.Breaker.Disabled {
		return nil
	}
	kv, err := state.OpenBreakers(ctx, js, g.cfg.State)
	if err != nil {
		return fmt.Errorf("starting the gateway: %w", err)
	}
	f := newFleet(g.Breakers, g.nc, g.state, kv, g.Client.Origin(), nuid.Next(), g.cfg.Logger)
	g.Breakers.fleet = f
	if err := f.start(ctx); err != nil {
		f.stop(ctx)
		return fmt.Errorf("starting the gateway: %w", err)
	}
	return nil
}

// Stop ends what Start began and closes idle connections; ctx bounds how long it
// tells the other workers what they do not know yet. It may be called twice, or
// before Start.
func (g *Gateway) Stop(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil
	}
	g.stopped = true
	if g.Breakers.fleet != nil {
		g.Breakers.fleet.stop(ctx)
	}
	g.Client.CloseIdle()
	return nil
}

// User is whose account a session uses: its grant's user, in dev the configured
// one where there is none. ok is false when there is nobody.
func (g *Gateway) User(tenant, user string) (who Who, ok bool) {
	if user == "" {
		user = g.cfg.DevUser
	}
	return Who{Tenant: tenant, User: user}, user != ""
}

// Available reports whether connectors exist for a user: they are enabled, and the
// user has an identity that may use them, is a guest, or may become one. Whatever
// keeps that from being known means no. g may be nil. It sends nothing to the
// gateway, and believes an answer for two seconds.
func (g *Gateway) Available(ctx context.Context, who Who) bool {
	if g == nil || g.cfg.Disabled || who.User == "" {
		return false
	}
	now := time.Now()
	if yes, ok := g.available.get(who, now); ok {
		return yes
	}
	yes := g.allowed(ctx, who)
	if ctx.Err() == nil {
		g.available.put(who, yes, now)
	}
	return yes
}

func (g *Gateway) allowed(ctx context.Context, who Who) bool {
	cred, err := g.Credentials.Token(ctx, who)
	switch {
	case err == nil:
		return cred.Guest || cred.ManagedTools
	case errors.Is(err, ErrNoIdentity):
		guests := g.guests.Load()
		return guests != nil && !g.cfg.NoGuests && guests.Allowed(ctx, who)
	}
	return false
}

// lateGuests are the guests' credentials, known from Start on.
type lateGuests struct{ atomic.Pointer[Identities] }

// Token implements Credentials.
func (l *lateGuests) Token(ctx context.Context, who Who) (Credential, error) {
	if g := l.Load(); g != nil {
		return g.Token(ctx, who)
	}
	return Credential{}, ErrNoIdentity
}

// Refused tells the guests that the gateway refused a token.
func (l *lateGuests) Refused(who Who, token string) {
	if g := l.Load(); g != nil {
		g.Refused(who, token)
	}
}

const (
	believeFor    = 2 * time.Second
	maxBelievedIn = 20_000 // users
)

// availability is what was found out a moment ago.
type availability struct {
	mu    sync.Mutex
	known map[Who]believed
}

type believed struct {
	yes   bool
	until time.Time
}

func (a *availability) get(who Who, now time.Time) (yes, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, ok := a.known[who]
	return b.yes, ok && now.Before(b.until)
}

func (a *availability) put(who Who, yes bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxBelievedIn {
		clear(a.known)
	}
	if a.known == nil {
		a.known = map[Who]believed{}
	}
	a.known[who] = believed{yes, now.Add(believeFor)}
}
