package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolbridge/client"
	"toolbridge/subjects"
)

// devProcess is a toolbridge dev whose session s1 has a call running that ends
// when release is closed.
type devProcess struct {
	cmd     *exec.Cmd
	stderr  *bufio.Reader
	release chan struct{}
	result  chan string
}

func startBusyDev(t *testing.T) *devProcess {
	t.Helper()
	d := &devProcess{release: make(chan struct{}), result: make(chan string, 1)}
	d.cmd = exec.Command("toolbridge", "dev", "--nats-port", "0", "--store", t.TempDir())
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.stderr = bufio.NewReader(stderr)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	ready, err := bufio.NewReader(stdout).ReadString('\n')
	url, _, ok := strings.Cut(strings.TrimPrefix(ready, "ready nats="), " ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", ready, err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	c, err := client.Dial(ctx, client.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := c.Session("default", "s1")
	if err != nil {
		t.Fatal(err)
	}
	running := make(chan struct{})
	v, err := s.Serve(ctx, client.ServeConfig{}, func(ctx context.Context, _ subjects.ExecRequest) (json.RawMessage, error) {
		close(running)
		select {
		case <-d.release:
			return json.RawMessage(`"done"`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = v.Stop(gone)
	})
	from := client.Source{Assemble: subjects.AssembleRequest{Tools: json.RawMessage(`[{"name":"wait","toolset":"x","parameters":{"type":"object"}}]`)}}
	go func() {
		reply, err := s.Call(ctx, from, "wait", nil)
		if err != nil {
			d.result <- err.Error()
			return
		}
		d.result <- string(reply.Result)
	}()
	select {
	case <-running:
	case r := <-d.result:
		t.Fatalf("the call ended at once: %s", r)
	}
	return d
}

// signal sends one and waits until dev says that it stops.
func (d *devProcess) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := d.stderr.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "stopping") {
			return
		}
	}
}

func (d *devProcess) wait() (status int, stderr string) {
	rest, _ := io.ReadAll(d.stderr)
	err := d.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(rest)
	}
	return 0, string(rest)
}

func TestTheFirstSignalLetsRunningCallsFinish(t *testing.T) {
	d := startBusyDev(t)
	d.signal(t, syscall.SIGTERM)
	close(d.release)
	if r := <-d.result; r != `"done"` {
		t.Errorf("the running call ended with %s", r)
	}
	if status, stderr := d.wait(); status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	d := startBusyDev(t)
	d.signal(t, os.Interrupt)
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status, stderr := d.wait(); status != 130 || !strings.Contains(stderr, "second signal") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
