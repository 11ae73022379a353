package call

import (
	"encoding/json"
	"time"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// runEntry sends one entry and writes its outcome down.
func (l *live) runEntry(index int) {
	l.mu.Lock()
	entry, record := l.record.Entries[index], l.record
	l.mu.Unlock()
	if entry.Parallel {
		l.parallel <- struct{}{}
		defer func() { <-l.parallel }()
	}
	l.e.event(l.key, record.Trace, subjects.Event{Type: subjects.EventToolStarted, Index: ptr(index), Tool: entry.Name})
	ctx, span := l.attempt(l.ctx, record, index, &entry)
	began := time.Now()
	x := l.execution(index, &entry, record)
	x.Trace = span.Values(record.Trace)
	out := l.e.executor.Execute(ctx, x)
	l.e.cfg.Tracer.Content(span, tracing.GenAIToolResult, out.Response)
	l.attempted(span, &entry, began, out.Error)
	end := l.settle(index, &entry, record, out)
	end.told(l, record, l.done(index, end.write))
}

// startBy is until when what is sent now may start: well before the lease ends,
// after which another worker may settle the call without it.
func (l *live) startBy() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost || l.record.Lease == nil {
		return time.Time{}
	}
	return time.UnixMilli(l.record.Lease.Until).Add(-l.e.cfg.Lease / 3)
}

func (l *live) check(index int, entry Entry, record *Record) Check {
	return Check{Tenant: l.key.tenant, Session: l.key.session, CallID: l.key.id, Index: index, Tool: entry.Name, Also: entry.Also, Arguments: entry.Arguments, Trace: l.e.traceOf(record, index)}
}

// executionID names one execution of a call.
func executionID(callID string, index int) string { return callID + "." + itoa(index) }

// late reports a true answer that came after the outcome was settled without it.
func (e *Engine) late(k key, r *Record, index int, response json.RawMessage, err *subjects.SlotError) {
	event := subjects.Event{Type: subjects.EventToolLate, Index: ptr(index), Tool: r.Entries[index].Name, IsError: ptr(err != nil), Response: response}
	if err != nil {
		event.Code = err.Code
	}
	e.event(k, r.Trace, event)
	e.audit(k, r, index, subjects.AuditRecord{Type: string(subjects.EventToolLate), Code: event.Code, Response: response})
}
