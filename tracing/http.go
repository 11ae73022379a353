package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport sends requests below the span of their context: each is a client span
// by the HTTP conventions, and carries traceparent and tracestate. Without a
// Tracer it is base itself; nil means http.DefaultTransport. Baggage is not sent:
// it may hold what is not meant for others.
func (t *Tracer) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	if t == nil {
		return base
	}
	return otelhttp.NewTransport(routed{base},
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }),
	)
}

// WithRoute names the gateway's route of a request that is sent in the context, for
// the span that Transport makes of it.
func WithRoute(ctx context.Context, route string) context.Context {
	return context.WithValue(ctx, routeKey{}, route)
}

type routeKey struct{}

// routed stands below Transport's span and puts the route on it.
type routed struct{ next http.RoundTripper }

func (r routed) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if route, ok := ctx.Value(routeKey{}).(string); ok {
		trace.SpanFromContext(ctx).SetAttributes(GatewayRoute.String(route))
	}
	return r.next.RoundTrip(req)
}
