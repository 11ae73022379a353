//go:build unix

package faults

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
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolbridge/approval"
	"toolbridge/test/bus"
	"toolbridge/worker"
	"toolbridge/worker/call"
)

// roleVariable names the part that a process of the test binary plays, and
// orderVariable what it needs to know; both are unset in the one that tests.
const (
	roleVariable  = "TOOLBRIDGE_FAULTS_ROLE"
	orderVariable = "TOOLBRIDGE_FAULTS_ORDER"
)

// order is what a process is started with.
type order struct {
	URL    string // of the bus
	Port   int    // of the bus; -1: any
	Dir    string // the store of the bus, the marks of the dead, or the executor's log
	Queued bool   // the worker sends every call through the queue
}

func TestMain(m *testing.M) {
	role, ok := map[string]func(order) error{"bus": runBus, "worker": runWorker, "executor": runExecutor}[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	var o order
	err := json.Unmarshal([]byte(os.Getenv(orderVariable)), &o)
	if err == nil {
		err = role(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Getenv(roleVariable)+":", err)
		os.Exit(1)
	}
}

// runBus is NATS with JetStream on a store that outlives it.
func runBus(o order) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: o.Port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: o.Dir, MaxPayload: bus.MaxPayload,
	})
	if err != nil {
		return err
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the server was not ready within a minute")
	}
	serve(s.ClientURL())
	return nil
}

// lease is the workers' lease and ack wait.
const lease = time.Second

// runWorker is one worker. It dies at the point that a call's id names.
func runWorker(o order) error {
	nc, err := connect(o.URL)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Dev: true, Policy: approval.Policy{Default: approval.Allow}, CallLease: lease, ToolTimeout: 10 * time.Second, CallQueued: o.Queued,
		CallStep: func(point, id string) {
			if wanted, ok := deathOf(id); ok && wanted == point && mark(o.Dir, point, id) {
				_ = nc.Flush() // what was sent has left
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}, nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		return err
	}
	serve("worker")
	stop, cancelStop := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancelStop()
	err = w.Stop(stop)
	nc.Close()
	return err
}

func connect(url string) (*nats.Conn, error) {
	return nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true))
}

// callID is the id of a call; where names the point at which a worker dies for it.
func callID(n int, where string) string {
	if where == "" {
		return fmt.Sprintf("c%05d", n)
	}
	return fmt.Sprintf("c%05d_%s", n, where)
}

func deathOf(id string) (point string, ok bool) {
	_, point, ok = strings.Cut(id, "_")
	return point, ok
}

// mark notes a death; only the first worker that comes to a call's point dies.
func mark(dir, point, id string) bool {
	f, err := os.OpenFile(filepath.Join(dir, "dead-"+point+"-"+id), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// deaths counts the marks by point.
func deaths(t testing.TB, dir string) map[string]int {
	t.Helper()
	count := map[string]int{}
	for _, point := range points {
		names, err := filepath.Glob(filepath.Join(dir, "dead-"+point+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		count[point] = len(names)
	}
	return count
}

// points are where a worker may die for a call, in the order of its way.
var points = []string{
	call.StepAccept, call.StepStored, call.StepQueued, call.StepClaimed, call.StepSent, call.StepReplied, call.StepWritten, call.StepPublished, call.StepAck,
}

// serve tells the parent that the process is ready, and waits until the parent
// closes its end or dies.
func serve(what string) {
	fmt.Println("ready", what)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// process is one that the test started.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said string        // when it was ready
	gone chan struct{} // closed when it has ended
	err  error         // how, then
}

// start runs a role until it is ended.
func start(role string, o order) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, orderVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a %s: %w", role, err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	go func() {
		p.err = p.cmd.Wait()
		close(p.gone)
	}()
	if readErr != nil {
		<-p.gone
		return nil, fmt.Errorf("the %s was not ready: %w", role, errors.Join(readErr, p.err))
	}
	p.said = strings.TrimPrefix(strings.TrimSpace(line), "ready ")
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.gone
}

// end lets the process stop by itself, within 20 s.
func (p *process) end() {
	p.signal(syscall.SIGCONT)
	_ = p.in.Close()
	select {
	case <-p.gone:
	case <-time.After(20 * time.Second):
		p.kill()
	}
}

func (p *process) killed() bool {
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
