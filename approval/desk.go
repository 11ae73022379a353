package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"toolbridge/subjects"
)

// Desk takes questions to people and their decisions. Any number of desks over
// one store act as one.
type Desk struct {
	store Store
	calls Calls
}

// Calls are what waits for people.
type Calls interface {
	// Waits reports whether the entry that an approval is about still waits for
	// it.
	Waits(ctx context.Context, tenant string, a subjects.Approval) (bool, error)
}

// NewDesk needs both.
func NewDesk(store Store, calls Calls) *Desk { return &Desk{store, calls} }

// Add keeps a question until it is settled. It reports false when it was settled
// before, so that nobody is to be asked any more.
func (d *Desk) Add(ctx context.Context, tenant string, a subjects.Approval) (pending bool, err error) {
	if !subjects.ValidToken(a.ID) {
		return false, fmt.Errorf("an approval has the id %.70q, by which nobody could answer it", a.ID)
	}
	if err := d.store.Add(ctx, tenant, a); err != nil {
		return false, fmt.Errorf("keeping approval %s: %w", a.ID, err)
	}
	_, err = d.store.Decision(ctx, tenant, a.ID)
	switch {
	case errors.Is(err, ErrNone):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("looking for a decision on approval %s: %w", a.ID, err)
	}
	return false, d.remove(ctx, tenant, a.ID)
}

// Settle writes a decision that no approver made. When one stands already it
// changes nothing; an approval that was never added can only be withdrawn.
func (d *Desk) Settle(ctx context.Context, tenant, id string, decision subjects.Decision) error {
	a, err := d.store.Pending(ctx, tenant, id)
	switch {
	case errors.Is(err, ErrNone) && decision.State != subjects.ApprovalWithdrawn:
		return nil
	case errors.Is(err, ErrNone):
		a = subjects.Approval{ID: id}
	case err != nil:
		return fmt.Errorf("settling approval %s: %w", id, err)
	}
	_, err = d.settle(ctx, tenant, a, decision)
	return err
}

// settle writes a decision unless one stands, and ends what is pending.
func (d *Desk) settle(ctx context.Context, tenant string, a subjects.Approval, decision subjects.Decision) (Settled, error) {
	decision.ID = a.ID
	a.Arguments, a.ArgumentsJSON = nil, ""
	standing, err := d.store.Settle(ctx, Settled{Decision: decision, Tenant: tenant, Approval: a})
	if err != nil {
		return Settled{}, fmt.Errorf("settling approval %s: %w", a.ID, err)
	}
	return standing, d.Conclude(ctx, standing)
}

// Conclude does what follows from a decision that stands: a choice is
// remembered, and the question is not pending any more. It may come more than
// once, from any process.
func (d *Desk) Conclude(ctx context.Context, s Settled) error {
	if err := d.remember(ctx, s); err != nil {
		return err
	}
	return d.remove(ctx, s.Tenant, s.ID)
}

func (d *Desk) remove(ctx context.Context, tenant, id string) error {
	if err := d.store.Remove(ctx, tenant, id); err != nil {
		return fmt.Errorf("ending approval %s: %w", id, err)
	}
	return nil
}

// MaxReason bounds an approver's words, in characters.
const MaxReason = 2000

// Decide takes an approver's decision, or forgets a remembered choice. The first
// decision stands; the same choice by the same approver again gets it as well.
// Errors for the approver are *subjects.Error: BAD_REQUEST, UNKNOWN_APPROVAL,
// ALREADY_DECIDED, EXPIRED, WITHDRAWN and ARGUMENTS_CHANGED.
func (d *Desk) Decide(ctx context.Context, tenant, approver string, r subjects.ApprovalDecideRequest) (subjects.Decision, error) {
	if err := checkDecide(r); err != nil {
		return subjects.Decision{}, err
	}
	a, err := d.store.Pending(ctx, tenant, r.ID)
	if errors.Is(err, ErrNone) {
		standing, err := d.store.Decision(ctx, tenant, r.ID)
		if errors.Is(err, ErrNone) {
			return subjects.Decision{}, unknown("approval", r.ID)
		}
		if err != nil {
			return subjects.Decision{}, fmt.Errorf("looking for the decision on approval %s: %w", r.ID, err)
		}
		return d.answer(ctx, approver, r, standing)
	}
	if err != nil {
		return subjects.Decision{}, fmt.Errorf("reading approval %s: %w", r.ID, err)
	}
	if changed(r, a) {
		return subjects.Decision{}, argumentsChanged(r.ID)
	}
	waits, err := d.calls.Waits(ctx, tenant, a)
	if err != nil {
		return subjects.Decision{}, fmt.Errorf("looking at the call of approval %s: %w", r.ID, err)
	}
	now := time.Now()
	decision := subjects.Decision{At: timeText(now), Choice: r.Choice, By: approver, Reason: r.Reason, State: subjects.ApprovalApproved}
	switch {
	case Expired(a, now):
		decision = expired(now)
	case !waits: // stopped, and the worker was lost before it could say so here; or settled just now
		decision = subjects.Decision{At: decision.At, State: subjects.ApprovalWithdrawn, Reason: "stopped"}
	case r.Choice == subjects.ChoiceDeny:
		decision.State = subjects.ApprovalDenied
	}
	standing, err := d.settle(ctx, tenant, a, decision)
	if err != nil {
		return subjects.Decision{}, err
	}
	return d.answer(ctx, approver, r, standing)
}

func checkDecide(r subjects.ApprovalDecideRequest) error {
	bad := func(path, message string) error {
		e := subjects.NewError(subjects.CodeBadRequest, message)
		e.Path = path
		return e
	}
	if err := subjects.CheckToken("approval id", r.ID); err != nil {
		return bad("id", err.Error())
	}
	switch r.Choice {
	case subjects.ChoiceOnce, subjects.ChoiceSession, subjects.ChoiceAlways, subjects.ChoiceDeny:
	default:
		return bad("choice", fmt.Sprintf("choice %.40q is none of once, session, always and deny", r.Choice))
	}
	if utf8.RuneCountInString(r.Reason) > MaxReason {
		return bad("reason", fmt.Sprintf("the reason has more than %d characters", MaxReason))
	}
	return nil
}

// answer tells an approver what stands.
func (d *Desk) answer(ctx context.Context, approver string, r subjects.ApprovalDecideRequest, standing Settled) (subjects.Decision, error) {
	s := standing.Decision
	var e *subjects.Error
	switch {
	case s.State == subjects.ApprovalExpired:
		e = subjects.NewError(subjects.CodeExpired, "approval "+s.ID+" expired at "+standing.Approval.ExpiresAt+"; the tool was not run")
	case s.State == subjects.ApprovalWithdrawn:
		e = subjects.NewError(subjects.CodeWithdrawn, "approval "+s.ID+" was withdrawn at "+s.At+": the call was stopped")
	case s.By == approver && s.Choice == r.Choice:
		if changed(r, standing.Approval) {
			return subjects.Decision{}, argumentsChanged(s.ID)
		}
		return s, d.Conclude(ctx, standing) // the worker that took it may be lost
	default:
		by := s.By
		if by == "" {
			by = "no approver (" + s.Reason + ")"
		}
		e = subjects.NewError(subjects.CodeAlreadyDecided, fmt.Sprintf("approval %s was %s by %s at %s; that stands", s.ID, s.State, by, s.At))
	}
	e.Decision = &s
	return subjects.Decision{}, e
}

// changed reports whether an approver saw other arguments than would be sent.
func changed(r subjects.ApprovalDecideRequest, a subjects.Approval) bool {
	return r.ArgumentsSHA256 != "" && !strings.EqualFold(r.ArgumentsSHA256, a.ArgumentsSHA256)
}

func argumentsChanged(id string) error {
	return subjects.NewError(subjects.CodeArgumentsChanged, "approval "+id+" is about other arguments than those of arguments_sha256: list it again and decide on what it says; nothing was decided")
}

func unknown(what, id string) error {
	return subjects.NewError(subjects.CodeUnknownApproval, fmt.Sprintf("there is no %s %s in this tenant", what, id))
}

// Expired reports whether an approval may not be decided on any more.
func Expired(a subjects.Approval, now time.Time) bool {
	until, err := time.Parse(time.RFC3339Nano, a.ExpiresAt)
	return err != nil || !now.Before(until)
}

// Expire settles an approval whose time is over.
func (d *Desk) Expire(ctx context.Context, tenant, id string) error {
	return d.Settle(ctx, tenant, id, expired(time.Now()))
}

func expired(now time.Time) subjects.Decision {
	return subjects.Decision{State: subjects.ApprovalExpired, At: timeText(now), Reason: "expired"}
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
