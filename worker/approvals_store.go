package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/approval"
	"toolbridge/state"
	"toolbridge/subjects"
)

// approvalStore keeps approvals in the approvals bucket and decisions in their
// stream. Keys of the bucket: p.<tenant>.<id> is pending, c.<tenant>.<id> is a
// remembered choice.
type approvalStore struct {
	space subjects.Space
	state *state.State
	calls *state.Calls
}

func pendingKey(tenant, id string) string { return "p." + tenant + "." + id }
func choiceKey(tenant, id string) string  { return "c." + tenant + "." + id }

// Add implements approval.Store. A settled approval leaves a marker, over which
// nothing is added.
func (s *approvalStore) Add(ctx context.Context, tenant string, a subjects.Approval) error {
	value, err := subjects.Encode(a)
	if err != nil {
		return err
	}
	_, err = s.calls.Approvals.Update(ctx, pendingKey(tenant, a.ID), value, 0)
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return nil
	}
	return err
}

// Pending implements approval.Store.
func (s *approvalStore) Pending(ctx context.Context, tenant, id string) (a subjects.Approval, err error) {
	value, _, err := s.state.GetFresh(ctx, subjects.BucketApprovals, pendingKey(tenant, id))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return a, approval.ErrNone
	}
	if err == nil {
		err = subjects.Decode(value, &a)
	}
	return a, err
}

// EachPending implements approval.Store.
func (s *approvalStore) EachPending(ctx context.Context, tenant string, f func(subjects.Approval) bool) error {
	return s.each(ctx, pendingKey(tenant, "*"), func(value []byte) (bool, error) {
		var a subjects.Approval
		if err := subjects.Decode(value, &a); err != nil {
			return true, err
		}
		return f(a), nil
	})
}

// EachChoice implements approval.Store.
func (s *approvalStore) EachChoice(ctx context.Context, tenant string, f func(approval.Choice) bool) error {
	return s.each(ctx, choiceKey(tenant, "*"), func(value []byte) (bool, error) {
		var c approval.Choice
		if err := subjects.Decode(value, &c); err != nil {
			return true, err
		}
		return f(c), nil
	})
}

// EachOld implements approval.Store.
func (s *approvalStore) EachOld(ctx context.Context, before time.Time, f func(tenant, id string) bool) error {
	return s.entries(ctx, pendingKey("*", "*"), func(e jetstream.KeyValueEntry) bool {
		parts := strings.Split(e.Key(), ".")
		if len(parts) != 3 || !e.Created().Before(before) {
			return true
		}
		return f(parts[1], parts[2])
	}, jetstream.MetaOnly())
}

// DropChoices implements approval.Store.
func (s *approvalStore) DropChoices(ctx context.Context, before time.Time) error {
	var old []jetstream.KeyValueEntry
	err := s.entries(ctx, choiceKey("*", "*"), func(e jetstream.KeyValueEntry) bool {
		var c approval.Choice
		if e.Created().Before(before) && (subjects.Decode(e.Value(), &c) != nil || c.Forgotten != nil || c.Session != "") {
			old = append(old, e)
		}
		return true
	})
	for _, e := range old {
		if err == nil {
			err = s.purge(ctx, e.Key(), e.Revision())
		}
	}
	return err
}

// each reads the values of keys in the order of their last writes. One that
// can not be read costs itself only.
func (s *approvalStore) each(ctx context.Context, keys string, f func([]byte) (bool, error)) error {
	return s.entries(ctx, keys, func(e jetstream.KeyValueEntry) bool {
		more, err := f(e.Value())
		return more || err != nil
	})
}

func (s *approvalStore) entries(ctx context.Context, keys string, f func(jetstream.KeyValueEntry) bool, options ...jetstream.WatchOpt) error {
	watch, err := s.calls.Approvals.Watch(ctx, keys, append(options, jetstream.IgnoreDeletes())...)
	if err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }()
	for {
		select {
		case entry, ok := <-watch.Updates():
			if !ok {
				return errors.New("the bucket's watch ended early")
			}
			if entry == nil || !f(entry) { // nil: that was all
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Remove implements approval.Store.
func (s *approvalStore) Remove(ctx context.Context, tenant, id string) error {
	key := pendingKey(tenant, id)
	_, revision, err := s.state.GetFresh(ctx, subjects.BucketApprovals, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.purge(ctx, key, revision)
}

// purge deletes a key at a revision; one that is at another by now is somebody
// else's to deal with.
func (s *approvalStore) purge(ctx context.Context, key string, revision uint64) error {
	err := s.calls.Approvals.Purge(ctx, key, jetstream.LastRevision(revision), jetstream.PurgeTTL(marker))
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return nil
	}
	return err
}

// marker is how long a settled approval's id stays taken: longer than its call
// is known.
const marker = 26 * time.Hour

// Settle implements approval.Store: of all who try, one creates the message of
// that subject.
func (s *approvalStore) Settle(ctx context.Context, d approval.Settled) (approval.Settled, error) {
	body, err := subjects.Encode(d)
	if err != nil {
		return d, err
	}
	ack, err := s.calls.JS.PublishMsg(ctx, &nats.Msg{Subject: s.space.DecisionSubject(d.Tenant, d.ID), Data: body}, jetstream.WithExpectLastSequencePerSubject(0))
	if err == nil {
		d.Seq = ack.Sequence
		return d, nil
	}
	// Somebody was faster, or the answer was lost, and then it may be this one.
	standing, readErr := s.Decision(ctx, d.Tenant, d.ID)
	if readErr == nil {
		return standing, nil
	}
	return d, err
}

// Decision implements approval.Store.
func (s *approvalStore) Decision(ctx context.Context, tenant, id string) (approval.Settled, error) {
	data, seq, err := s.state.Last(ctx, subjects.StreamDecisions, s.space.DecisionSubject(tenant, id))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return approval.Settled{}, approval.ErrNone
	}
	if err != nil {
		return approval.Settled{}, err
	}
	return readSettled(data, seq)
}

func readSettled(data []byte, seq uint64) (d approval.Settled, err error) {
	if err := subjects.Decode(data, &d); err != nil {
		return d, fmt.Errorf("reading a decision: %w", err)
	}
	d.Seq = seq
	return d, nil
}

// Choice implements approval.Store.
func (s *approvalStore) Choice(ctx context.Context, tenant, id string) (c approval.Choice, revision uint64, err error) {
	value, revision, err := s.state.GetFresh(ctx, subjects.BucketApprovals, choiceKey(tenant, id))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return c, 0, approval.ErrNone
	}
	if err == nil {
		err = subjects.Decode(value, &c)
	}
	return c, revision, err
}

// SetChoice implements approval.Store.
func (s *approvalStore) SetChoice(ctx context.Context, tenant, id string, c approval.Choice, revision uint64) error {
	value, err := subjects.Encode(c)
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = s.calls.Approvals.Create(ctx, choiceKey(tenant, id), value) // also where an old one was dropped
	} else {
		_, err = s.calls.Approvals.Update(ctx, choiceKey(tenant, id), value, revision)
	}
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return approval.ErrChanged
	}
	return err
}

// parseDecision takes the subject of a decision apart.
func (s *approvalStore) parseDecision(subject string) (tenant, id string, ok bool) {
	rest, ok := strings.CutPrefix(subject, strings.TrimSuffix(s.space.DecisionSubject("", ""), "."))
	if !ok {
		return "", "", false
	}
	tenant, id, ok = strings.Cut(strings.TrimPrefix(rest, "."), ".")
	return tenant, id, ok && subjects.ValidToken(tenant) && subjects.ValidToken(id)
}
