package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/approval"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

type nothingWaits struct{}

func (nothingWaits) Waits(context.Context, string, subjects.Approval) (bool, error) {
	return false, nil
}

// desk is one over a server of its own, with what it keeps in.
func desk(t *testing.T) (*approval.Desk, *approvalStore) {
	t.Helper()
	nc := bus.Connect(t, bus.Server(t))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.Open(t.Context(), nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := state.OpenCalls(t.Context(), js, subjects.Space{}, state.Config{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	a := newApprovals(nc, subjects.Space{}, st, calls, false, slog.New(slog.DiscardHandler))
	return approval.NewDesk(a.store, nothingWaits{}), a.store
}

func question(id string, expires time.Time) subjects.Approval {
	return subjects.Approval{
		ID: id, Session: "s1", CallID: "c1", Tool: "mcp__fs__write", Arguments: []byte(`{}`), ArgumentsJSON: "{}",
		DefinitionSHA256: "d", Executor: "session", User: "ann", Choices: subjects.Choices(),
		RequestedAt: "2026-01-01T00:00:00Z", ExpiresAt: expires.UTC().Format(time.RFC3339Nano),
	}
}

func TestAForgottenChoiceIsNotBroughtBackByTheDecisionThatMadeIt(t *testing.T) {
	d, store := desk(t)
	ctx := t.Context()
	settle := func(id string, choice subjects.Choice) approval.Settled {
		t.Helper()
		s, err := store.Settle(ctx, approval.Settled{
			Tenant: "t", Approval: question(id, time.Now().Add(time.Hour)),
			Decision: subjects.Decision{ID: id, State: subjects.ApprovalApproved, Choice: choice, By: "ann", At: "2026-01-01T00:00:00Z"},
		})
		if err == nil {
			err = d.Conclude(ctx, s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	covered := func(s approval.Subject) bool {
		t.Helper()
		r, err := d.Remembered(ctx, "t", s)
		if err != nil {
			t.Fatal(err)
		}
		return r != nil
	}
	about := approval.Subject{Session: "s1", User: "ann", Tool: "mcp__fs__write", DefinitionSHA256: "d", Executor: "session"}
	forget := func() {
		t.Helper()
		r, err := d.Remembered(ctx, "t", about)
		if err != nil || r == nil {
			t.Fatalf("remembered %v, %v", r, err)
		}
		if _, _, err := d.Forget(ctx, "t", "bob", r.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	older := settle("a1", subjects.ChoiceAlways)
	newer := settle("a2", subjects.ChoiceAlways)
	if !covered(about) {
		t.Fatal("nothing is remembered")
	}
	for name, other := range map[string]approval.Subject{
		"another user":       {Session: "s1", User: "bob", Tool: about.Tool, DefinitionSHA256: "d", Executor: "session"},
		"no user":            {Session: "s1", Tool: about.Tool, DefinitionSHA256: "d", Executor: "session"},
		"another tool":       {Session: "s1", User: "ann", Tool: "mcp__fs__read", DefinitionSHA256: "d", Executor: "session"},
		"another definition": {Session: "s1", User: "ann", Tool: about.Tool, DefinitionSHA256: "e", Executor: "session"},
		"another executor":   {Session: "s1", User: "ann", Tool: about.Tool, DefinitionSHA256: "d", Executor: "mcp-fs"},
	} {
		if covered(other) {
			t.Errorf("it covers %s", name)
		}
	}
	if r, err := d.Remembered(ctx, "u", about); r != nil || err != nil {
		t.Errorf("it covers another tenant: %v, %v", r, err)
	}
	forget()
	for _, late := range []approval.Settled{newer, older} { // redelivered
		if err := d.Conclude(ctx, late); err != nil {
			t.Fatal(err)
		}
	}
	if covered(about) {
		t.Error("a redelivered decision brought a forgotten choice back")
	}
	settle("a3", subjects.ChoiceAlways)
	if !covered(about) {
		t.Error("a new decision is not remembered")
	}
	forget()
	settle("a4", subjects.ChoiceSession)
	if !covered(about) {
		t.Error("a session's choice is not remembered")
	}
	other := about
	other.Session = "s2"
	if covered(other) {
		t.Error("a session's choice covers another session")
	}
}

func TestWhatWasLeftBehindIsTidiedAway(t *testing.T) {
	d, store := desk(t)
	ctx, now := t.Context(), time.Now()
	for _, a := range []subjects.Approval{question("old", now.Add(-2*time.Minute)), question("new", now.Add(time.Hour))} {
		if pending, err := d.Add(ctx, "t", a); err != nil || !pending {
			t.Fatalf("Add = %v, %v", pending, err)
		}
	}
	for _, c := range []subjects.Choice{subjects.ChoiceSession, subjects.ChoiceAlways} {
		if err := d.Conclude(ctx, approval.Settled{
			Tenant: "t", Approval: question("x", now), Seq: 1,
			Decision: subjects.Decision{ID: "x", State: subjects.ApprovalApproved, Choice: c, By: "ann"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Tidy(ctx, now, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Pending(ctx, "t", "old"); err != nil { // written just now: its call may still end it
		t.Errorf("old: %v", err)
	}
	later := now.Add(time.Second)
	if err := d.Tidy(ctx, later, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Pending(ctx, "t", "old"); !errors.Is(err, approval.ErrNone) {
		t.Errorf("old: %v", err)
	}
	if s, err := store.Decision(ctx, "t", "old"); err != nil || s.State != subjects.ApprovalExpired {
		t.Errorf("decision on old = %+v, %v", s, err)
	}
	if pending, err := d.Add(ctx, "t", question("old", now.Add(time.Hour))); err != nil || pending {
		t.Errorf("a settled id was added again: %v, %v", pending, err)
	}
	if _, err := store.Pending(ctx, "t", "new"); err != nil {
		t.Errorf("new: %v", err)
	}
	kept := func() (list []subjects.Choice) {
		t.Helper()
		l, err := d.List(ctx, "t", "", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.Remembered {
			list = append(list, r.Choice)
		}
		return list
	}
	if got := kept(); len(got) != 2 {
		t.Errorf("remembered %v", got)
	}
	if err := d.Tidy(ctx, now.Add(approval.SessionMemory+time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	if got := kept(); !slices.Equal(got, []subjects.Choice{subjects.ChoiceAlways}) {
		t.Errorf("a month later %v are remembered", got)
	}
	if err := d.Conclude(ctx, approval.Settled{
		Tenant: "t", Approval: question("y", now), Seq: 2,
		Decision: subjects.Decision{ID: "y", State: subjects.ApprovalApproved, Choice: subjects.ChoiceSession, By: "ann"},
	}); err != nil {
		t.Fatal(err)
	}
	if got := kept(); len(got) != 2 {
		t.Errorf("a dropped choice can not be made again: %v", got)
	}
}

func TestAListTellsWhatHadNoRoom(t *testing.T) {
	d, _ := desk(t)
	for _, id := range []string{"a", "b", "c"} {
		if _, err := d.Add(t.Context(), "t", question(id, time.Now().Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	l, err := d.List(t.Context(), "t", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Approvals) == 0 || l.Approvals[0].ID != "a" || len(l.Approvals)+l.Omitted != 3 || l.Omitted == 0 {
		t.Errorf("%d listed, %d omitted", len(l.Approvals), l.Omitted)
	}
	if l, err := d.List(t.Context(), "t", "other", 1<<20); err != nil || len(l.Approvals) != 0 || l.Omitted != 0 {
		t.Errorf("another session's: %+v, %v", l, err)
	}
	if l, err := d.List(t.Context(), "u", "", 1<<20); err != nil || len(l.Approvals) != 0 {
		t.Errorf("another tenant's: %+v, %v", l, err)
	}
}
