package main

import (
	"context"
	"fmt"
	"log/slog"

	"toolbridge/worker"
)

type workerCommand struct {
	busFlags
	gatewayFlags
	daemonFlags
}

// Run serves until the context ends, then drains.
func (c *workerCommand) Run(ctx context.Context, p *program) error {
	if err := c.checkGateway(); err != nil {
		return err
	}
	cfg, log, err := c.load(p, slog.LevelInfo)
	if err != nil {
		return err
	}
	wc, err := workerConfig(cfg, log)
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
	w, err := worker.New(wc, nc)
	if err != nil {
		return err
	}
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
