package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Serving says why the host does not serve now, or nil. Servers that are away do
// not count: the registry says so of each.
func (h *Host) Serving() error {
	if !h.life.TryLock() { // Start and Stop take their time
		return errors.New("the MCP host is starting or stopping")
	}
	defer h.life.Unlock()
	switch {
	case !h.started:
		return errors.New("the MCP host has not started yet")
	case h.stopped:
		return errStopping
	case !h.nc.IsConnected():
		return errors.New("not connected to NATS")
	}
	return nil
}

// watchFigures shows how the servers stand until the returned function is called.
func (h *Host) watchFigures() (stop func(), err error) {
	return h.cfg.Metrics.Watch(func(r tracing.Readings) {
		counts := map[string]int64{subjects.StateReady: 0, subjects.StateConnecting: 0, subjects.StateUnavailable: 0}
		for _, s := range h.Status() {
			counts[s.State]++
		}
		for state, n := range counts {
			r.Gauge(tracing.MCPServers, n, state)
		}
		r.NATS(h.nc)
	})
}

// received begins the span of an execution: the executor's part of an attempt.
func (s *server) received(ctx context.Context, msg *nats.Msg, req *subjects.ExecRequest) (context.Context, tracing.Span) {
	t := s.host.cfg.Tracer
	if t == nil {
		return ctx, tracing.Span{}
	}
	ctx, span := t.Continue(ctx, tracing.SpanExec+" "+s.toolset, tracing.Read(msg.Header), trace.SpanKindServer)
	if span.Recording() {
		span.Set(
			tracing.MessagingSystem.String(tracing.SystemNATS), tracing.MessagingOperationName.String(tracing.TypeProcess),
			tracing.MessagingOperationType.String(tracing.TypeProcess), tracing.MessagingDestination.String(msg.Subject),
			tracing.MessagingConsumerGroup.String(subjects.QueueExecutors), tracing.MessagingBodySize.Int(len(msg.Data)),
			tracing.Tenant.String(s.host.cfg.Tenant), tracing.Session.String(req.Session), tracing.Toolset.String(s.toolset),
			tracing.GenAIToolName.String(req.Tool), tracing.GenAIToolCallID.String(req.ExecutionID),
		)
	}
	return ctx, span
}

// called is the span of one call of the MCP server, by the MCP conventions. What
// goes into the request's _meta names it; without a tracer that is what the message
// said. The returned function is called with what came of it.
func (s *server) called(ctx context.Context, msg *nats.Msg, tool string) (meta map[string]any, done func(jsontext.Value, error)) {
	t := s.host.cfg.Tracer
	from := tracing.Read(msg.Header)
	if t == nil {
		return traceMeta(from), func(jsontext.Value, error) {}
	}
	_, span := t.Start(ctx, tracing.MCPToolsCall+" "+tool, trace.SpanKindClient)
	if span.Recording() {
		transport := tracing.TransportTCP
		if s.cfg.URL == "" {
			transport = tracing.TransportPipe
		}
		span.Set(
			tracing.MCPMethodName.String(tracing.MCPToolsCall), tracing.GenAIOperationName.String(tracing.ExecuteTool), tracing.GenAIToolName.String(tool),
			tracing.MCPServer.String(s.cfg.Name), tracing.NetworkTransport.String(transport),
		)
	}
	return traceMeta(span.Values(from)), func(result jsontext.Value, err error) {
		if span.Recording() {
			code := subjects.Code(tracing.OK)
			if err != nil {
				code = s.codeOf(err)
			} else if _, failed := MapResult(result); failed != nil {
				code = failed.Code
			}
			span.Outcome(code, "")
		}
		span.End()
	}
}

// codeOf is the code of a call that brought no result.
func (s *server) codeOf(err error) subjects.Code {
	var never notStartedError
	if errors.As(err, &never) {
		return subjects.CodeExecutorUnavailable
	}
	return s.failure(err).Code
}

// executed ends the span of an execution and counts it.
func (s *server) executed(span tracing.Span, began time.Time, code subjects.Code) {
	if code == "" {
		code = tracing.OK
	}
	span.Outcome(code, "")
	span.End()
	s.host.cfg.Metrics.Count(tracing.MCPCalls, 1, s.cfg.Name, string(code))
	s.host.cfg.Metrics.Time(tracing.MCPCallDuration, time.Since(began), s.cfg.Name)
}
