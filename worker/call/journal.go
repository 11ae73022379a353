package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

// key names one call.
type key struct{ tenant, session, id string }

func (k key) String() string { return k.tenant + "." + k.session + "." + k.id }

// journal is the record of every call. It is the truth: queues only carry.
type journal struct {
	state *state.State
	calls *state.Calls
}

// errConflict says that the record was changed by somebody else meanwhile.
var errConflict = errors.New("the call's record has changed")

// errNoRecord says that no call of that id was accepted within the last day.
var errNoRecord = errors.New("no record")

// errUnreadable says that the value is no record at all; no worker can read it.
var errUnreadable = errors.New("it is not readable")

// create writes the first record of a call. Of several who create at once one
// wins; the others get errConflict. When the answer is lost the record is read
// back: the own token in it means won.
func (j *journal) create(ctx context.Context, k key, r *Record) (revision uint64, err error) {
	value, err := subjects.Encode(r)
	if err != nil {
		return 0, fmt.Errorf("writing the record of call %s: %w", k.id, err)
	}
	revision, err = j.calls.Of(k.tenant, k.session).Journal.Create(ctx, k.String(), value)
	switch {
	case err == nil:
		return revision, nil
	case isWrongSequence(err):
		return 0, errConflict
	}
	have, at, readErr := j.load(ctx, k)
	switch {
	case readErr == nil && have.Token == r.Token:
		return at, nil
	case readErr == nil:
		return 0, errConflict
	}
	return 0, fmt.Errorf("writing the record of call %s: %w", k.id, err)
}

// update replaces a record at a revision.
func (j *journal) update(ctx context.Context, k key, r *Record, revision uint64) (uint64, error) {
	value, err := subjects.Encode(r)
	if err != nil {
		return 0, fmt.Errorf("writing the record of call %s: %w", k.id, err)
	}
	next, err := j.calls.Of(k.tenant, k.session).Journal.Update(ctx, k.String(), value, revision)
	if isWrongSequence(err) {
		return 0, errConflict
	}
	if err != nil {
		return 0, fmt.Errorf("writing the record of call %s: %w", k.id, err)
	}
	return next, nil
}

// readWithin bounds one read of the journal, whose answer may be lost with the
// connection.
const readWithin = 5 * time.Second

// load reads a record from the journal's leader.
func (j *journal) load(ctx context.Context, k key) (*Record, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	value, revision, err := j.state.GetFresh(ctx, j.calls.Of(k.tenant, k.session).Bucket, k.String())
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, errNoRecord
	}
	if err != nil {
		return nil, 0, err
	}
	r := new(Record)
	if err := subjects.Decode(value, r); err != nil {
		return nil, 0, fmt.Errorf("reading the record of call %s: %w: %w", k.id, errUnreadable, err)
	}
	if r.Version != recordVersion {
		return nil, 0, fmt.Errorf("reading the record of call %s: version %d, this worker knows %d", k.id, r.Version, recordVersion)
	}
	return r, revision, nil
}

// change applies f to a record until the write wins. f gets a copy and returns
// false when nothing is to be written. It returns the record as it stands then.
func (j *journal) change(ctx context.Context, k key, r *Record, revision uint64, f func(*Record) bool) (*Record, uint64, error) {
	for {
		if r == nil {
			var err error
			if r, revision, err = j.load(ctx, k); err != nil {
				return nil, 0, err
			}
		}
		next := r.clone()
		if !f(next) {
			return r, revision, nil
		}
		at, err := j.update(ctx, k, next, revision)
		if err == nil {
			return next, at, nil
		}
		if ctx.Err() != nil {
			return nil, 0, err
		}
		if !errors.Is(err, errConflict) && !ambiguous(err) {
			return nil, 0, err
		}
		r = nil // somebody was faster, or the answer was lost: look again
	}
}

// ambiguous reports whether a write may have happened although it failed.
func ambiguous(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// lasting reports whether a failed write would fail again, however often it is
// tried: what is to be written can not be, or this worker is off the bus for good.
func lasting(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) ||
		errors.Is(err, errNoRecord) || errors.Is(err, errUnreadable)
}
