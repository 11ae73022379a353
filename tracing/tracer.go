package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
)

// Scope is the name of the instrumentation in everything that is exported.
const Scope = "toolbridge"

// Config is how spans are made.
type Config struct {
	// Provider makes them; nil: there is no Tracer. Its identities should come
	// from IDs.
	Provider trace.TracerProvider
	// Link begins a trace of its own for every message from outside and links it
	// to the caller's; otherwise the caller's trace is continued.
	Link bool
	// Content puts arguments and results into attributes, redacted and cut.
	Content bool
	// Version of the program.
	Version string
}

// Tracer makes spans. A nil Tracer makes none.
type Tracer struct {
	provider trace.TracerProvider
	tracer   trace.Tracer
	link     bool
	content  bool
}

// New returns a Tracer, nil without a provider.
func New(cfg Config) *Tracer {
	if cfg.Provider == nil {
		return nil
	}
	return &Tracer{
		provider: cfg.Provider,
		tracer:   cfg.Provider.Tracer(Scope, trace.WithInstrumentationVersion(cfg.Version)),
		link:     cfg.Link,
		content:  cfg.Content,
	}
}

// Span is one that was started. The zero value is none, and all methods may be
// called on it.
type Span struct{ span trace.Span }

// Receive starts the span of a message that came from outside. It is a child of
// the caller's span, or the beginning of a trace with a link to it, by
// Config.Link; without a caller's span it begins a trace.
func (t *Tracer) Receive(ctx context.Context, name string, from Values) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	parent := Parse(from)
	if !t.link {
		return t.below(ctx, name, parent, trace.SpanKindServer)
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithNewRoot()}
	if parent.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: parent}))
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	return ctx, Span{span}
}

// Continue starts a span below one that another part of Toolbridge named in a
// message or a record.
func (t *Tracer) Continue(ctx context.Context, name string, from Values, kind trace.SpanKind, links ...trace.Link) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.below(ctx, name, Parse(from), kind, links...)
}

func (t *Tracer) below(ctx context.Context, name string, parent trace.SpanContext, kind trace.SpanKind, links ...trace.Link) (context.Context, Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind)}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	if len(links) > 0 {
		options = append(options, trace.WithLinks(links...))
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	return ctx, Span{span}
}

// Start starts a span below that of ctx.
func (t *Tracer) Start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, Span{span}
}

// StartAt starts a span whose identity follows from its parent's, so that it is
// known should this process be lost before the span's end.
func (t *Tracer) StartAt(ctx context.Context, name string, parent trace.SpanContext, id trace.SpanID, kind trace.SpanKind) (context.Context, Span) {
	if t == nil || !parent.IsValid() {
		return ctx, Span{}
	}
	_, span := t.tracer.Start(withID(trace.ContextWithRemoteSpanContext(ctx, parent), id), name, trace.WithSpanKind(kind))
	return trace.ContextWithSpan(ctx, span), Span{span} // without the identity, which is not for its children
}

// Past is a span that is reported at its end, with an identity that was known
// before.
type Past struct {
	Name       string
	Kind       trace.SpanKind
	Parent     trace.SpanContext // not valid: the span begins its trace
	Trace      trace.SpanContext // then: of which trace
	ID         trace.SpanID
	Begin, End time.Time // End before Begin counts as Begin
	Code       subjects.Code
	Reason     string
	Attributes []attribute.KeyValue
	Links      []trace.Link
	Events     []Event
	Quiet      bool // the code is no failure here
}

// Event is something that happened during a span.
type Event struct {
	Name       string
	At         time.Time // zero: the span's end
	Attributes []attribute.KeyValue
}

// Report reports a span whole.
func (t *Tracer) Report(p Past) {
	if t == nil {
		return
	}
	ctx := withID(context.Background(), p.ID)
	options := []trace.SpanStartOption{trace.WithSpanKind(p.Kind), trace.WithTimestamp(p.Begin)}
	if p.Parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, p.Parent)
	} else {
		ctx = withTrace(ctx, p.Trace.TraceID())
	}
	if len(p.Links) > 0 {
		options = append(options, trace.WithLinks(p.Links...))
	}
	_, span := t.tracer.Start(ctx, p.Name, options...)
	if p.End.Before(p.Begin) {
		p.End = p.Begin
	}
	if span.IsRecording() {
		span.SetAttributes(p.Attributes...)
		for _, e := range p.Events {
			if e.At.IsZero() {
				e.At = p.End
			}
			span.AddEvent(e.Name, trace.WithTimestamp(e.At), trace.WithAttributes(e.Attributes...))
		}
		if p.Quiet {
			span.SetAttributes(Outcome.String(string(p.Code)))
		} else {
			Span{span}.Outcome(p.Code, p.Reason)
		}
	}
	span.End(trace.WithTimestamp(p.End))
}

// Recording reports whether the span goes anywhere: what is written to it is not
// lost.
func (s Span) Recording() bool { return s.span != nil && s.span.IsRecording() }

// Context is the span's identity, not valid for none.
func (s Span) Context() trace.SpanContext {
	if s.span == nil {
		return trace.SpanContext{}
	}
	return s.span.SpanContext()
}

// Values are what a message that the span sends carries: the span's identity and
// the baggage of from. For no span they are from itself.
func (s Span) Values(from Values) Values {
	if s.span == nil {
		return from
	}
	return Format(s.span.SpanContext(), from)
}

// Rename gives the span another name.
func (s Span) Rename(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// Set adds attributes. Build them only when Recording says that it is worth it.
func (s Span) Set(list ...attribute.KeyValue) {
	if s.span != nil {
		s.span.SetAttributes(list...)
	}
}

// Link links the span to another one.
func (s Span) Link(to trace.SpanContext) {
	if s.span != nil && to.IsValid() {
		s.span.AddLink(trace.Link{SpanContext: to})
	}
}

// Outcome writes how it ended: every span's outcome is an attribute, and the
// status of one that Failed is error, with the code as its type.
// more are further attributes, written with it.
func (s Span) Outcome(code subjects.Code, reason string, more ...attribute.KeyValue) {
	if !s.Recording() {
		return
	}
	if code == "" {
		code = OK
	}
	s.span.SetAttributes(append(more, Outcome.String(string(code)))...)
	if reason != "" {
		s.span.SetAttributes(OutcomeReason.String(reason))
	}
	if Failed(code, reason) {
		s.span.SetAttributes(ErrorType.String(string(code)))
		s.span.SetStatus(codes.Error, string(code))
	}
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// Current is the span of ctx.
func Current(ctx context.Context) Span {
	span := trace.SpanFromContext(ctx)
	if !span.SpanContext().IsValid() {
		return Span{}
	}
	return Span{span}
}

type tracerKey struct{}

// With returns ctx with a Tracer, for programs whose parts are told nothing else.
func With(ctx context.Context, t *Tracer) context.Context {
	return context.WithValue(ctx, tracerKey{}, t)
}

// From is the Tracer of With, or nil.
func From(ctx context.Context) *Tracer {
	t, _ := ctx.Value(tracerKey{}).(*Tracer)
	return t
}
