package client

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// traced begins the span of a request; the returned function ends it.
func (c *Client) traced(ctx context.Context, subject string, size int) (context.Context, func(error)) {
	if c.cfg.Tracer == nil {
		return ctx, func(error) {}
	}
	name, a := "request", subjects.Address{}
	if parsed, err := c.cfg.Space.Parse(subject); err == nil {
		a = parsed
		name += " " + string(a.Verb) + a.Area
	}
	ctx, span := c.cfg.Tracer.Start(ctx, name, trace.SpanKindClient)
	if span.Recording() {
		span.Set(
			tracing.MessagingSystem.String(tracing.SystemNATS), tracing.MessagingOperationName.String("request"), tracing.MessagingOperationType.String(tracing.TypeSend),
			tracing.MessagingDestination.String(subject), tracing.MessagingBodySize.Int(size), tracing.Tenant.String(a.Tenant),
		)
		if a.Session != "" {
			span.Set(tracing.Session.String(a.Session), tracing.GenAIConversationID.String(a.Session))
		}
	}
	return ctx, func(err error) {
		span.Outcome(codeOfError(err), "")
		span.End()
	}
}

func codeOfError(err error) subjects.Code {
	var e *subjects.Error
	switch {
	case err == nil:
		return tracing.OK
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return subjects.CodeCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return subjects.CodeDeadlineExceeded
	}
	return subjects.CodeUnavailable
}

// inject writes the trace context of a request: by Config.Inject, else that of the
// context, if it has one.
func (c *Client) inject(ctx context.Context, h nats.Header) {
	if c.cfg.Inject != nil {
		c.cfg.Inject(ctx, h)
		return
	}
	tracing.Inject(ctx, h)
}

// received is the context of an execution, with what its headers say, and its span.
func (v *Server) received(ctx context.Context, m *nats.Msg, r *subjects.ExecRequest) (context.Context, tracing.Span) {
	cfg := &v.session.client.cfg
	switch {
	case cfg.Extract != nil:
		ctx = cfg.Extract(ctx, m.Header)
	case tracing.Carrier(m.Header).Get(subjects.HeaderTraceParent) != "":
		ctx = tracing.Extract(ctx, m.Header)
	}
	if cfg.Tracer == nil {
		return ctx, tracing.Span{}
	}
	ctx, span := cfg.Tracer.Start(ctx, tracing.SpanExec+" "+r.Tool, trace.SpanKindServer)
	if span.Recording() {
		span.Set(
			tracing.MessagingSystem.String(tracing.SystemNATS), tracing.MessagingOperationName.String(tracing.TypeProcess),
			tracing.MessagingOperationType.String(tracing.TypeProcess), tracing.MessagingDestination.String(m.Subject),
			tracing.GenAIToolName.String(r.Tool), tracing.GenAIToolCallID.String(r.ExecutionID), tracing.Session.String(r.Session),
		)
	}
	return ctx, span
}

// codeOfReply is the code of an execution's reply that this package has written.
func codeOfReply(body []byte) subjects.Code {
	var r subjects.ExecReply
	if err := subjects.Decode(body, &r); err != nil || r.Error == nil {
		return tracing.OK
	}
	return r.Error.Code
}
