package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/catalog"
	"toolbridge/state"
	"toolbridge/subjects"
)

// registration is one executor's entry as this worker knows it.
type registration struct {
	subjects.Registration
	executor string
	revision uint64    // at which the hash last changed
	since    time.Time // zero when the text is no time: then it is the youngest
	heard    time.Time // by this worker's clock
	kept     time.Time // when the revision was last kept for other workers
}

// registry knows the live toolsets of every tenant: a copy of the bucket that a
// watch keeps current, and the definitions behind it by their hash.
type registry struct {
	state     *state.State
	revisions revisions
	maxTools  int
	log       *slog.Logger
	changed   func(tenant, toolset string) // told of what a session could see; set before watch
	ttl       time.Duration                // after which an entry without a heartbeat is not live, whatever the watch says

	mu      sync.RWMutex
	tenants map[string]map[string]map[string]*registration // tenant, toolset, executor
	version uint64                                         // changes when what a session could see changes

	definitions *onceCache[*definitionSet]
}

// definitionSet is one blob of definitions, decoded.
type definitionSet struct {
	definitions []catalog.Definition
	warnings    []subjects.Warning
}

func newRegistry(st *state.State, maxTools int, log *slog.Logger) *registry {
	return &registry{
		state: st, revisions: revisions{st}, maxTools: maxTools, log: log,
		tenants:     map[string]map[string]map[string]*registration{},
		definitions: newOnceCache[*definitionSet](256, nil),
	}
}

func (r *registry) watch(ready, life context.Context) (run func(), err error) {
	status, err := r.state.Toolsets.Status(ready)
	if err != nil {
		return nil, fmt.Errorf("reading bucket %s: %w", subjects.BucketToolsets, err)
	}
	r.ttl = status.TTL() + status.TTL()/2
	w, err := r.state.Toolsets.WatchAll(life)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", subjects.BucketToolsets, err)
	}
	return follow(ready, life, w, subjects.BucketToolsets, func(e jetstream.KeyValueEntry) { r.take(life, e) })
}

// take applies one change of the bucket and tells of it. Only the watch calls it.
func (r *registry) take(ctx context.Context, e jetstream.KeyValueEntry) {
	before := r.stamp()
	r.apply(ctx, e)
	if r.changed == nil || r.stamp() == before {
		return
	}
	parts := strings.Split(e.Key(), ".")
	if name, err := subjects.DecodeToolset(parts[1]); err == nil {
		r.changed(parts[0], name)
	}
}

// apply takes over one change of the bucket.
func (r *registry) apply(ctx context.Context, e jetstream.KeyValueEntry) {
	parts := strings.Split(e.Key(), ".")
	if len(parts) != 3 {
		r.log.Warn("registration ignored: its key is not <tenant>.<toolset>.<executor>", "key", e.Key())
		return
	}
	tenant, executor := parts[0], parts[2]
	toolset, err := subjects.DecodeToolset(parts[1])
	if err != nil {
		r.log.Warn("registration ignored", "key", e.Key(), "error", err)
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		r.remove(tenant, toolset, executor)
		return
	}
	next := &registration{executor: executor, heard: time.Now()}
	if err := subjects.Decode(e.Value(), &next.Registration); err != nil {
		r.log.Warn("registration ignored: its value is not readable", "key", e.Key(), "error", err)
		r.remove(tenant, toolset, executor)
		return
	}
	next.since, _ = time.Parse(time.RFC3339, next.Since)
	r.settleRevision(ctx, e, next, tenant, toolset)

	r.mu.Lock()
	defer r.mu.Unlock()
	toolsets := r.tenants[tenant]
	if toolsets == nil {
		toolsets = map[string]map[string]*registration{}
		r.tenants[tenant] = toolsets
	}
	executors := toolsets[toolset]
	if executors == nil {
		executors = map[string]*registration{}
		toolsets[toolset] = executors
	}
	last := executors[executor]
	if last == nil || !sameOffer(last, next) {
		r.version++
	}
	executors[executor] = next
}

// settleRevision finds out at which revision an executor came to its definitions.
func (r *registry) settleRevision(ctx context.Context, e jetstream.KeyValueEntry, next *registration, tenant, toolset string) {
	r.mu.RLock()
	last := r.tenants[tenant][toolset][next.executor]
	r.mu.RUnlock()
	switch {
	case last == nil || last.DefinitionsSHA256 != next.DefinitionsSHA256:
		claim := e.Revision()
		if next.Revision != 0 && next.Revision < claim {
			claim = next.Revision
		}
		next.revision = r.revisions.agree(ctx, e.Key(), next.DefinitionsSHA256, e.Revision(), claim)
		next.kept = time.Now()
	default:
		next.revision, next.kept = last.revision, last.kept
		if time.Since(next.kept) > renewAfter {
			r.revisions.renew(ctx, e.Key())
			next.kept = time.Now()
		}
	}
}

// sameOffer reports whether a heartbeat changed nothing that a session sees.
func sameOffer(a, b *registration) bool {
	a1, b1 := a.Registration, b.Registration
	a1.Revision, b1.Revision = 0, 0
	return a1 == b1 && a.revision == b.revision
}

func (r *registry) remove(tenant, toolset, executor string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.tenants[tenant][toolset][executor]; !ok {
		return
	}
	delete(r.tenants[tenant][toolset], executor)
	if len(r.tenants[tenant][toolset]) == 0 {
		delete(r.tenants[tenant], toolset)
	}
	if len(r.tenants[tenant]) == 0 {
		delete(r.tenants, tenant)
	}
	r.version++
}

// toolset is what the registry says of one toolset now.
type toolset struct {
	Name      string
	State     string // subjects.StateReady, StateConnecting or StateUnavailable
	Reason    string
	ToolCount int
	Blob      string
	SHA256    string
	Trusted   bool
	Revision  uint64
	Rivals    int // live executors that offer other definitions
	Executors int // live executors that offer these
}

// standing picks what stands among the executors of a toolset: of those that are
// ready the definitions with the oldest `since`; when none is ready, the reason
// of the oldest.
func (r *registry) standing(name string, executors map[string]*registration) (toolset, bool) {
	oldest := func(a, b *registration) int {
		switch {
		case a.since.IsZero() != b.since.IsZero():
			if a.since.IsZero() {
				return 1
			}
			return -1
		case !a.since.Equal(b.since):
			return a.since.Compare(b.since)
		}
		return strings.Compare(a.executor, b.executor)
	}
	var best *registration
	live := make([]*registration, 0, len(executors))
	now := time.Now()
	for _, e := range executors {
		if r.ttl > 0 && now.Sub(e.heard) > r.ttl {
			continue
		}
		live = append(live, e)
	}
	slices.SortFunc(live, oldest)
	for _, e := range live {
		ready := e.State == "" || e.State == subjects.StateReady
		if ready {
			best = e
			break
		}
		if best == nil {
			best = e
		}
	}
	if best == nil {
		return toolset{}, false
	}
	t := toolset{
		Name: name, State: best.State, Reason: best.Reason, ToolCount: best.ToolCount,
		Blob: best.Blob, SHA256: best.DefinitionsSHA256, Trusted: best.Trusted, Revision: best.revision,
	}
	if t.State == "" {
		t.State = subjects.StateReady
	}
	for _, e := range live {
		switch {
		case e.State != "" && e.State != subjects.StateReady:
		case e.DefinitionsSHA256 == best.DefinitionsSHA256:
			t.Executors++
			t.Trusted = t.Trusted && e.Trusted // hints count only when every executor that may run the tool is trusted
		default:
			t.Rivals++
		}
	}
	return t, true
}

// states counts the toolsets by their state.
func (r *registry) states() map[string]int {
	counts := map[string]int{subjects.StateReady: 0, subjects.StateConnecting: 0, subjects.StateUnavailable: 0}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, toolsets := range r.tenants {
		for name, executors := range toolsets {
			if t, ok := r.standing(name, executors); ok {
				counts[t.State]++
			}
		}
	}
	return counts
}

// find returns one live toolset of a tenant.
func (r *registry) find(tenant, name string) (toolset, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.standing(name, r.tenants[tenant][name])
}

// matching returns the live toolsets that a request names, each once, in the
// order of the request; a name with "*" stands for all that match it, sorted.
// missing are the plain names that no live executor offers.
func (r *registry) matching(tenant string, names []string) (found []toolset, missing []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	have := r.tenants[tenant]
	taken := map[string]bool{}
	take := func(name string) bool {
		if taken[name] {
			return true
		}
		t, ok := r.standing(name, have[name])
		if ok {
			taken[name] = true
			found = append(found, t)
		}
		return ok
	}
	for _, name := range names {
		if take(name) {
			continue
		}
		if !strings.Contains(name, "*") {
			if !taken[name] {
				taken[name] = true
				missing = append(missing, name)
			}
			continue
		}
		var all []string
		for n := range have {
			if subjects.MatchGlob(name, n) {
				all = append(all, n)
			}
		}
		slices.Sort(all)
		for _, n := range all {
			take(n)
		}
	}
	return found, missing
}

// stamp changes whenever an assembly from the registry could come out otherwise.
func (r *registry) stamp() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.version
}

// load returns the definitions of a toolset as the registry gives them, with the
// toolset's name in place of whatever they say themselves.
func (r *registry) load(ctx context.Context, t toolset) (*definitionSet, error) {
	return r.definitions.get(ctx, t.Name+"\x00"+t.Blob+"\x00"+t.SHA256, func(ctx context.Context) (*definitionSet, error) {
		blob, err := r.state.Blobs.Get(ctx, t.Blob)
		if err != nil {
			return nil, err
		}
		defs, warnings, err := catalog.Decode(blob, catalog.Limits{Tools: r.maxTools})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDefinitions, err)
		}
		for i := range defs {
			defs[i].Toolset, defs[i].Registry = t.Name, true
		}
		return &definitionSet{defs, warnings}, nil
	})
}

var errDefinitions = errors.New("the blob holds no definitions")

// lost tells a missing or unreadable blob, which only the toolset's executor can
// mend, from a store that can not be reached.
func lost(err error) bool {
	return errors.Is(err, state.ErrNotFound) || errors.Is(err, state.ErrTooLarge) || errors.Is(err, errDefinitions)
}
