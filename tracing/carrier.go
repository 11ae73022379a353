package tracing

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
)

// Values are the values of one message's trace headers: traceparent, tracestate,
// baggage; "" where it has none.
type Values = [3]string

// Names are the headers of Values.
func Names() [3]string {
	return [3]string{subjects.HeaderTraceParent, subjects.HeaderTraceState, subjects.HeaderBaggage}
}

// MaxValue is the longest value of a trace header that is passed on, in bytes: the
// bound that W3C sets for baggage, the longest of the three.
const MaxValue = 8 << 10

// Carrier lets a propagator read and write NATS headers. Those are case-sensitive
// and the contract's are lower case, which propagation.HeaderCarrier would not
// write.
type Carrier nats.Header

// Get implements propagation.TextMapCarrier.
func (c Carrier) Get(key string) string {
	if v := c[key]; len(v) > 0 && len(v[0]) <= MaxValue {
		return v[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c Carrier) Set(key, value string) { c[key] = []string{value} }

// Keys implements propagation.TextMapCarrier.
func (c Carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}

// Read returns the trace headers of a message.
func Read(h nats.Header) (v Values) {
	for i, name := range Names() {
		v[i] = Carrier(h).Get(name)
	}
	return v
}

// Write sets the trace headers of a message; empty values are left out.
func Write(h nats.Header, v Values) {
	for i, name := range Names() {
		if v[i] != "" {
			h[name] = []string{v[i]}
		}
	}
}

// Inject writes the span of ctx, and its baggage, into a message's headers. When
// ctx has none, nothing is written.
func Inject(ctx context.Context, h nats.Header) {
	propagation.TraceContext{}.Inject(ctx, Carrier(h))
	propagation.Baggage{}.Inject(ctx, Carrier(h))
}

// Extract returns ctx with the span and the baggage that a message's headers name
// as the remote parent. Headers that are not readable name none.
func Extract(ctx context.Context, h nats.Header) context.Context {
	ctx = propagation.TraceContext{}.Extract(ctx, Carrier(h))
	return propagation.Baggage{}.Extract(ctx, Carrier(h))
}

// values is Values as a propagator sees them.
type values Values

func (v *values) Get(key string) string {
	for i, name := range Names() {
		if name == key {
			return v[i]
		}
	}
	return ""
}

func (v *values) Set(key, value string) {
	for i, name := range Names() {
		if name == key {
			v[i] = value
		}
	}
}

func (v *values) Keys() []string {
	names := Names()
	return names[:]
}

// Parse reads the span that values name; it is not valid when they name none, or
// can not be read.
func Parse(v Values) trace.SpanContext {
	if v[0] == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), (*values)(&v)))
}

// Format is the inverse of Parse; the baggage is that of from.
func Format(sc trace.SpanContext, from Values) Values {
	out := Values{2: from[2]}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), (*values)(&out))
	return out
}
