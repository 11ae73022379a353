package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"toolbridge/cmd/toolbridge/internal/config"
	"toolbridge/cmd/toolbridge/internal/probes"
	"toolbridge/tracing"
	"toolbridge/tracing/setup"
)

// telemetry is what a daemon tells about itself: traces, metrics, probes, and its
// log's level, which may change while it runs.
type telemetry struct {
	*setup.Telemetry

	log     *slog.Logger
	level   *slog.LevelVar
	probes  *probes.Server
	watched sync.WaitGroup
	end     context.CancelFunc
}

// The roles of daemons, for service.name and build_info.
const (
	roleWorker = "worker"
	roleHost   = "mcp-host"
	roleDev    = "dev"
)

// errNotConnected is why a daemon that has only begun is not ready.
var errNotConnected = errors.New("not connected to NATS yet")

// telemetryWithin is how long the last of it may take to leave.
const telemetryWithin = 5 * time.Second

// startTelemetry starts it. ready says why the daemon does not serve, or nil; it
// may be called at once.
func (f daemonFlags) startTelemetry(ctx context.Context, p *program, cfg config.Config, log *slog.Logger, role string, ready func() error) (*telemetry, error) {
	info := buildInfo()
	address := f.Metrics
	if address == "" {
		address = cfg.Telemetry.Metrics
	}
	if address != "" {
		if _, port, err := net.SplitHostPort(address); err != nil || !validPort(port) {
			return nil, usagef("--metrics: an address HOST:PORT is expected, such as 127.0.0.1:9464, not %q", address)
		}
	}
	made, err := setup.Start(ctx, setup.Config{
		Service: "toolbridge-" + role, Version: info.Version, Commit: info.Commit, Role: role,
		Endpoint: cfg.Telemetry.Endpoint, Protocol: cfg.Telemetry.Protocol, Link: cfg.Telemetry.Trace == "link", Content: cfg.Telemetry.Content,
		Prometheus: address != "", Lookup: p.lookup, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	t := &telemetry{Telemetry: made, log: log, level: p.level}
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	t.end = end
	if address == "" {
		address = made.Listen
	}
	if address != "" {
		if t.probes, err = probes.Start(ctx, probes.Config{Address: address, Ready: ready, Metrics: made.Handler(), Level: t.level, Logger: log}); err != nil {
			return nil, errors.Join(err, t.stop(ctx))
		}
		log.Info("metrics and probes", "address", t.probes.Address())
	}
	t.watched.Go(func() { f.followHangUps(watching, t) })
	return t, nil
}

func validPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// followHangUps reads the log's level from the configuration file again with every
// SIGHUP.
func (f daemonFlags) followHangUps(ctx context.Context, t *telemetry) {
	signals := make(chan os.Signal, 1)
	notifyHangUp(signals)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		if f.Config == "" {
			t.log.Warn("SIGHUP has no effect without --config: it reads telemetry.log_level again")
			continue
		}
		cfg, _, err := config.Load(f.Config)
		if err != nil {
			t.log.Error("the log's level stays as it is", "error", err)
			continue
		}
		if cfg.Telemetry.LogLevel == "" {
			continue
		}
		level, err := probes.ParseLevel(cfg.Telemetry.LogLevel)
		if err == nil {
			t.level.Set(level)
			t.log.Warn("log level changed", "to", cfg.Telemetry.LogLevel)
		}
	}
}

// stop sends the rest and ends it: the last thing that a daemon does.
func (t *telemetry) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryWithin)
	defer cancel()
	t.end()
	t.watched.Wait()
	if t.probes != nil {
		if err := t.probes.Stop(ctx); err != nil {
			t.log.Debug("stopping the probes", "error", err)
		}
	}
	if err := t.Stop(ctx); err != nil {
		t.log.Warn("telemetry", "error", err) // a receiver that is away is no failure of ours
	}
	return nil
}

// traced runs a command below the span that the environment's TRACEPARENT names.
// Client verbs make spans of their own where OpenTelemetry's variables ask for
// them; daemons see to that themselves.
func traced(ctx context.Context, command string, p *program, run func(context.Context) error) error {
	parent, _ := p.lookup("TRACEPARENT")
	state, _ := p.lookup("TRACESTATE")
	if sc := tracing.Parse(tracing.Values{parent, state}); sc.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	switch first, _, _ := strings.Cut(command, " "); first {
	case "dev", "worker", "mcp", "config", "version", "completion", "__complete":
		return run(ctx)
	}
	made, err := setup.Start(ctx, setup.Config{
		Service: "toolbridge-cli", Version: buildInfo().Version, Role: "cli", Lookup: p.lookup, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryWithin)
		defer cancel()
		_ = made.Stop(within) // a receiver that is away is no failure of a verb
	}()
	ctx, span := made.Tracer.Start(tracing.With(ctx, made.Tracer), command, trace.SpanKindInternal)
	defer span.End()
	return run(ctx)
}
