package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/approval"
	"toolbridge/tracing"
	"toolbridge/worker"
	"toolbridge/worker/call"
)

// The caller of every traced request.
const (
	callerTrace = "11111111111111111111111111111111"
	callerSpan  = "2222222222222222"
	caller      = "00-" + callerTrace + "-" + callerSpan + "-01"
)

// traces keeps the spans of one worker.
type traces struct {
	t        testing.TB
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider

	mu   sync.Mutex
	open map[trace.SpanID]string
}

func newTraces(t testing.TB) *traces {
	x := &traces{t: t, exporter: tracetest.NewInMemoryExporter(), open: map[trace.SpanID]string{}}
	x.provider = sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(tracing.IDs{}), sdktrace.WithSyncer(x.exporter), sdktrace.WithSpanProcessor(x))
	return x
}

func (x *traces) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open[s.SpanContext().SpanID()] = s.Name()
}

func (x *traces) OnEnd(s sdktrace.ReadOnlySpan) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, s.SpanContext().SpanID())
}
func (x *traces) Shutdown(context.Context) error   { return nil }
func (x *traces) ForceFlush(context.Context) error { return nil }

// unended are the names of the spans that were started and not ended.
func (x *traces) unended() (names []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range x.open {
		names = append(names, name)
	}
	return names
}

func (x *traces) tracer() *tracing.Tracer {
	return tracing.New(tracing.Config{Provider: x.provider, Version: "1.2.3"})
}

func (x *traces) linking() *tracing.Tracer {
	return tracing.New(tracing.Config{Provider: x.provider, Link: true})
}

func (x *traces) spans() tracetest.SpanStubs { return x.exporter.GetSpans() }

// named waits for a span and returns it.
func (x *traces) named(name string) tracetest.SpanStub {
	x.t.Helper()
	var found tracetest.SpanStub
	eventually(x.t, "a span "+name, func() bool {
		for _, s := range x.spans() {
			if s.Name == name {
				found = s
				return true
			}
		}
		return false
	})
	return found
}

func names(spans tracetest.SpanStubs) (list []string) {
	for _, s := range spans {
		list = append(list, s.Name)
	}
	return list
}

// orphans are the spans whose parent is neither among them nor the caller's.
func orphans(spans tracetest.SpanStubs) (list []string) {
	known := map[trace.SpanID]bool{}
	for _, s := range spans {
		known[s.SpanContext.SpanID()] = true
	}
	for _, s := range spans {
		if p := s.Parent; p.IsValid() && !known[p.SpanID()] && p.SpanID().String() != callerSpan {
			list = append(list, s.Name+" below "+p.SpanID().String())
		}
	}
	return list
}

func attr(s tracetest.SpanStub, key attribute.Key) string {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return kv.Value.String()
		}
	}
	return ""
}

func below(t testing.TB, child, parent tracetest.SpanStub) {
	t.Helper()
	if child.Parent.SpanID() != parent.SpanContext.SpanID() || child.SpanContext.TraceID() != parent.SpanContext.TraceID() {
		t.Errorf("%s (%s) is not below %s (%s)", child.Name, child.Parent.SpanID(), parent.Name, parent.SpanContext.SpanID())
	}
}

func TestT01OneRuleSaysForEveryMessageWhichTraceItsSpanBelongsTo(t *testing.T) {
	for _, link := range []bool{false, true} {
		for _, parent := range []string{"", caller, "00-zz-not-a-parent-01", "00-00000000000000000000000000000000-2222222222222222-01"} {
			t.Run(fmt.Sprintf("link=%v,parent=%q", link, parent), func(t *testing.T) {
				f, x := newFleet(t), newTraces(t)
				tracer := x.tracer()
				if link {
					tracer = x.linking()
				}
				f.start(worker.Config{Dev: true, Tracer: tracer})
				ref := f.assemble("s1", session())["catalog"].(string)
				f.echo("s1")
				requests := map[string]string{}
				for span, m := range map[string][2]string{
					"assemble":             {"assemble", session()},
					"bridge tool_search":   {"bridge", `{"id":"a1","name":"tool_search","arguments":{"queries":["create issue"]},"catalog":"` + ref + `"}`},
					"bridge tool_describe": {"bridge", `{"id":"a2","name":"tool_describe","arguments":{"names":["mcp__gh__create_issue"]},"catalog":"` + ref + `"}`},
					"bridge tool_call":     {"bridge", `{"id":"a3","name":"tool_call","arguments":` + one("mcp__gh__list_releases", `{}`) + `,"catalog":"` + ref + `"}`},
					"bridge":               {"bridge", `{"id":"a4","name":"mcp__gh__list_releases","arguments":{},"catalog":"` + ref + `"}`},
					"call":                 {"call", `{"id":"a5","name":"tool_call","arguments":` + one("mcp__gh__list_releases", `{}`) + `,"catalog":"` + ref + `"}`},
					"fetch":                {"fetch", `{"call_id":"nope"}`},
					"preflight":            {"preflight", `{"names":["mcp__gh__create_issue"],"catalog":"` + ref + `"}`},
					"stop":                 {"stop", `{}`},
				} {
					x.named("assemble")
					x.exporter.Reset()
					var headers []string
					if parent != "" {
						headers = []string{"traceparent", parent, "baggage", "k=v"}
					}
					reply := f.send("toolbridge.v1.t.s1."+m[0], m[1], headers...)
					s := x.named(span)
					requests[span] = s.SpanContext.TraceID().String()
					if s.SpanKind != trace.SpanKindServer {
						t.Errorf("%s is of kind %s", span, s.SpanKind)
					}
					switch {
					case parent != caller:
						if s.Parent.IsValid() || len(s.Links) > 0 {
							t.Errorf("%s: parent %v, links %v", span, s.Parent.SpanID(), s.Links)
						}
					case link:
						if s.Parent.IsValid() || len(s.Links) != 1 || s.Links[0].SpanContext.SpanID().String() != callerSpan || s.SpanContext.TraceID().String() == callerTrace {
							t.Errorf("%s: parent %v, links %v", span, s.Parent.SpanID(), s.Links)
						}
					default:
						if s.Parent.SpanID().String() != callerSpan || s.SpanContext.TraceID().String() != callerTrace || len(s.Links) > 0 {
							t.Errorf("%s: parent %v, links %v", span, s.Parent.SpanID(), s.Links)
						}
					}
					back := tracing.Parse(tracing.Read(reply.Header))
					if back.SpanID() != s.SpanContext.SpanID() || back.TraceID() != s.SpanContext.TraceID() {
						t.Errorf("%s: the reply names %v", span, back)
					}
					if parent != "" && reply.Header["baggage"][0] != "k=v" {
						t.Errorf("%s: baggage %v", span, reply.Header["baggage"])
					}
					if strings.HasSuffix(span, "call") {
						below(t, x.named("execute_tool mcp__gh__list_releases"), x.named(tracing.SpanCall))
						below(t, x.named(tracing.SpanCall), s)
						x.named(tracing.SpanWork)
						if o := orphans(x.spans()); len(o) > 0 {
							t.Errorf("%s: orphans %v", span, o)
						}
						for _, other := range x.spans() {
							if other.SpanContext.TraceID() != s.SpanContext.TraceID() {
								t.Errorf("%s: %s is in a trace of its own", span, other.Name)
							}
						}
					}
					x.exporter.Reset()
					f.send("toolbridge.v1.t.s1.assemble", session())
				}
				if parent != caller || link {
					seen := map[string]string{}
					for span, id := range requests {
						if seen[id] != "" {
							t.Errorf("%s and %s share a trace", span, seen[id])
						}
						seen[id] = span
					}
				}
			})
		}
	}
}

func TestT02TheTraceCrossesTheBusInHeadersAndLeavesPayloadsAlone(t *testing.T) {
	bodies := map[string]string{}
	for _, traced := range []bool{true, false} {
		f, x := newFleet(t), newTraces(t)
		cfg := worker.Config{Dev: true, Policy: asks, Hooks: []call.Hook{{Name: "look"}}}
		if traced {
			cfg.Tracer = x.tracer()
		}
		f.start(cfg)
		ref := f.assemble("s1", bank())["catalog"].(string)
		type message struct {
			header nats.Header
			body   string
		}
		var mu sync.Mutex
		got := map[string]message{}
		seen := make(chan struct{}, 100)
		listen := func(subject, name, answer string) {
			sub, err := f.nc.Subscribe(subject, func(m *nats.Msg) {
				mu.Lock()
				got[name] = message{m.Header, string(m.Data)}
				mu.Unlock()
				if m.Reply != "" && answer != "" {
					_ = m.Respond([]byte(answer))
				}
				seen <- struct{}{}
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sub.Unsubscribe() })
		}
		listen("toolbridge.v1.t.s1.exec", "exec", `{"result":1}`)
		listen("toolbridge.v1.t._hooks.run.look", "hook", `{"action":"allow"}`)
		listen("toolbridge.v1.t.s1.result.b1", "result", "")
		people := f.approvers()
		listen("toolbridge.v1.t._approvals.requested", "asked", "")
		f.flush()
		stored := f.send("toolbridge.v1.t.s1.call", `{"id":"b1","name":"tool_call","arguments":`+one("mcp__bank__pay", `{"to":"b"}`)+`,"catalog":"`+ref+`"}`,
			"traceparent", caller, "tracestate", "v=1", "baggage", "k=v")
		f.choose("ann", people.asked(), "once")
		eventually(t, "all messages", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) == 4
		})
		mu.Lock()
		got["stored"] = message{stored.Header, string(stored.Data)}
		for name, m := range got {
			for key, values := range m.header {
				if strings.EqualFold(key, "traceparent") && (key != "traceparent" || len(values) != 1) {
					t.Errorf("%s has %q: %q", name, key, values)
				}
			}
			v := tracing.Read(m.header)
			if sc := tracing.Parse(v); sc.TraceID().String() != callerTrace {
				t.Errorf("traced=%v: %s carries %q", traced, name, v[0])
			} else if !traced && v[0] != caller {
				t.Errorf("without tracing %s carries %q", name, v[0])
			}
			if v[1] != "v=1" || v[2] != "k=v" {
				t.Errorf("%s: tracestate %q, baggage %q", name, v[1], v[2])
			}
		}
		if traced {
			below := map[string]string{"exec": tracing.SpanAttempt, "hook": "hook look", "asked": "execute_tool mcp__bank__pay", "result": tracing.SpanCall, "stored": "call"}
			for name, span := range below {
				if id := tracing.Parse(tracing.Read(got[name].header)).SpanID(); id != x.named(span).SpanContext.SpanID() {
					t.Errorf("%s carries span %s, not that of %q", name, id, span)
				}
			}
		}
		for _, name := range []string{"stored", "result", "hook"} {
			if traced {
				bodies[name] = got[name].body
			} else if bodies[name] != got[name].body {
				t.Errorf("tracing changes the payload of %s: %s, without it %s", name, bodies[name], got[name].body)
			}
		}
		mu.Unlock()
	}
}

func TestT02WithoutTracingNoHeaderIsMadeUp(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	var mu sync.Mutex
	var headers []nats.Header
	sub, err := f.nc.Subscribe("toolbridge.v1.t.s1.exec", func(m *nats.Msg) {
		mu.Lock()
		headers = append(headers, m.Header)
		mu.Unlock()
		_ = m.Respond([]byte(`{"result":1}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	f.flush()
	reply := f.send("toolbridge.v1.t.s1.bridge", `{"id":"b1","name":"tool_call","arguments":`+one("mcp__gh__list_releases", `{}`)+`,"catalog":"`+ref+`"}`)
	mu.Lock()
	defer mu.Unlock()
	for _, h := range append(headers, reply.Header) {
		for key := range h {
			if k := strings.ToLower(key); strings.HasPrefix(k, "trace") || k == "baggage" {
				t.Errorf("%s: %v", key, h[key])
			}
		}
	}
	if len(headers) != 1 {
		t.Errorf("%d executions", len(headers))
	}
}

func TestT03TheStatusTellsFailuresFromWhatWasKeptFromRunning(t *testing.T) {
	f, x := newFleet(t), newTraces(t)
	rules := []approval.Rule{{Match: "mcp__bank__*", Action: approval.Deny}, {Match: "mcp__fs__*", Action: approval.Ask}}
	f.start(worker.Config{Dev: true, Tracer: x.tracer(), Policy: approval.Policy{Rules: rules, Default: approval.Allow}, ApprovalWait: true})
	ref := f.assemble("s1", `{"tools":`+tools(
		tool("mcp__a__ok", "mcp-a", "x"), tool("mcp__a__bad", "mcp-a", "x"), tool("mcp__a__slow", "mcp-a", "x"),
		tool("mcp__fs__write", "mcp-fs", "x"), tool("mcp__bank__pay", "mcp-bank", "x"), tool("mcp__a__typed", "mcp-a", "x", "n"))+`}`)["catalog"].(string)
	f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		switch r["tool"] {
		case "mcp__a__bad":
			return `{"error":{"code":"TOOL_ERROR","message":"isError"}}`
		case "mcp__a__slow":
			return `{"error":{"code":"TIMEOUT","message":"too slow"}}`
		}
		return `{"result":1}`
	})
	for _, c := range []struct {
		tool, arguments, outcome string
		failed                   bool
	}{
		{"mcp__a__ok", `{}`, "OK", false},
		{"mcp__a__bad", `{}`, "TOOL_ERROR", true},
		{"mcp__a__slow", `{}`, "TIMEOUT", true},
		{"mcp__fs__write", `{}`, "INTERRUPTED", false},
		{"mcp__bank__pay", `{}`, "APPROVAL_DENIED", false},
		{"mcp__a__typed", `{"n":{}}`, "INVALID_ARGUMENTS", true},
	} {
		x.exporter.Reset()
		done := f.later("s1", ref, one(c.tool, c.arguments))
		if c.outcome == "INTERRUPTED" {
			eventually(t, "a pending approval", func() bool { return len(f.pending("ann")["approvals"].([]any)) == 1 })
			f.ask("s1", "stop", `{}`)
		}
		next(t, "result", done)
		for _, name := range []string{"execute_tool " + c.tool, tracing.SpanCall} {
			s := x.named(name)
			if got := attr(s, tracing.Outcome); got != c.outcome {
				t.Errorf("%s: outcome %q, want %q", name, got, c.outcome)
			}
			status, errorType := otelcodes.Unset, ""
			if c.failed {
				status, errorType = otelcodes.Error, c.outcome
			}
			if s.Status.Code != status || attr(s, tracing.ErrorType) != errorType {
				t.Errorf("%s of %s: status %v, error.type %q", name, c.outcome, s.Status, attr(s, tracing.ErrorType))
			}
		}
	}
	for _, s := range x.spans() {
		if s.SpanKind == trace.SpanKindServer && attr(s, tracing.Outcome) == "" {
			t.Errorf("%s has no outcome", s.Name)
		}
	}
}

func TestT04EachEntryOfABatchIsASpanUnderItsOwnName(t *testing.T) {
	f, x := newFleet(t), newTraces(t)
	f.start(worker.Config{Dev: true, Tracer: x.tracer()})
	ref := f.assemble("s1", `{"tools":`+tools(tool("mcp__m__read", "mcp-m", "x"), tool("mcp__m__send", "mcp-m", "x"), tool("mcp__m__drop", "mcp-m", "x"))+`}`)["catalog"].(string)
	second := make(chan struct{})
	f.serve("toolbridge.v1.t.s1.exec.cancel", func(map[string]any) string { return "" })
	release := make(chan struct{})
	f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		if r["tool"] == "mcp__m__send" {
			close(second)
			<-release
			return `{"error":{"code":"CANCELLED","message":"stopped"}}`
		}
		return `{"result":1}`
	})
	done := f.later("s1", ref, `{"calls":[{"name":"mcp__m__read","arguments":{}},{"name":"mcp__m__send","arguments":{}},{"name":"mcp__m__drop","arguments":{}}]}`)
	<-second
	f.ask("s1", "stop", `{}`)
	close(release)
	reply := next(t, "result", done)
	if got := at(t, reply, "result", "results", 2, "error", "code"); got != "INTERRUPTED" {
		t.Fatalf("the third entry: %v", got)
	}
	batch := x.named(tracing.SpanCall)
	var entries []string
	for _, s := range x.spans() {
		if s.Parent.SpanID() == batch.SpanContext.SpanID() && strings.HasPrefix(s.Name, "execute_tool ") {
			entries = append(entries, s.Name)
			if attr(s, tracing.GenAIToolName) != strings.TrimPrefix(s.Name, "execute_tool ") || attr(s, tracing.GenAIOperationName) != "execute_tool" {
				t.Errorf("%s: %v", s.Name, s.Attributes)
			}
		}
		if strings.Contains(s.Name, "mcp__m__drop") {
			t.Errorf("what was never started has a span: %s", s.Name)
		}
	}
	slices.Sort(entries)
	if want := []string{"execute_tool mcp__m__read", "execute_tool mcp__m__send"}; !slices.Equal(entries, want) {
		t.Errorf("entries %v, want %v", entries, want)
	}
	if len(batch.Events) != 1 || batch.Events[0].Name != tracing.EventInterrupted || attr(batch, tracing.CallInterrupted) != "[2]" {
		t.Errorf("the batch has events %v, attributes %v", batch.Events, batch.Attributes)
	}
	if o := orphans(x.spans()); len(o) > 0 {
		t.Errorf("orphans: %v", o)
	}
}

func TestT07AStopEndsEverySpanAndTheAttemptStaysBelowItsEntry(t *testing.T) {
	f, x := newFleet(t), newTraces(t)
	w := f.start(worker.Config{Dev: true, Tracer: x.tracer()})
	ref := f.assemble("s1", bank())["catalog"].(string)
	started := make(chan struct{})
	f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string {
		close(started)
		return "" // it never answers
	})
	done := f.later("s1", ref, one("mcp__bank__pay", `{}`))
	<-started
	f.ask("s1", "stop", `{}`)
	reply := next(t, "result", done)
	if code(reply) != "OUTCOME_UNKNOWN" {
		t.Errorf("reply = %s", text(reply))
	}
	attempt, entry := x.named(tracing.SpanAttempt), x.named("execute_tool mcp__bank__pay")
	below(t, attempt, entry)
	below(t, entry, x.named(tracing.SpanCall))
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if open := x.unended(); len(open) > 0 {
		t.Errorf("spans that were not ended: %v", open)
	}
}

func TestAnApprovalIsWaitedForInASpanOfItsOwn(t *testing.T) {
	f, x := newFleet(t), newTraces(t)
	f.start(worker.Config{Tracer: x.tracer(), Policy: asks})
	ref := f.assemble("s1", bank())["catalog"].(string)
	f.echo("s1")
	people := f.approvers()
	done := f.later("s1", ref, one("mcp__bank__pay", `{}`))
	asked := people.asked()
	const waits = 300 * time.Millisecond
	time.Sleep(waits) // what is measured, not what is waited for
	f.choose("ann", asked, "once")
	next(t, "result", done)
	wait, attempt, entry := x.named(tracing.SpanApproval), x.named(tracing.SpanAttempt), x.named("execute_tool mcp__bank__pay")
	below(t, wait, entry)
	below(t, attempt, entry)
	if d := wait.EndTime.Sub(wait.StartTime); d < waits {
		t.Errorf("the wait's span lasts %s", d)
	}
	if attempt.StartTime.Before(wait.EndTime.Add(-time.Millisecond)) {
		t.Errorf("the attempt begins at %s, before the wait's end at %s", attempt.StartTime, wait.EndTime)
	}
	if attr(wait, tracing.ApprovalChoice) != "once" {
		t.Errorf("wait: %v", wait.Attributes)
	}
	x.named(tracing.SpanCall)
	if o := orphans(x.spans()); len(o) > 0 {
		t.Errorf("orphans: %v", o)
	}
}

// A worker that is lost ends no spans. What hangs below them must not hang in the
// air: whoever takes over reports them.
func TestACallThatLosesItsWorkerIsOneConnectedTrace(t *testing.T) {
	f := newFleet(t)
	first, second := newTraces(t), newTraces(t)
	lease := time.Second
	nc, err := nats.Connect(f.server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	lost, err := worker.New(worker.Config{Dev: true, Tracer: first.tracer(), CallLease: lease, Logger: slog.New(slog.DiscardHandler)}, nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := lost.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref := f.assemble("s1", `{"tools":`+tools(tool("mcp__m__one", "mcp-m", "x"), tool("mcp__m__two", "mcp-m", "x"))+`}`)["catalog"].(string)
	started := make(chan string, 10)
	var headers sync.Map
	sub, err := f.nc.Subscribe("toolbridge.v1.t.s1.exec", func(m *nats.Msg) {
		r := decode(t, m.Data)
		headers.Store(r["tool"], tracing.Read(m.Header))
		if r["tool"] == "mcp__m__two" {
			_ = m.Respond([]byte(`{"result":1}`))
		}
		started <- r["tool"].(string)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	results := make(chan map[string]any, 1)
	res, err := f.nc.Subscribe("toolbridge.v1.t.s1.result.k1", func(m *nats.Msg) { results <- decode(t, m.Data) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Unsubscribe() }()
	if err := f.nc.PublishMsg(&nats.Msg{
		Subject: "toolbridge.v1.t.s1.bridge", Reply: f.nc.NewInbox(), Header: nats.Header{"traceparent": {caller}},
		Data: []byte(`{"id":"k1","name":"tool_call","arguments":{"calls":[{"name":"mcp__m__one","arguments":{}},{"name":"mcp__m__two","arguments":{}}]},"catalog":"` + ref + `"}`),
	}); err != nil {
		t.Fatal(err)
	}
	if <-started != "mcp__m__one" {
		t.Fatal("the first entry is not the first")
	}
	exported := first.spans() // what a killed process may have sent
	nc.Close()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = lost.Stop(ctx)
	})
	f.start(worker.Config{Dev: true, Tracer: second.tracer(), CallLease: lease})
	reply := next(t, "result", results)
	if got := at(t, reply, "result", "results", 0, "error", "code"); got != "OUTCOME_UNKNOWN" {
		t.Errorf("the first entry: %v", got)
	}
	second.named(tracing.SpanCall)
	second.named(tracing.SpanWork)
	all := slices.Concat(exported, second.spans())
	all = slices.DeleteFunc(all, func(s tracetest.SpanStub) bool { return s.SpanContext.TraceID().String() != callerTrace })
	if o := orphans(all); len(o) > 0 {
		t.Errorf("orphans: %v\namong %v", o, names(all))
	}
	one, _ := headers.Load("mcp__m__one")
	attempt := tracing.Parse(one.(tracing.Values)).SpanID()
	if !slices.ContainsFunc(all, func(s tracetest.SpanStub) bool {
		return s.SpanContext.SpanID() == attempt && s.Name == tracing.SpanAttempt && attr(s, tracing.WorkerLost) == "true"
	}) {
		t.Errorf("the lost attempt, which the executor's spans hang below, is not reported: %v", names(all))
	}
	linked := false
	for _, s := range second.spans() {
		if s.Name == tracing.SpanWork && attr(s, tracing.WorkerLost) == "" && len(s.Links) == 1 {
			linked = slices.ContainsFunc(all, func(o tracetest.SpanStub) bool {
				return o.SpanContext.SpanID() == s.Links[0].SpanContext.SpanID() && o.Name == tracing.SpanWork
			})
		}
	}
	if !linked {
		t.Error("the second worker's part is not linked to the first's")
	}
	for _, want := range []string{"bridge tool_call", tracing.SpanCall, "execute_tool mcp__m__one", "execute_tool mcp__m__two", tracing.SpanWork, tracing.SpanAttempt} {
		if !slices.Contains(names(all), want) {
			t.Errorf("no span %q among %v", want, names(all))
		}
	}
}

func TestSampledOutRequestsAreNotExportedAndSaySo(t *testing.T) {
	f, x := newFleet(t), newTraces(t)
	f.start(worker.Config{Dev: true, Tracer: x.tracer()})
	ref := f.assemble("s1", session())["catalog"].(string)
	f.echo("s1")
	x.named("assemble")
	x.exporter.Reset()
	reply := f.send("toolbridge.v1.t.s1.bridge", `{"id":"q1","name":"tool_call","arguments":`+one("mcp__gh__list_releases", `{}`)+`,"catalog":"`+ref+`"}`,
		"traceparent", "00-"+callerTrace+"-"+callerSpan+"-00")
	sc := tracing.Parse(tracing.Read(reply.Header))
	if sc.TraceID().String() != callerTrace || sc.IsSampled() {
		t.Errorf("the reply carries %v", sc)
	}
	f.send("toolbridge.v1.t.s1.assemble", session(), "traceparent", caller)
	x.named("assemble")
	if got := names(x.spans()); len(got) != 1 {
		t.Errorf("exported: %v", got)
	}
}

func TestContentIsShownOnlyWhenConfiguredRedactedAndCut(t *testing.T) {
	for _, shown := range []bool{false, true} {
		f, x := newFleet(t), newTraces(t)
		f.start(worker.Config{Dev: true, Tracer: tracing.New(tracing.Config{Provider: x.provider, Content: shown})})
		ref := f.assemble("s1", `{"tools":`+tools(tool("mcp__m__login", "mcp-m", "x", "user", "password"))+`}`)["catalog"].(string)
		f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string {
			return `{"result":{"access_token":"t0ps3cret","page":"` + strings.Repeat("x", 10_000) + `"}}`
		})
		f.call("s1", ref, one("mcp__m__login", `{"user":"ann","password":"hunter2"}`))
		arguments := attr(x.named("execute_tool mcp__m__login"), tracing.GenAIToolArguments)
		result := attr(x.named(tracing.SpanAttempt), tracing.GenAIToolResult)
		if !shown {
			if arguments != "" || result != "" {
				t.Errorf("not configured: %q, %q", arguments, result)
			}
			continue
		}
		if want := `{"user":"ann","password":"[redacted]"}`; arguments != want {
			t.Errorf("arguments %q, want %q", arguments, want)
		}
		if !strings.HasPrefix(result, `{"access_token":"[redacted]","page":"xxx`) || len(result) > 5000 {
			t.Errorf("result (%d bytes) %.80q", len(result), result)
		}
		for _, s := range x.spans() {
			if all := fmt.Sprint(s.Attributes, s.Events, s.Status); strings.Contains(all, "hunter2") || strings.Contains(all, "t0ps3cret") {
				t.Errorf("%s shows a secret: %s", s.Name, all)
			}
		}
	}
}

// A propagation that works passes the self-test, whichever way the worker is
// configured; a broken one does not.
func TestTheSelfTestOfPropagationPassesOnWorkersAndFailsWhenItIsBroken(t *testing.T) {
	x := newTraces(t)
	for name, tracer := range map[string]*tracing.Tracer{"continue": x.tracer(), "link": x.linking(), "off": nil} {
		f := newFleet(t)
		f.start(worker.Config{Dev: true, Tracer: tracer})
		ref := f.assemble("s1", session())["catalog"].(string)
		search := func(ctx context.Context, h nats.Header) (nats.Header, error) {
			m, err := f.nc.RequestMsgWithContext(ctx, &nats.Msg{
				Subject: "toolbridge.v1.t.s1.bridge", Header: h,
				Data: []byte(`{"id":"` + f.id() + `","name":"tool_search","arguments":{"queries":["issue"]},"catalog":"` + ref + `"}`),
			})
			if err != nil {
				return nil, err
			}
			return m.Header, nil
		}
		link := name == "link"
		if err := tracing.SelfTest(t.Context(), search, link); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for what, broken := range map[string]func(nats.Header){
			"traceparent": func(h nats.Header) { delete(h, "traceparent") },
			"everything":  func(h nats.Header) { clear(h) },
			"its case": func(h nats.Header) { // as propagation.HeaderCarrier writes it
				h["Traceparent"] = h["traceparent"]
				delete(h, "traceparent")
			},
			"baggage": func(h nats.Header) { delete(h, "baggage") },
		} {
			there := func(ctx context.Context, h nats.Header) (nats.Header, error) {
				broken(h)
				return search(ctx, h)
			}
			back := func(ctx context.Context, h nats.Header) (nats.Header, error) {
				h, err := search(ctx, h)
				broken(h)
				return h, err
			}
			if err := tracing.SelfTest(t.Context(), back, link); err == nil {
				t.Errorf("%s: %s lost on the way back is not found", name, what)
			}
			if err := tracing.SelfTest(t.Context(), there, link); err == nil && (!link || what == "everything" || what == "baggage") {
				t.Errorf("%s: %s lost on the way there is not found", name, what)
			}
		}
	}
}
