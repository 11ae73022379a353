package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

const parent = "00-11111111111111111111111111111111-2222222222222222-01"

func traced(options ...sdktrace.TracerProviderOption) (*tracing.Tracer, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	options = append(options, sdktrace.WithIDGenerator(tracing.IDs{}), sdktrace.WithSyncer(exporter))
	return tracing.New(tracing.Config{Provider: sdktrace.NewTracerProvider(options...)}), exporter
}

func TestHeadersAreLowerCaseWhateverAPropagatorWants(t *testing.T) {
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), tracing.Parse(tracing.Values{parent, "a=b"}))
	h := nats.Header{}
	tracing.Inject(ctx, h)
	if len(h["traceparent"]) != 1 || h["traceparent"][0] != parent || h["tracestate"][0] != "a=b" || len(h) != 2 {
		t.Errorf("headers %v", h)
	}
	// What the contract's clients can not read, and the reason for a carrier of our own.
	other := nats.Header{}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(other))
	if other["traceparent"] != nil || len(other["Traceparent"]) != 1 {
		t.Errorf("propagation.HeaderCarrier writes lower case by now: %v", other)
	}
	if got := trace.SpanContextFromContext(tracing.Extract(t.Context(), h)); !got.IsRemote() || got.SpanID().String() != "2222222222222222" {
		t.Errorf("read back: %v", got)
	}
	empty := nats.Header{}
	tracing.Inject(t.Context(), empty)
	if len(empty) != 0 {
		t.Errorf("without a span: %v", empty)
	}
}

func TestTraceContextThatCanNotBeReadNamesNoSpan(t *testing.T) {
	for _, v := range []string{
		"", "x", "00-1-2-01", strings.ToUpper(parent[:3]) + "00000000000000000000000000000000-2222222222222222-01", parent + "-extra",
		"ff-11111111111111111111111111111111-2222222222222222-01", "00-11111111111111111111111111111111-0000000000000000-01", strings.Repeat("0", 100_000),
	} {
		if sc := tracing.Parse(tracing.Values{v}); sc.IsValid() {
			t.Errorf("%.80q names %v", v, sc)
		}
	}
	long := nats.Header{"traceparent": {strings.Repeat("x", tracing.MaxValue+1)}, "baggage": {"a=b"}}
	if v := tracing.Read(long); v[0] != "" || v[2] != "a=b" {
		t.Errorf("too long a header: %.80q", v)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(parent, "a=b", "k=v")
	f.Add("00-", "", "\xff")
	for _, p := range []string{
		parent + "-x", "01" + parent[2:] + "-x", "01" + parent[2:], "01" + parent[2:] + "x", "cc" + parent[2:53] + "09", "00" + parent[2:53] + "03",
		"00" + parent[2:53] + "04", "00" + parent[2:53] + "0A", "ff" + parent[2:], "0g" + parent[2:], strings.Repeat("-", 55), parent[:54],
	} {
		f.Add(p, "a=b,c=d", "")
		f.Add(p, "a b=,", "")
	}
	f.Fuzz(func(t *testing.T, traceparent, state, baggage string) {
		v := tracing.Values{traceparent, state, baggage}
		sc := tracing.Parse(v)
		h := nats.Header{"traceparent": {traceparent}, "tracestate": {state}}
		if reference := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), tracing.Carrier(h))); len(traceparent)+len(state) < tracing.MaxValue && !reference.Equal(sc) {
			t.Errorf("%q is read as %v, by OpenTelemetry as %v", v, sc, reference)
		}
		written := nats.Header{}
		if propagation.TraceContext.Inject(propagation.TraceContext{}, trace.ContextWithRemoteSpanContext(t.Context(), sc), tracing.Carrier(written)); sc.IsValid() && written["traceparent"][0] != tracing.Format(sc, v)[0] {
			t.Errorf("%v is written as %q, by OpenTelemetry as %q", sc, tracing.Format(sc, v)[0], written["traceparent"])
		}
		if out := tracing.Format(sc, v); sc.IsValid() != (out[0] != "") || out[2] != baggage || sc.IsValid() && tracing.Parse(out).SpanID() != sc.SpanID() {
			t.Errorf("%q becomes %q", v, out)
		}
	})
}

func TestWithoutATracerNothingHappensAndNothingIsAllocated(t *testing.T) {
	var tracer *tracing.Tracer
	var metrics *tracing.Metrics
	if tracing.New(tracing.Config{}) != nil {
		t.Error("a Tracer without a provider")
	}
	from := tracing.Values{parent, "a=b", "k=v"}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := tracer.Receive(ctx, "x", from)
		_, child := tracer.Start(ctx, "y", trace.SpanKindInternal)
		if span.Values(from) != from || child.Recording() || span.Context().IsValid() {
			t.Error("a nil Tracer did something")
		}
		child.Outcome(subjects.CodeTimeout, "")
		child.Set()
		child.End()
		span.End()
		tracer.Content(span, tracing.GenAIToolResult, nil)
		metrics.Count(tracing.Requests, 1, "assemble", "OK")
		metrics.Time(tracing.RequestDuration, time.Second, "assemble")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	base := http.DefaultTransport
	if tracer.Transport(base) != base {
		t.Error("the transport is wrapped")
	}
}

func TestT03EveryOutcomeHasItsStatus(t *testing.T) {
	for _, c := range []struct {
		code   subjects.Code
		reason string
		failed bool
	}{
		{"", "", false},
		{tracing.OK, "", false},
		{subjects.CodeToolError, "", true},
		{subjects.CodeTimeout, "", true},
		{subjects.CodeInterrupted, "", false},
		{subjects.CodeApprovalDenied, "rule", false},
		{subjects.CodeApprovalDenied, "no_approver", false},
		{subjects.CodeApprovalTimeout, "", false},
		{subjects.CodeConnectionRequired, "", false},
		{subjects.CodeInvalidArguments, "", true},
		{subjects.CodeOutcomeUnknown, "", true},
		{subjects.CodeBlocked, "deny", false},
		{subjects.CodeBlocked, "hook_failed", true},
		{"QUOTA_OF_SOME_PROVIDER", "", true},
	} {
		tracer, exporter := traced()
		_, span := tracer.Start(t.Context(), "x", trace.SpanKindInternal)
		span.Outcome(c.code, c.reason)
		span.End()
		s := exporter.GetSpans()[0]
		attributes := map[string]string{}
		for _, kv := range s.Attributes {
			attributes[string(kv.Key)] = kv.Value.AsString()
		}
		outcome, status, errorType := string(c.code), codes.Unset, ""
		if outcome == "" {
			outcome = "OK"
		}
		if c.failed {
			status, errorType = codes.Error, outcome
		}
		if s.Status.Code != status || attributes["error.type"] != errorType || attributes["toolbridge.outcome"] != outcome {
			t.Errorf("%s/%s: status %v, %v", c.code, c.reason, s.Status, attributes)
		}
	}
}

func TestASpanReportedLaterHasTheIdentityThatItsChildrenKnow(t *testing.T) {
	tracer, exporter := traced()
	_, request := tracer.Start(t.Context(), "request", trace.SpanKindServer)
	id := tracing.ChildID(request.Context().SpanID(), "call", 0)
	own := tracing.At(request.Context(), id)
	_, child := tracer.Continue(t.Context(), "child", tracing.Format(own, tracing.Values{}), trace.SpanKindClient)
	child.End()
	request.End()
	begin := time.Now().Add(-time.Hour)
	tracer.Report(tracing.Past{Name: "call", Parent: request.Context(), ID: id, Begin: begin, End: begin.Add(time.Minute), Code: subjects.CodeToolError})
	spans := exporter.GetSpans()
	call := spans[len(spans)-1]
	if call.SpanContext.SpanID() != id || call.Parent.SpanID() != request.Context().SpanID() || call.EndTime.Sub(call.StartTime) != time.Minute || call.Status.Code != codes.Error {
		t.Errorf("reported: %+v", call)
	}
	if spans[0].Parent.SpanID() != id {
		t.Errorf("the child's parent is %s, not %s", spans[0].Parent.SpanID(), id)
	}
	first, again := tracing.ChildID(id, "entry", 1), tracing.ChildID(id, "entry", 1)
	if first != again || first == tracing.ChildID(id, "entry", 2) || first == tracing.ChildID(id, "attempt", 1) {
		t.Error("identities do not follow from name and number")
	}
}

func TestT07AnHTTPSpanHangsBelowItsCallAndEndsAfterACancel(t *testing.T) {
	tracer, exporter := traced()
	got := make(chan http.Header, 2)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	client := &http.Client{Transport: tracer.Transport(&http.Transport{DisableKeepAlives: true})}
	ctx, cancel := context.WithCancel(t.Context())
	ctx, call := tracer.Start(ctx, "attempt", trace.SpanKindInternal)
	ended := make(chan error, 1)
	go func() { // in a goroutine of its own
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/execute", strings.NewReader("{}"))
		if err != nil {
			ended <- err
			return
		}
		response, err := client.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		ended <- err
	}()
	headers := <-got
	cancel() // the user's stop
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v", err)
	}
	call.End()
	spans := exporter.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans were ended, want 2", len(spans))
	}
	if spans[0].SpanKind != trace.SpanKindClient || spans[0].Parent.SpanID() != call.Context().SpanID() {
		t.Errorf("the HTTP span: %+v", spans[0])
	}
	want := fmt.Sprintf("00-%s-%s-01", call.Context().TraceID(), spans[0].SpanContext.SpanID())
	if headers.Get("Traceparent") != want || headers.Get("Baggage") != "" {
		t.Errorf("headers: %v, want traceparent %s", headers, want)
	}
}

// However many tools, routes and codes come, few series are made.
func TestAFloodOfLabelsMakesFewSeries(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	m, err := tracing.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), "")
	if err != nil {
		t.Fatal(err)
	}
	const flood = 20_000
	for i := range flood {
		v := fmt.Sprintf("made_up_%d", i)
		m.Count(tracing.ToolCalls, 1, v, "OK")
		m.GatewayRequest(v, 0, v, time.Millisecond)
		m.Time(tracing.HookDuration, time.Millisecond, v, "pre", "allow")
		m.Count(tracing.Requests, 1, v, v)
	}
	m.Count(tracing.ToolCalls, 1, strings.Repeat("x", 10_000), "OK")
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			n, total, other := 0, int64(0), false
			switch data := metric.Data.(type) {
			case metricdata.Sum[int64]:
				n = len(data.DataPoints)
				for _, p := range data.DataPoints {
					total += p.Value
					for _, kv := range p.Attributes.ToSlice() {
						other = other || kv.Value.AsString() == tracing.Other
						if len(kv.Value.AsString()) > 128 {
							t.Errorf("%s: a label of %d bytes", metric.Name, len(kv.Value.AsString()))
						}
					}
				}
			case metricdata.Histogram[float64]:
				n = len(data.DataPoints)
				other = true
				for _, p := range data.DataPoints {
					total += int64(p.Count)
				}
			}
			seen++
			if n > 201 || !other || total < flood {
				t.Errorf("%s: %d series, other %v, %d counted", metric.Name, n, other, total)
			}
		}
	}
	if seen != 5 {
		t.Errorf("%d instruments were seen", seen)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	for in, want := range map[string]string{
		`{"user":"ann","password":"x"}`:                           `{"user":"ann","password":"[redacted]"}`,
		`{"auth":{"api_key":{"deep":["k"]},"n":1}}`:               `{"auth":{"api_key":"[redacted]","n":1}}`,
		`{"API-Key":1,"Authorization":null,"x_token":[1,2]}`:      `{"API-Key":"[redacted]","Authorization":"[redacted]","x_token":"[redacted]"}`,
		`{"h":"Authorization: Bearer abcdefgh12345678"}`:          `{"h":"Authorization: [redacted]"}`,
		`["postgres://u:pw@db/x","sk-abcdefghijklmnop"]`:          `["postgres[redacted]db/x","[redacted]"]`,
		`"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"`:     `"[redacted]"`,
		`{"big":12345678901234567890.10,"ok":true,"e":"` + "é\"}": `{"big":12345678901234567890.10,"ok":true,"e":"é"}`,
		`no json, Bearer abcdefgh12345678, password=hunter2 x`:    `no json, [redacted], [redacted] x`,
		`{"a":{"password":"s3cretvalue","b":`:                     `{"a":{"password":"[redacted]","b"`,
		`{"a":1} {"secret":2}`:                                    `{"a":1} {"secret":"[redacted]"}`,
	} {
		if got, _ := tracing.Redact([]byte(in)); got != want {
			t.Errorf("%s\nis shown as %s\nwant        %s", in, got, want)
		}
	}
	long, cut := tracing.Redact([]byte(`{"a":"` + strings.Repeat("é", 10_000) + `"}`))
	if !cut || len(long) > 4<<10 || strings.ContainsRune(long, '\uFFFD') {
		t.Errorf("a long text: %d bytes, cut %v", len(long), cut)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte(`{"password":"s3cretvalue"}`))
	f.Add([]byte(`{"token":["s3cretvalue"`))
	f.Add([]byte("\xff{\"secret\":"))
	f.Fuzz(func(t *testing.T, body []byte) {
		text, _ := tracing.Redact(body)
		if len(text) > 4<<10 || !isUTF8(text) {
			t.Errorf("%d bytes", len(text))
		}
		hidden := append([]byte(`{"password":"s3cretvalue","rest":`), body...)
		if text, _ := tracing.Redact(hidden); strings.Contains(strings.Replace(text, string(body), "", 1), "s3cretvalue") && !bytes.Contains(body, []byte("s3cretvalue")) {
			t.Errorf("%q shows the secret: %s", hidden, text)
		}
	})
}

func isUTF8(s string) bool { return strings.ToValidUTF8(s, "") == s }

func TestRecordsOfATracedContextNameIt(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(tracing.LogHandler{Handler: slog.NewJSONHandler(&out, nil)}).With("a", 1).WithGroup("g")
	log.InfoContext(tracing.Extract(t.Context(), nats.Header{"traceparent": {parent}}), "x", "b", 2)
	if !strings.Contains(out.String(), `"trace_id":"11111111111111111111111111111111","span_id":"2222222222222222"`) {
		t.Errorf("record: %s", out.String())
	}
	out.Reset()
	log.InfoContext(t.Context(), "x")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("record without a span: %s", out.String())
	}
}

func TestTheSelfTestTellsWhatIsBroken(t *testing.T) {
	echo := func(_ context.Context, h nats.Header) (nats.Header, error) {
		v := tracing.Read(h)
		back := nats.Header{}
		if sc := tracing.Parse(v); sc.IsValid() {
			tracing.Write(back, tracing.Format(sc.WithSpanID(trace.SpanID{9}), v))
		}
		return back, nil
	}
	if err := tracing.SelfTest(t.Context(), echo, false); err != nil {
		t.Fatalf("what works: %v", err)
	}
	var kept nats.Header
	for says, exchange := range map[string]tracing.Exchange{
		"no traceparent": func(context.Context, nats.Header) (nats.Header, error) { return nats.Header{}, nil },
		"case-sensitive": func(context.Context, nats.Header) (nats.Header, error) {
			return nats.Header{"Traceparent": {parent}}, nil
		},
		"not readable": func(context.Context, nats.Header) (nats.Header, error) {
			return nats.Header{"traceparent": {"xx"}}, nil
		},
		"another trace": func(context.Context, nats.Header) (nats.Header, error) {
			return nats.Header{"traceparent": {parent}}, nil
		},
		"tracestate": func(ctx context.Context, h nats.Header) (nats.Header, error) {
			delete(h, "tracestate")
			return echo(ctx, h)
		},
		"baggage": func(ctx context.Context, h nats.Header) (nats.Header, error) {
			delete(h, "baggage")
			return echo(ctx, h)
		},
		"mixed up": func(ctx context.Context, h nats.Header) (nats.Header, error) {
			if len(h) == 0 {
				return kept, nil
			}
			kept, _ = echo(ctx, h)
			return kept, nil
		},
		"no worker": func(context.Context, nats.Header) (nats.Header, error) { return nil, errors.New("no worker") },
	} {
		err := tracing.SelfTest(t.Context(), exchange, false)
		if err == nil || !strings.Contains(err.Error(), says) && says != "another trace" {
			t.Errorf("%s: %v", says, err)
		}
		if says == "another trace" && !errors.Is(err, tracing.ErrOtherTrace) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if err := tracing.SelfTest(t.Context(), echo, true); err == nil {
		t.Error("workers that continue traces pass as such that begin their own")
	}
}

// BenchmarkRequest is what a request costs: its span, one below it, and what goes
// into the reply.
func BenchmarkRequest(b *testing.B) {
	out, _ := traced(sdktrace.WithSampler(sdktrace.NeverSample()))
	on := tracing.New(tracing.Config{Provider: sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(tracing.IDs{}), sdktrace.WithBatcher(tracetest.NewNoopExporter()))})
	for name, tracer := range map[string]*tracing.Tracer{"off": nil, "out": out, "on": on} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx, span := tracer.Receive(b.Context(), "assemble", tracing.Values{parent})
				_, child := tracer.Start(ctx, tracing.SpanRank, trace.SpanKindInternal)
				child.End()
				_ = span.Values(tracing.Values{parent})
				span.Outcome(tracing.OK, "")
				span.End()
			}
		})
	}
}
