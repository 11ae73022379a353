package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"toolbridge/approval"
	"toolbridge/tracing"
	"toolbridge/worker"
	"toolbridge/worker/call"
)

// figures reads what a worker counts.
type figures struct {
	t       testing.TB
	reader  *sdkmetric.ManualReader
	metrics *tracing.Metrics
}

func newFigures(t testing.TB) *figures {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	m, err := tracing.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return &figures{t, reader, m}
}

// all are the values by "name{label=value,…}"; of histograms the counts.
func (x *figures) all() map[string]float64 {
	x.t.Helper()
	var data metricdata.ResourceMetrics
	if err := x.reader.Collect(x.t.Context(), &data); err != nil {
		x.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			put := func(set attribute.Set, v float64) {
				var labels []string
				for _, kv := range set.ToSlice() {
					labels = append(labels, string(kv.Key)+"="+kv.Value.String())
				}
				name := strings.TrimPrefix(m.Name, "toolbridge.")
				if labels != nil {
					name += "{" + strings.Join(labels, ",") + "}"
				}
				out[name] = v
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					put(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					put(p.Attributes, float64(p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					put(p.Attributes, float64(p.Count))
				}
			}
		}
	}
	return out
}

func TestWhatAWorkerDoesIsCounted(t *testing.T) {
	f, x := newFleet(t), newFigures(t)
	rules := []approval.Rule{{Match: "mcp__bank__*", Action: approval.Ask}, {Match: "mcp__fs__*", Action: approval.Deny}}
	f.start(worker.Config{
		Dev: true, Metrics: x.metrics, Policy: approval.Policy{Rules: rules, Default: approval.Allow}, CallLease: time.Second,
		Hooks: []call.Hook{{Name: "look", Match: "mcp__bank__*"}}, Guardrails: call.Guardrails{Repeat: 2},
	})
	f.hook("look", func(map[string]any) string { return `{"action":"allow"}` })
	body := `{"tools":` + tools(
		tool("mcp__bank__pay", "mcp-bank", "Pay money to somebody.", "to"), tool("mcp__fs__write", "mcp-fs", "Write a file."),
		tool("mcp__m__look", "mcp-m", "Look at something.", "at")) + `}`
	ref := f.assemble("s1", body)["catalog"].(string)
	f.assemble("s2", body)
	f.search("s1", ref, "pay money")
	f.search("s1", ref, "zebra crossing")
	f.echo("s1")
	people := f.approvers()
	done := f.later("s1", ref, one("mcp__bank__pay", `{"to":"b"}`))
	asked := people.asked()
	eventually(t, "a pending approval among the figures", func() bool { return x.all()["approvals.pending"] == 1 })
	if v := x.all()["calls.open{state=waiting}"]; v != 1 {
		t.Errorf("%v calls wait", v)
	}
	f.choose("ann", asked, "once")
	next(t, "result", done)
	for range 3 { // the third is one too many in a row
		f.call("s1", ref, one("mcp__m__look", `{"at":"x"}`))
	}
	f.call("s1", ref, one("mcp__fs__write", `{}`))
	f.call("s1", ref, one("mcp__nobody__made_up", `{}`))
	f.call("s1", ref, `{}`)
	f.send("toolbridge.v1.t.s1.fetch", `{"call_id":"nope"}`)
	f.send("toolbridge.v1.t.s1.assemble", `{"tools":[]}`, "Toolbridge-Deadline", "1000")
	eventually(t, "the figures of six final calls and of the streams", func() bool {
		v := x.all()
		_, looked := v["dead_letters.kept"]
		return v["call.duration"] == 6 && v["tool_call.duration{executor=session,outcome=OK}"] == 3 && v["requests{code=DEADLINE_EXCEEDED,operation=assemble}"] == 1 && looked
	})
	got := x.all()
	for name, want := range map[string]float64{
		"requests{code=OK,operation=assemble}":                    2,
		"requests{code=DEADLINE_EXCEEDED,operation=assemble}":     1,
		"requests{code=OK,operation=tool_search}":                 2,
		"requests{code=OK,operation=tool_call}":                   6,
		"requests{code=OK,operation=call}":                        1,
		"requests{code=UNKNOWN_CALL,operation=fetch}":             1,
		"requests{code=OK,operation=approvals_decide}":            1,
		"request.duration{operation=tool_call}":                   6,
		"limits.refused{limit=deadline}":                          1,
		"limits.refused{limit=repeat}":                            1,
		"assemblies{form=off}":                                    -1, // not there
		"catalog.builds{kind=assembly}":                           1,
		"catalog.builds{kind=index}":                              1,
		"cache.requests{cache=assembly,result=hit}":               1,
		"cache.requests{cache=assembly,result=miss}":              1,
		"search.queries{outcome=hits}":                            1,
		"search.queries{outcome=empty}":                           1,
		"search.matches":                                          2,
		"search.duration{leg=local}":                              2,
		"calls.accepted{path=here}":                               -2, // at least
		"calls.accepted{path=refused}":                            1,
		"calls.accepted{path=settled}":                            2,
		"calls.finished{outcome=OK}":                              3,
		"calls.finished{outcome=BLOCKED}":                         1,
		"calls.finished{outcome=APPROVAL_DENIED}":                 1,
		"calls.finished{outcome=TOOL_NOT_FOUND}":                  1,
		"tool_calls{outcome=OK,tool=mcp__bank__pay}":              1,
		"tool_calls{outcome=OK,tool=mcp__m__look}":                2,
		"tool_calls{outcome=BLOCKED,tool=mcp__m__look}":           1,
		"tool_calls{outcome=APPROVAL_DENIED,tool=mcp__fs__write}": 1,
		"tool_calls{outcome=TOOL_NOT_FOUND,tool=unknown}":         1,
		"tool_call.duration{executor=session,outcome=OK}":         3,
		"call.duration":                                           6,
		"approvals.requested":                                     1,
		"approvals.settled{choice=once}":                          1,
		"approval.wait{choice=once}":                              1,
		"hook.duration{action=allow,hook=look,phase=pre}":         1,
		"requests.in_flight{kind=working}":                        0,
		"call.slots":                                              256,
		"catalogs":                                                1,
		"nats.connected":                                          1,
		"executors{state=ready}":                                  0,
		"queue.depth{partition=0}":                                -2,
		"journal.records{partition=0}":                            -2,
		"journal.limit{partition=0}":                              4 << 30,
		"dead_letters.kept":                                       0,
	} {
		v, ok := got[name]
		switch {
		case want == -1 && !ok:
		case want == -2 && ok:
		case !ok:
			t.Errorf("%s is not there", name)
		case v != want:
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	saved, eager, listing := got["saved_tokens"], got["eager_tokens"], got["listing_tokens"]
	if eager <= 0 || listing <= 0 || saved != max(0, eager-listing) {
		t.Errorf("tokens: %v eager, %v in listings, %v saved", eager, listing, saved)
	}
	for name := range got {
		if strings.Contains(name, "s1") || strings.Contains(name, "made_up") {
			t.Errorf("%s names a session or what a model has made up", name)
		}
	}
	if t.Failed() {
		list, _ := json.MarshalIndent(got, "", " ")
		t.Logf("%s", list)
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestLogsNameTheTraceAndLeaveBodiesAndQuietRequestsOut(t *testing.T) {
	f, x := newFleet(t), newTraces(t)
	var out lines
	level := new(slog.LevelVar)
	log := slog.New(tracing.LogHandler{Handler: slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})})
	w := f.start(worker.Config{Dev: true, Tracer: x.tracer(), Logger: log, Hooks: []call.Hook{{Name: "away", Match: "mcp__gh__create_issue"}}})
	if err := w.Ready(); err != nil {
		t.Errorf("Ready: %v", err)
	}
	ref := f.assemble("s1", session())["catalog"].(string)
	f.echo("s1")
	before := strings.Count(out.String(), "\n")
	for range 5 {
		f.search("s1", ref, "s3cret query")
		f.call("s1", ref, one("mcp__gh__list_releases", `{"token":"s3cret"}`))
	}
	if n := strings.Count(out.String(), "\n") - before; n != 0 {
		t.Errorf("ten requests leave %d lines at info:\n%s", n, out.String())
	}
	level.Set(slog.LevelDebug)
	f.send("toolbridge.v1.t.s1.bridge", `{"id":"l1","name":"tool_search","arguments":{"queries":["s3cret"]},"catalog":"`+ref+`"}`, "traceparent", caller)
	eventually(t, "one line of the traced request", func() bool {
		n := 0
		for _, line := range strings.Split(out.String(), "\n") {
			if strings.Contains(line, `"operation":"tool_search"`) && strings.Contains(line, `"trace_id":"`+callerTrace+`"`) {
				n++
			}
		}
		return n == 1
	})
	level.Set(slog.LevelInfo)
	f.send("toolbridge.v1.t.s1.bridge", `{"id":"l2","name":"tool_call","arguments":`+one("mcp__gh__create_issue", `{"repo":"s3cret"}`)+`,"catalog":"`+ref+`"}`, "traceparent", caller)
	failed := false
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.Contains(line, "a hook failed") {
			failed = strings.Contains(line, `"trace_id":"`+callerTrace+`"`)
		}
	}
	if !failed {
		t.Errorf("the failed hook's line names no trace: %s", out.String())
	}
	if strings.Contains(out.String(), "s3cret") {
		t.Errorf("the log shows what was sent: %s", out.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if err := w.Stop(ctx); err != nil || w.Ready() == nil {
		t.Errorf("stopped: %v, Ready %v", err, w.Ready())
	}
}
