package mcp

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

func TestRequestsThatMustNotRunAreRefused(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard", "NOTES", file)}})
	good := b.request(h, "std", "mcp__std__count", `{}`)
	tests := []struct {
		name   string
		change func(*subjects.ExecRequest)
		code   subjects.Code
		says   string
	}{
		{"start_by passed", func(r *subjects.ExecRequest) { r.StartBy = time.Now().Add(-time.Millisecond).UnixMilli() }, subjects.CodeTooLate, "not started by"},
		{"deadline passed", func(r *subjects.ExecRequest) { r.Deadline = 1 }, subjects.CodeTooLate, ""},
		{"another definition", func(r *subjects.ExecRequest) { r.DefinitionSHA256 = strings.Repeat("0", 64) }, subjects.CodeDefinitionMismatch, "has changed"},
		{"no definition", func(r *subjects.ExecRequest) { r.DefinitionSHA256 = "" }, subjects.CodeDefinitionMismatch, ""},
		{"unknown tool", func(r *subjects.ExecRequest) { r.Tool = "mcp__std__nope" }, subjects.CodeDefinitionMismatch, "offers no tool"},
		{"raw name", func(r *subjects.ExecRequest) { r.Tool = "count" }, subjects.CodeDefinitionMismatch, ""},
		{"case differs", func(r *subjects.ExecRequest) { r.Tool = "mcp__std__Count" }, subjects.CodeDefinitionMismatch, ""},
		{"no id", func(r *subjects.ExecRequest) { r.ExecutionID = "" }, subjects.CodeBadRequest, "execution_id"},
		{"no tool", func(r *subjects.ExecRequest) { r.Tool = "" }, subjects.CodeBadRequest, "tool"},
		{"arguments are a list", func(r *subjects.ExecRequest) { r.Arguments = json.RawMessage(`[]`) }, subjects.CodeInvalidArguments, ""},
		{"arguments are a string", func(r *subjects.ExecRequest) { r.Arguments = json.RawMessage(`"{}"`) }, subjects.CodeInvalidArguments, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := good
			tt.change(&r)
			wantCode(t, b.ask("std", r).reply(), tt.code, tt.says)
		})
	}
	for _, body := range []string{"", "{", "[]", `"x"`, `{"execution_id":5}`, "\x00"} {
		wantCode(t, b.askRaw("std", []byte(body), nil).reply(), subjects.CodeBadRequest)
	}
	if got := notes(file); len(got) != 0 {
		t.Errorf("ran all the same: %v", got)
	}
	// A refusal is not remembered: the same execution may still be run in time.
	late := good
	late.StartBy = 1
	wantCode(t, b.ask("std", late).reply(), subjects.CodeTooLate)
	late.StartBy = good.StartBy
	wantResult(t, b.ask("std", late).reply(), `"counted"`)
}

func TestAnswersGoToAllowedReplySubjectsOnly(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard", "NOTES", file)}})
	for _, reply := range []string{"", "toolbridge.v1.t1.s2.result.c1", "$KV.toolbridge_toolsets.x", "_INBOXES.x", "TOOLBRIDGE_AUDIT", "_INBOX", "_R_"} {
		target := reply
		if target == "" {
			target = "unused"
		}
		sub, err := b.nc.SubscribeSync(target)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(b.request(h, "std", "mcp__std__count", `{}`))
		if err := b.nc.PublishMsg(&nats.Msg{Subject: subjects.Space{}.ExecRun("t1", "mcp-std"), Reply: reply, Data: data}); err != nil {
			t.Fatal(err)
		}
		(&inbox{t: t, sub: sub}).silent()
		_ = sub.Unsubscribe()
	}
	// A message of another kind was aimed here: an answer, a result.
	data, _ := json.Marshal(b.request(h, "std", "mcp__std__count", `{}`))
	for _, kind := range []string{subjects.KindReply, subjects.KindResult, subjects.KindEvent} {
		b.askRaw("std", data, nats.Header{subjects.HeaderKind: {kind}}).silent()
	}
	if got := notes(file); len(got) != 0 {
		t.Errorf("ran all the same: %v", got)
	}
	wantResult(t, b.askRaw("std", data, nil).reply(), `"counted"`)
}

func TestADuplicateIsAnsweredFromTheFirstRun(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard", "NOTES", file)}})
	r := b.request(h, "std", "mcp__std__sleep", `{"ms":300}`)
	first := b.ask("std", r)
	for len(notes(file)) == 0 {
		<-time.After(time.Millisecond)
	}
	second := b.ask("std", r)
	wantResult(t, first.reply(), `"slept"`)
	wantResult(t, second.reply(), `"slept"`)
	r.StartBy, r.Deadline = 1, 1 // the first run's answer is due however late
	wantResult(t, b.ask("std", r).reply(), `"slept"`)
	if got := notes(file); !slices.Equal(got, []string{"started", "finished"}) {
		t.Errorf("ran %v", got)
	}
	other := r
	other.Session, other.StartBy, other.Deadline = "s2", time.Now().Add(time.Minute).UnixMilli(), 0
	wantResult(t, b.ask("std", other).reply(), `"slept"`)
	if got := notes(file); len(got) != 4 {
		t.Errorf("the same execution id in another session is another call: %v", got)
	}
}

func TestACancelThatTheServerConfirmsIsAnsweredCancelled(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard", "NOTES", file)}})
	r := b.request(h, "std", "mcp__std__sleep", `{"ms":60000}`)
	in := b.ask("std", r)
	for len(notes(file)) == 0 {
		<-time.After(time.Millisecond)
	}
	b.cancel("std", `{"execution_id":"somebody.else"}`)
	b.cancel("std", `not json`)
	b.cancel("std", `{"execution_id":"`+r.ExecutionID+`","session":"s2"}`)
	in.silent()
	b.cancel("std", `{"execution_id":"`+r.ExecutionID+`"}`)
	wantCode(t, in.reply(), subjects.CodeCancelled, "was cancelled")
	if got := notes(file); !slices.Equal(got, []string{"started", "cancelled"}) {
		t.Errorf("the server saw %v", got)
	}
	wantCode(t, b.ask("std", r).reply(), subjects.CodeCancelled)
}

func TestACancelThatNobodyConfirmsLeavesTheOutcomeUnknown(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	cfg := stdio("std", "standard", "NOTES", file)
	cfg.CancelGrace = 100 * time.Millisecond
	h, _ := b.host(Config{Servers: []ServerConfig{cfg}})
	r := b.request(h, "std", "mcp__std__sleep", `{"ms":700,"ignores":true}`)
	in := b.ask("std", r)
	for len(notes(file)) == 0 {
		<-time.After(time.Millisecond)
	}
	b.cancel("std", `{"execution_id":"`+r.ExecutionID+`"}`)
	wantCode(t, in.reply(), subjects.CodeOutcomeUnknown, "did not confirm", "may still take effect")
	wantResult(t, b.call(h, "std", "mcp__std__say", `{"text":"still here"}`), `"still here"`)
}

func TestAResultThatComesAfterTheCancelIsTheResult(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard", "NOTES", file)}})
	r := b.request(h, "std", "mcp__std__sleep", `{"ms":400,"ignores":true}`)
	in := b.ask("std", r)
	for len(notes(file)) == 0 {
		<-time.After(time.Millisecond)
	}
	b.cancel("std", `{"execution_id":"`+r.ExecutionID+`"}`)
	wantResult(t, in.reply(), `"slept"`)
}

func TestACancelThatOvertakesItsRequestStopsIt(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard", "NOTES", file)}})
	r := b.request(h, "std", "mcp__std__count", `{}`)
	b.cancel("std", `{"execution_id":"`+r.ExecutionID+`"}`)
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		x := h.servers[0].executions
		x.mu.Lock()
		n := len(x.early)
		x.mu.Unlock()
		if n > 0 {
			break
		}
		<-time.After(time.Millisecond)
	}
	wantCode(t, b.ask("std", r).reply(), subjects.CodeCancelled, "before it was started")
	if got := notes(file); len(got) != 0 {
		t.Errorf("ran: %v", got)
	}
}

// C29: the limit that applies is the most specific one, and the error names it.
func TestC29TheTimeoutNamesServerAndLimit(t *testing.T) {
	b := newBus(t)
	fast := stdio("fast", "standard")
	fast.Timeout = 200 * time.Millisecond
	h, _ := b.host(Config{Servers: []ServerConfig{fast, stdio("slow", "standard")}})
	slow := b.ask("slow", b.request(h, "slow", "mcp__slow__sleep", `{"ms":600}`))
	start := time.Now()
	wantCode(t, b.call(h, "fast", "mcp__fast__sleep", `{"ms":60000}`), subjects.CodeTimeout, `"fast"`, "200ms", "configured limit")
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	wantResult(t, slow.reply(), `"slept"`)

	r := b.request(h, "slow", "mcp__slow__sleep", `{"ms":60000}`)
	r.Deadline = time.Now().Add(300 * time.Millisecond).UnixMilli()
	wantCode(t, b.ask("slow", r).reply(), subjects.CodeTimeout, `"slow"`, "the call's deadline")
	r = b.request(h, "slow", "mcp__slow__sleep", `{"ms":2500,"ignores":true}`)
	r.Deadline = time.Now().Add(200 * time.Millisecond).UnixMilli()
	wantCode(t, b.ask("slow", r).reply(), subjects.CodeOutcomeUnknown, `"slow"`, "did not confirm")
}

func TestAServerThatStoppedAnsweringIsStartedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a ping to time out")
	}
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	deaf := stdio("deaf", "deaf", "NOTES", file)
	deaf.Timeout, deaf.CancelGrace = 100*time.Millisecond, 50*time.Millisecond
	h, _ := b.host(Config{Servers: []ServerConfig{deaf}})
	wantCode(t, b.call(h, "deaf", "mcp__deaf__t1", `{}`), subjects.CodeOutcomeUnknown)
	reg := b.awaitState(h, "deaf", subjects.StateUnavailable)
	if !strings.Contains(reg.Reason, "stopped answering") && !strings.Contains(reg.Reason, "ended") {
		t.Errorf("reason: %q", reg.Reason)
	}
	b.awaitState(h, "deaf", subjects.StateReady)
}

func TestInterimMessagesAreSentWhileACallRuns(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{FirstWorking: 50 * time.Millisecond, Working: 50 * time.Millisecond, Servers: []ServerConfig{stdio("std", "standard")}})
	in := b.ask("std", b.request(h, "std", "mcp__std__sleep", `{"ms":500}`))
	wantResult(t, in.reply(), `"slept"`)
	if in.working < 3 {
		t.Errorf("%d interim messages", in.working)
	}
	in.silent()
}

func TestToolErrorsKeepTheirWords(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard")}})
	wantCode(t, b.call(h, "std", "mcp__std__fail", `{}`), subjects.CodeToolError, "quota exceeded")
	wantCode(t, b.call(h, "std", "mcp__std__refuse", `{}`), CodeProtocolError, "database is on fire")
	wantResult(t, b.call(h, "std", "mcp__std__image", `{}`), `{"content":[{"type":"image","mimeType":"image/png","data":"AQID"}]}`)
	wantResult(t, b.call(h, "std", "mcp__std__structured", `{}`), `{"a":9007199254740993,"b":1}`)
}

// B06: always answer something.
func TestB06AResultAboveMaxPayloadIsAnErrorAtOnce(t *testing.T) {
	b := newBus(t, func(o *natsserver.Options) { o.MaxPayload = 1 << 20 })
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard")}})
	wantCode(t, b.call(h, "std", "mcp__std__big", `{"bytes":1500000}`), subjects.CodeResultTooLarge, "1500002", "1048576")
	if got := b.call(h, "std", "mcp__std__big", `{"bytes":1000000}`); len(got.Result) != 1000002 {
		t.Errorf("got %d bytes", len(got.Result))
	}
}

// B14: each request gets its own reply, however the replies are shuffled.
func TestB14ParallelRequestsGetTheirOwnReplies(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard")}})
	r := b.request(h, "std", "mcp__std__echo", `{}`)
	var all sync.WaitGroup
	for i := range 200 {
		q := r
		q.ExecutionID, q.Arguments = fmt.Sprintf("c%d.0", i), json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
		in := b.ask("std", q)
		all.Go(func() {
			if got := in.reply(); string(got.Result) != string(q.Arguments) {
				t.Errorf("%s got %s %+v", q.Arguments, got.Result, got.Error)
			}
		})
	}
	all.Wait()
}

func TestConcurrencyIsBounded(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	cfg := stdio("std", "standard", "NOTES", file)
	cfg.MaxConcurrent, cfg.MaxPending = 1, 2
	h, _ := b.host(Config{Servers: []ServerConfig{cfg}})
	r := b.request(h, "std", "mcp__std__sleep", `{"ms":300}`)
	r.Deadline = time.Now().Add(time.Minute).UnixMilli()
	ask := func(id string, startBy time.Duration) *inbox {
		q := r
		q.ExecutionID, q.StartBy = id, time.Now().Add(startBy).UnixMilli()
		return b.ask("std", q)
	}
	a := ask("a.0", time.Minute)
	for len(notes(file)) == 0 {
		<-time.After(time.Millisecond)
	}
	bb, late, busy := ask("b.0", time.Minute), ask("late.0", 50*time.Millisecond), ask("busy.0", time.Minute)
	wantCode(t, busy.reply(), subjects.CodeBusy, "already")
	wantCode(t, late.reply(), subjects.CodeTooLate)
	wantResult(t, a.reply(), `"slept"`)
	wantResult(t, bb.reply(), `"slept"`)
	if got := notes(file); !slices.Equal(got, []string{"started", "finished", "started", "finished"}) {
		t.Errorf("overlapped: %v", got)
	}
}

// B09: stop taking, finish, leave.
func TestB09StopLetsRunningCallsFinish(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "notes")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard", "NOTES", file)}})
	quick := b.ask("std", b.request(h, "std", "mcp__std__sleep", `{"ms":400}`))
	stuck := b.ask("std", b.request(h, "std", "mcp__std__sleep", `{"ms":60000}`))
	for len(notes(file)) < 2 {
		<-time.After(time.Millisecond)
	}
	start := time.Now()
	ctx, cancel := contextFor(t, 4*time.Second)
	defer cancel()
	if err := h.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Stop took %s", took)
	}
	wantResult(t, quick.reply(), `"slept"`)
	wantCode(t, stuck.reply(), subjects.CodeCancelled, "shutting down")
}

func TestTraceContextPassesBothWays(t *testing.T) {
	b := newBus(t)
	record := filepath.Join(t.TempDir(), "record")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("n", "names", "NAMES", `["x"]`, "RECORD", record)}})
	data, _ := json.Marshal(b.request(h, "n", "mcp__n__x", `{}`))
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	in := b.askRaw("n", data, nats.Header{subjects.HeaderKind: {subjects.KindExec}, subjects.HeaderTraceParent: {parent}})
	wantResult(t, in.reply(), `"raw:x"`)
	if got := in.final.Header[subjects.HeaderTraceParent]; len(got) != 1 || got[0] != parent {
		t.Errorf("the answer carries %v", got)
	}
	if sent := strings.Join(notes(record), " "); !strings.Contains(sent, `"_meta":{"traceparent":"`+parent+`"}`) {
		t.Errorf("the server got %s", sent)
	}
}

func TestACallIsSpansOfTheHostAndTheServerIsToldTheInnermost(t *testing.T) {
	b := newBus(t)
	record := filepath.Join(t.TempDir(), "record")
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(tracing.IDs{}), sdktrace.WithSyncer(exporter))
	h, _ := b.host(Config{
		Servers: []ServerConfig{stdio("n", "names", "NAMES", `["x"]`, "RECORD", record)},
		Tracer:  tracing.New(tracing.Config{Provider: provider}),
	})
	data, _ := json.Marshal(b.request(h, "n", "mcp__n__x", `{}`))
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	in := b.askRaw("n", data, nats.Header{subjects.HeaderKind: {subjects.KindExec}, subjects.HeaderTraceParent: {parent}})
	wantResult(t, in.reply(), `"raw:x"`)
	spans := exporter.GetSpans()
	if len(spans) != 2 || spans[0].Name != "tools/call x" || spans[1].Name != "exec mcp-n" {
		t.Fatalf("spans %v", spans)
	}
	call, exec := spans[0], spans[1]
	if exec.Parent.SpanID().String() != "00f067aa0ba902b7" || call.Parent.SpanID() != exec.SpanContext.SpanID() {
		t.Errorf("exec is below %s, the call below %s", exec.Parent.SpanID(), call.Parent.SpanID())
	}
	if exec.SpanKind != trace.SpanKindServer || call.SpanKind != trace.SpanKindClient {
		t.Errorf("kinds %s, %s", exec.SpanKind, call.SpanKind)
	}
	told := `"_meta":{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-` + call.SpanContext.SpanID().String() + `-01"}`
	if sent := strings.Join(notes(record), " "); !strings.Contains(sent, told) {
		t.Errorf("the server got %s, want %s", sent, told)
	}
}
