package call

import (
	"encoding/json"
	"errors"
	"time"

	"toolbridge/subjects"
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
	k := l.key
	id := executionID(k.id, index)
	l.e.event(k, record.Trace, subjects.Event{Type: subjects.EventToolStarted, Index: ptr(index), Tool: entry.Name})
	tool := entry.Tool
	if tool == "" {
		tool = entry.Name
	}
	response, slotErr := l.e.executor.Execute(l.ctx, Execution{
		Tenant: k.tenant, Session: k.session, ID: id, Name: entry.Name, Tool: tool, Toolset: entry.Toolset, Registry: entry.Registry,
		SHA256: entry.SHA256, Arguments: entry.Arguments, IdempotencyKey: idempotencyKey(k.tenant, k.session, id),
		StartBy: l.startBy(), Timeout: l.e.cfg.Timeout, Repeatable: entry.Repeatable, Trace: record.Trace, Sent: l.e.sent(k),
	})
	l.e.step(StepReplied, k)
	handBack := slotErr != nil && slotErr.Code == subjects.CodeInterrupted && l.e.base.Err() != nil
	slotErr = entry.truth(slotErr)
	if slotErr == nil && l.e.checks != nil {
		// The result is there; neither a stop nor the worker's end keeps a hook
		// from seeing it.
		response, slotErr = l.e.checks.After(l.e.writing(), l.check(index, entry, record), response)
	}
	kept, err := l.e.keep(l.e.writing(), response)
	if err != nil && slotErr == nil {
		slotErr = &subjects.SlotError{Code: subjects.CodeResultTooLarge, Message: entry.Name + " has run, but its result could not be kept: " + err.Error()}
	}
	if slotErr != nil {
		kept = nil
	}
	err = l.done(index, func(r *Record) bool {
		if handBack && !r.Stopped { // it was not sent; another worker does it
			r.unstart(index)
			return true
		}
		r.finish(index, kept, slotErr)
		return true
	})
	if handBack && err == nil {
		return
	}
	if errors.Is(err, errLost) {
		l.e.late(k, record, index, response, slotErr)
		return
	}
	if err != nil {
		l.giveAway(err)
		return
	}
	l.e.finished(k, record, index, slotErr)
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
	return Check{Tenant: l.key.tenant, Session: l.key.session, CallID: l.key.id, Index: index, Tool: entry.Name, Arguments: entry.Arguments, Trace: record.Trace}
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
