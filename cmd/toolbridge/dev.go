package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/cmd/toolbridge/internal/config"
	"toolbridge/cmd/toolbridge/internal/embedded"
	"toolbridge/connectors/mcp"
	"toolbridge/subjects"
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
	daemonFlags
}

// Run starts everything, prints the ready line and serves until the context
// ends.
func (c *devCommand) Run(ctx context.Context, p *program) error {
	cfg, log, err := c.load(p, slog.LevelWarn)
	if err != nil {
		return err
	}
	servers, err := mcpServers(cfg, c.MCP)
	if err != nil {
		return err
	}
	if c.Store == "" {
		if c.Store, err = embedded.DefaultStore(p.lookup); err != nil {
			return err
		}
	}
	if c.NATSPort < -1 || c.NATSPort > 65535 {
		return usagef("--nats-port: 0 to 65535")
	}
	if c.HTTP != "" {
		log.Warn("--http is ignored: this version has no web console")
	}
	d := &dev{cfg: cfg, log: log}
	err = d.start(ctx, c, servers)
	if err == nil {
		if err = printLine(p.stdout, []byte(fmt.Sprintf("ready nats=%s http=-", d.server.URL()))); err == nil {
			d.tryIt(p.stderr, c.Store)
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
}

func (d *dev) start(ctx context.Context, c *devCommand, servers []mcp.ServerConfig) error {
	starting, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	var err error
	if d.server, err = embedded.Start(starting, embedded.Config{Port: c.NATSPort, Store: c.Store, Logger: d.log}); err != nil {
		return err
	}
	if d.nc, err = nats.Connect("", append(connOptions("toolbridge-dev", d.log), d.server.InProcess())...); err != nil {
		return fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	wc, err := workerConfig(d.cfg, d.log)
	if err != nil {
		return err
	}
	wc.Dev, wc.Policy.Dev = true, true
	if d.worker, err = worker.New(wc, d.nc); err != nil {
		return err
	}
	if err = d.worker.Start(starting); err != nil {
		return err
	}
	if len(servers) == 0 {
		return nil
	}
	if d.host, err = newHost(starting, d.cfg, devTenant, servers, d.nc, d.log); err != nil {
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
	if d.nc != nil {
		hangUp(d.nc)
	}
	if d.server != nil {
		errs = append(errs, d.server.Stop())
	}
	return errors.Join(errs...)
}

// tryIt says how the MCP servers stand and what to type next.
func (d *dev) tryIt(w io.Writer, store string) {
	flag := ""
	if url := d.server.URL(); url != defaultNATS {
		flag = " --nats " + url
	}
	fmt.Fprintf(w, "\nNATS at %s, data in %s. Nothing is protected: for this machine only.\n", d.server.URL(), store)
	if d.host != nil {
		for _, s := range d.host.Status() {
			line := fmt.Sprintf("MCP server %s: %s, %s", s.Name, s.State, count(s.ToolCount, "tool"))
			if s.State != subjects.StateReady {
				line = fmt.Sprintf("MCP server %s: %s %s", s.Name, s.State, s.Reason)
			}
			fmt.Fprintln(w, line)
		}
	}
	fmt.Fprintln(w, "\nTry, in another terminal:")
	if d.host == nil {
		fmt.Fprintf(w, "  toolbridge dev --mcp everything='npx -y @modelcontextprotocol/server-everything'   (after stopping this one)\n")
	}
	fmt.Fprintf(w, "  toolbridge assemble%s\n", flag)
	fmt.Fprintf(w, "  toolbridge search 'echo a message'%s\n", flag)
	fmt.Fprintf(w, "  toolbridge describe mcp__everything__echo%s\n", flag)
	fmt.Fprintf(w, "  toolbridge call mcp__everything__echo '{\"message\":\"hello\"}'%s\n", flag)
	fmt.Fprintln(w, "Stop with Ctrl-C.")
}
