package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"toolbridge/connectors/mcp"
	"toolbridge/subjects"
)

type mcpHostCommand struct {
	Tenant string   `required:"" env:"TOOLBRIDGE_TENANT" help:"Tenant that gets the toolsets."`
	MCP    []string `name:"mcp" sep:"none" placeholder:"NAME='COMMAND ARGS'" help:"MCP server beside those of the configuration: a command, or an http(s) address; may be repeated."`
	busFlags
	daemonFlags
}

// Run hosts the servers until the context ends.
func (c *mcpHostCommand) Run(ctx context.Context, p *program) (err error) {
	if err := subjects.CheckToken("tenant", c.Tenant); err != nil {
		return usagef("--tenant: %w", err)
	}
	cfg, log, err := c.load(p, slog.LevelInfo)
	if err != nil {
		return err
	}
	servers, err := mcpServers(cfg, c.MCP)
	if err != nil {
		return err
	}
	if len(servers) == 0 && cfg.Catalog == "" {
		return usagef("there is nothing to host: name servers with --mcp or under mcp.servers in the configuration")
	}
	var running atomic.Pointer[mcp.Host]
	t, err := c.startTelemetry(ctx, p, cfg, log, roleHost, func() error {
		if h := running.Load(); h != nil {
			return h.Serving()
		}
		return errNotConnected
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop(ctx)) }()
	nc, err := dial(ctx, c.busFlags, cfg, "toolbridge-mcp-host", log)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer hangUp(nc)
	h, err := newHost(ctx, cfg, c.Tenant, servers, nc, log, t)
	if err != nil {
		return err
	}
	running.Store(h)
	if err := h.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ended := until(ctx, nc)
	log.Info("stopping: running calls may finish", "grace", c.Grace)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Grace)
	defer cancel()
	if err := h.Stop(grace); err != nil && ended == nil {
		return fmt.Errorf("stopping: %w", err)
	}
	log.Info("stopped")
	return ended
}
