package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"toolbridge/subjects"
)

// Subject is what a remembered choice is about, and whose it is.
type Subject struct {
	Session, User    string // User is "" for a session without one
	Tool             string // the underlying tool's name
	DefinitionSHA256 string
	Executor         string
}

// sessionID and userID name the choices that cover a subject: one for its
// session (while that belongs to the same user), one for its user in every
// session.
func (s Subject) sessionID() string { return s.id("session", s.Session, s.User) }
func (s Subject) userID() string    { return s.id("user", s.User) }

func (s Subject) id(owner ...string) string {
	h := sha256.New()
	for _, part := range append(owner, s.Tool, s.DefinitionSHA256, s.Executor) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Remembered returns the choice that covers a subject, or nil.
func (d *Desk) Remembered(ctx context.Context, tenant string, s Subject) (*subjects.Remembered, error) {
	ids := []string{s.sessionID()}
	if s.User != "" {
		ids = append(ids, s.userID())
	}
	for _, id := range ids {
		c, _, err := d.store.Choice(ctx, tenant, id)
		if errors.Is(err, ErrNone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading remembered choices: %w", err)
		}
		if c.Forgotten == nil {
			return &c.Remembered, nil
		}
	}
	return nil, nil
}

// remember keeps the choice that a decision asks to remember. A choice is never
// brought back by the decision that made it before it was forgotten, or by an
// older one.
func (d *Desk) remember(ctx context.Context, s Settled) error {
	a := s.Approval
	if s.State != subjects.ApprovalApproved || s.Choice != subjects.ChoiceSession && s.Choice != subjects.ChoiceAlways {
		return nil
	}
	about := Subject{Session: a.Session, User: a.User, Tool: a.Tool, DefinitionSHA256: a.DefinitionSHA256, Executor: a.Executor}
	c := Choice{Seq: s.Seq, Remembered: subjects.Remembered{
		Choice: s.Choice, Tool: a.Tool, DefinitionSHA256: a.DefinitionSHA256, Executor: a.Executor, By: s.By, At: s.At,
	}}
	if s.Choice == subjects.ChoiceAlways && a.User != "" {
		c.ID, c.User = about.userID(), a.User
	} else { // without a user, always holds for the session: nobody else is known to be the same
		c.ID, c.Choice, c.Session, c.Of = about.sessionID(), subjects.ChoiceSession, a.Session, a.User
	}
	for {
		have, revision, err := d.store.Choice(ctx, s.Tenant, c.ID)
		switch {
		case errors.Is(err, ErrNone):
		case err != nil:
			return fmt.Errorf("remembering the choice of approval %s: %w", s.ID, err)
		case have.Seq >= c.Seq:
			return nil
		}
		err = d.store.SetChoice(ctx, s.Tenant, c.ID, c, revision)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrChanged) {
			return fmt.Errorf("remembering the choice of approval %s: %w", s.ID, err)
		}
	}
}

// Forget withdraws a remembered choice; doing it again changes nothing and
// returns the same. what is the choice. An unknown id is UNKNOWN_APPROVAL.
func (d *Desk) Forget(ctx context.Context, tenant, approver, id, reason string) (decision subjects.Decision, what Choice, err error) {
	if err := subjects.CheckToken("id of a remembered choice", id); err != nil {
		e := subjects.NewError(subjects.CodeBadRequest, err.Error())
		e.Path = "forget"
		return subjects.Decision{}, Choice{}, e
	}
	for {
		c, revision, err := d.store.Choice(ctx, tenant, id)
		switch {
		case errors.Is(err, ErrNone):
			return subjects.Decision{}, Choice{}, unknown("remembered choice", id)
		case err != nil:
			return subjects.Decision{}, Choice{}, fmt.Errorf("forgetting choice %s: %w", id, err)
		case c.Forgotten != nil:
			return *c.Forgotten, c, nil
		}
		c.Forgotten = &subjects.Decision{ID: id, State: subjects.ApprovalForgotten, Choice: c.Choice, By: approver, At: timeText(time.Now()), Reason: reason}
		err = d.store.SetChoice(ctx, tenant, id, c, revision)
		if err == nil {
			return *c.Forgotten, c, nil
		}
		if !errors.Is(err, ErrChanged) {
			return subjects.Decision{}, Choice{}, fmt.Errorf("forgetting choice %s: %w", id, err)
		}
	}
}
