package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, bus.Leaks()...) }

// fleet is one embedded server with workers on it, and a plain client.
type fleet struct {
	t      testing.TB
	server *server.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	calls  int // ids given

	options []nats.Option // of every connection
}

// id is a new id for one call of an agent.
func (f *fleet) id() string {
	f.calls++
	return fmt.Sprintf("c%d", f.calls)
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	return fleetOn(t, bus.Server(t))
}

// bubble runs a test under the clock of a synctest bubble. The NATS library pools
// timers for the whole process, and one may not leave its bubble: two
// collections empty the pool before and after.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	empty := func() {
		runtime.GC()
		runtime.GC()
	}
	empty()
	defer empty()
	defer func() {
		p := recover()
		if p != nil && (!strings.Contains(fmt.Sprint(p), "blocked goroutines remain") || !onlyLibraryLeaks()) {
			panic(p)
		}
	}()
	synctest.Test(t, f)
}

// onlyLibraryLeaks reports whether nothing is left in bubbles but the goroutine
// that the library leaves behind now and then (see bus.Leaks).
func onlyLibraryLeaks() bool {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, g := range bytes.Split(stacks, []byte("\n\n")) {
		head, _, _ := bytes.Cut(g, []byte("\n"))
		if bytes.Contains(head, []byte("synctest bubble")) && !bytes.Contains(g, []byte("resetPendingAcksOnReconnect")) {
			return false
		}
	}
	return true
}

// fleetInBubble is newFleet without the network, so that the time of its test is
// that of a synctest bubble.
func fleetInBubble(t testing.TB) *fleet {
	t.Helper()
	s := bus.Server(t, func(o *server.Options) { o.DontListen = true })
	return fleetOn(t, s, nats.InProcessServer(s))
}

func fleetOn(t testing.TB, s *server.Server, options ...nats.Option) *fleet {
	t.Helper()
	nc := bus.Connect(t, s, options...)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{t: t, server: s, nc: nc, js: js, options: options}
}

// start adds a worker with its own connection, stopped with the test.
func (f *fleet) start(cfg worker.Config) *worker.Worker {
	f.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w, err := worker.New(cfg, bus.Connect(f.t, f.server, f.options...))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := w.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			f.t.Errorf("Stop: %v", err)
		}
	})
	return w
}

const wait = 20 * time.Second

// flush waits until the server has seen what was sent. Unlike Conn.Flush it takes
// no timer from the library's pool, which bubbles of synctest may not share.
func (f *fleet) flush() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), wait)
	defer cancel()
	if err := f.nc.FlushWithContext(ctx); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) send(subject, body string, headers ...string) *nats.Msg {
	f.t.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), wait)
	defer cancel()
	reply, err := f.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		f.t.Fatalf("request on %s: %v", subject, err)
	}
	if kind := reply.Header.Get("Toolbridge-Kind"); kind != "reply" {
		f.t.Errorf("reply on %s has Toolbridge-Kind %q", subject, kind)
	}
	return reply
}

// ask sends a request of session s of tenant t and decodes the reply.
func (f *fleet) ask(session, verb, body string, headers ...string) map[string]any {
	f.t.Helper()
	return decode(f.t, f.send("toolbridge.v1.t."+session+"."+verb, body, headers...).Data)
}

func decode(t testing.TB, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("reply %s: %v", data, err)
	}
	return v
}

func (f *fleet) assemble(session, body string) map[string]any {
	f.t.Helper()
	reply := f.ask(session, "assemble", body)
	if reply["error"] != nil {
		f.t.Fatalf("assemble: %v", reply["error"])
	}
	return reply
}

// bridge calls one bridge tool by catalog reference.
func (f *fleet) bridge(session, catalog, name, arguments string) map[string]any {
	f.t.Helper()
	return f.ask(session, "bridge", fmt.Sprintf(`{"id":%q,"name":%q,"arguments":%s,"catalog":%q}`, f.id(), name, arguments, catalog))
}

func (f *fleet) search(session, catalog, query string) []any {
	f.t.Helper()
	reply := f.bridge(session, catalog, "tool_search", fmt.Sprintf(`{"queries":[%q],"limit":25}`, query))
	return at(f.t, reply, "result", "results", 0, "matches").([]any)
}

// at walks into decoded JSON.
func at(t testing.TB, v any, path ...any) any {
	t.Helper()
	for i, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("%v: %v is no object", path[:i], v)
			}
			v = m[p]
		case int:
			l, ok := v.([]any)
			if !ok || p >= len(l) {
				t.Fatalf("%v: %v has no element %d", path[:i], v, p)
			}
			v = l[p]
		}
	}
	return v
}

// code is the code of a request's error, of a refused result, or "".
func code(v map[string]any) string {
	e, ok := v["error"].(map[string]any)
	if !ok {
		r, _ := v["result"].(map[string]any)
		e, _ = r["error"].(map[string]any)
	}
	s, _ := e["code"].(string)
	return s
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// grant writes a session's grant as an orchestrator would.
func (f *fleet) grant(session, grant string) {
	f.t.Helper()
	kv, err := f.js.KeyValue(f.t.Context(), "toolbridge_grants")
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := kv.PutString(f.t.Context(), "t."+session, grant); err != nil {
		f.t.Fatal(err)
	}
}

// register puts a toolset of plain definitions into the registry, as an executor
// would, and returns the revision.
func (f *fleet) register(toolset, executor, definitions string, more ...string) uint64 {
	f.t.Helper()
	st, err := state.Open(f.t.Context(), f.nc, subjects.Space{}, state.Config{})
	if err != nil {
		f.t.Fatal(err)
	}
	name, err := st.Blobs.PutIfAbsent(f.t.Context(), []byte(definitions))
	if err != nil {
		f.t.Fatal(err)
	}
	value := fmt.Sprintf(`{"definitions_sha256":%q,"blob":%q,"since":"2026-01-01T00:00:00Z"%s}`, name, name, strings.Join(more, ""))
	revision, err := st.Toolsets.PutString(f.t.Context(), subjects.ToolsetKey("t", toolset, executor), value)
	if err != nil {
		f.t.Fatal(err)
	}
	return revision
}

// eventually waits for a condition that another process brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(wait)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", wait, what)
		}
		<-tick.C
	}
}

// tool is an OpenAI definition of the session's own.
func tool(name, toolset, description string, params ...string) string {
	props := make([]string, len(params))
	for i, p := range params {
		props[i] = fmt.Sprintf(`%q:{"type":"string"}`, p)
	}
	own := ""
	if toolset != "" {
		own = fmt.Sprintf(`,"toolset":%q`, toolset)
	}
	return fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":%q,"parameters":{"type":"object","properties":{%s}}}%s}`,
		name, description, strings.Join(props, ","), own)
}

func tools(list ...string) string { return "[" + strings.Join(list, ",") + "]" }

// plain is a definition as executors publish it.
func plain(name, description string, params ...string) string {
	props := make([]string, len(params))
	for i, p := range params {
		props[i] = fmt.Sprintf(`%q:{"type":"string"}`, p)
	}
	return fmt.Sprintf(`{"name":%q,"description":%q,"parameters":{"type":"object","properties":{%s}}}`, name, description, strings.Join(props, ","))
}
