package check

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// traceID is the trace that one request of the load begins.
const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// loadFor is how long the load goes on: the panels' rates look back a minute.
const loadFor = 30 * time.Second

// load is what the panels are about: every operation, every kind of outcome, people
// who decide, a worker that is lost, a gateway that fails.
func load(t *testing.T, in *installation, hosted gateway) {
	t.Helper()
	in.grant(t, "s1")
	people(t, in)
	hook(t, in)
	agent, _ := in.connect(t, "default-agent")
	s := &session{t: t, nc: agent}
	s.begin()
	in.oddities(t, s)
	hosted.outage(t, s, "before")
	s.busy("first", loadFor/2)
	// A worker is lost twice: with messages of the queue in its hands, which come
	// again, and with calls that it ran at once, which the sweeper sends again.
	in.lose(t, s, "held", func() { in.held(t) })
	in.lose(t, s, "at-once", func() {})
	// Nobody fetches the figures of a process that is gone: all is made once more.
	in.oddities(t, s)
	hosted.outage(t, s, "after")
	s.busy("second", loadFor/2)
	time.Sleep(2 * time.Second) // two more scrapes
}

// lose kills a worker amid calls, once ready returns, and waits for their results.
func (in *installation) lose(t *testing.T, s *session, name string, ready func()) {
	t.Helper()
	lost := in.workers[0]
	id := func(i int) string { return fmt.Sprintf("%s-%d", name, i) }
	for i := range lostCalls {
		s.send("call", map[string]any{"id": id(i), "name": "tool_call", "catalog": s.catalog, "arguments": call("linger", "x")})
	}
	ready()
	_ = lost.cmd.Process.Kill()
	await(t, "the lost worker's successor", time.Minute, func(ctx context.Context) error { return lost.probe(ctx, t, lost.container.ReadinessProbe) })
	for i := range lostCalls {
		await(t, "the result of a call that was taken over", time.Minute, func(context.Context) error { return s.fetched(id(i)) })
	}
}

// lostCalls are more than a worker has slots, so that some wait in the queue.
const lostCalls = 80

// held waits until more messages of the queues are taken than one worker can take,
// so that every worker has some.
func (in *installation) held(t *testing.T) {
	t.Helper()
	nc, _ := in.connect(t, "worker")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "messages in the hands of every worker", 20*time.Second, func(ctx context.Context) error {
		taken := 0
		for p := range 4 {
			c, err := js.Consumer(ctx, fmt.Sprintf("TOOLBRIDGE_CALLS_%d", p), "workers")
			if err != nil {
				return err
			}
			taken += c.CachedInfo().NumAckPending
		}
		if taken <= callSlots {
			return fmt.Errorf("%d are taken", taken)
		}
		return nil
	})
}

// busy makes rounds for a while, several at once.
func (s *session) busy(name string, long time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), long)
	defer cancel()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s.round(fmt.Sprintf("%s-%d-%d", name, i, n), n)
			}
		})
	}
	all.Wait()
}

func call(tool, text string) map[string]any {
	return map[string]any{"calls": []any{map[string]any{"name": "mcp__check__" + tool, "arguments": map[string]any{"text": text}}}}
}

// session is one agent on the bus.
type session struct {
	t       *testing.T
	nc      *nats.Conn
	catalog string
}

func (s *session) send(verb string, body any, header ...string) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		s.t.Error(err)
		return nil
	}
	m := nats.NewMsg("toolbridge.v1.default.s1." + verb)
	m.Data = data
	for i := 0; i+1 < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	answer, err := s.nc.RequestMsg(m, 10*time.Second)
	if err != nil {
		return nil // a worker is lost on purpose
	}
	return answer.Data
}

// begin assembles, once the MCP server's tools are there.
func (s *session) begin() {
	s.t.Helper()
	await(s.t, "an assembly with the server's tools", 30*time.Second, func(context.Context) error {
		var reply struct {
			Catalog  string `json:"catalog"`
			Deferred int    `json:"deferred_count"`
		}
		body := s.send("assemble", assembly(true))
		if err := json.Unmarshal(body, &reply); err != nil || reply.Catalog == "" || !strings.Contains(string(body), "mcp__check__") {
			return fmt.Errorf("%w: %s", err, body)
		}
		s.catalog = reply.Catalog
		return nil
	})
}

// manageConnections is what a session has that may use hosted tools.
var manageConnections = map[string]any{
	"name": "manage_connections", "toolset": "connections", "description": "Connects accounts of hosted apps.",
	"parameters": map[string]any{"type": "object"},
}

func assembly(deferred bool) map[string]any {
	return map[string]any{"toolsets": []any{"mcp-check"}, "tools": []any{manageConnections}, "context_length": 200000, "config": map[string]any{"enabled": map[bool]string{true: "on", false: "off"}[deferred]}}
}

// round is one of everything.
func (s *session) round(id string, n int) {
	bridge := func(name string, arguments map[string]any) []byte {
		return s.send("bridge", map[string]any{"id": strings.ReplaceAll(id+"-"+name, "tool_", ""), "name": name, "catalog": s.catalog, "arguments": arguments})
	}
	s.send("assemble", assembly(n%5 != 0))
	bridge("tool_search", map[string]any{"queries": []any{"say a text back", "wait half second", "fail purpose umbrella", "xyzzy"}})
	bridge("tool_describe", map[string]any{"names": []any{"mcp__check__say"}})
	bridge("tool_call", call("say", id))
	s.send("bridge", map[string]any{"id": id + "-hosted-search", "name": "tool_search", "catalog": s.catalog, "arguments": map[string]any{"queries": []any{"list the issues of a repository for " + id}}})
	s.send("bridge", map[string]any{"id": id + "-hosted", "name": "tool_call", "catalog": s.catalog, "arguments": map[string]any{"calls": []any{issues()}}})
	if n%3 == 0 {
		bridge("tool_call", map[string]any{"calls": []any{map[string]any{"name": "mcp__check__nothing", "arguments": map[string]any{}}}})
		s.send("call", map[string]any{"id": id + "-asked", "name": "tool_call", "catalog": s.catalog, "arguments": call("break", id)})
		s.send("call", map[string]any{"id": id + "-durable", "name": "tool_call", "catalog": s.catalog, "arguments": call("linger", id)})
		s.send("fetch", map[string]any{"call_id": id + "-durable"})
		s.send("preflight", map[string]any{"names": []any{"mcp__check__say"}, "catalog": s.catalog})
		s.send("stop", map[string]any{"call_id": id + "-none"})
	}
}

func (s *session) fetched(id string) error {
	body := s.send("fetch", map[string]any{"call_id": id})
	if !strings.Contains(string(body), `"result"`) {
		return fmt.Errorf("fetch: %s", body)
	}
	return nil
}

// oddities are requests that are refused, dropped or put aside, and one that
// belongs to a trace.
func (in *installation) oddities(t *testing.T, s *session) {
	t.Helper()
	search := map[string]any{"id": "traced", "name": "tool_search", "catalog": s.catalog, "arguments": map[string]any{"queries": []any{"say a text back"}}}
	s.send("bridge", search, "traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	s.send("call", map[string]any{"id": "traced-call", "name": "tool_call", "catalog": s.catalog, "arguments": call("say", "traced")}, "traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	for range 20 {
		s.send("bridge", search, "Toolbridge-Deadline", "1000")
		if err := s.nc.PublishRequest("toolbridge.v1.default.s1.bridge", "elsewhere.reply", []byte("{}")); err != nil {
			t.Error(err)
		}
	}
	worker, _ := in.connect(t, "worker")
	if err := worker.Publish("toolbridge.v1._calls.0.default.s1.unreadable", []byte("not a call")); err != nil {
		t.Error(err)
	}
	if err := worker.Flush(); err != nil {
		t.Error(err)
	}
}

// people answer every question, each time in another way.
func people(t *testing.T, in *installation) {
	t.Helper()
	nc, _ := in.connect(t, "default-approver")
	choices := []string{"once", "deny"}
	asked := 0
	if _, err := nc.Subscribe("toolbridge.v1.default._approvals.requested", func(m *nats.Msg) {
		var record struct {
			ID   string `json:"id"`
			Tool string `json:"tool"`
		}
		if json.Unmarshal(m.Data, &record) != nil {
			return
		}
		_ = m.Respond([]byte("{}"))
		choice := choices[asked%len(choices)]
		if record.Tool == "mcp__check__linger" { // asked for once, then remembered
			choice = "session"
		}
		body, _ := json.Marshal(map[string]any{"id": record.ID, "choice": choice})
		asked++
		_ = nc.PublishRequest("toolbridge.v1.default._approvals.decide.ann", nats.NewInbox(), body)
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// hook lets every call through.
func hook(t *testing.T, in *installation) {
	t.Helper()
	nc, _ := in.connect(t, "default-host")
	if _, err := nc.Subscribe("toolbridge.v1.default._hooks.run.budget", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"action":"allow"}`))
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}
