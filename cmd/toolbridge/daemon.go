package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/cmd/toolbridge/internal/config"
	"toolbridge/cmd/toolbridge/internal/probes"
	"toolbridge/connectors/mcp"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/tracing"
	"toolbridge/worker"
)

// daemonFlags are those of everything that runs until it is stopped.
type daemonFlags struct {
	Config    string        `type:"path" placeholder:"FILE" env:"TOOLBRIDGE_CONFIG" help:"Configuration file (toolbridge.yaml)."`
	LogLevel  string        `enum:",debug,info,warn,error" default:"" env:"TOOLBRIDGE_LOG_LEVEL" placeholder:"LEVEL" help:"Least level of the log on standard error: debug, info, warn or error. Default info, for dev warn."`
	LogFormat string        `enum:"text,json" default:"text" env:"TOOLBRIDGE_LOG_FORMAT" help:"Form of the log: ${enum}."`
	Metrics   string        `name:"metrics" placeholder:"ADDR" env:"TOOLBRIDGE_METRICS" help:"Serve /metrics for Prometheus, /healthz, /readyz and /loglevel at HOST:PORT, such as :9464."`
	Grace     time.Duration `default:"20s" help:"How long running work may take to finish after SIGINT or SIGTERM."`
}

// load reads the configuration and sets the log up, at level unless the flag
// says otherwise; warnings go to the log.
func (f daemonFlags) load(p *program, level slog.Level) (config.Config, *slog.Logger, error) {
	if f.Grace < 0 {
		return config.Config{}, nil, usagef("--grace: must not be negative")
	}
	if f.LogLevel != "" {
		if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
			return config.Config{}, nil, usagef("--log-level: %w", err)
		}
	}
	p.level = new(slog.LevelVar)
	p.level.Set(level)
	log := f.logger(p)
	if _, set := p.lookup("GOGC"); !set {
		// What requests leave behind is small beside what a worker keeps: at Go's
		// default of 100 collecting took a fifth of its time.
		debug.SetGCPercent(gcPercent)
	}
	cfg := config.Default()
	if f.Config == "" {
		return cfg, log, nil
	}
	cfg, warnings, err := config.Load(f.Config)
	for _, w := range warnings {
		log.Warn("configuration: "+w.Message, "file", f.Config, "line", w.Line, "key", w.Key)
	}
	if err != nil {
		return cfg, log, err
	}
	if f.LogLevel == "" && cfg.Telemetry.LogLevel != "" {
		if level, err := probes.ParseLevel(cfg.Telemetry.LogLevel); err == nil {
			p.level.Set(level)
		}
	}
	return cfg, log, nil
}

// gcPercent is the heap's growth between collections where GOGC says nothing.
const gcPercent = 300

// logger writes to standard error at p.level, with the trace that a record is of.
func (f daemonFlags) logger(p *program) *slog.Logger {
	options := &slog.HandlerOptions{Level: p.level}
	if f.LogFormat == "json" {
		return slog.New(tracing.LogHandler{Handler: slog.NewJSONHandler(p.stderr, options)})
	}
	return slog.New(tracing.LogHandler{Handler: slog.NewTextHandler(p.stderr, options)})
}

// workerConfig is a worker's part of the configuration.
func workerConfig(cfg config.Config, log *slog.Logger, t *telemetry) (worker.Config, error) {
	space, err := subjects.NewSpace(cfg.Bus.Prefix)
	if err != nil {
		return worker.Config{}, err
	}
	return worker.Config{
		Space: space, ToolSearch: &cfg.ToolSearch, Policy: cfg.Approvals.Policy,
		Hooks: cfg.Hooks, Guardrails: cfg.Guardrails, ApprovalTimeout: cfg.Approvals.Timeout, ApprovalWait: cfg.Approvals.Wait, MaxResult: cfg.Limits.ResultChars,
		Partitions: cfg.Bus.Partitions, CallSlots: cfg.Bus.CallSlots, CallLease: cfg.Bus.CallLease,
		RejectLocalBatches: cfg.Batch.Local == "reject", ReplyPrefixes: cfg.Bus.ReplyPrefixes,
		State: state.Config{Replicas: cfg.Bus.Replicas}, Logger: log, Version: buildInfo().Version,
		Tracer: t.Tracer, Metrics: t.Metrics,
	}, nil
}

// newHost makes the MCP host of a tenant.
func newHost(ctx context.Context, cfg config.Config, tenant string, servers []mcp.ServerConfig, nc *nats.Conn, log *slog.Logger, t *telemetry) (*mcp.Host, error) {
	space, err := subjects.NewSpace(cfg.Bus.Prefix)
	if err != nil {
		return nil, err
	}
	stores := state.Config{Replicas: cfg.Bus.Replicas}
	var st *state.State
	err = state.Retry(ctx, log, func(ctx context.Context) (err error) {
		st, err = state.OpenRegistry(ctx, nc, stores)
		return err
	})
	if err != nil {
		return nil, err
	}
	hc := mcp.Config{Tenant: tenant, Servers: servers, Space: space, ReplyPrefixes: cfg.Bus.ReplyPrefixes, Logger: log, Tracer: t.Tracer, Metrics: t.Metrics}
	if cfg.Catalog != "" {
		if hc.Catalog, err = config.LoadCatalog(cfg.Catalog); err != nil {
			return nil, err
		}
	}
	if len(hc.Catalog) > 0 || slices.ContainsFunc(servers, func(s mcp.ServerConfig) bool { return s.Disabled }) {
		js, err := jetstream.New(nc)
		if err != nil {
			return nil, err
		}
		if hc.Chosen, err = state.OpenServers(ctx, js, stores); err != nil {
			return nil, err
		}
	}
	return mcp.New(hc, nc, st)
}

// mcpServers are the servers of the configuration and of --mcp; of two with one
// name the flag's stands.
func mcpServers(cfg config.Config, flags []string) ([]mcp.ServerConfig, error) {
	servers := cfg.Servers
	named := map[string]bool{}
	var own []mcp.ServerConfig
	for _, f := range flags {
		s, err := mcp.ParseServer(f)
		if err != nil {
			return nil, usagef("--mcp: %w", err)
		}
		if named[s.Name] {
			return nil, usagef("--mcp: %q is named twice", s.Name)
		}
		named[s.Name] = true
		own = append(own, s)
	}
	var all []mcp.ServerConfig
	for _, s := range servers {
		if !named[s.Name] {
			all = append(all, s)
		}
	}
	return append(all, own...), nil
}

// dial connects a daemon; it waits for a server that is not there yet, with a
// word in the log, and reconnects for ever.
func dial(ctx context.Context, bus busFlags, cfg config.Config, name string, log *slog.Logger) (*nats.Conn, error) {
	url, creds := bus.NATS, bus.Creds
	if url == "" {
		url = cfg.Bus.URL
	}
	if url == "" {
		url = defaultNATS
	}
	if creds == "" {
		creds = cfg.Bus.Creds
	}
	options, err := bus.inbox()
	if err != nil {
		return nil, err
	}
	options = append(options, connOptions(name, log)...)
	options = append(options, nats.Timeout(5*time.Second))
	if creds != "" {
		options = append(options, nats.UserCredentials(creds))
	}
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		nc, err := nats.Connect(url, options...)
		if err == nil {
			log.Info("connected", "nats", shownURL(nc.ConnectedUrl()), "server", nc.ConnectedServerName())
			return nc, nil
		}
		if !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) {
			return nil, fmt.Errorf("connecting to NATS at %s: %w", shownURL(url), err)
		}
		log.Warn("no NATS server yet; trying again", "nats", shownURL(url), "error", err, "in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("connecting to NATS at %s: %w", shownURL(url), context.Cause(ctx))
		}
	}
}

func connOptions(name string, log *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost; reconnecting", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("reconnected", "nats", shownURL(nc.ConnectedUrl())) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("NATS", "subject", subject, "error", err)
		}),
	}
}

// until waits for the end of ctx, or of the connection: a server may close one for
// good, and then a process that lives on would serve nothing.
func until(ctx context.Context, nc *nats.Conn) error {
	closed := nc.StatusChanged(nats.CLOSED)
	defer nc.RemoveStatusListener(closed)
	if nc.IsClosed() {
		return errHungUp
	}
	select {
	case <-ctx.Done():
		return nil
	case <-closed:
		return errHungUp
	}
}

var errHungUp = errors.New("the NATS server closed the connection for good; its log says why. Start again, as a supervisor would")

// hangUp sends what is left and closes the connection.
func hangUp(nc *nats.Conn) {
	if nc.IsConnected() {
		_ = nc.FlushTimeout(2 * time.Second) // closing anyway
	}
	nc.Close()
}
