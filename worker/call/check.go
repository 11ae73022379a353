package call

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nuid"

	"toolbridge/approval"
	"toolbridge/catalog/arguments"
	"toolbridge/subjects"
)

// ready reports whether an entry has passed its checks and needs no person any
// more, so that it may start.
func (e *Entry) ready() bool { return e.Hooked && e.Ask == "" }

// checkEntry takes one entry through guardrails and hooks, and finds out whether
// a person must be asked.
func (l *live) checkEntry(index int) {
	l.mu.Lock()
	entry, record := l.record.Entries[index], l.record
	l.mu.Unlock()
	slotErr := l.judgeEntry(index, &entry, record)
	if slotErr != nil && errors.Is(context.Cause(l.ctx), errShutdown) {
		// The checks were cut off, and nothing has started: another worker checks.
		l.giveAway(errShutdown)
		return
	}
	written := false
	err := l.done(index, func(r *Record) bool {
		if written = r.Entries[index].State == Received; !written {
			return false // a stop was faster
		}
		if slotErr != nil {
			r.finish(index, nil, slotErr)
			return true
		}
		r.Entries[index] = entry
		return true
	})
	if err != nil && !errors.Is(err, errLost) {
		l.giveAway(err)
	}
	if err == nil && written && slotErr != nil {
		l.e.finished(l.key, record, index, slotErr)
	}
}

// awaitTurn waits until no earlier entry of the call is still being checked, so
// that of entries that are too many the last ones are refused.
func (l *live) awaitTurn(index int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.lost && l.checking(index) {
		l.checked.Wait()
	}
}

// checking reports whether an entry before index is being checked. Called with mu
// held.
func (l *live) checking(index int) bool {
	for i := range index {
		if e := &l.record.Entries[i]; l.busy[i] && e.State == Received && !e.ready() {
			return true
		}
	}
	return false
}

// judgeEntry changes a copy of the entry: other arguments, passed checks, and a
// pending approval where a person must be asked.
func (l *live) judgeEntry(index int, entry *Entry, record *Record) *subjects.SlotError {
	e := l.e
	if !entry.Hooked {
		q := l.check(index, *entry, record)
		q.Repair = func(changed json.RawMessage) (json.RawMessage, *arguments.Invalid) {
			return arguments.Compile(entry.Schema).Repair(changed)
		}
		v := e.checks.Before(l.ctx, q)
		if v.Block != nil {
			return v.Block
		}
		if v.Arguments != nil {
			entry.Arguments = v.Arguments
			if refused := l.rejudge(entry); refused != nil {
				return refused
			}
		}
		if v.Ask != "" && entry.Ask == "" {
			entry.Ask = v.Ask
		}
		l.awaitTurn(index)
		q.Arguments = entry.Arguments
		if refused := e.checks.Count(l.ctx, q); refused != nil {
			return refused
		}
		entry.Hooked, entry.Schema = true, nil
	}
	if entry.Ask == "" {
		return nil
	}
	if e.approvals == nil {
		return noApprover(entry)
	}
	remembered, err := e.approvals.Remembered(l.ctx, l.key.tenant, l.key.session, record.User, entry.Name, entry.SHA256, entry.executor())
	if err != nil {
		e.log.Warn("remembered choices can not be read; a person is asked", "call", l.key.String(), "error", err)
	}
	if remembered {
		entry.Ask = ""
		return nil
	}
	entry.State, entry.Approval, entry.Asked = Awaiting, nuid.Next(), false
	entry.Expires = time.Now().Add(e.cfg.ApprovalTimeout).UnixMilli()
	return nil
}

// rejudge applies the policy to arguments that a hook has changed: a rule that
// looks at arguments sees the final ones. What was asked for stays asked for.
func (l *live) rejudge(entry *Entry) *subjects.SlotError {
	d := l.e.cfg.Policy.Decide(approval.Request{Tool: entry.Name, Toolset: entry.Toolset, ReadOnly: entry.ReadOnly, Arguments: entry.Arguments})
	switch d.Action {
	case approval.Deny:
		return &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: "rule", Message: entry.Name + " is denied by " + d.Rule + "; do not repeat it"}
	case approval.Ask:
		if d.Rule != "default" && entry.Ask == "" {
			entry.Ask = "asked for by " + d.Rule
		}
	}
	return nil
}

// executor is who would run an entry, as approvals are bound to it.
func (e *Entry) executor() string {
	if e.Registry {
		return e.Toolset
	}
	return "session"
}

func noApprover(entry *Entry) *subjects.SlotError {
	return &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: "no_approver",
		Message: entry.Name + " needs a person's approval (" + entry.Ask + "), and there is nobody to ask; do not repeat it"}
}

// askEntry tells approvers of a pending entry. When nobody listens that is the
// answer.
func (l *live) askEntry(index int) {
	l.mu.Lock()
	entry := l.record.Entries[index]
	l.mu.Unlock()
	a := l.e.pending(l.key, l.record, index)
	none, err := l.e.approvals.Ask(l.ctx, l.key.tenant, a)
	if err != nil {
		l.e.log.Warn("an approval could not be asked for; it is tried again", "call", l.key.String(), "error", err)
		l.giveAway(err)
		return
	}
	if none {
		d := subjects.Decision{ID: a.ID, State: subjects.ApprovalDenied, Choice: subjects.ChoiceDeny, At: now(), Reason: "no_approver"}
		if err := l.e.approvals.Settle(l.e.writing(), l.key.tenant, a.ID, d); err != nil {
			l.e.log.Warn("an approval that nobody can give could not be settled", "call", l.key.String(), "error", err)
		}
	}
	err = l.done(index, func(r *Record) bool {
		e := &r.Entries[index]
		if e.State != Awaiting {
			return false
		}
		e.Asked = true
		if none {
			r.finish(index, nil, noApprover(e))
		}
		return true
	})
	switch {
	case err != nil && !errors.Is(err, errLost):
		l.giveAway(err)
	case err == nil && none:
		l.e.finished(l.key, l.record, index, noApprover(&entry))
	case err == nil:
		l.e.event(l.key, l.record.Trace, subjects.Event{Type: subjects.EventApprovalRequested, Index: ptr(index), Tool: entry.Name, Approval: &a})
	}
}

// pending is an entry's question as approvers see it.
func (e *Engine) pending(k key, r *Record, index int) subjects.Approval {
	entry := &r.Entries[index]
	return subjects.Approval{
		ID: entry.Approval, Session: k.session, CallID: k.id, Index: index, Tool: entry.Name,
		Arguments: entry.Arguments, ArgumentsJSON: string(entry.Arguments), ArgumentsSHA256: sha256Hex(entry.Arguments),
		DefinitionSHA256: entry.SHA256, Rule: entry.Ask, Reason: entry.Ask,
		RequestedAt: now(), ExpiresAt: time.UnixMilli(entry.Expires).UTC().Format(time.RFC3339Nano), Choices: subjects.Choices(),
		User: r.User, Executor: entry.executor(),
	}
}

// Decide applies a decision to the entry that waits for it and wakes its call.
// It may come more than once.
func (e *Engine) Decide(a subjects.Approval, tenant string, d subjects.Decision) error {
	k := key{tenant, a.Session, a.CallID}
	ctx := e.writing()
	var record *Record
	applied := false
	record, _, err := e.journal.change(ctx, k, nil, 0, func(r *Record) bool {
		applied = false
		if r.Final || a.Index >= len(r.Entries) {
			return false
		}
		entry := &r.Entries[a.Index]
		if entry.State != Awaiting || entry.Approval != a.ID {
			return false
		}
		applied = true
		switch d.State {
		case subjects.ApprovalApproved:
			if sha256Hex(entry.Arguments) != a.ArgumentsSHA256 {
				return false
			}
			entry.State, entry.Ask, entry.Hooked = Received, "", true
		case subjects.ApprovalExpired:
			r.finish(a.Index, nil, &subjects.SlotError{Code: subjects.CodeApprovalTimeout, Message: "nobody decided on " + entry.Name + " in time; it was not run"})
		default:
			r.finish(a.Index, nil, denied(entry, d))
		}
		return true
	})
	if errors.Is(err, errNoRecord) {
		return nil
	}
	if err != nil {
		return err
	}
	if !applied {
		return nil
	}
	e.event(k, record.Trace, subjects.Event{Type: subjects.EventApprovalSettled, Index: ptr(a.Index), Tool: a.Tool, Decision: &d})
	e.poke(ctx, record, k)
	return e.wake(ctx, k)
}

func denied(entry *Entry, d subjects.Decision) *subjects.SlotError {
	reason := d.Reason
	message := entry.Name + " was denied"
	if d.By != "" {
		message += " by " + d.By
	}
	if reason != "" && reason != "no_approver" {
		message += ": " + reason
	}
	if reason == "no_approver" {
		return noApprover(entry)
	}
	return &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: "denied", Message: message + "; do not repeat it"}
}
