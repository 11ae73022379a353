//go:build unix

package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestAKilledServerComesBackAndTheOthersNeverNotice(t *testing.T) {
	d := startDev(t)
	a := newAgent(t, d.url, "default")
	ref := a.assemble()["catalog"].(string)
	graph := func() map[string]any { return a.call(ref, "mcp__memory__read_graph", `{}`) }
	if v := graph(); v["is_error"] != false {
		t.Fatalf("before: %s", encode(v))
	}
	pid := d.descendant(t, "server-memory")
	if pid == 0 {
		t.Fatal("the process of server-memory was not found")
	}
	// While it is stopped again and again it can not come back for long.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	seen := ""
	for range 100 {
		v := graph()
		if c := code(v); c != "" {
			seen = c
			if c != "EXECUTOR_UNAVAILABLE" && c != "OUTCOME_UNKNOWN" && c != "TOOL_ERROR" {
				t.Errorf("a call while the server is away: %s", encode(v))
			}
			if c == "EXECUTOR_UNAVAILABLE" {
				break
			}
		} else if d.descendant(t, "server-memory") != pid && seen == "" {
			break // it was back before anybody asked
		}
		if again := d.descendant(t, "server-memory"); again != 0 && again != pid {
			_ = syscall.Kill(again, syscall.SIGKILL)
		}
	}
	if seen != "EXECUTOR_UNAVAILABLE" {
		t.Errorf("calls while the server was killed again and again ended with %q", seen)
	}
	v := graph()
	if code(v) == "EXECUTOR_UNAVAILABLE" && len(encode(at(v, "result", "error", "message"))) < 20 {
		t.Errorf("no reason: %s", encode(v))
	}
	if got := a.result(ref, "mcp__everything__echo", `{"message":"still here"}`); got != "Echo: still here" {
		t.Errorf("another server: %v", got)
	}
	eventually(t, "the server is callable again", func() bool { return graph()["is_error"] == false })
	if again := d.descendant(t, "server-memory"); again == pid || again == 0 {
		t.Errorf("process %d, before it was %d", again, pid)
	}
	if v := a.assemble(); encode(v["catalog"]) != encode(ref) {
		t.Errorf("the catalog is another: %s", encode(v["warnings"]))
	}
}

func TestAServerThatNeverStartsIsNamedAndCostsNothingElse(t *testing.T) {
	p := run(t, nil, "dev", "--nats-port", "0", "--store", t.TempDir(), "--mcp-wait", "20s",
		"--mcp", "memory="+quote(server(t, "memory")), "--mcp", "broken=/no/such/program")
	a := newAgent(t, p.ready(), "default")
	v := a.assemble()
	if got := encode(v["deferred_count"]); got != "9" {
		t.Errorf("%s tools", got)
	}
	listing, _ := at(v, "tools", 0, "function", "description").(string)
	if !strings.Contains(listing, "broken") {
		t.Errorf("the listing does not name the server that is away:\n%s", listing)
	}
}

func TestDevGoesOnWhereItWasOnTheSameStore(t *testing.T) {
	store := t.TempDir()
	args := []string{"dev", "--nats-port", "0", "--store", store, "--mcp", "everything=" + quote(server(t, "everything"))}
	first := run(t, nil, args...)
	a := newAgent(t, first.ready(), "default")
	ref := a.assemble()["catalog"].(string)
	describe := `{"id":"c1","name":"tool_describe","arguments":{"names":["mcp__everything__echo"]},"catalog":"` + ref + `"}`
	before := string(a.raw("bridge", describe))
	pid := first.descendant(t, "server-everything")
	if pid == 0 {
		t.Fatal("the process of server-everything was not found")
	}
	first.stop()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("dev has ended, the server's process %d has not", pid)
	}
	second := run(t, nil, args...)
	b := &agent{t, connect(t, second.ready()), "default", a.session}
	if after := string(b.raw("bridge", describe)); after != before {
		t.Errorf("the catalog is another:\n%s\n%s", before, after)
	}
	if v := b.assemble(); v["catalog"] != ref {
		t.Errorf("another catalog: %s", encode(v))
	}
	if got := b.result(ref, "mcp__everything__echo", `{"message":"again"}`); got != "Echo: again" {
		t.Errorf("call = %v", got)
	}
}

func TestDevStopsCleanlyOnEitherSignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := run(t, nil, "dev", "--nats-port", "0", "--store", t.TempDir())
		url := p.ready()
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := p.end(); err != nil {
			t.Errorf("%v: %v\n%s", signal, err, p.log)
		}
		if rest, _ := p.stdout.ReadString(0); rest != "" {
			t.Errorf("more than the ready line on standard output: %q", rest)
		}
		if nc, err := nats.Connect(url); err == nil {
			nc.Close()
			t.Errorf("%v: the NATS server is still there", signal)
		}
	}
}
