// Package tracing is what every part of Toolbridge says about itself with:
// spans, instruments, and the trace context that travels in messages.
//
// Nothing here needs an SDK. A nil *Tracer and a nil *Metrics are valid, do
// nothing and allocate nothing; package tracing/setup makes real ones.
//
// # Trace context
//
// W3C trace context travels in the headers traceparent, tracestate and baggage, in
// lower case, on every message both ways, and goes on in the _meta of MCP requests
// and in HTTP headers. Without a Tracer what came in goes out unchanged. With one
// the traceparent of what goes out is that of the span that sends it; baggage is
// passed on as it came.
//
// # Spans of a call
//
// A call outlives requests, and workers. Its spans are therefore not held open:
// the identity of the call's span stands in its journal record, those of its
// entries and attempts follow from it (ChildID), and whoever brings them to an end
// reports them whole (Tracer.Report), whichever worker that is. What hangs below
// them names the right parent from the start.
package tracing
