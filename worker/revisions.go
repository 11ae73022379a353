package worker

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

// revisions keeps at which revision an executor's definitions last changed. A
// heartbeat need not say it, and an executor that was started again does not know
// it; every worker, also one that starts later, names the same.
type revisions struct{ state *state.State }

// changedAt is what is kept for one executor.
type changedAt struct {
	DefinitionsSHA256 string `json:"definitions_sha256"`
	Revision          uint64 `json:"revision"`
}

const (
	// revisionWithin bounds the reads and writes for one registration; without
	// the store its own revision is used.
	revisionWithin = 2 * time.Second
	// renewAfter is how old a kept revision may be before a heartbeat renews it,
	// well within the bucket's TTL.
	renewAfter = 6 * time.Hour
)

// agree returns the revision at which an executor came to the hash that its entry
// of revision entry holds: the one that is kept, else the claim, which is kept from now
// on.
func (r *revisions) agree(ctx context.Context, key, hash string, entry, claim uint64) uint64 {
	ctx, cancel := context.WithTimeout(ctx, revisionWithin)
	defer cancel()
	for range 3 { // another worker may be a step ahead
		kept, at, err := r.read(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			at = 0
		case err != nil:
			return claim
		case kept.DefinitionsSHA256 == hash && kept.Revision <= entry:
			return kept.Revision
		}
		if r.write(ctx, key, changedAt{hash, claim}, at) == nil {
			return claim
		}
	}
	return claim
}

// renew makes what is kept last longer.
func (r *revisions) renew(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, revisionWithin)
	defer cancel()
	if kept, at, err := r.read(ctx, key); err == nil {
		_ = r.write(ctx, key, kept, at) // another worker has renewed it, or the next heartbeat will
	}
}

func (r *revisions) read(ctx context.Context, key string) (kept changedAt, at uint64, err error) {
	value, at, err := r.state.GetFresh(ctx, subjects.BucketRevisions, key)
	if err != nil {
		return kept, 0, err
	}
	if subjects.Decode(value, &kept) != nil {
		kept = changedAt{} // to be written anew
	}
	return kept, at, nil
}

// write replaces the entry of the given revision, 0 for none.
func (r *revisions) write(ctx context.Context, key string, kept changedAt, at uint64) error {
	value, err := subjects.Encode(kept)
	if err != nil {
		return err
	}
	if at == 0 {
		_, err = r.state.Revisions.Create(ctx, key, value)
	} else {
		_, err = r.state.Revisions.Update(ctx, key, value, at)
	}
	return err
}
