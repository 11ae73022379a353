package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/state"
	"toolbridge/worker"
)

type workerCommand struct {
	busFlags
	gatewayFlags
	daemonFlags
}

// Run serves until the context ends, then drains.
func (c *workerCommand) Run(ctx context.Context, p *program) (err error) {
	if err := c.checkGateway(); err != nil {
		return err
	}
	cfg, log, err := c.load(p, slog.LevelInfo)
	if err != nil {
		return err
	}
	var running atomic.Pointer[worker.Worker]
	t, err := c.startTelemetry(ctx, p, cfg, log, roleWorker, func() error {
		if w := running.Load(); w != nil {
			return w.Ready()
		}
		return errNotConnected
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop(ctx)) }()
	wc, err := workerConfig(cfg, log, t)
	if err != nil {
		return err
	}
	nc, err := dial(ctx, c.busFlags, cfg, "toolbridge-worker", log)
	if ctx.Err() != nil {
		return nil // stopped while no server was there
	}
	if err != nil {
		return err
	}
	defer hangUp(nc)
	gateway, err := startGateway(ctx, p, c.gatewayFlags, cfg, wc, nc, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer stopGateway(ctx, gateway)
	wc.Gateway = gateway
	w, err := startWorker(ctx, wc, nc, c.Grace, &running)
	if ctx.Err() != nil && err != nil {
		return nil // stopped while JetStream did not answer
	}
	if err != nil {
		return err
	}
	ended := until(ctx, nc)
	log.Info("stopping: running requests may finish", "grace", c.Grace)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Grace)
	defer cancel()
	if err := w.Stop(grace); err != nil && ended == nil {
		return fmt.Errorf("stopping: %w", err)
	}
	log.Info("stopped")
	return ended
}

// startWorker starts a worker, and goes on trying while JetStream does not answer,
// as dial does while there is no server.
func startWorker(ctx context.Context, cfg worker.Config, nc *nats.Conn, grace time.Duration, running *atomic.Pointer[worker.Worker]) (*worker.Worker, error) {
	for {
		w, err := worker.New(cfg, nc)
		if err != nil {
			return nil, err
		}
		running.Store(w)
		err = w.Start(ctx)
		if err == nil {
			return w, nil
		}
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		stopErr := w.Stop(stopping)
		cancel()
		if ctx.Err() != nil || !state.Unanswered(err) {
			return nil, err
		}
		cfg.Logger.Warn("the worker could not start; trying again", "error", errors.Join(err, stopErr))
	}
}
