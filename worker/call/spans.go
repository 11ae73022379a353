package call

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Span is what any worker needs to report a call's span, and those of a worker
// that was lost. The identity of the call's own span stands in Record.Trace, where
// everything that is sent for the call takes its parent from; those of entries,
// attempts and of a worker's part follow from it.
type Span struct {
	Request string `json:"request"`          // traceparent of the request that was accepted: the parent
	Caller  string `json:"caller,omitempty"` // its own parent
	Worker  string `json:"worker"`           // that accepted it
	Waits   bool   `json:"waits,omitempty"`  // the request's span lasts as long as the requester waits
}

// Names of identities that follow from another, see tracing.ChildID.
const (
	idCall     = "call"
	idEntry    = "entry"
	idAttempt  = "attempt"
	idApproval = "approval"
	idWork     = "work"
)

// identify gives a call that is about to be stored the identity of its span.
func (e *Engine) identify(ctx context.Context, c *Call, r *Record) {
	if e.cfg.Tracer == nil {
		return
	}
	request := tracing.Current(ctx)
	if !request.Context().IsValid() {
		return
	}
	own := tracing.At(request.Context(), tracing.ChildID(request.Context().SpanID(), idCall, 0))
	r.Trace = tracing.Format(own, c.Trace)
	if request.Recording() {
		r.Span = &Span{Request: tracing.Format(request.Context(), tracing.Values{})[0], Caller: c.Caller, Worker: e.id, Waits: c.Stored != nil}
	}
}

// contextOf is the context of a call's work, with the identity of its span.
func (e *Engine) contextOf(r *Record) context.Context {
	if e.cfg.Tracer == nil {
		return e.base
	}
	return trace.ContextWithRemoteSpanContext(e.base, r.span())
}

// span is the identity of the call's span.
func (r *Record) span() trace.SpanContext { return tracing.Parse(r.Trace) }

// entrySpan is the identity of an entry's span; that of the call's where entries
// have none.
func (r *Record) entrySpan(index int) trace.SpanContext {
	own := r.span()
	if r.Span == nil {
		return own
	}
	return tracing.At(own, tracing.ChildID(own.SpanID(), idEntry, index))
}

// traceOf is what is sent for an entry.
func (e *Engine) traceOf(r *Record, index int) tracing.Values {
	if e.cfg.Tracer == nil || r.Span == nil {
		return r.Trace
	}
	return tracing.Format(r.entrySpan(index), r.Trace)
}

// accepted reports what was found out before a call was stored, and counts it.
func (e *Engine) accepted(r *Record, began, planned time.Time, path string) {
	e.cfg.Metrics.Count(tracing.CallsAccepted, 1, path)
	if e.cfg.Tracer == nil || r.Span == nil {
		return
	}
	own := r.span()
	p := tracing.Past{
		Name: tracing.SpanValidate, Kind: trace.SpanKindInternal, Parent: own, ID: tracing.ChildID(own.SpanID(), tracing.SpanValidate, 0),
		Begin: began, End: planned, Attributes: []attribute.KeyValue{tracing.CallEntries.Int(len(r.Entries))},
	}
	for i := range r.Entries {
		if err := r.Entries[i].Error; err != nil && r.Entries[i].State == Done {
			p.Events = append(p.Events, tracing.Event{Name: "entry refused", Attributes: []attribute.KeyValue{
				tracing.EntryIndex.Int(i), tracing.GenAIToolName.String(r.Entries[i].Name), tracing.Outcome.String(string(err.Code)),
			}})
		}
	}
	e.cfg.Tracer.Report(p)
}

// The ways of CallsAccepted.
const (
	pathHere    = "here"
	pathQueued  = "queued"
	pathSettled = "settled"
	pathRefused = "refused"
)

// workSpan begins the span of this worker's part of a call.
func (l *live) workSpan(message bool, delivered uint64) tracing.Span {
	e := l.e
	if e.cfg.Tracer == nil {
		return tracing.Span{}
	}
	l.mu.Lock()
	r, epoch := l.record, l.epoch
	l.mu.Unlock()
	if r.Span == nil {
		return tracing.Span{}
	}
	kind := trace.SpanKindInternal
	if message {
		kind = trace.SpanKindConsumer
	}
	own := r.span()
	_, span := e.cfg.Tracer.StartAt(context.Background(), tracing.SpanWork, own, tracing.ChildID(own.SpanID(), idWork, int(epoch)), kind)
	if span.Recording() {
		span.Set(tracing.WorkerID.String(e.id), tracing.CallID.String(l.key.id))
		if message {
			span.Set(
				tracing.MessagingSystem.String(tracing.SystemNATS), tracing.MessagingOperationName.String(tracing.TypeProcess),
				tracing.MessagingOperationType.String(tracing.TypeProcess), tracing.MessagingConsumerGroup.String(subjects.QueueWorkers),
				tracing.MessagingDestination.String(subjects.StreamCalls), tracing.Redelivered.Bool(delivered > 1),
			)
		}
		if l.before > 0 {
			span.Set(tracing.CallTakenOver.Bool(true))
			span.Link(tracing.At(own, tracing.ChildID(own.SpanID(), idWork, int(l.before))))
		}
	}
	return span
}

// noteLost keeps what is to be said of the worker that had the call before. It is
// called with the record as that worker left it.
func (l *live) noteLost(r *Record) {
	l.before, l.lostWorker = r.Lease.Epoch, r.Lease.Worker
	for i := range r.Entries {
		if entry := &r.Entries[i]; entry.State == Running {
			l.lostStarts = append(l.lostStarts, lostStart{i, entry.Starts, entry.Started})
		}
	}
}

// lostStart is a start whose worker was lost.
type lostStart struct {
	index, starts int
	started       int64
}

// takenOver reports, for a worker that was lost, the spans that it can not end any
// more, so that what hangs below them does not hang in the air.
func (l *live) takenOver() {
	e, r, now := l.e, l.record, time.Now()
	e.cfg.Metrics.Count(tracing.CallsTakenOver, 1)
	if e.cfg.Tracer == nil || r.Span == nil {
		return
	}
	own := r.span()
	began := time.UnixMilli(r.Accepted)
	for _, s := range l.lostStarts {
		entry := &r.Entries[s.index]
		began := time.UnixMilli(s.started)
		attributes := append(attemptAttributes(entry, l.lostWorker, s.starts), tracing.WorkerLost.Bool(true))
		parent := r.entrySpan(s.index)
		e.cfg.Tracer.Report(tracing.Past{
			Name: tracing.SpanAttempt, Kind: trace.SpanKindClient, Parent: parent, ID: tracing.ChildID(parent.SpanID(), idAttempt, s.starts),
			Begin: began, End: now, Code: subjects.CodeOutcomeUnknown, Attributes: attributes,
		})
	}
	lost := []attribute.KeyValue{tracing.WorkerID.String(l.lostWorker), tracing.WorkerLost.Bool(true), tracing.CallID.String(l.key.id)}
	e.cfg.Tracer.Report(tracing.Past{
		Name: tracing.SpanWork, Kind: trace.SpanKindInternal, Parent: own, ID: tracing.ChildID(own.SpanID(), idWork, int(l.before)),
		Begin: began, End: now, Code: outcomeWorkerLost, Attributes: lost,
	})
	if r.Span.Waits && r.Span.Worker == l.lostWorker {
		request := tracing.Parse(tracing.Values{r.Span.Request})
		e.cfg.Tracer.Report(tracing.Past{
			Name: tracing.SpanBridge + " " + subjects.ToolCall, Kind: trace.SpanKindServer, Parent: tracing.Parse(tracing.Values{r.Span.Caller}), Trace: request, ID: request.SpanID(),
			Begin: began, End: now, Code: outcomeWorkerLost, Attributes: append(lost, tracing.Operation.String(subjects.ToolCall)),
		})
	}
}

// outcomeWorkerLost is the outcome of what a lost worker did not end.
const outcomeWorkerLost subjects.Code = "WORKER_LOST"

// attempt begins the span of one start of an entry.
func (l *live) attempt(ctx context.Context, r *Record, index int, entry *Entry) (context.Context, tracing.Span) {
	e := l.e
	if e.cfg.Tracer == nil {
		return ctx, tracing.Span{}
	}
	kind := trace.SpanKindClient
	if entry.Place != OnBus {
		kind = trace.SpanKindInternal // the HTTP requests below it are the client's
	}
	var span tracing.Span
	if r.Span == nil {
		ctx, span = e.cfg.Tracer.Continue(ctx, tracing.SpanAttempt, r.Trace, kind)
	} else {
		parent := r.entrySpan(index)
		ctx, span = e.cfg.Tracer.StartAt(ctx, tracing.SpanAttempt, parent, tracing.ChildID(parent.SpanID(), idAttempt, entry.Starts), kind)
	}
	if span.Recording() {
		span.Set(attemptAttributes(entry, e.id, entry.Starts)...)
	}
	return ctx, span
}

func attemptAttributes(entry *Entry, worker string, starts int) []attribute.KeyValue {
	return []attribute.KeyValue{
		tracing.GenAIToolName.String(entry.Name), tracing.Attempt.Int(starts), tracing.WorkerID.String(worker), tracing.Executor.String(entry.kind()),
		tracing.Toolset.String(entry.Toolset),
	}
}

// kind is by whom an entry is executed.
func (e *Entry) kind() string {
	switch {
	case e.Place == AtGateway:
		return "connectors"
	case e.Place == InWorker:
		return "worker"
	case e.Registry:
		return "registry"
	}
	return "session"
}

// attempted ends an attempt.
func (l *live) attempted(span tracing.Span, entry *Entry, began time.Time, err *subjects.SlotError) {
	code, reason := outcome(err)
	if span.Recording() {
		if err != nil && err.ExecutorCode != "" {
			span.Set(tracing.ExecutorCode.String(err.ExecutorCode))
		}
		span.Outcome(code, reason)
	}
	span.End()
	l.e.cfg.Metrics.Time(tracing.ToolCallDuration, time.Since(began), entry.kind(), label(code))
}

func outcome(err *subjects.SlotError) (code subjects.Code, reason string) {
	if err == nil {
		return tracing.OK, ""
	}
	return err.Code, err.Reason
}

// label is a code as a label: the contract's, and one word for all that a gateway
// may have thought of.
func label(code subjects.Code) string {
	switch code {
	case tracing.OK, outcomeFailed, outcomePartial, subjects.CodeTooLarge, subjects.CodeInternal, subjects.CodeBusy, subjects.CodeUnavailable, subjects.CodeBadRequest,
		subjects.CodeToolNotFound, subjects.CodeToolNotAllowed, subjects.CodeInvalidArguments, subjects.CodeBlocked, subjects.CodeApprovalDenied,
		subjects.CodeApprovalTimeout, subjects.CodeInterrupted, subjects.CodeTimeout, subjects.CodeOutcomeUnknown, subjects.CodeExecutorUnavailable,
		subjects.CodeToolError, subjects.CodeResultTooLarge, subjects.CodeConnectionRequired, subjects.CodeProviderError, subjects.CodeGatewayUnavailable:
		return string(code)
	}
	return "OTHER"
}

// The outcomes of a call whose entries differ.
const (
	outcomePartial subjects.Code = "PARTIAL"
	outcomeFailed  subjects.Code = "FAILED"
)

// outcome is that of the whole call: what all entries share, else PARTIAL when
// some succeeded and FAILED when none did.
func (r *Record) outcome() (code subjects.Code, reason string) {
	good := 0
	same := true
	for i := range r.Entries {
		c, why := outcome(r.Entries[i].Error)
		if i == 0 {
			code, reason = c, why
		} else if c != code {
			same = false
		}
		if c == tracing.OK {
			good++
		}
	}
	switch {
	case same:
		return code, reason
	case good > 0:
		return outcomePartial, ""
	}
	return outcomeFailed, ""
}

// failed reports whether an entry of the call failed in a way that somebody must
// look at, and none succeeded.
func (r *Record) failed() bool {
	bad := false
	for i := range r.Entries {
		code, reason := outcome(r.Entries[i].Error)
		if code == tracing.OK {
			return false
		}
		bad = bad || tracing.Failed(code, reason)
	}
	return bad
}

// approvalEnded reports the wait for a person, once it has ended.
func (e *Engine) approvalEnded(r *Record, index int, id, choice string, began time.Time) {
	waited := max(0, time.Since(began))
	e.cfg.Metrics.Count(tracing.ApprovalsSettled, 1, choice)
	e.cfg.Metrics.Time(tracing.ApprovalWaitDuration, waited, choice)
	if e.cfg.Tracer == nil || r.Span == nil {
		return
	}
	parent := r.entrySpan(index)
	e.cfg.Tracer.Report(tracing.Past{
		Name: tracing.SpanApproval, Kind: trace.SpanKindInternal, Parent: parent, ID: tracing.ChildID(parent.SpanID(), idApproval, 0),
		Begin: began, End: began.Add(waited),
		Attributes: []attribute.KeyValue{tracing.ApprovalID.String(id), tracing.ApprovalChoice.String(choice), tracing.GenAIToolName.String(r.Entries[index].Name)},
	})
}

// asked is when a person was asked for an entry.
func (e *Engine) asked(entry *Entry) time.Time {
	return time.UnixMilli(entry.Expires).Add(-e.cfg.ApprovalTimeout)
}

// Choices of approvals that no approver made.
const (
	choiceExpired    = "expired"
	choiceWithdrawn  = "withdrawn"
	choiceNoApprover = reasonNoApprover
)

func choiceOf(d subjects.Decision) string {
	switch {
	case d.State == subjects.ApprovalExpired:
		return choiceExpired
	case d.State == subjects.ApprovalWithdrawn:
		return choiceWithdrawn
	case d.By == "" && d.Reason == reasonNoApprover:
		return choiceNoApprover
	}
	return string(d.Choice)
}

// requestedAt is when an approval was asked for.
func (e *Engine) requestedAt(a subjects.Approval, entry *Entry) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, a.RequestedAt); err == nil {
		return at
	}
	return e.asked(entry)
}

// reportFinal reports a call that has reached its final state, with its entries.
// It is called by the worker whose publication of the result is the one.
func (e *Engine) reportFinal(k key, r *Record) {
	code, reason := r.outcome()
	if m := e.cfg.Metrics; m != nil {
		m.Count(tracing.CallsFinished, 1, label(code))
		m.Time(tracing.CallDuration, time.Duration(r.Finished-r.Accepted)*time.Millisecond)
		for i := range r.Entries {
			c, why := outcome(r.Entries[i].Error)
			m.Count(tracing.ToolCalls, 1, toolLabel(&r.Entries[i]), label(c))
			switch {
			case c == subjects.CodeResultTooLarge:
				m.Count(tracing.LimitsRefused, 1, "result_size")
			case c == subjects.CodeBlocked && (why == "rate" || why == "repeat"):
				m.Count(tracing.LimitsRefused, 1, why)
			}
		}
	}
	if e.cfg.Tracer == nil || r.Span == nil {
		return
	}
	now := time.Now()
	own, accepted := r.span(), time.UnixMilli(r.Accepted)
	whole := tracing.Past{
		Name: tracing.SpanCall, Kind: trace.SpanKindInternal, Parent: tracing.Parse(tracing.Values{r.Span.Request}), ID: own.SpanID(),
		Begin: accepted, End: now, Code: code, Reason: reason,
		Attributes: []attribute.KeyValue{
			tracing.Tenant.String(k.tenant), tracing.Session.String(k.session), tracing.GenAIConversationID.String(k.session),
			tracing.CallID.String(k.id), tracing.CallEntries.Int(len(r.Entries)),
		},
	}
	if code == outcomeFailed && !r.failed() { // nothing that anybody must look at
		whole.Quiet = true
	}
	var interrupted []int
	for i := range r.Entries {
		entry := &r.Entries[i]
		entryCode, entryReason := outcome(entry.Error)
		if entryCode == subjects.CodeInterrupted {
			interrupted = append(interrupted, i)
			if entry.Starts == 0 && entry.Approval == "" && !entry.Seen {
				whole.Events = append(whole.Events, tracing.Event{Name: tracing.EventInterrupted, At: r.ended(entry, now), Attributes: []attribute.KeyValue{
					tracing.EntryIndex.Int(i), tracing.GenAIToolName.String(entry.Name), tracing.Outcome.String(string(entryCode)),
				}})
				continue
			}
		}
		e.cfg.Tracer.Report(e.entryPast(k, r, i, entryCode, entryReason, now))
	}
	if interrupted != nil {
		whole.Attributes = append(whole.Attributes, tracing.CallInterrupted.IntSlice(interrupted))
	}
	e.cfg.Tracer.Report(whole)
}

// entryPast is the span of one entry: from the acceptance of its call to its
// outcome, by the GenAI conventions for the execution of a tool.
func (e *Engine) entryPast(k key, r *Record, index int, code subjects.Code, reason string, now time.Time) tracing.Past {
	entry := &r.Entries[index]
	p := tracing.Past{
		Name: tracing.ExecuteTool + " " + shortName(entry.Name), Kind: trace.SpanKindInternal, Parent: r.span(), ID: r.entrySpan(index).SpanID(),
		Begin: time.UnixMilli(r.Accepted), End: r.ended(entry, now), Code: code, Reason: reason,
		Attributes: []attribute.KeyValue{
			tracing.GenAIOperationName.String(tracing.ExecuteTool), tracing.GenAIToolName.String(entry.Name), tracing.GenAIToolType.String("function"),
			tracing.GenAIToolCallID.String(executionID(k.id, index)), tracing.GenAIConversationID.String(k.session),
			tracing.CallID.String(k.id), tracing.EntryIndex.Int(index), tracing.Executor.String(entry.kind()),
		},
	}
	if entry.Toolset != "" {
		p.Attributes = append(p.Attributes, tracing.Toolset.String(entry.Toolset))
	}
	if entry.Starts > 0 {
		p.Attributes = append(p.Attributes, tracing.Attempt.Int(entry.Starts))
	}
	if entry.Error != nil && entry.Error.ExecutorCode != "" {
		p.Attributes = append(p.Attributes, tracing.ExecutorCode.String(entry.Error.ExecutorCode))
	}
	p.Attributes = e.cfg.Tracer.ContentOf(p.Attributes, tracing.GenAIToolArguments, entry.Arguments)
	return p
}

// ended is when an entry got its outcome. The record knows milliseconds, cut; what
// happened within the last one belongs to it.
func (r *Record) ended(entry *Entry, now time.Time) time.Time {
	if entry.Ended == 0 {
		return time.UnixMilli(r.Accepted)
	}
	if at := time.UnixMilli(entry.Ended + 1); at.Before(now) {
		return at
	}
	return now
}

// shortName bounds a name that a model has made up.
func shortName(name string) string {
	const longest = 128
	if len(name) > longest {
		return name[:longest]
	}
	return name
}

// toolLabel is the name of an entry's tool as a label; what a model has made up has
// none of its own.
func toolLabel(e *Entry) string {
	if e.Error != nil && e.Error.Code == subjects.CodeToolNotFound {
		return "unknown"
	}
	return e.Name
}

// Watch reads what the engine shows about itself.
func (e *Engine) Watch(r tracing.Readings) {
	e.mu.Lock()
	working := len(e.live)
	e.mu.Unlock()
	r.Gauge(tracing.CallsInWork, int64(working))
	r.Gauge(tracing.CallSlots, int64(cap(e.slots)))
	if f := e.fleet.Load(); f != nil {
		r.Gauge(tracing.CallsOpen, f.working, "working")
		r.Gauge(tracing.CallsOpen, f.waiting, "waiting")
		r.Gauge(tracing.CallsOpen, f.queued, "queued")
		r.Gauge(tracing.ApprovalsPending, f.pending)
	}
}

// fleet is what the sweeper has seen of all calls that are not final.
type fleet struct{ working, waiting, queued, pending int64 }

// count tells what the sweeper sees; only the one that sweeps does.
func (s *sweeper) count() {
	if s.e.cfg.Metrics == nil {
		return
	}
	var f fleet
	for _, o := range s.open {
		f.pending += int64(len(o.pending))
		switch {
		case o.until > 0:
			f.working++
		case o.waiting:
			f.waiting++
		default:
			f.queued++
		}
	}
	s.e.fleet.Store(&f)
}

// span is the span and the figures of asking one hook.
func (a *asker) span(ctx context.Context, h *Hook, q *Check, phase subjects.HookPhase) (context.Context, tracing.Values, func(subjects.HookAnswer, error)) {
	if a.tracer == nil && a.metrics == nil {
		return ctx, q.Trace, func(subjects.HookAnswer, error) {}
	}
	began := time.Now()
	ctx, span := a.tracer.Continue(ctx, tracing.SpanHook+" "+h.Name, q.Trace, trace.SpanKindClient)
	if span.Recording() {
		span.Set(
			tracing.HookName.String(h.Name), tracing.HookPhase.String(string(phase)), tracing.GenAIToolName.String(q.Tool),
			tracing.MessagingSystem.String(tracing.SystemNATS), tracing.MessagingOperationName.String("request"), tracing.MessagingOperationType.String(tracing.TypeSend),
			tracing.MessagingDestination.String(a.space.HookRun(q.Tenant, h.Name)),
		)
	}
	return ctx, span.Values(q.Trace), func(answer subjects.HookAnswer, err error) {
		action := string(answer.Action)
		if err != nil {
			action = "failed"
			if errors.Is(err, context.Canceled) || ctx.Err() != nil && context.Cause(ctx) != nil {
				span.Outcome(subjects.CodeCancelled, "")
			} else {
				span.Outcome(outcomeHookFailed, "")
			}
		} else {
			span.Set(tracing.HookAction.String(action))
			span.Outcome(tracing.OK, "")
		}
		span.End()
		a.metrics.Time(tracing.HookDuration, time.Since(began), h.Name, string(phase), action)
	}
}

// outcomeHookFailed is the outcome of a hook that gave no answer.
const outcomeHookFailed subjects.Code = "HOOK_FAILED"
