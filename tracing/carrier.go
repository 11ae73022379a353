package tracing

import (
	"context"
	"encoding/hex"

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

// Parse reads the span that values name; it is not valid when they name none, or
// can not be read. It reads as propagation.TraceContext does, which a test holds it
// to, without that one's contexts and carriers.
func Parse(v Values) trace.SpanContext {
	const length = 55 // of version 00; later ones may go on after a dash
	p := v[0]
	if len(p) < length || p[2] != '-' || p[35] != '-' || p[52] != '-' {
		return trace.SpanContext{}
	}
	version, ok := hexByte(p[0], p[1])
	if !ok || version == 0xff || version == 0 && len(p) != length || len(p) > length && p[length] != '-' {
		return trace.SpanContext{}
	}
	cfg := trace.SpanContextConfig{Remote: true}
	for i := range cfg.TraceID {
		if cfg.TraceID[i], ok = hexByte(p[3+2*i], p[4+2*i]); !ok {
			return trace.SpanContext{}
		}
	}
	for i := range cfg.SpanID {
		if cfg.SpanID[i], ok = hexByte(p[36+2*i], p[37+2*i]); !ok {
			return trace.SpanContext{}
		}
	}
	flags, ok := hexByte(p[53], p[54])
	if !ok || version == 0 && flags > 3 {
		return trace.SpanContext{}
	}
	cfg.TraceFlags = trace.TraceFlags(flags) & (trace.FlagsSampled | trace.FlagsRandom)
	if v[1] != "" {
		cfg.TraceState, _ = trace.ParseTraceState(v[1]) // what can not be read is dropped
	}
	sc := trace.NewSpanContext(cfg)
	if !sc.IsValid() {
		return trace.SpanContext{}
	}
	return sc
}

func hexByte(high, low byte) (byte, bool) {
	h, ok := hexDigit(high)
	l, ok2 := hexDigit(low)
	return h<<4 | l, ok && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

// Format is the inverse of Parse; the baggage is that of from.
func Format(sc trace.SpanContext, from Values) Values {
	out := Values{2: from[2]}
	if !sc.IsValid() {
		return out
	}
	t, s, f := sc.TraceID(), sc.SpanID(), sc.TraceFlags()&(trace.FlagsSampled|trace.FlagsRandom)
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, t[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, s[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, []byte{byte(f)})
	out[0], out[1] = string(b), sc.TraceState().String()
	return out
}
