package call_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"toolbridge/approval"
	"toolbridge/catalog"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/worker/call"
)

// The call path as a state machine: random calls, and random events against a
// fleet of three engines on one real server, in a bubble where time is free.
// What must hold afterwards stands in world.check.

const (
	machineLease   = 600 * time.Millisecond
	machineEngines = 3
	machineTenant  = "t"
	machineSession = "s1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, bus.Leaks()...) }

// entryPlan is one entry of a random call.
type entryPlan struct {
	Tool  string        // one of machineTools
	Does  string        // "ok", "fail"; "once": it is not there for a second run
	Takes time.Duration // until it answers, or is cancelled
}

// op is one random event.
type op struct {
	Kind   string
	Engine int
	Call   int
	For    time.Duration
	Point  string // where an engine is cut off the bus
}

// script is one run of the machine.
type script struct {
	Queued bool
	Slots  int
	Single bool // a connector-only batch goes out in one request
	Calls  [][]entryPlan
	Ops    []op
}

var machineTools = map[string]struct{ parallel, repeatable bool }{
	"mcp__m__seq":     {false, false},
	"mcp__m__seq_rep": {false, true},
	"mcp__m__par":     {true, false},
	"mcp__m__par_rep": {true, true},
	hostedTool:        {false, true},
}

const machineDefinitions = `[
 {"name":"mcp__m__seq","description":"a","toolset":"mcp-m","parameters":{"type":"object"}},
 {"name":"mcp__m__seq_rep","description":"b","toolset":"mcp-m","annotations":{"idempotentHint":true},"parameters":{"type":"object"}},
 {"name":"mcp__m__par","description":"c","toolset":"mcp-m","parallel":true,"parameters":{"type":"object"}},
 {"name":"mcp__m__par_rep","description":"d","toolset":"mcp-m","parallel":true,"annotations":{"idempotentHint":true},"parameters":{"type":"object"}}]`

var kinds = []string{
	"accept", "accept", "accept", "again", "other", "stop", "stop", "stop all", "kill", "cut", "cut", "leave", "pause", "stall", "stall", "wake", "duplicate", "wait", "wait", "wait",
}

var points = []string{
	call.StepAccept, call.StepStored, call.StepQueued, call.StepClaimed, call.StepSent, call.StepReplied, call.StepWritten, call.StepPublished, call.StepAck,
}

func drawScript(t *rapid.T) script {
	tools := []string{"mcp__m__seq", "mcp__m__seq_rep", "mcp__m__par", "mcp__m__par_rep", hostedTool, hostedTool}
	entry := rapid.Custom(func(t *rapid.T) entryPlan {
		return entryPlan{
			Tool:  rapid.SampledFrom(tools).Draw(t, "tool"),
			Does:  rapid.SampledFrom([]string{"ok", "ok", "ok", "fail", "once"}).Draw(t, "does"),
			Takes: time.Duration(rapid.SampledFrom([]int{0, 0, 5, 100, 400, 900, 2500}).Draw(t, "takes")) * time.Millisecond,
		}
	})
	calls := rapid.SliceOfN(rapid.SliceOfN(entry, 1, 4), 1, 4).Draw(t, "calls")
	event := rapid.Custom(func(t *rapid.T) op {
		return op{
			Kind:   rapid.SampledFrom(kinds).Draw(t, "kind"),
			Engine: rapid.IntRange(0, machineEngines-1).Draw(t, "engine"),
			Call:   rapid.IntRange(0, len(calls)-1).Draw(t, "call"),
			Point:  rapid.SampledFrom(points).Draw(t, "point"),
			For:    time.Duration(rapid.SampledFrom([]int{1, 5, 20, 100, 300, 700, 1500}).Draw(t, "for")) * time.Millisecond,
		}
	})
	return script{
		Queued: rapid.Bool().Draw(t, "queued"), Slots: rapid.SampledFrom([]int{1, 2, 8}).Draw(t, "slots"),
		Single: rapid.Bool().Draw(t, "single"),
		Calls:  calls, Ops: rapid.SliceOfN(event, 1, 25).Draw(t, "ops"),
	}
}

func TestEveryCallReachesOneTruthfulEndWhateverHappensToItsWorkers(t *testing.T) {
	logs := os.Getenv("TOOLBRIDGE_MACHINE_LOG") != ""
	if testing.Short() {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		var faults []string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, s, logs)
			defer w.end()
			w.run()
			faults = w.check()
		})
		if len(faults) > 0 {
			rt.Fatalf("%s", strings.Join(faults, "\n"))
		}
	})
}

// world is one run: a server, engines, and what was seen from outside.
type world struct {
	t       *testing.T
	script  script
	server  *server.Server
	log     *slog.Logger
	catalog *catalog.Catalog
	nc      *nats.Conn // the observer's
	js      jetstream.JetStream
	state   *state.State
	calls   *state.Calls
	engines []*node

	mu        sync.Mutex
	starts    map[string][]start // by execution id
	keys      map[string]string  // of the gateway's executions, by execution id
	published map[string][][]byte
	accepted  map[int]bool
	answered  map[int][]byte // reply that a requester has got
	stopped   map[int][]int  // entries that a stop called interrupted
	anyStop   map[int]bool
	disturbed bool // a worker was killed or paused
	faults    []string
	asking    sync.WaitGroup
}

type start struct {
	at, end time.Time
	result  string
}

// node is one engine with its connection, which can be cut or held up.
type node struct {
	*call.Engine
	nc    *nats.Conn
	gate  *gate
	dead  bool
	armed atomic.Pointer[op] // what happens to it at a point of a call
}

// at cuts the engine off the bus, or stops it for a while, at the point that it
// was armed for.
func (n *node) at(point, _ string) {
	o := n.armed.Load()
	if o == nil || o.Point != point || !n.armed.CompareAndSwap(o, nil) {
		return
	}
	if o.Kind == "cut" {
		n.nc.Close()
		return
	}
	n.gate.set(true)
	time.Sleep(o.For)
	n.gate.set(false)
}

// gate holds a connection up, as a stopped process does. What is written
// meanwhile waits, since the client writes with its lock held.
type gate struct {
	mu     sync.Mutex
	open   *sync.Cond
	closed bool
	held   []byte
	conn   net.Conn
}

func newGate() *gate {
	g := &gate{}
	g.open = sync.NewCond(&g.mu)
	return g
}

func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.closed {
		g.open.Wait()
	}
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	if !closed && len(g.held) > 0 {
		_, _ = g.conn.Write(g.held)
		g.held = nil
	}
	g.open.Broadcast()
}

type gatedConn struct {
	net.Conn
	gate *gate
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.pass()
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.gate.closed {
		c.gate.held = append(c.gate.held, b...)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

type inProcess struct {
	server *server.Server
	gate   *gate
}

func (p inProcess) InProcessConn() (net.Conn, error) {
	c, err := p.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	p.gate.conn = c
	return gatedConn{c, p.gate}, nil
}

func newWorld(t *testing.T, s script, logs bool) *world {
	w := &world{
		t: t, script: s, log: slog.New(slog.DiscardHandler), starts: map[string][]start{}, keys: map[string]string{}, published: map[string][][]byte{}, accepted: map[int]bool{},
		answered: map[int][]byte{}, stopped: map[int][]int{}, anyStop: map[int]bool{},
	}
	if logs {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var err error
	if w.server, err = server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: storeDir(t), MaxPayload: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	w.server.Start()
	if !w.server.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	w.nc = w.connect(newGate())
	definitions, warnings, err := catalog.Decode([]byte(machineDefinitions), catalog.Limits{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	for i := range definitions {
		definitions[i].Registry = true
	}
	config, _ := catalog.ParseConfig([]byte(`{"enabled":true}`))
	w.catalog = catalog.New(catalog.Input{Definitions: definitions, Config: config})
	w.state, w.calls, w.js = w.open(w.nc)
	if _, err := w.nc.Subscribe("toolbridge.v1.t.s1.result.*", func(m *nats.Msg) {
		w.mu.Lock()
		defer w.mu.Unlock()
		id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		w.published[id] = append(w.published[id], m.Data)
	}); err != nil {
		t.Fatal(err)
	}
	for range machineEngines {
		w.engines = append(w.engines, w.engine())
	}
	return w
}

// storeDir is in memory where the system has such a folder: many servers are made
// and thrown away, and their files are synced.
func storeDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "toolbridge-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (w *world) connect(g *gate) *nats.Conn {
	nc, err := nats.Connect("", nats.InProcessServer(inProcess{w.server, g}), nats.MaxReconnects(0))
	if err != nil {
		w.t.Fatal(err)
	}
	return nc
}

func (w *world) open(nc *nats.Conn) (*state.State, *state.Calls, jetstream.JetStream) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	st, err := state.Open(ctx, nc, subjects.Space{}, state.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	calls, err := state.OpenCalls(ctx, js, subjects.Space{}, state.Config{}, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	return st, calls, js
}

func (w *world) engine() *node {
	n := &node{gate: newGate()}
	n.nc = w.connect(n.gate)
	st, calls, _ := w.open(n.nc)
	n.Engine = call.New(call.Config{
		Policy: approval.Policy{Dev: true}, Lease: machineLease, MaxAttempts: 100, Slots: w.script.Slots, Queued: w.script.Queued, Timeout: time.Minute, Logger: w.log, Step: n.at,
	}, n.nc, st, calls, &executor{w, n}, nil, nil)
	if err := n.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) end() {
	for _, n := range w.engines {
		w.kill(n)
	}
	w.nc.Close()
	w.server.Shutdown()
	w.server.WaitForShutdown()
}

// kill ends an engine without a word: its connection is gone before it can write.
func (w *world) kill(n *node) {
	if n.dead {
		return
	}
	n.dead = true
	n.nc.Close()
	n.gate.set(false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.Stop(ctx)
}

// executor counts what is started outside.
type executor struct {
	w *world
	n *node
}

func (x *executor) Execute(ctx context.Context, e call.Execution) call.Outcome {
	if e.Place == call.AtGateway {
		return x.hosted(ctx, e)
	}
	response, err := x.run(ctx, e)
	return call.Outcome{Response: response, Error: err, Unsent: err != nil && (err.Code == subjects.CodeInterrupted || err.Code == subjects.CodeExecutorUnavailable)}
}

func (x *executor) run(ctx context.Context, e call.Execution) (json.RawMessage, *subjects.SlotError) {
	x.n.gate.pass()
	if ctx.Err() != nil {
		return nil, &subjects.SlotError{Code: subjects.CodeInterrupted, Message: "not started"}
	}
	if !time.Now().Before(e.StartBy) || x.n.nc.IsClosed() {
		return nil, &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: "too late"}
	}
	var plan entryPlan
	if err := json.Unmarshal(e.Arguments, &plan); err != nil {
		return nil, &subjects.SlotError{Code: subjects.CodeInternal, Message: err.Error()}
	}
	x.w.mu.Lock()
	if plan.Does == "once" && len(x.w.starts[e.ID]) > 0 {
		x.w.mu.Unlock()
		return nil, &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: "gone"}
	}
	list := append(x.w.starts[e.ID], start{at: time.Now(), result: fmt.Sprintf(`{"run":%d}`, len(x.w.starts[e.ID]))})
	x.w.starts[e.ID] = list
	i := len(list) - 1
	x.w.mu.Unlock()
	if e.Sent != nil {
		e.Sent()
	}
	answer := json.RawMessage(list[i].result)
	var slotErr *subjects.SlotError
	timer := time.NewTimer(plan.Takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		if plan.Does == "fail" {
			answer, slotErr = nil, &subjects.SlotError{Code: subjects.CodeToolError, Message: fmt.Sprintf("run %d", i)}
		}
	case <-ctx.Done():
		answer, slotErr = nil, &subjects.SlotError{Code: subjects.CodeOutcomeUnknown, Message: "cancelled: " + context.Cause(ctx).Error()}
	}
	x.w.mu.Lock()
	x.w.starts[e.ID][i].end = time.Now()
	x.w.mu.Unlock()
	x.n.gate.pass()
	return answer, slotErr
}

func callID(i int) string { return fmt.Sprintf("c%d", i) }

// request is call i as an agent sends it.
func (w *world) request(i int, other bool) call.Call {
	type entry struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	var entries []entry
	for _, p := range w.script.Calls[i] {
		entries = append(entries, entry{p.Tool, map[string]any{"Does": p.Does, "Takes": p.Takes, "other": other}})
	}
	body, err := json.Marshal(map[string]any{"calls": entries})
	if err != nil {
		w.t.Fatal(err)
	}
	return call.Call{
		Tenant: machineTenant, Session: machineSession, ID: callID(i), Arguments: body, CatalogHash: "h", Catalog: w.catalog,
		Connectors: &call.Connectors{Single: w.script.Single, Allows: func(string) bool { return true }},
		Trusted:    func(string) bool { return true }, Live: func(string) (call.Live, bool) { return call.Live{State: subjects.StateReady}, true },
	}
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *world) run() {
	for _, o := range w.script.Ops {
		w.do(o)
		synctest.Wait()
		w.replace()
	}
	for _, n := range w.engines {
		n.gate.set(false)
		n.armed.Store(nil)
	}
	synctest.Wait()
	w.replace()
	// Accept what the script has not, so that every call has to come to its end.
	for i := range w.script.Calls {
		if !w.accepted[i] {
			w.ask(w.engines[i%machineEngines], i)
		}
	}
	time.Sleep(60 * machineLease)
	w.asking.Wait()
}

// at and put are for the engines that agents ask while others are replaced.
func (w *world) at(i int) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engines[i%machineEngines]
}

func (w *world) put(i int, n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engines[i] = n
}

// replace puts new engines where the old ones are off the bus.
func (w *world) replace() {
	for i, n := range w.engines {
		if n.nc.IsClosed() {
			w.kill(n)
			w.put(i, w.engine())
		}
	}
}

func (w *world) do(o op) {
	n := w.engines[o.Engine]
	switch o.Kind {
	case "accept":
		w.ask(n, o.Call)
	case "again":
		if w.accepted[o.Call] {
			w.ask(n, o.Call)
		}
	case "other":
		if !w.accepted[o.Call] || w.anyStop[o.Call] || !w.stored(o.Call) {
			return
		}
		w.asking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_, err := n.Accept(ctx, w.request(o.Call, true))
			var e *subjects.Error
			if !errors.As(err, &e) || e.Code != subjects.CodeIDReused && e.Code != subjects.CodeUnavailable && e.Code != subjects.CodeDeadlineExceeded {
				w.fault("call %d with another body: %v", o.Call, err)
			}
		})
		synctest.Wait()
	case "stop":
		w.anyStop[o.Call] = true
		w.asking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			s, err := n.StopCall(ctx, machineTenant, machineSession, callID(o.Call))
			if err != nil {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stopped[o.Call] = append(w.stopped[o.Call], s.Interrupted...)
		})
	case "stop all":
		for i := range w.script.Calls {
			w.anyStop[i] = true
		}
		w.asking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			list, err := n.StopAll(ctx, machineTenant, machineSession)
			if err != nil {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, s := range list {
				var i int
				_, _ = fmt.Sscanf(s.CallID, "c%d", &i)
				w.stopped[i] = append(w.stopped[i], s.Interrupted...)
			}
		})
	case "kill":
		w.disturbed = true
		w.kill(n)
		w.put(o.Engine, w.engine())
	case "cut", "stall":
		w.disturbed = true
		n.armed.Store(&o)
	case "leave": // a graceful stop with a short grace, and another worker in its place
		w.put(o.Engine, w.engine())
		w.asking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), o.For)
			defer cancel()
			_ = n.Stop(ctx)
			n.nc.Close()
		})
	case "pause":
		w.disturbed = true
		n.gate.set(true)
		w.asking.Go(func() {
			time.Sleep(o.For)
			n.gate.set(false)
		})
	case "wake", "duplicate":
		if !w.accepted[o.Call] {
			return
		}
		subject := subjects.Space{}.WakeSubject(0, machineTenant, machineSession, callID(o.Call))
		if o.Kind == "duplicate" {
			subject = subjects.Space{}.CallSubject(0, machineTenant, machineSession, callID(o.Call))
		}
		_ = w.nc.Publish(subject, []byte(`{}`))
	case "wait":
		time.Sleep(o.For)
	}
}

// stored reports whether a call is in the journal.
func (w *world) stored(i int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _, err := w.state.GetFresh(ctx, w.calls.Partitions[0].Bucket, subjects.JournalKey(machineTenant, machineSession, callID(i)))
	return err == nil
}

// ask is an agent that sends a call and waits; after a loss it sends it again.
func (w *world) ask(n *node, i int) {
	w.accepted[i] = true
	w.asking.Go(func() {
		for until := time.Now().Add(time.Minute); time.Now().Before(until); {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			reply, err := n.Run(ctx, w.request(i, false))
			cancel()
			if err == nil {
				w.mu.Lock()
				if have := w.answered[i]; have != nil && !bytes.Equal(have, reply) {
					w.faults = append(w.faults, fmt.Sprintf("call %d answered differently: %s\nthen %s", i, have, reply))
				}
				w.answered[i] = reply
				w.mu.Unlock()
				return
			}
			var e *subjects.Error
			if !errors.As(err, &e) || !e.Retryable && e.Code != subjects.CodeDeadlineExceeded {
				w.fault("call %d: %v", i, err)
				return
			}
			time.Sleep(machineLease)
			n = w.at(i + 1)
		}
	})
	synctest.Wait()
}

type slot struct {
	Index    int                 `json:"index"`
	Response json.RawMessage     `json:"response"`
	Error    *subjects.SlotError `json:"error"`
}

// check holds the run against what must be true of every run.
func (w *world) check() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bad := func(format string, args ...any) { w.faults = append(w.faults, fmt.Sprintf(format, args...)) }
	for i, plan := range w.script.Calls {
		id := callID(i)
		reply, err := w.engines[0].Result(ctx, machineTenant, machineSession, id)
		if err != nil || reply == nil {
			bad("call %s has no result: %v", id, err)
			continue
		}
		if !bytes.Equal(reply, w.answered[i]) {
			bad("call %s: the requester got %s, the journal has %s", id, w.answered[i], reply)
		}
		m, err := w.calls.Results.GetLastMsgForSubject(ctx, "toolbridge.v1.t.s1.result."+id)
		if err != nil || !bytes.Equal(m.Data, reply) {
			bad("call %s: the results have no such result: %v", id, err)
		}
		for _, p := range w.published[id] {
			if !bytes.Equal(p, reply) {
				bad("call %s: published %s, final is %s", id, p, reply)
			}
		}
		w.checkSlots(i, plan, reply, bad)
		w.checkOrder(i, plan, bad)
	}
	for _, p := range w.calls.Partitions {
		info, err := p.Queue.Info(ctx)
		if err != nil || info.State.Msgs > 0 {
			bad("the queue has %d messages left: %v", info.State.Msgs, err)
		}
	}
	w.checkDead(ctx, bad)
	return w.faults
}

// checkDead: nothing is given up but messages that name no accepted call.
func (w *world) checkDead(ctx context.Context, bad func(string, ...any)) {
	dead, err := w.js.Stream(ctx, subjects.StreamDead)
	if err != nil {
		bad("dead letters: %v", err)
		return
	}
	state := dead.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := dead.GetMsg(ctx, seq)
		if err != nil || !bytes.Contains(m.Data, []byte("the journal has no record")) {
			bad("a dead letter: %v %s", err, m.Data)
		}
	}
}

func (w *world) checkSlots(i int, plan []entryPlan, reply []byte, bad func(string, ...any)) {
	var r struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		bad("call %d: %v", i, err)
		return
	}
	var slots []slot
	if isBatch(plan) {
		var batch struct {
			Results []slot `json:"results"`
		}
		if err := json.Unmarshal(r.Result, &batch); err != nil {
			bad("call %d: %v", i, err)
		}
		slots = batch.Results
	} else {
		var one slot
		if err := json.Unmarshal(r.Result, &one); err != nil {
			bad("call %d: %v", i, err)
		}
		if one.Error == nil {
			one.Response = r.Result
		}
		slots = []slot{one}
	}
	if len(slots) != len(plan) {
		bad("call %d has %d slots", i, len(slots))
		return
	}
	for n, s := range slots {
		starts := w.starts[fmt.Sprintf("c%d.%d", i, n)]
		what := fmt.Sprintf("entry %d.%d (%s, started %d times): %s", i, n, plan[n].Tool, len(starts), encoded(s))
		if s.Index != n && isBatch(plan) {
			bad("%s: out of place", what)
		}
		if len(starts) > 1 && !machineTools[plan[n].Tool].repeatable {
			bad("%s: it is not safe to repeat", what)
		}
		if slices.Contains(w.stopped[i], n) && len(starts) > 0 {
			bad("%s: a stop called it interrupted", what)
		}
		if s.Error == nil {
			if plan[n].Does == "fail" || !slices.ContainsFunc(starts, func(x start) bool { return x.result == string(s.Response) && !x.end.IsZero() }) {
				bad("%s: no run returned this", what)
			}
			continue
		}
		switch s.Error.Code {
		case subjects.CodeToolError:
			if plan[n].Does != "fail" || len(starts) == 0 {
				bad("%s: no run failed so", what)
			}
		case subjects.CodeInterrupted:
			if len(starts) > 0 || !w.anyStop[i] {
				bad("%s: started, or nobody stopped it", what)
			}
		case subjects.CodeExecutorUnavailable:
			if len(starts) > 0 || !w.disturbed {
				bad("%s: started, or nothing was wrong", what)
			}
		case subjects.CodeOutcomeUnknown:
			switch cancelled := strings.HasPrefix(s.Error.Message, "cancelled: "); {
			case cancelled && len(starts) == 0:
				bad("%s: it was not started", what)
			case cancelled: // by a stop, or by a worker that left
			case plan[n].Tool == hostedTool && len(starts) > 0: // a worker left it to others, and a stop came before them
			case !w.disturbed:
				bad("%s: nothing was lost", what)
			}
		default:
			bad("%s: not expected", what)
		}
	}
}

// checkOrder: an entry of the ordered lane is never started before the one ahead
// of it was settled.
func (w *world) checkOrder(i int, plan []entryPlan, bad func(string, ...any)) {
	if w.script.Single && onlyHosted(plan) {
		return // they start together
	}
	var before start
	var last string
	for n, p := range plan {
		if machineTools[p.Tool].parallel {
			continue
		}
		id := fmt.Sprintf("c%d.%d", i, n)
		for _, s := range w.starts[id] {
			if s.at.Before(before.at) || !w.disturbed && s.at.Before(before.end) {
				bad("entry %s started before %s was done", id, last)
			}
		}
		for _, s := range w.starts[id] {
			if s.at.After(before.at) {
				before, last = s, id
			}
		}
	}
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
