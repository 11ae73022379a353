package connectors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

// operations keeps the operations of manage_connections:
// <tenant>.<session>.<operation> is one, <tenant>.<session>.open names the one whose
// card the session has open.
type operations struct {
	state *state.State
	kv    jetstream.KeyValue
}

var errNoOperation = errors.New("no such operation")

// operationID is the same for every run of one execution.
func operationID(tenant, session, callID string, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", tenant, session, callID, index))
	return "op_" + hex.EncodeToString(sum[:10])
}

func operationKey(tenant, session, id string) string { return tenant + "." + session + "." + id }

// load reads an operation from the bucket's leader. The error is errNoOperation
// where there is none.
func (s *operations) load(ctx context.Context, key string) (*operation, uint64, error) {
	value, revision, err := s.state.GetFresh(ctx, subjects.BucketConnections, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, errNoOperation
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading an operation: %w", err)
	}
	o := &operation{}
	if err := subjects.Decode(value, o); err != nil || o.Version != operationVersion {
		return nil, 0, fmt.Errorf("the operation %s can not be read", key)
	}
	return o, revision, nil
}

// create writes the first state. Where another run was faster it returns that one's.
func (s *operations) create(ctx context.Context, key string, o *operation) (*operation, error) {
	err := s.write(ctx, key, o, 0)
	if changedMeanwhile(err) {
		o, _, err = s.load(ctx, key)
	}
	return o, err
}

func (s *operations) write(ctx context.Context, key string, o *operation, revision uint64) error {
	value, err := subjects.Encode(o)
	if err == nil {
		_, err = s.kv.Update(ctx, key, value, revision)
	}
	if err != nil {
		return fmt.Errorf("writing an operation: %w", err)
	}
	return nil
}

// change applies f to what stands, again when another was faster. What f refuses by
// false is not written. written says that this change was.
func (s *operations) change(ctx context.Context, key string, f func(*operation) bool) (o *operation, written bool, err error) {
	for {
		have, revision, err := s.load(ctx, key)
		if err != nil {
			return nil, false, err
		}
		next := have.clone()
		if !f(next) {
			return have, false, nil
		}
		next.Seq++
		if err = s.write(ctx, key, next, revision); err == nil {
			return next, true, nil
		}
		if !changedMeanwhile(err) {
			return nil, false, err
		}
	}
}

// openCard is the session's one open operation.
type openCard struct {
	Operation string `json:"operation"`
	Until     int64  `json:"until"` // unix milliseconds, when it counts as lost
}

// claim makes an operation the session's open one. It returns false while another is
// open.
func (s *operations) claim(ctx context.Context, tenant, session, id string, until time.Time) (bool, error) {
	key := tenant + "." + session + ".open"
	for {
		value, revision, err := s.state.GetFresh(ctx, subjects.BucketConnections, key)
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return false, fmt.Errorf("reading the open operation of a session: %w", err)
		}
		var have openCard
		if err == nil && subjects.Decode(value, &have) == nil && have.Operation != id && time.Now().UnixMilli() < have.Until {
			o, _, err := s.load(ctx, operationKey(tenant, session, have.Operation))
			switch {
			case err == nil && o.Phase != settled:
				return false, nil
			case err != nil && !errors.Is(err, errNoOperation):
				return false, err
			}
		}
		next, err := subjects.Encode(openCard{id, until.UnixMilli()})
		if err != nil {
			return false, err
		}
		_, err = s.kv.Update(ctx, key, next, revision)
		if err == nil {
			return true, nil
		}
		if !changedMeanwhile(err) {
			return false, fmt.Errorf("opening an operation: %w", err)
		}
	}
}

// watch signals on the channel whenever an operation was written, until ctx ends. It
// is a courtesy: who waits also looks by itself.
func (s *operations) watch(ctx context.Context, key string) (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	w, err := s.kv.Watch(ctx, key, jetstream.UpdatesOnly(), jetstream.MetaOnly())
	if err != nil {
		return wake, func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range w.Updates() {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}()
	return wake, func() {
		_ = w.Stop()
		<-done
	}
}

// validOperation reports whether a text can be the id of an operation.
func validOperation(id string) bool {
	return strings.HasPrefix(id, "op_") && subjects.ValidToken(id)
}
