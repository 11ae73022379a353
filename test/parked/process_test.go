//go:build unix

package parked

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolbridge/approval"
	"toolbridge/test/bus"
	"toolbridge/worker"
)

// roleVariable names the part that a process of the test binary plays, and
// orderVariable what it needs to know; both are unset in the one that tests.
const (
	roleVariable  = "TOOLBRIDGE_PARKED_ROLE"
	orderVariable = "TOOLBRIDGE_PARKED_ORDER"
)

// order is what a process is started with.
type order struct {
	URL      string        // of the bus
	Store    string        // of the bus
	Port     int           // of the bus; -1: any
	Approval time.Duration // how long a person is waited for
	Lease    time.Duration // of a call; 0: the default
}

func TestMain(m *testing.M) {
	role, ok := map[string]func(order) error{"bus": runBus, "worker": runWorker}[os.Getenv(roleVariable)]
	if !ok {
		goleak.VerifyTestMain(m, bus.Leaks()...)
		return
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
		Host: "127.0.0.1", Port: o.Port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: o.Store, MaxPayload: bus.MaxPayload,
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

// payTool needs a person, writeTool does not.
const (
	payTool   = "mcp__bank__pay"
	writeTool = "mcp__fs__write"
)

// runWorker is one worker.
func runWorker(o order) error {
	nc, err := nats.Connect(o.URL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Policy:          approval.Policy{Default: approval.Allow, Rules: []approval.Rule{{Match: payTool, Action: approval.Ask}}},
		ApprovalTimeout: o.Approval, CallLease: o.Lease,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}, nc)
	if err != nil {
		return err
	}
	ctx, cancel := contextWithin(time.Minute)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		return err
	}
	serve("worker")
	stop, cancelStop := contextWithin(10 * time.Second)
	defer cancelStop()
	err = w.Stop(stop)
	nc.Close()
	return err
}

// serve tells the parent that the process is ready, and collects its garbage
// whenever the parent writes a line, until the parent closes its end or dies.
func serve(what string) {
	fmt.Println("ready", what)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		debug.FreeOSMemory()
		fmt.Println("collected")
	}
}

// process is one that the test started.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said string // when it was ready
	gone bool
}

// start runs a role until it is stopped.
func start(t testing.TB, role string, o order) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, orderVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting the %s: %v", role, err)
	}
	p.said = p.line("ready ")
	return p
}

func (p *process) line(begins string) string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), begins)
	if err != nil || !ok {
		p.t.Fatalf("a process said %q (%v), not %q", line, err, begins)
	}
	return rest
}

// stop ends the process gently.
func (p *process) stop() {
	if p.gone {
		return
	}
	p.gone = true
	_ = p.in.Close()
	kill := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("a process ended with %v", err)
	}
}

// kill ends it with SIGKILL.
func (p *process) kill() {
	p.t.Helper()
	p.gone = true
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
	_ = p.in.Close()
}

// rss is the memory of the process that is resident now, in bytes; 0 where the
// system does not say so.
func (p *process) rss() int64 {
	p.t.Helper()
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/statm")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	var size, resident int64
	if err == nil {
		_, err = fmt.Sscan(string(statm), &size, &resident)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// collect makes the process give back what it does not need.
func (p *process) collect() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "collect\n"); err != nil {
		p.t.Fatal(err)
	}
	p.line("collected")
}
