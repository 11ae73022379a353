package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

// grants knows every session's grant: a copy of the bucket that a watch keeps
// current, and a read of the bucket's leader where a decision must not be late.
type grants struct {
	state *state.State
	dev   bool
	log   *slog.Logger

	mu     sync.RWMutex
	values map[string][]byte
	seen   uint64 // highest revision that the watch brought
}

func newGrants(st *state.State, dev bool, log *slog.Logger) *grants {
	return &grants{state: st, dev: dev, log: log, values: map[string][]byte{}}
}

// watch reads the bucket once, within ready, and returns what keeps the copy
// current until life ends.
func (g *grants) watch(ready, life context.Context) (run func(), err error) {
	w, err := g.state.Grants.WatchAll(life)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", subjects.BucketGrants, err)
	}
	return follow(ready, life, w, subjects.BucketGrants, func(e jetstream.KeyValueEntry) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.seen = max(g.seen, e.Revision())
		if e.Operation() == jetstream.KeyValuePut {
			g.values[e.Key()] = e.Value()
			g.inspect(e.Key(), e.Value())
		} else {
			delete(g.values, e.Key())
		}
	})
}

// inspect warns the operator of a grant that does not say what was meant: one that
// can not be read, which closes its session, or a member that no grant has, as a
// misspelled list opens what it should have narrowed.
func (g *grants) inspect(key string, value []byte) {
	var grant subjects.Grant
	if err := subjects.Decode(value, &grant); err != nil {
		g.log.Warn("a grant can not be read; its session sees nothing of the registry", "key", key, "error", err)
		return
	}
	var members map[string]json.RawMessage
	if subjects.Decode(value, &members) != nil {
		return
	}
	known := []string{"user", "toolsets", "tools", "deny", "approval", "parent", "expires_at"}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, name) {
			g.log.Warn("a grant has a member that no grant has; it counts for nothing", "key", key, "member", headerText(name))
		}
	}
	switch grant.Approval {
	case "", "auto", "ask", "deny":
	default:
		g.log.Warn("a grant's approval is neither auto, ask nor deny; its session sees nothing of the registry", "key", key, "approval", headerText(grant.Approval))
	}
}

// follow applies a watch's first values, then returns a function that applies
// the later ones until life ends.
func follow(ready, life context.Context, w jetstream.KeyWatcher, bucket string, apply func(jetstream.KeyValueEntry)) (run func(), err error) {
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return nil, fmt.Errorf("watching %s: the watch ended", bucket)
			}
			if e != nil {
				apply(e)
				continue
			}
			return func() {
				defer func() { _ = w.Stop() }()
				for {
					select {
					case e, ok := <-w.Updates():
						if !ok {
							return
						}
						if e != nil {
							apply(e)
						}
					case <-life.Done():
						return
					}
				}
			}, nil
		case <-ready.Done():
			_ = w.Stop()
			return nil, fmt.Errorf("watching %s: reading its first values: %w", bucket, ready.Err())
		}
	}
}

// known is the scope of a session by the watched copy.
func (g *grants) known(tenant, session string) scope {
	values, complete, _ := chain(session, func(s string) ([]byte, error) {
		g.mu.RLock()
		defer g.mu.RUnlock()
		return g.values[subjects.GrantKey(tenant, s)], nil
	})
	return newScope(values, complete, g.dev, time.Now())
}

// fresh is the scope of a session by the bucket's leader, so that a grant that
// was acknowledged before counts. The error is UNAVAILABLE.
func (g *grants) fresh(ctx context.Context, tenant, session string) (scope, error) {
	values, complete, err := chain(session, func(s string) ([]byte, error) {
		key := subjects.GrantKey(tenant, s)
		v, revision, err := g.state.GetFresh(ctx, subjects.BucketGrants, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, nil
		}
		if err == nil {
			g.learn(key, v, revision)
		}
		return v, err
	})
	if err != nil {
		return scope{}, unavailable("reading the session's grant", err)
	}
	return newScope(values, complete, g.dev, time.Now()), nil
}

// learn takes over a value that the watch has not brought yet, so that what follows
// on a fresh read in this worker is no older. Whatever the watch brings later, a
// deletion included, has a higher revision and stands.
func (g *grants) learn(key string, value []byte, revision uint64) {
	g.mu.RLock()
	late := revision <= g.seen
	g.mu.RUnlock()
	if late {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if revision > g.seen {
		g.values[key] = value
	}
}

// chain reads a session's grant and those of its parents. complete is false when
// a parent has no grant, or the chain is circular or too deep.
func chain(session string, get func(string) ([]byte, error)) (values [][]byte, complete bool, err error) {
	seen := map[string]bool{}
	for next := session; ; {
		v, err := get(next)
		if err != nil {
			return nil, false, err
		}
		if v == nil {
			return values, next == session && len(values) == 0, nil
		}
		values = append(values, v)
		seen[next] = true
		var g subjects.Grant
		if unreadable := subjects.Decode(v, &g); unreadable != nil || g.Parent == "" {
			return values, true, nil //nolint:nilerr // newScope closes a scope whose grant can not be read
		}
		if next = g.Parent; seen[next] || len(values) == maxChain || subjects.CheckToken("session", next) != nil {
			return values, false, nil //nolint:nilerr // a parent that can not exist has no grant
		}
	}
}

// unavailable is the error for a store that can not be reached; a deadline that
// passed meanwhile stays one.
func unavailable(doing string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return subjects.NewError(subjects.CodeDeadlineExceeded, doing+" took longer than the request may")
	}
	return subjects.NewError(subjects.CodeUnavailable, doing+": "+err.Error())
}
