//go:build unix

package e2e

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// fleet is a NATS server of its own, workers and an MCP host as processes.
type fleet struct {
	t       *testing.T
	url     string
	workers []*program
	grants  jetstream.KeyValue
}

const fleetTenant = "acme"

func startFleet(t *testing.T, workers int, mcp ...string) *fleet {
	t.Helper()
	s, err := natsd.NewServer(&natsd.Options{
		Host: "127.0.0.1", Port: natsd.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server was not ready")
	}
	f := &fleet{t: t, url: s.ClientURL()}
	for range workers {
		f.workers = append(f.workers, run(t, nil, "worker", "--nats", f.url))
	}
	f.serving(workers)
	js, err := jetstream.New(connect(t, f.url))
	if err != nil {
		t.Fatal(err)
	}
	if f.grants, err = js.KeyValue(t.Context(), "toolbridge_grants"); err != nil {
		t.Fatal(err)
	}
	if len(mcp) > 0 {
		args := []string{"mcp", "host", "--tenant", fleetTenant, "--nats", f.url}
		for _, m := range mcp {
			args = append(args, "--mcp", m)
		}
		run(t, nil, args...)
	}
	return f
}

// serving waits until so many workers answer.
func (f *fleet) serving(n int) {
	f.t.Helper()
	nc := connect(f.t, f.url)
	eventually(f.t, "workers answer", func() bool {
		inbox := nats.NewInbox()
		sub, err := nc.SubscribeSync(inbox)
		if err != nil {
			f.t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		if err := nc.PublishRequest("$SRV.PING.toolbridge", inbox, nil); err != nil {
			f.t.Fatal(err)
		}
		for range n {
			if _, err := sub.NextMsg(500 * time.Millisecond); err != nil {
				return false
			}
		}
		return true
	})
}

// agent is a session with a grant.
func (f *fleet) agent(grant string) *agent {
	f.t.Helper()
	a := newAgent(f.t, f.url, fleetTenant)
	if grant != "" {
		if _, err := f.grants.PutString(f.t.Context(), fleetTenant+"."+a.session, grant); err != nil {
			f.t.Fatal(err)
		}
	}
	return a
}

// all assembles until the toolsets are there.
func (f *fleet) all(a *agent, tools string) string {
	f.t.Helper()
	ref := ""
	eventually(f.t, "the toolsets are there", func() bool {
		v := a.assemble()
		ref, _ = v["catalog"].(string)
		return encode(v["deferred_count"]) == tools
	})
	return ref
}

const mayAll = `{"user":"ada","toolsets":["*"],"approval":"auto"}`

func TestAFleetServesAnySessionOnAnyWorker(t *testing.T) {
	f := startFleet(t, 2, "everything="+quote(server(t, "everything")), "memory="+quote(server(t, "memory")))
	a := f.agent(mayAll)
	ref := f.all(a, "22")

	t.Run("equal bytes whichever worker answers", func(t *testing.T) {
		body := `{"toolsets":["*"],"dialect":"anthropic","config":{"enabled":true}}`
		first := string(a.raw("assemble", body))
		for range 20 {
			b := &agent{t, a.nc, a.tenant, a.session}
			if again := string(b.raw("assemble", body)); again != first {
				t.Fatalf("replies differ:\n%s\n%s", first, again)
			}
		}
	})
	t.Run("a catalog is used on every worker", func(t *testing.T) {
		for range 20 {
			if got := encode(a.bridge(ref, "tool_search", `{"queries":["read graph"]}`)); !strings.Contains(got, "mcp__memory__read_graph") {
				t.Fatalf("search = %s", got)
			}
			if got := a.result(ref, "mcp__everything__echo", `{"message":"x"}`); got != "Echo: x" {
				t.Fatalf("call = %v", got)
			}
		}
	})
	t.Run("a session can not use what another assembled", func(t *testing.T) {
		b := f.agent(mayAll)
		for range 10 {
			v := b.ask("bridge", `{"id":"c1","name":"tool_search","arguments":{"queries":["echo"]},"catalog":"`+ref+`"}`)
			if at(v, "error", "code") != "UNKNOWN_CATALOG" {
				t.Fatalf("reply = %s", encode(v))
			}
		}
	})
	t.Run("grants bound what a session sees and calls", func(t *testing.T) {
		if v := f.agent("").assemble(); encode(v["deferred_count"]) != "0" {
			t.Errorf("a session without a grant sees %s tools", encode(v["deferred_count"]))
		}
		b := f.agent(`{"user":"ada","toolsets":["mcp-memory"],"tools":["mcp__everything__echo"],"deny":["*delete*"],"approval":"auto"}`)
		v := b.assemble()
		ref := v["catalog"].(string)
		if got := encode(v["deferred_count"]); got != "7" {
			t.Errorf("%s tools", got)
		}
		for tool, want := range map[string]string{
			"mcp__everything__get-env": "TOOL_NOT_FOUND", "mcp__memory__delete_entities": "TOOL_NOT_FOUND", "mcp__everything__echo": "",
		} {
			if got := code(b.call(ref, tool, `{"message":"x","entityNames":[]}`)); got != want {
				t.Errorf("%s: %q, want %q", tool, got, want)
			}
		}
		if got := encode(b.bridge(ref, "tool_search", `{"queries":["delete entities"],"limit":25}`)); strings.Contains(got, "mcp__memory__delete") {
			t.Errorf("a denied tool is found: %s", got)
		}
		if code(b.call(f.all(b, "7"), "mcp__memory__read_graph", `{}`)) != "" {
			t.Error("a granted tool is refused")
		}
	})
	t.Run("without approval: auto nobody is there to ask", func(t *testing.T) {
		b := f.agent(`{"user":"ada","toolsets":["*"]}`)
		v := b.call(b.assemble()["catalog"].(string), "mcp__everything__echo", `{"message":"x"}`)
		if code(v) != "APPROVAL_DENIED" || at(v, "result", "error", "reason") != "no_approver" {
			t.Errorf("reply = %s", encode(v))
		}
	})
	t.Run("tenants see nothing of each other", func(t *testing.T) {
		b := newAgent(t, f.url, "other")
		if _, err := f.grants.PutString(t.Context(), "other."+b.session, mayAll); err != nil {
			t.Fatal(err)
		}
		if v := b.assemble(); encode(v["deferred_count"]) != "0" {
			t.Errorf("another tenant sees %s", encode(v))
		}
	})
}

// TestAWorkerThatIsToldToStopFinishesItsWork: SIGTERM while calls run. Nobody who
// was accepted is left without an answer, and the other worker goes on.
func TestAWorkerThatIsToldToStopFinishesItsWork(t *testing.T) {
	f := startFleet(t, 2, "everything="+quote(server(t, "everything")))
	a := f.agent(mayAll)
	ref := f.all(a, "13")
	var done sync.WaitGroup
	for range 8 {
		b := &agent{t, connect(t, f.url), a.tenant, a.session}
		done.Go(func() {
			v := b.call(ref, "mcp__everything__trigger-long-running-operation", `{"duration":3,"steps":3}`)
			if v["is_error"] != false {
				t.Errorf("a call that ran while its worker stopped: %s", encode(v))
			}
		})
	}
	stats := connect(t, f.url)
	eventually(t, "the calls are under way", func() bool { return inFlight(t, stats) >= 8 })
	if err := f.workers[0].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// Meanwhile nobody is turned away.
	stopping := true
	for stopping {
		select {
		case <-f.workers[0].exited:
			stopping = false
		default:
		}
		if v := a.bridge(ref, "tool_search", `{"queries":["echo"]}`); v["is_error"] != false {
			t.Errorf("while a worker stops: %s", encode(v))
		}
	}
	done.Wait()
	if err := f.workers[0].end(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if got := a.result(ref, "mcp__everything__echo", `{"message":"one left"}`); got != "Echo: one left" {
		t.Errorf("call = %v", got)
	}
}

// inFlight sums the requests in work over all workers.
func inFlight(t *testing.T, nc *nats.Conn) int {
	t.Helper()
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest("$SRV.STATS.toolbridge", inbox, nil); err != nil {
		t.Fatal(err)
	}
	total := 0
	for {
		m, err := sub.NextMsg(300 * time.Millisecond)
		if err != nil {
			return total
		}
		endpoints, _ := decode(t, m.Data)["endpoints"].([]any)
		most := 0
		for _, e := range endpoints {
			n, _ := at(e, "data", "in_flight").(interface{ Int64() (int64, error) })
			if n != nil {
				v, _ := n.Int64()
				most = max(most, int(v))
			}
		}
		total += most
	}
}

// TestAWorkerThatIsKilledCostsOnlyWhatItHadInHand: SIGKILL under load. Every later
// request is answered by the other worker.
func TestAWorkerThatIsKilledCostsOnlyWhatItHadInHand(t *testing.T) {
	f := startFleet(t, 2, "everything="+quote(server(t, "everything")))
	a := f.agent(mayAll)
	ref := f.all(a, "13")
	var answered, lost atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	search := []byte(`{"id":"c1","name":"tool_search","arguments":{"queries":["echo"]},"catalog":"` + ref + `"}`)
	for range 4 {
		nc := connect(t, f.url)
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if m, err := nc.Request(a.subject("bridge"), search, 2*time.Second); err != nil {
					lost.Add(1)
				} else if m.Header.Get("Nats-Service-Error-Code") == "" {
					answered.Add(1)
				}
			}
		})
	}
	eventually(t, "both workers are busy", func() bool { return answered.Load() > 200 })
	f.workers[0].kill()
	before := answered.Load()
	eventually(t, "the other one goes on", func() bool { return answered.Load() > before+500 })
	close(stop)
	clients.Wait()
	if n := lost.Load(); n > 4 {
		t.Errorf("%d requests were lost: at most the one of each client that was in hand may be", n)
	}
	if got := a.result(ref, "mcp__everything__echo", `{"message":"one left"}`); got != "Echo: one left" {
		t.Errorf("call = %v", got)
	}
	f.workers = append(f.workers, run(t, nil, "worker", "--nats", f.url))
	f.serving(2)
	for range 20 { // a worker that started later knows the catalog, too
		if got := encode(a.bridge(ref, "tool_search", `{"queries":["echo"]}`)); !strings.Contains(got, "mcp__everything__echo") {
			t.Fatalf("search = %s", got)
		}
	}
}
