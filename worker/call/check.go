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
	"toolbridge/tracing"
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
	if l.e.cfg.Tracer != nil && !entry.Hooked {
		entry.Seen = true
	}
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
			r.Entries[index].Rule, r.Entries[index].Seen = entry.Rule, entry.Seen
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
		record = record.clone()
		record.Entries[index].Rule = entry.Rule
		l.e.finished(l.key, record, index, slotErr)
		l.e.auditFinished(l.key, record, index, slotErr)
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
		if entry.Place == AtGateway { // these go their whole way in input order
			if l.awaitTurn(index); Stopped(l.ctx) {
				return stoppedError()
			}
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
			entry.Ask, entry.Rule = v.Ask, "hook"
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
	remembered, err := e.approvals.Remembered(l.ctx, l.key.tenant, approval.Subject{
		Session: l.key.session, User: record.User, Tool: entry.Name, DefinitionSHA256: entry.SHA256, Executor: entry.executor(),
	})
	if err != nil {
		e.log.WarnContext(l.ctx, "remembered choices can not be read; a person is asked", "call", l.key.String(), "error", err)
	}
	if remembered != nil {
		e.audit(l.key, record, index, subjects.AuditRecord{Type: auditRemembered, By: remembered.By, Decision: &subjects.Decision{
			ID: remembered.ID, State: subjects.ApprovalApproved, Choice: remembered.Choice, By: remembered.By, At: remembered.At,
		}})
		e.cfg.Metrics.Count(tracing.ApprovalsRemembered, 1)
		entry.Ask = ""
		return nil
	}
	entry.State, entry.Approval, entry.Asked = Awaiting, nuid.Next(), false
	entry.Expires = time.Now().Add(e.cfg.ApprovalTimeout).UnixMilli()
	if size, limit := len(encode(pending(l.key, record.User, index, entry))), e.nc.MaxPayload(); limit > 0 && int64(size) > limit-headerRoom {
		entry.State = Received
		return &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: "too_large", Message: entry.Name + " needs a person's approval (" + entry.Ask +
			"), and with " + itoa(len(entry.Arguments)) + " bytes its arguments are more than can be shown to one; it was not run. Send less at once"}
	}
	return nil
}

// rejudge applies the policy to arguments that a hook has changed: a rule that
// looks at arguments sees the final ones. What was asked for stays asked for.
func (l *live) rejudge(entry *Entry) *subjects.SlotError {
	if entry.Place == AtGateway {
		return l.rejudgeConnector(entry)
	}
	d := l.e.cfg.Policy.Decide(approval.Request{Tool: entry.Name, Toolset: entry.Toolset, ReadOnly: entry.ReadOnly, Arguments: entry.Arguments})
	switch d.Action {
	case approval.Deny:
		entry.Rule = d.Rule
		return &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: reasonRule, Message: entry.Name + " is denied by " + d.Rule + "; do not repeat it"}
	case approval.Ask:
		if d.Rule != "default" && entry.Ask == "" {
			entry.Ask, entry.Rule = "asked for by "+d.Rule, d.Rule
		}
	}
	return nil
}

// The audit's words for an entry that a remembered choice approved, and for one
// that the policy denied when its call was accepted.
const (
	auditRemembered = "approval.remembered"
	auditDenied     = "approval.denied"
)

// ownProcess stands for the session's own process where an executor is named.
const ownProcess = "session"

// executor is who would run an entry, as approvals are bound to it.
func (e *Entry) executor() string {
	switch {
	case e.Place != OnBus:
		return "toolbridge " + string(e.Place)
	case !e.Registry:
		return ownProcess
	case e.Toolset == ownProcess:
		return "toolset " + ownProcess
	}
	return e.Toolset
}

func noApprover(entry *Entry) *subjects.SlotError {
	return &subjects.SlotError{
		Code: subjects.CodeApprovalDenied, Reason: reasonNoApprover,
		Message: "no approver available: " + entry.Name + " needs a person's approval (" + entry.Ask + ") and nobody is there to give it; it was not run. Do not repeat it",
	}
}

// reasonRule is the reason of what a rule or a grant denies.
const reasonRule = "rule"

// auditDenied writes down what the policy denied before anything else.
func (e *Engine) auditDenied(k key, r *Record) {
	for i := range r.Entries {
		if err := r.Entries[i].Error; err != nil && err.Code == subjects.CodeApprovalDenied {
			e.audit(k, r, i, subjects.AuditRecord{Type: auditDenied, Code: err.Code, Reason: err.Reason})
		}
	}
}

// reasonNoApprover is the reason of what was denied because nobody listens.
const reasonNoApprover = "no_approver"

func timedOut(entry *Entry) *subjects.SlotError {
	return &subjects.SlotError{Code: subjects.CodeApprovalTimeout, Message: "the approval of " + entry.Name + " expired at " +
		time.UnixMilli(entry.Expires).UTC().Format(time.RFC3339) + ": nobody decided in time, it was not run and will not be. Call it again if it is still wanted"}
}

// askEntry tells approvers of a pending entry. When nobody listens that is the
// decision, which comes back like any other.
func (l *live) askEntry(index int) {
	l.mu.Lock()
	record := l.record
	entry := record.Entries[index]
	l.mu.Unlock()
	if !time.Now().Before(time.UnixMilli(entry.Expires)) { // its worker was lost before it could ask
		err := l.done(index, func(r *Record) bool {
			if r.Entries[index].State != Awaiting {
				return false
			}
			r.finish(index, nil, timedOut(&entry))
			return true
		})
		if err == nil {
			// It may have been asked for before, without a word of that here.
			if err := l.e.approvals.Settle(l.e.writing(), l.key.tenant, entry.Approval,
				subjects.Decision{State: subjects.ApprovalExpired, At: now(), Reason: "expired"}); err != nil {
				l.e.log.WarnContext(l.ctx, "an expired approval could not be settled; that is done later", "approval", entry.Approval, "error", err)
			}
			l.e.approvalEnded(record, index, entry.Approval, choiceExpired, l.e.asked(&entry))
			l.e.finished(l.key, record, index, timedOut(&entry))
			l.e.auditFinished(l.key, record, index, timedOut(&entry))
		} else if !errors.Is(err, errLost) {
			l.giveAway(err)
		}
		return
	}
	a := pending(l.key, record.User, index, &entry)
	// A stop or a shutdown does not cut this short: what was asked is known then.
	ctx, cancel := context.WithTimeout(l.e.writing(), askWithin)
	defer cancel()
	none, err := l.e.approvals.Ask(ctx, l.key.tenant, a, l.e.traceOf(record, index))
	if err == nil && none {
		err = l.e.approvals.Settle(ctx, l.key.tenant, a.ID,
			subjects.Decision{ID: a.ID, State: subjects.ApprovalDenied, Choice: subjects.ChoiceDeny, At: now(), Reason: reasonNoApprover})
	}
	if err != nil {
		l.e.log.WarnContext(l.ctx, "an approval could not be asked for; it is tried again", "call", l.key.String(), "error", err)
		l.giveAway(err)
		return
	}
	l.e.cfg.Metrics.Count(tracing.ApprovalsRequested, 1)
	err = l.done(index, func(r *Record) bool {
		if r.Entries[index].State != Awaiting {
			return false // decided or stopped meanwhile
		}
		r.Entries[index].Asked = true
		return true
	})
	if err != nil && !errors.Is(err, errLost) {
		l.giveAway(err)
	}
	if !none {
		l.e.event(l.key, record.Trace, subjects.Event{Type: subjects.EventApprovalRequested, Index: ptr(index), Tool: entry.Name, Approval: &a})
	}
}

// askWithin bounds the asking, not the wait for an answer.
const askWithin = 10 * time.Second

// pending is an entry's question as approvers see it.
func pending(k key, user string, index int, entry *Entry) subjects.Approval {
	return subjects.Approval{
		ID: entry.Approval, Session: k.session, CallID: k.id, Index: index, Tool: entry.Name,
		Arguments: entry.Arguments, ArgumentsJSON: string(entry.Arguments), ArgumentsSHA256: sha256Hex(entry.Arguments),
		DefinitionSHA256: entry.SHA256, Rule: entry.Rule, Reason: entry.Ask,
		RequestedAt: now(), ExpiresAt: time.UnixMilli(entry.Expires).UTC().Format(time.RFC3339Nano), Choices: subjects.Choices(),
		User: user, Executor: entry.executor(),
	}
}

// Waits reports whether an entry still waits for an approval.
func (e *Engine) Waits(ctx context.Context, tenant string, a subjects.Approval) (bool, error) {
	r, _, err := e.journal.load(ctx, key{tenant, a.Session, a.CallID})
	if errors.Is(err, errNoRecord) {
		return false, nil
	}
	return err == nil && r.waits(a), err
}

func (r *Record) waits(a subjects.Approval) bool {
	return !r.Final && a.Index >= 0 && a.Index < len(r.Entries) &&
		r.Entries[a.Index].State == Awaiting && r.Entries[a.Index].Approval == a.ID
}

// Decide applies a decision to the entry that waits for it, and sees to it that
// somebody goes on with the call. It may come more than once. applied is false
// when the entry did not wait any more, so that nothing was changed.
func (e *Engine) Decide(ctx context.Context, tenant string, a subjects.Approval, d subjects.Decision) (trace [3]string, applied bool, err error) {
	k := key{tenant, a.Session, a.CallID}
	before, revision, err := e.journal.load(ctx, k)
	if errors.Is(err, errNoRecord) {
		return trace, false, nil
	}
	if err != nil {
		return trace, false, err
	}
	if before.waits(a) { // told first, so that nothing which follows from it is told before
		e.event(k, before.Trace, subjects.Event{Type: subjects.EventApprovalSettled, Index: ptr(a.Index), Tool: a.Tool, Decision: &d})
	}
	var failed *subjects.SlotError
	record, _, err := e.journal.change(ctx, k, before, revision, func(r *Record) bool {
		if applied = r.waits(a); !applied {
			return false
		}
		entry := &r.Entries[a.Index]
		if failed = refusal(entry, a, d); failed != nil {
			r.finish(a.Index, nil, failed)
		} else {
			entry.State, entry.Ask = Received, ""
		}
		return true
	})
	if errors.Is(err, errNoRecord) {
		return trace, false, nil
	}
	if err != nil {
		return trace, false, err
	}
	if applied {
		e.approvalEnded(record, a.Index, a.ID, choiceOf(d), e.requestedAt(a, &record.Entries[a.Index]))
	}
	if applied && failed != nil {
		e.finished(k, record, a.Index, failed)
		e.auditFinished(k, record, a.Index, failed)
	}
	if record.Final {
		return record.Trace, applied, nil
	}
	if record.Lease != nil { // its holder reads again before it lets go; when it is lost, the call's message comes again
		e.poke(ctx, record, k)
		return record.Trace, applied, nil
	}
	// Woken also when the decision was applied before, since whoever did that may
	// be lost; but not for a call that waits for others.
	if applied || len(record.startable()) > 0 || record.undecided() || record.allDone() {
		err = e.wake(ctx, k)
	}
	return record.Trace, applied, err
}

// refusal is why an entry does not run after a decision, or nil.
func refusal(entry *Entry, a subjects.Approval, d subjects.Decision) *subjects.SlotError {
	switch {
	case d.State == subjects.ApprovalApproved && sha256Hex(entry.Arguments) == a.ArgumentsSHA256:
		return nil
	case d.State == subjects.ApprovalApproved:
		return &subjects.SlotError{
			Code: subjects.CodeApprovalDenied, Reason: "arguments_changed",
			Message: entry.Name + " was approved with other arguments than it would be sent with; it was not run",
		}
	case d.State == subjects.ApprovalExpired:
		return timedOut(entry)
	case d.State == subjects.ApprovalWithdrawn:
		return stoppedError()
	case d.By == "" && d.Reason == reasonNoApprover:
		return noApprover(entry)
	}
	message := entry.Name + " was denied"
	if d.By != "" {
		message += " by " + d.By
	}
	if d.Reason != "" {
		message += ": " + d.Reason
	}
	return &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: "denied", Message: message + "; it was not run. Do not repeat it"}
}
