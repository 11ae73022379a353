package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"toolbridge/worker"
)

type workerCommand struct {
	busFlags
	daemonFlags
}

// Run serves until the context ends, then drains.
func (c *workerCommand) Run(ctx context.Context, p *program) (err error) {
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
	w, err := worker.New(wc, nc)
	if err != nil {
		return err
	}
	running.Store(w)
	if err := w.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
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
