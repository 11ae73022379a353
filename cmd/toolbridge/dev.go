package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/config"
	"toolbridge/cmd/toolbridge/internal/embedded"
	"toolbridge/connectors"
	"toolbridge/connectors/mcp"
	"toolbridge/worker"
)

// devTenant is the tenant of everything in dev.
const devTenant = "default"

type devCommand struct {
	NATSPort int           `name:"nats-port" default:"4222" env:"TOOLBRIDGE_NATS_PORT" placeholder:"PORT" help:"Port of the NATS server on 127.0.0.1; 0 picks a free one. Default ${default}."`
	HTTP     string        `name:"http" placeholder:"ADDRESS" help:"Address of the web console; this version has none."`
	Store    string        `type:"path" env:"TOOLBRIDGE_STORE" placeholder:"DIR" help:"Folder of the data. Default: a folder of the user's own."`
	MCP      []string      `name:"mcp" sep:"none" placeholder:"NAME='COMMAND ARGS'" help:"MCP server: a command, or an http(s) address; may be repeated."`
	MCPWait  time.Duration `name:"mcp-wait" default:"60s" help:"How long to wait for MCP servers before dev is called ready."`
	gatewayFlags
	daemonFlags
}

// Run starts everything, prints the ready line and serves until the context
// ends.
func (c *devCommand) Run(ctx context.Context, p *program) (err error) {
	if c.NATSPort < -1 || c.NATSPort > 65535 {
		return usagef("--nats-port: 0 to 65535")
	}
	if err := c.checkGateway(); err != nil {
		return err
	}
	cfg, log, err := c.load(p, slog.LevelWarn)
	if err != nil {
		return err
	}
	cfg.Bus.Replicas = 1 // one server
	servers, err := mcpServers(cfg, c.MCP)
	if err != nil {
		return err
	}
	if c.Store == "" {
		if c.Store, err = embedded.DefaultStore(p.lookup); err != nil {
			return err
		}
	}
	if c.HTTP != "" {
		log.Warn("--http is ignored: this version has no web console")
	}
	d := &dev{cfg: cfg, log: log}
	if d.telemetry, err = c.startTelemetry(ctx, p, cfg, log, roleDev, d.ready); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.telemetry.stop(ctx)) }()
	err = d.start(ctx, p, c, servers)
	if err == nil {
		d.seen(ctx)
		if err = printLine(p.stdout, []byte(fmt.Sprintf("ready nats=%s http=-", d.server.URL()))); err == nil {
			d.tryIt(ctx, p.stderr, c.Store)
			<-ctx.Done()
			fmt.Fprintln(p.stderr, "stopping …")
		}
	}
	if ctx.Err() != nil {
		err = nil // asked to stop, whatever it was doing
	}
	return errors.Join(err, d.stop(ctx, c.Grace))
}

// dev is everything in one process.
type dev struct {
	cfg    config.Config
	log    *slog.Logger
	server *embedded.Server
	nc     *nats.Conn
	worker *worker.Worker
	host   *mcp.Host

	gateway *connectors.Gateway // nil without connectors

	session *client.Session // dev's own

	telemetry *telemetry
	running   atomic.Pointer[worker.Worker]
}

// ready says why dev does not serve now, or nil.
func (d *dev) ready() error {
	if w := d.running.Load(); w != nil {
		return w.Ready()
	}
	return errNotConnected
}

func (d *dev) start(ctx context.Context, p *program, c *devCommand, servers []mcp.ServerConfig) error {
	starting, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	var err error
	if d.server, err = embedded.Start(starting, embedded.Config{Port: c.NATSPort, Store: c.Store, Logger: d.log}); err != nil {
		return err
	}
	if d.nc, err = nats.Connect("", append(connOptions("toolbridge-dev", d.log), d.server.InProcess())...); err != nil {
		return fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	wc, err := workerConfig(d.cfg, d.log, d.telemetry)
	if err != nil {
		return err
	}
	wc.Dev, wc.Policy.Dev = true, true
	if d.gateway, err = startGateway(starting, p, c.gatewayFlags, d.cfg, wc, d.nc, d.log); err != nil {
		return err
	}
	wc.Gateway = d.gateway
	if d.worker, err = worker.New(wc, d.nc); err != nil {
		return err
	}
	d.running.Store(d.worker)
	if err = d.worker.Start(starting); err != nil {
		return err
	}
	own, err := client.New(d.nc, client.Config{Space: wc.Space}) // ends with the connection
	if err != nil {
		return err
	}
	if d.session, err = own.Session(devTenant, devSession); err != nil {
		return err
	}
	if len(servers) == 0 && d.cfg.Catalog == "" {
		return nil
	}
	if d.host, err = newHost(starting, d.cfg, devTenant, servers, d.nc, d.log, d.telemetry); err != nil {
		return err
	}
	if err = d.host.Start(starting); err != nil {
		return err
	}
	waiting, stop := context.WithTimeout(ctx, c.MCPWait)
	defer stop()
	if err := d.host.Ready(waiting); err != nil && ctx.Err() == nil {
		d.log.Warn("not every MCP server has connected yet; they go on trying", "waited", c.MCPWait)
	}
	return ctx.Err()
}

// stop ends what was started.
func (d *dev) stop(ctx context.Context, grace time.Duration) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var errs []error
	if d.worker != nil { // its running calls may need the host
		first, cancel := context.WithTimeout(bounded, grace*2/3)
		errs = append(errs, d.worker.Stop(first))
		cancel()
	}
	if d.host != nil {
		errs = append(errs, d.host.Stop(bounded))
	}
	stopGateway(bounded, d.gateway)
	if d.nc != nil {
		hangUp(d.nc)
	}
	if d.server != nil {
		errs = append(errs, d.server.Stop())
	}
	return errors.Join(errs...)
}
