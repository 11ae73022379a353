package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/catalog"
	"toolbridge/subjects"
	"toolbridge/tracing"
)

// observed is what is kept of a request for its span and its figures.
type observed struct {
	began     time.Time
	operation string
	span      tracing.Span
	ctx       context.Context // with the span; nil before there is one
	caller    string          // the caller's traceparent, where the span continues its trace
	limit     string          // that refused it, see LimitsRefused
}

// Limits that refuse requests.
const (
	limitInFlight  = "in_flight"
	limitRequest   = "request_size"
	limitReply     = "reply_size"
	limitDeadline  = "deadline"
	limitArguments = "arguments_size"
	limitCatalog   = "catalog_size"
	limitStore     = "store_full"
)

// begin starts the span of a request and makes it the one that everything sent
// for this request names. Without a tracer what came in goes out.
func (w *Worker) begin(q *request, r micro.Request) context.Context {
	if w.cfg.Tracer == nil {
		return w.base
	}
	ctx, span := w.cfg.Tracer.Receive(w.base, q.operation, q.trace)
	if id := span.Context().TraceID(); len(q.trace[0]) > 35 && q.trace[0][3:35] == id.String() {
		q.caller = q.trace[0]
	}
	q.span, q.ctx, q.trace = span, ctx, span.Values(q.trace)
	if span.Recording() {
		list := [...]attribute.KeyValue{
			tracing.MessagingSystem.String(tracing.SystemNATS),
			tracing.MessagingOperationName.String(tracing.TypeProcess),
			tracing.MessagingOperationType.String(tracing.TypeProcess),
			tracing.MessagingDestination.String(r.Subject()),
			tracing.MessagingTemplate.String(w.template(q)),
			tracing.MessagingConsumerGroup.String(subjects.QueueWorkers),
			tracing.MessagingBodySize.Int(len(r.Data())),
			tracing.Tenant.String(q.Tenant),
			tracing.Session.String(q.Session),
			tracing.GenAIConversationID.String(q.Session),
		}
		n := len(list)
		if q.Session == "" {
			n -= 2
		}
		span.Set(list[:n]...)
	}
	return ctx
}

// template is a request's subject without what differs from session to session.
func (w *Worker) template(q *request) string {
	if q.Area != "" {
		return w.cfg.Space.Prefix() + ".{tenant}._" + q.Area + ".{who}"
	}
	return w.cfg.Space.Prefix() + ".{tenant}.{session}." + string(q.Verb)
}

// bridged names what a request of the bridge turned out to be.
func (q *request) bridged(name string) {
	switch name {
	case catalog.ToolSearch, catalog.ToolDescribe, catalog.ToolCall:
		q.operation = name
	default:
		q.operation = tracing.SpanBridge
	}
	if q.operation != tracing.SpanBridge && q.span.Recording() {
		q.span.Rename(tracing.SpanBridge + " " + q.operation)
	}
}

// answered ends the span of a request whose reply was sent, and counts it.
func (w *Worker) answered(q *request, body []byte, failed *subjects.Error) {
	code := subjects.Code(tracing.OK)
	if failed != nil {
		code = failed.Code
		w.refused(q, failed)
	}
	if q.span.Recording() {
		outcome := code
		if failed == nil && q.operation != string(subjects.VerbFetch) {
			outcome = outcomeOf(body)
		}
		q.span.Outcome(outcome, "", tracing.Operation.String(q.operation))
	}
	q.span.End()
	if ctx := q.context(w.base); w.log.Enabled(ctx, slog.LevelDebug) {
		w.log.DebugContext(ctx, "request", "operation", q.operation, "tenant", q.Tenant, "session", q.Session, "code", string(code), "took", time.Since(q.began))
	}
	if m := w.cfg.Metrics; m != nil {
		m.Count(tracing.Requests, 1, q.operation, string(code))
		m.Time(tracing.RequestDuration, time.Since(q.began), q.operation)
	}
}

// context is the request's own, or base before it has one.
func (q *request) context(base context.Context) context.Context {
	if q.ctx != nil {
		return q.ctx
	}
	return base
}

// refused counts a request that a limit refused.
func (w *Worker) refused(q *request, failed *subjects.Error) {
	limit := q.limit
	switch {
	case limit != "":
	case failed.Code == subjects.CodeBusy:
		limit = limitStore
	case failed.Code == subjects.CodeTooLarge && (q.operation == catalog.ToolCall || q.Verb == subjects.VerbCall):
		limit = limitArguments
	case failed.Code == subjects.CodeTooLarge:
		limit = limitCatalog
	default:
		return
	}
	w.cfg.Metrics.Count(tracing.LimitsRefused, 1, limit)
}

// outcomeOf reads the outcome of a reply that this worker has written: OK, the
// code of the error that stands in the place of a result, or FAILED for a batch of
// which nothing succeeded.
func outcomeOf(body []byte) subjects.Code {
	head := body[:min(len(body), 512)]
	if !bytes.Contains(head, []byte(`"is_error":true`)) {
		return tracing.OK
	}
	const mark = `"result":{"error":{"code":"`
	_, rest, ok := bytes.Cut(head, []byte(mark))
	code, _, ended := bytes.Cut(rest, []byte{'"'})
	if !ok || !ended {
		return outcomeFailed
	}
	return subjects.Code(code)
}

// outcomeFailed is the outcome of a batch of which nothing succeeded.
const outcomeFailed subjects.Code = "FAILED"

// operationOf names a request before it is read.
func operationOf(a subjects.Address) string {
	switch a.Area {
	case subjects.AreaApprovalsList:
		return "approvals_list"
	case subjects.AreaApprovalsDecide:
		return "approvals_decide"
	case "":
	default:
		return a.Area
	}
	if a.Verb == subjects.VerbConnectionAnswer {
		return "connection_answer"
	}
	return string(a.Verb)
}

// rank is the span and the figures of the local part of a search.
func (w *Worker) rank(ctx context.Context, search func(*catalog.SearchStats)) {
	m := w.cfg.Metrics
	if m == nil && w.cfg.Tracer == nil {
		search(nil)
		return
	}
	var found catalog.SearchStats
	_, span := w.cfg.Tracer.Start(ctx, tracing.SpanRank, trace.SpanKindInternal)
	began := time.Now()
	search(&found)
	m.Time(tracing.SearchDuration, time.Since(began), tracing.LegLocal)
	for _, q := range found.Queries {
		m.Count(tracing.SearchedQueries, 1, string(q.Outcome))
		m.Record(tracing.MatchesEach, float64(q.Matches))
	}
	if span.Recording() {
		matches, near, empty := 0, 0, 0
		for _, q := range found.Queries {
			matches += q.Matches
			near += q.Near
			if q.Matches == 0 {
				empty++
			}
		}
		span.Set(tracing.SearchQueries.Int(len(found.Queries)), tracing.SearchMatches.Int(matches), tracing.SearchNear.Int(near), tracing.SearchEmpty.Int(empty))
	}
	span.End()
}

// sizes are an assembly's figures.
type sizes struct {
	Activated                     bool
	ListingForm                   string
	Deferred, Visible             int
	DeferredTokens, ListingTokens int64
}

func sizesOf(a *catalog.Assembly, definitions int) sizes {
	return sizes{
		Activated: a.Activated, ListingForm: a.ListingForm, Deferred: a.DeferredCount, Visible: definitions - a.DeferredCount,
		DeferredTokens: int64(a.DeferredTokens), ListingTokens: int64(a.ListingTokens),
	}
}

// countAssembly counts an answered assembly and describes it in its request's span.
func (w *Worker) countAssembly(q *request, a *assembled) {
	m, sizes := w.cfg.Metrics, &a.sizes
	if m != nil {
		form := sizes.ListingForm
		if !sizes.Activated {
			form = "off"
		}
		m.Count(tracing.Assemblies, 1, form)
		m.Record(tracing.CatalogTools, float64(sizes.Visible), "visible")
		m.Record(tracing.CatalogTools, float64(sizes.Deferred), "deferred")
		if sizes.Activated {
			m.Count(tracing.EagerTokens, sizes.DeferredTokens)
			m.Count(tracing.ListingTokensTotal, sizes.ListingTokens)
			m.Count(tracing.SavedTokens, max(0, sizes.DeferredTokens-sizes.ListingTokens))
			m.Record(tracing.ListingTokensEach, float64(sizes.ListingTokens))
		}
	}
	if q.span.Recording() {
		q.span.Set(
			tracing.Catalog.String(prefix+a.hex), tracing.ListingForm.String(sizes.ListingForm), tracing.ListingTokens.Int64(sizes.ListingTokens),
			tracing.CatalogDeferred.Int(sizes.Deferred), tracing.CatalogVisible.Int(sizes.Visible),
		)
	}
}

// making is the span and the figures of making a catalog.
func (w *Worker) making(ctx context.Context, kind string) (context.Context, func(error)) {
	m := w.cfg.Metrics
	if m == nil && w.cfg.Tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := w.cfg.Tracer.Start(ctx, tracing.SpanBuild, trace.SpanKindInternal)
	began := time.Now()
	return ctx, func(err error) {
		m.Count(tracing.CatalogBuilds, 1, kind)
		m.Time(tracing.CatalogBuildDuration, time.Since(began), kind)
		if span.Recording() {
			var e *subjects.Error
			code := subjects.Code("")
			if errors.As(err, &e) {
				code = e.Code
			} else if err != nil {
				code = subjects.CodeInternal
			}
			span.Outcome(code, "")
		}
		span.End()
	}
}

// indexed builds the index of a catalog that is searched for the first time, which
// its figures count.
func (w *Worker) indexed(l *loaded) {
	m := w.cfg.Metrics
	if m == nil {
		return // the search builds it
	}
	began := time.Now()
	if l.catalog.Prepare() {
		m.Count(tracing.CatalogBuilds, 1, "index")
		m.Time(tracing.CatalogBuildDuration, time.Since(began), "index")
	}
}

// asked counts the look-ups of a cache.
func (w *Worker) asked(cache string) func(hit bool) {
	m := w.cfg.Metrics
	if m == nil {
		return nil
	}
	return func(hit bool) {
		result := "miss"
		if hit {
			result = "hit"
		}
		m.Count(tracing.CacheRequests, 1, cache, result)
	}
}
