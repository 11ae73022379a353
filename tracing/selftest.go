package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
)

// Exchange sends one request with the given headers and returns those of its
// reply: one tool_search, or whatever a worker answers.
type Exchange func(ctx context.Context, header nats.Header) (nats.Header, error)

// ErrOtherTrace is the error of a self-test whose reply came in another trace than
// the request was sent in: the traceparent did not reach the worker, or the worker
// begins traces of its own (telemetry.trace: link).
var ErrOtherTrace = errors.New("the reply is in another trace than the request: its " + subjects.HeaderTraceParent +
	" did not reach the worker, or the worker begins its own traces (telemetry.trace: link)")

// SelfTest says why trace context does not get through, or nil. It sends two
// requests: one with trace context, whose reply must be in the same trace, with
// tracestate and baggage as they were sent; and one without, whose reply must carry
// none, or be in a trace of its own. link says that the workers are configured to
// begin traces of their own; then the first reply's trace must be a new one.
func SelfTest(ctx context.Context, exchange Exchange, link bool) error {
	t, s := IDs{}.NewIDs(ctx)
	sent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.FlagsSampled, Remote: true})
	want := Format(sent, Values{2: "toolbridge.selftest=1"})
	want[1] = "toolbridge=selftest"
	h := nats.Header{}
	Write(h, want)
	reply, err := within(ctx, exchange, h)
	if err != nil {
		return fmt.Errorf("sending a traced request: %w", err)
	}
	for name := range reply {
		for _, ours := range Names() {
			if name != ours && strings.EqualFold(name, ours) {
				return fmt.Errorf("the reply has the header %q: NATS headers are case-sensitive, and the contract's is %q", name, ours)
			}
		}
	}
	got := Read(reply)
	back := Parse(got)
	switch {
	case got[0] == "":
		return errors.New("the reply carries no " + subjects.HeaderTraceParent + ": it was lost between here and the worker, or on the way back")
	case !back.IsValid():
		return fmt.Errorf("the reply's %s is not readable: %.80q", subjects.HeaderTraceParent, got[0])
	case link && back.TraceID() == sent.TraceID():
		return errors.New("the reply is in the request's trace, although workers are said to begin their own (telemetry.trace: link)")
	case !link && back.TraceID() != sent.TraceID():
		return ErrOtherTrace
	case !link && got[1] != want[1]:
		return fmt.Errorf("%s came back as %.80q, not as it was sent", subjects.HeaderTraceState, got[1])
	case got[2] != want[2]:
		return fmt.Errorf("%s came back as %.80q, not as it was sent", subjects.HeaderBaggage, got[2])
	}
	reply, err = within(ctx, exchange, nats.Header{})
	if err != nil {
		return fmt.Errorf("sending a request without trace context: %w", err)
	}
	if v := Read(reply); v[0] != "" {
		other := Parse(v)
		if !other.IsValid() {
			return fmt.Errorf("a request without trace context was answered with an unreadable %s: %.80q", subjects.HeaderTraceParent, v[0])
		}
		if other.TraceID() == sent.TraceID() || other.TraceID() == back.TraceID() {
			return errors.New("a request without trace context was answered in another request's trace: contexts get mixed up")
		}
	}
	return nil
}

// selfTestWithin bounds each of SelfTest's requests.
const selfTestWithin = 10 * time.Second

func within(ctx context.Context, exchange Exchange, h nats.Header) (nats.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, selfTestWithin)
	defer cancel()
	return exchange(ctx, h)
}
