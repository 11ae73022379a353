package worker

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"toolbridge/catalog"
	"toolbridge/catalog/index"
	"toolbridge/connectors"
	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Bounds of how long the gateway is waited for.
const (
	gatewayWithin = 30 * time.Second
	// What is left of a request's time for the answer itself.
	leastMargin = 20 * time.Millisecond
	mostMargin  = 500 * time.Millisecond
)

// gatewayUntil is until when a request may wait for the gateway: its own end, less
// a margin in which what the session has anyway is still answered.
func (w *Worker) gatewayUntil(q *request) time.Time {
	now := time.Now()
	left := min(w.cfg.RequestTimeout, gatewayWithin)
	if !q.deadline.IsZero() {
		left = min(left, q.deadline.Sub(now))
	}
	return now.Add(left - min(max(left/5, leastMargin), mostMargin))
}

// hosted is what a search gets from the gateway: its tools that the session may
// see, ranked with the local ones, or the notice why there are none. The gateway is
// asked while the local tools are ranked. Once every query has local matches it is
// waited for no longer than the configured time. A query that is a local tool's
// name is not sent; under the reference ranking nothing is, unless a query has room
// for more matches.
func (w *Worker) hosted(ctx context.Context, q *request, args json.RawMessage, l *loaded, s *scope) catalog.SearchOptions {
	who, ok := w.who(q.Tenant, s)
	if !ok {
		return catalog.SearchOptions{}
	}
	a, refusal := catalog.ParseSearchArguments(args, l.catalog.Config())
	if refusal != nil {
		return catalog.SearchOptions{}
	}
	begun := time.Now()
	until := w.gatewayUntil(q)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if !w.available(ctx, who) {
		return catalog.SearchOptions{}
	}
	var local []int
	sent := a.Queries
	if l.catalog.Config().Ranking == index.Reference {
		local = l.catalog.LocalMatches(a)
		if slices.Min(local) >= a.Limit {
			return catalog.SearchOptions{}
		}
	} else if sent = slices.DeleteFunc(slices.Clone(sent), l.catalog.Named); len(sent) == 0 {
		return catalog.SearchOptions{}
	}
	ctx, span := w.cfg.Tracer.Start(ctx, tracing.SpanGateway, trace.SpanKindInternal)
	defer span.End()
	if span.Recording() {
		span.Set(tracing.GatewayRoute.String("search"))
	}
	asked := w.directory.Search(ctx, who, sent)
	defer asked.Leave()
	found, ok := asked.Known()
	if !ok {
		if local == nil {
			local = l.catalog.LocalMatches(a)
		}
		if slices.Min(local) > 0 {
			if soon := begun.Add(w.directory.Wait()); soon.Before(until) {
				var stop context.CancelFunc
				ctx, stop = context.WithDeadline(ctx, soon)
				defer stop()
			}
		}
		q.place.move(w.waits) // waiting for the gateway is not work
		found = w.waited(ctx, begun, asked)
	}
	return joined(&a, sent, found, s)
}

// waited is the gateway's part of a search, or what is said in its place.
func (w *Worker) waited(ctx context.Context, begun time.Time, asked *connectors.Asked) *connectors.Found {
	found := asked.Wait(ctx)
	w.cfg.Metrics.Time(tracing.SearchDuration, time.Since(begun), tracing.LegGateway)
	if ctx.Err() != nil {
		w.cfg.Metrics.Count(tracing.GatewaySearchLate, 1)
	}
	return found
}

// available reports whether a user has connectors. That is waited for no longer than
// the gateway is when a search has local matches: where the user's credentials can
// not be had by then, there are none.
func (w *Worker) available(ctx context.Context, who connectors.Who) bool {
	ctx, cancel := context.WithTimeout(ctx, w.directory.Wait())
	defer cancel()
	return w.directory.Available(ctx, who)
}

// joined gives each query the tools that were found for it and that the session may
// see. sent are the queries that were asked, in their order.
func joined(a *catalog.SearchArguments, sent []string, found *connectors.Found, s *scope) catalog.SearchOptions {
	var o catalog.SearchOptions
	if found.Notice != nil {
		if raw, err := subjects.Encode(found.Notice); err == nil {
			o.Connectors = raw
		}
	}
	at := 0
	for i, query := range a.Queries {
		if at == len(sent) || at == len(found.Groups) {
			break
		}
		if query != sent[at] {
			continue // a local name, not sent
		}
		group := s.remote(found.Groups[at])
		at++
		if len(group) == 0 {
			continue
		}
		if o.Remote == nil {
			o.Remote = make([][]catalog.Remote, len(a.Queries))
		}
		o.Remote[i] = group
	}
	return o
}

// remote are the hosted tools that are in scope; the same slice when all are.
func (s *scope) remote(tools []catalog.Remote) []catalog.Remote {
	out := func(r *catalog.Remote) bool { return !s.allowsConnector(r.Document.Name) }
	for i := range tools {
		if !out(&tools[i]) {
			continue
		}
		kept := slices.Clone(tools[:i])
		for j := i + 1; j < len(tools); j++ {
			if !out(&tools[j]) {
				kept = append(kept, tools[j])
			}
		}
		return kept
	}
	return tools
}

// describe answers a tool_describe. The gateway is asked for names of hosted tools
// that the session may see.
func (w *Worker) describe(ctx context.Context, q *request, args json.RawMessage, l *loaded, s *scope) (payload []byte, isError bool) {
	if w.directory == nil || !l.catalog.Connectors() {
		return l.catalog.Describe(args)
	}
	a, refusal := catalog.ParseDescribeArguments(args)
	if refusal != nil {
		return l.catalog.Describe(args)
	}
	return l.catalog.Tell(a, w.hostedTools(ctx, q, a.Names, s)), false
}

// hostedTools is what a describe gets from the gateway.
func (w *Worker) hostedTools(ctx context.Context, q *request, names []string, s *scope) catalog.DescribeOptions {
	var o catalog.DescribeOptions
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !connectors.IsConnector(n) })
	who, ok := w.who(q.Tenant, s)
	if !ok || len(names) == 0 {
		return o
	}
	ctx, cancel := context.WithDeadline(ctx, w.gatewayUntil(q))
	defer cancel()
	if !w.available(ctx, who) {
		return o
	}
	ctx, span := w.cfg.Tracer.Start(ctx, tracing.SpanGateway, trace.SpanKindInternal)
	defer span.End()
	if span.Recording() {
		span.Set(tracing.GatewayRoute.String("schemas"))
	}
	q.place.move(w.waits)
	found, notice := w.directory.Describe(ctx, who, names, s.allowsConnector)
	o.Remote = found
	if notice != nil {
		if raw, err := subjects.Encode(notice); err == nil {
			o.Connectors, o.ConnectorNames = raw, notice.Names
		}
	}
	return o
}
