//go:build unix

package hosted

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/approval"
	"toolbridge/connectors"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/worker"
)

// orderVariable holds what a worker process is started with; it is unset in the
// process that tests.
const orderVariable = "TOOLBRIDGE_HOSTED_ORDER"

// order is what a worker is made of.
type order struct {
	Bus     string            // URL
	Gateway string            // origin; "": no connectors
	Users   map[string]string // token by tenant, for user dev

	Threshold  int
	Cooldown   time.Duration
	SearchWait time.Duration
	Search     time.Duration // limit of a search at the gateway
	Execute    time.Duration // limit of an attempt to execute
}

// lease is the workers' lease of calls.
const lease = time.Second

// node is a worker with its gateway.
type node struct {
	nc      *nats.Conn
	gateway *connectors.Gateway
	worker  *worker.Worker
}

// open starts a worker.
func open(ctx context.Context, o order) (n *node, err error) {
	n = &node{}
	defer func() {
		if err != nil {
			_ = n.close()
		}
	}()
	n.nc, err = nats.Connect(o.Bus, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		return n, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	cfg := worker.Config{
		Dev: true, Policy: approval.Policy{Default: approval.Allow, Dev: true}, CallLease: lease, ToolTimeout: 20 * time.Second,
		RequestTimeout: 20 * time.Second, Logger: log,
	}
	if o.Gateway != "" {
		st, err := state.Open(ctx, n.nc, subjects.Space{}, state.Config{})
		if err != nil {
			return n, err
		}
		tokens := connectors.Fixed{}
		for tenant, token := range o.Users {
			tokens[connectors.Who{Tenant: tenant, User: user}] = token
		}
		n.gateway, err = connectors.New(connectors.Config{
			Client: connectors.ClientConfig{
				URL: o.Gateway, Credentials: tokens, Proxy: "direct", SearchTimeout: o.Search, ExecuteTimeout: o.Execute,
			},
			Breaker: connectors.BreakerConfig{Threshold: o.Threshold, Cooldown: o.Cooldown},
			DevUser: user, SearchWait: o.SearchWait, Logger: log,
		}, n.nc, st)
		if err != nil {
			return n, err
		}
		if err := n.gateway.Start(ctx); err != nil {
			return n, err
		}
		cfg.Gateway = n.gateway
	}
	if n.worker, err = worker.New(cfg, n.nc); err != nil {
		return n, err
	}
	return n, n.worker.Start(ctx)
}

// close stops it.
func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	if n.worker != nil {
		errs = append(errs, n.worker.Stop(ctx))
	}
	if n.gateway != nil {
		errs = append(errs, n.gateway.Stop(ctx))
	}
	if n.nc != nil {
		closed := make(chan struct{})
		n.nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
		n.nc.Close()
		<-closed
	}
	return errors.Join(errs...)
}

// runWorker is the worker process: it serves until its standard input ends.
func runWorker(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := open(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return n.close()
}

// process is a worker process.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	gone chan struct{}
}

func start(t testing.TB, o order) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	t.Cleanup(p.end)
	if err != nil || line != "ready\n" {
		t.Fatalf("the worker was not ready: %q %v", line, err)
	}
	return p
}

// kill ends it without a word.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.gone
}

// end lets it stop by itself, within 20 s.
func (p *process) end() {
	_ = p.in.Close()
	select {
	case <-p.gone:
	case <-time.After(20 * time.Second):
		p.kill()
	}
}
