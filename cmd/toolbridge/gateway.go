package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/cmd/toolbridge/internal/config"
	"toolbridge/connectors"
	"toolbridge/state"
	"toolbridge/worker"
)

const (
	// tokenEnv is where the gateway's token is looked for without gateway.token_env.
	tokenEnv = "TOOLBRIDGE_GATEWAY_TOKEN"
	// devUser is whose accounts a session without a user has, in dev.
	devUser = "dev"
)

// gatewayFlags are those of daemons that run a worker.
type gatewayFlags struct {
	Gateway string `placeholder:"URL" env:"TOOLBRIDGE_GATEWAY" help:"Hosted gateway of connectors; wins over gateway.url of the configuration."`
}

// checkGateway says whether the flag can be used.
func (f gatewayFlags) checkGateway() error {
	if f.Gateway == "" {
		return nil
	}
	u, err := url.Parse(f.Gateway)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return usagef("--gateway: an address that begins with https:// or http:// is expected, without user, query and fragment")
	}
	return nil
}

// startGateway starts the gateway of the flag or the configuration; nil where neither
// names one.
func startGateway(ctx context.Context, p *program, f gatewayFlags, cfg config.Config, wc worker.Config, nc *nats.Conn, log *slog.Logger) (*connectors.Gateway, error) {
	var g *connectors.Gateway
	err := state.Retry(ctx, log, func(ctx context.Context) (err error) {
		if g, err = gatewayOf(ctx, p, f, cfg, wc, nc, log); g == nil || err != nil {
			return err
		}
		if err = g.Start(ctx); err != nil {
			stopGateway(ctx, g)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// gatewayGrace is how long the last word to the other workers may take.
const gatewayGrace = 3 * time.Second

// stopGateway ends a gateway, nil too, after the worker that uses it.
func stopGateway(ctx context.Context, g *connectors.Gateway) {
	if g == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gatewayGrace)
	defer cancel()
	_ = g.Stop(ctx) // nothing is left to do about it
}

// gatewayOf is the gateway that is not started.
func gatewayOf(ctx context.Context, p *program, f gatewayFlags, cfg config.Config, wc worker.Config, nc *nats.Conn, log *slog.Logger) (*connectors.Gateway, error) {
	g := cfg.Gateway
	if f.Gateway != "" {
		g.URL = f.Gateway
	}
	if g.URL == "" {
		return nil, nil
	}
	credentials, err := credentialsOf(p, g, wc, nc, log)
	if err != nil {
		return nil, err
	}
	st, err := state.Open(ctx, nc, wc.Space, wc.State)
	if err != nil {
		return nil, err
	}
	gc := connectors.Config{
		Client:   clientConfig(g, credentials, wc.Version),
		Breaker:  connectors.BreakerConfig{Disabled: !cfg.Breaker.Enabled, Threshold: cfg.Breaker.Threshold, Cooldown: cfg.Breaker.Cooldown},
		Disabled: !cfg.Connectors.Enabled, NoGuests: !cfg.Guest, SearchWait: cfg.Connectors.SearchWait, Single: cfg.Connectors.Batching == "single",
		ReturnTo: g.ReturnTo, Space: wc.Space, State: wc.State, Logger: log,
		Tracer: wc.Tracer, Metrics: wc.Metrics,
	}
	if wc.Dev {
		gc.DevUser = devUser
	}
	return connectors.New(gc, nc, st)
}

// clientConfig is how the gateway is reached.
func clientConfig(g config.Gateway, credentials connectors.Credentials, version string) connectors.ClientConfig {
	return connectors.ClientConfig{
		URL: g.URL, PortalURL: g.PortalURL, Credentials: credentials, MaxAnswer: int64(g.MaxAnswer),
		SearchTimeout: g.SearchTimeout, SchemasTimeout: g.SchemasTimeout, ExecuteTimeout: g.ExecuteTimeout, OtherTimeout: g.OtherTimeout,
		CAFile: g.CAFile, Proxy: g.Proxy, UserAgent: "toolbridge/" + version,
	}
}

// credentialsOf is where users' tokens come from: their own by environment, file and
// bus, then the one that all share.
func credentialsOf(p *program, g config.Gateway, wc worker.Config, nc *nats.Conn, log *slog.Logger) (connectors.Credentials, error) {
	var chain connectors.Chain
	if len(g.Credentials.Env) > 0 {
		fixed, err := connectors.TokensFromEnv(g.Credentials.Env, p.lookup)
		if err != nil {
			return nil, err
		}
		chain = append(chain, fixed)
	}
	if g.Credentials.File != "" {
		file, err := connectors.OpenTokenFile(g.Credentials.File)
		if err != nil {
			return nil, err
		}
		chain = append(chain, file)
	}
	if g.Credentials.Subject {
		chain = append(chain, connectors.NewBusCredentials(nc, wc.Space))
	}
	name := g.TokenEnv
	if name == "" {
		name = tokenEnv
	}
	switch token, err := connectors.TokenFromEnv(name, p.lookup); {
	case err == nil:
		chain = append(chain, connectors.Shared(token))
	case g.TokenEnv != "":
		log.Warn("gateway.token_env gives no token: "+err.Error(), "variable", name)
	default:
		if _, set := p.lookup(name); set {
			return nil, fmt.Errorf("the gateway's token: %w", err)
		}
	}
	return chain, nil
}
