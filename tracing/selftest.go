package tracing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
)

// Exchange sends one request with the given headers and returns those of its
// reply: one tool_search, or whatever a worker answers.
type Exchange func(ctx context.Context, header nats.Header) (nats.Header, error)

// SelfTest says why trace context does not get through, or nil. It sends two
// requests: one with a traceparent, whose reply must carry the same trace (or,
// where the worker begins traces of its own, another valid one: linked is true
// then), with the tracestate and baggage intact; and one without, whose reply must
// carry none or a valid one that is not the first's.
func SelfTest(ctx context.Context, exchange Exchange) (linked bool, err error) {
	t, s := IDs{}.NewIDs(ctx)
	sent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.FlagsSampled, Remote: true})
	want := Format(sent, Values{2: "toolbridge.selftest=1"})
	want[1] = "toolbridge=selftest"
	h := nats.Header{}
	Write(h, want)
	reply, err := within(ctx, exchange, h)
	if err != nil {
		return false, fmt.Errorf("sending a traced request: %w", err)
	}
	for name := range reply {
		for _, ours := range Names() {
			if name != ours && equalFold(name, ours) {
				return false, fmt.Errorf("the reply has the header %q: NATS headers are case-sensitive, and the contract's is %q", name, ours)
			}
		}
	}
	got := Read(reply)
	back := Parse(got)
	switch {
	case got[0] == "":
		return false, errors.New("the reply carries no " + subjects.HeaderTraceParent + ": it was lost between here and the worker, or on the way back")
	case !back.IsValid():
		return false, fmt.Errorf("the reply's %s is not readable: %.80q", subjects.HeaderTraceParent, got[0])
	case back.TraceID() != sent.TraceID():
		linked = true
	case got[1] != want[1]:
		return false, fmt.Errorf("%s came back as %.80q, not as it was sent", subjects.HeaderTraceState, got[1])
	}
	if got[2] != want[2] {
		return linked, fmt.Errorf("%s came back as %.80q, not as it was sent", subjects.HeaderBaggage, got[2])
	}
	reply, err = within(ctx, exchange, nats.Header{})
	if err != nil {
		return linked, fmt.Errorf("sending a request without trace context: %w", err)
	}
	if v := Read(reply); v[0] != "" {
		other := Parse(v)
		if !other.IsValid() {
			return linked, fmt.Errorf("a request without trace context was answered with an unreadable %s: %.80q", subjects.HeaderTraceParent, v[0])
		}
		if other.TraceID() == sent.TraceID() || other.TraceID() == back.TraceID() {
			return linked, errors.New("a request without trace context was answered in another request's trace: contexts get mixed up")
		}
	}
	return linked, nil
}

// selfTestWithin bounds each of SelfTest's requests.
const selfTestWithin = 10 * time.Second

func within(ctx context.Context, exchange Exchange, h nats.Header) (nats.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, selfTestWithin)
	defer cancel()
	return exchange(ctx, h)
}

func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 {
			return false
		}
	}
	return true
}
