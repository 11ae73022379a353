//go:build !windows

package main

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/test/bus"
)

func TestADaemonServesMetricsAndProbesAndFollowsItsLogLevel(t *testing.T) {
	config := filepath.Join(t.TempDir(), "toolbridge.yaml")
	write := func(level string) {
		t.Helper()
		if err := os.WriteFile(config, []byte("telemetry: {metrics: '127.0.0.1:0', log_level: "+level+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range []string{"worker", "mcp host"} {
		write("info")
		server := bus.Server(t)
		args := append(strings.Fields(role), "--nats", server.ClientURL(), "--config", config)
		if role == "mcp host" {
			args = append(args, "--tenant", "acme", "--mcp", "notes=notes-server")
		}
		cmd := exec.Command("toolbridge", args...)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		said := make(chan string, 1)
		go func() {
			address := regexp.MustCompile(`msg="metrics and probes" address=(\S+)`)
			for s := bufio.NewScanner(stderr); s.Scan(); {
				if m := address.FindStringSubmatch(s.Text()); m != nil {
					said <- m[1]
				}
			}
		}()
		var at string
		select {
		case at = <-said:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s says no address", role)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
		get := func(path string) (int, string) {
			response, err := client.Get("http://" + at + path)
			if err != nil {
				return 0, err.Error()
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			return response.StatusCode, string(body)
		}
		becomes := func(path string, status int, says string) {
			t.Helper()
			var got string
			var code int
			tick := time.NewTicker(20 * time.Millisecond) // another process changes it
			defer tick.Stop()
			for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
				if code, got = get(path); code == status && strings.Contains(got, says) {
					return
				}
			}
			t.Fatalf("%s of the %s: %d %.200q, want %d %q", path, role, code, got, status, says)
		}
		becomes("/readyz", 200, "ready")
		becomes("/healthz", 200, "ok")
		becomes("/metrics", 200, "toolbridge_nats_connected 1")
		becomes("/metrics", 200, `toolbridge_build_info{commit=`)
		if role == "mcp host" {
			becomes("/metrics", 200, `toolbridge_mcp_servers{state="ready"} 1`)
		} else {
			becomes("/metrics", 200, `toolbridge_queue_depth{partition="0"} 0`)
		}
		becomes("/loglevel", 200, "info")
		write("debug")
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		becomes("/loglevel", 200, "debug")
		server.Shutdown()
		becomes("/readyz", 503, "not connected to NATS")
		becomes("/healthz", 200, "ok")
		_ = cmd.Process.Kill() // how a daemon ends is tested elsewhere
		_ = cmd.Wait()
	}
}

func TestAWrongAddressForMetricsIsWrongUsage(t *testing.T) {
	for _, address := range []string{"9464", "localhost:http", "localhost"} {
		out, err := exec.Command("toolbridge", "worker", "--metrics", address).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !strings.Contains(string(out), "HOST:PORT") {
			t.Errorf("%s: %v, %s", address, err, out)
		}
	}
}

func TestAVerbPassesOnTheTraceOfWhoeverRunsIt(t *testing.T) {
	nc := bus.Connect(t, bus.Server(t))
	got := make(chan nats.Header, 1)
	sub, err := nc.Subscribe("toolbridge.v1.default.cli.stop", func(m *nats.Msg) {
		got <- m.Header
		_ = m.RespondMsg(&nats.Msg{Data: []byte(`{"stopped":[]}`), Header: nats.Header{"Toolbridge-Kind": {"reply"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	const parent = "00-11111111111111111111111111111111-2222222222222222-01"
	for _, traced := range []bool{false, true} {
		cmd := exec.Command("toolbridge", "stop", "--nats", nc.ConnectedUrl())
		cmd.Env = append(os.Environ(), "TRACEPARENT="+parent)
		if traced {
			cmd.Env = append(cmd.Env, "OTEL_TRACES_EXPORTER=console")
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		header := (<-got)["traceparent"]
		switch {
		case len(header) != 1 || !strings.HasPrefix(header[0], parent[:36]):
			t.Errorf("traced=%v: traceparent %v", traced, header)
		case !traced && header[0] != parent:
			t.Errorf("without tracing: traceparent %v", header)
		case traced && (header[0] == parent || !strings.Contains(string(out), header[0][36:52]) || !strings.Contains(string(out), `"Name":"request stop"`)):
			t.Errorf("traced: traceparent %v, spans %s", header, out)
		}
	}
}
