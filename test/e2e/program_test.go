//go:build unix

package e2e

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the binary, running.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	log    *syncBuffer
	exited chan struct{}
	err    error // of Wait; valid after exited
}

// patience bounds whatever another process has to do.
const patience = 60 * time.Second

// run starts the binary; it is stopped with the test if it still runs then.
func run(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(binary, args...), log: &syncBuffer{}, exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.log
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.stdout = w, bufio.NewReader(r)
	err = p.cmd.Start()
	_ = w.Close()
	if err != nil {
		t.Fatalf("starting toolbridge %s: %v", strings.Join(args, " "), err)
	}
	go func() { p.err = p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.stop()
		_ = r.Close()
		if t.Failed() {
			t.Logf("toolbridge %s\n%s", args[0], p.log)
		}
	})
	return p
}

// stop sends SIGTERM and expects a clean end, unless the program ended before.
func (p *program) stop() {
	p.t.Helper()
	select {
	case <-p.exited:
		return
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.end(); err != nil {
		p.t.Errorf("after SIGTERM toolbridge ended with %v", err)
	}
}

// end waits for the program to end.
func (p *program) end() error {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return errors.New("nothing within a minute; it was killed")
	}
	return p.err
}

// kill ends the program without a word.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// line is the next line of standard output.
func (p *program) line() string {
	p.t.Helper()
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	go func() { s, err := p.stdout.ReadString('\n'); got <- read{s, err} }()
	select {
	case r := <-got:
		if r.err != nil {
			p.t.Fatalf("toolbridge %s printed nothing more: %v\n%s", p.cmd.Args[1], r.err, p.log)
		}
		return strings.TrimSuffix(r.text, "\n")
	case <-time.After(2 * patience):
		p.t.Fatalf("toolbridge %s printed no line\n%s", p.cmd.Args[1], p.log)
	}
	return ""
}

var readyLine = regexp.MustCompile(`^ready nats=(nats://127\.0\.0\.1:[0-9]+) http=(-|http://\S+)$`)

// ready reads the ready line of toolbridge dev and returns the server's address.
func (p *program) ready() string {
	p.t.Helper()
	m := readyLine.FindStringSubmatch(p.line())
	if m == nil {
		p.t.Fatalf("the ready line is another\n%s", p.log)
	}
	return m[1]
}

// syncBuffer is standard error, read while it grows.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// eventually waits for what another process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		<-tick.C
	}
}
