package client

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

const parent = "00-11111111111111111111111111111111-2222222222222222-01"

func TestTheContextsSpanGoesAlongAndNoneIsMadeUp(t *testing.T) {
	connect := bus(t, nil)
	got := make(chan nats.Header, 1)
	worker(t, connect(), subjects.VerbStop, func(m *nats.Msg) *nats.Msg {
		got <- m.Header
		return &nats.Msg{Data: []byte(`{"stopped":[]}`)}
	})
	s := session(t, connect(), Config{})
	if _, err := s.StopAll(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if h := <-got; tracing.Read(h) != (tracing.Values{}) {
		t.Errorf("headers without a span: %v", h)
	}
	ctx := trace.ContextWithRemoteSpanContext(within(t, 10*time.Second), tracing.Parse(tracing.Values{parent, "a=b"}))
	if _, err := s.StopAll(ctx); err != nil {
		t.Fatal(err)
	}
	if h := <-got; tracing.Read(h) != (tracing.Values{parent, "a=b"}) {
		t.Errorf("headers: %v", h)
	}
}

func TestRequestsAndExecutionsAreSpans(t *testing.T) {
	connect := bus(t, nil)
	exporter := tracetest.NewInMemoryExporter()
	tracer := tracing.New(tracing.Config{Provider: sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(tracing.IDs{}), sdktrace.WithSyncer(exporter))})
	nc := connect()
	header := make(chan nats.Header, 1)
	worker(t, nc, subjects.VerbFetch, func(m *nats.Msg) *nats.Msg {
		header <- m.Header
		return &nats.Msg{
			Data:   []byte(`{"error":{"code":"UNKNOWN_CALL","message":"no","retryable":false}}`),
			Header: nats.Header{subjects.HeaderErrorCode: {"404"}, subjects.HeaderError: {"no"}},
		}
	})
	s := session(t, connect(), Config{Tracer: tracer})
	ctx := trace.ContextWithRemoteSpanContext(within(t, 10*time.Second), tracing.Parse(tracing.Values{parent}))
	if _, err := s.Fetch(ctx, "c1"); err == nil {
		t.Fatal("no error")
	}
	sent := exporter.GetSpans()
	if len(sent) != 1 || sent[0].Name != "request fetch" || sent[0].SpanKind != trace.SpanKindClient || sent[0].Status.Code != codes.Error ||
		sent[0].Parent.SpanID().String() != "2222222222222222" || tracing.Parse(tracing.Read(<-header)).SpanID() != sent[0].SpanContext.SpanID() {
		t.Errorf("spans %+v", sent)
	}
	exporter.Reset()
	inside := make(chan trace.SpanContext, 1)
	v, err := s.Serve(ctx, ServeConfig{}, func(ctx context.Context, _ subjects.ExecRequest) (json.RawMessage, error) {
		inside <- trace.SpanContextFromContext(ctx)
		return nil, &ToolError{Code: subjects.CodeToolError, Message: "no"}
	})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := nc.RequestMsg(&nats.Msg{
		Subject: "toolbridge.v1.acme.s1.exec", Data: []byte(`{"execution_id":"c1.0","session":"s1","tool":"x","arguments":{}}`),
		Header: nats.Header{subjects.HeaderKind: {subjects.KindExec}, "traceparent": {parent}},
	}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Stop(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	served := exporter.GetSpans()
	if len(served) != 1 || served[0].Name != "exec x" || served[0].Parent.SpanID().String() != "2222222222222222" || served[0].Status.Description != "TOOL_ERROR" {
		t.Fatalf("spans %+v", served)
	}
	if id := (<-inside).SpanID(); id != served[0].SpanContext.SpanID() {
		t.Errorf("the handler runs in span %s", id)
	}
	if got := tracing.Read(reply.Header)[0]; got != parent {
		t.Errorf("the answer carries %q", got)
	}
}
