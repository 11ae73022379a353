package worker

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// changes knows what the sessions that this worker assembled for were shown, and
// tells them when a toolset's definitions are others by now, or one that they asked
// for has come. It is a courtesy, as every event is: a session of a worker that was
// lost is not told, and one that assembled elsewhere since may be told of a catalog
// that it has left.
type changes struct {
	nc       *nats.Conn
	space    subjects.Space
	registry *registry
	grants   *grants
	log      *slog.Logger

	mu       sync.Mutex
	tenants  map[string]map[string]shown // by session
	sessions int
}

// shown is what one session was last shown.
type shown struct {
	*view
	at   time.Time
	told string // toolset and hash of the last event, so that rivals that come and go tell once
}

// view is what one assembly took of the registry; sessions share it.
type view struct {
	catalog string                   // reference
	hashes  map[string]string        // toolset to the hash of its definitions
	asked   subjects.AssembleRequest // which toolsets
}

func newView(hex string, c *content, r *subjects.AssembleRequest) *view {
	v := &view{catalog: prefix + hex, hashes: map[string]string{}, asked: subjects.AssembleRequest{
		Toolsets: r.Toolsets, EnabledToolsets: r.EnabledToolsets, DisabledToolsets: r.DisabledToolsets,
	}}
	for _, r := range c.Header.Runs {
		if r.Toolset != "" {
			v.hashes[r.Toolset] = r.SHA256
		}
	}
	return v
}

const (
	// maxShown bounds the sessions that a worker remembers for this.
	maxShown = 100_000
	// shownFor is as long as a binding lasts.
	shownFor = 24 * time.Hour
)

func newChanges(nc *nats.Conn, space subjects.Space, r *registry, g *grants, log *slog.Logger) *changes {
	return &changes{nc: nc, space: space, registry: r, grants: g, log: log, tenants: map[string]map[string]shown{}}
}

// note remembers what a session is shown from now on.
func (c *changes) note(tenant, session string, v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(v.asked.Toolsets) == 0 {
		c.drop(tenant, session)
		return
	}
	sessions := c.tenants[tenant]
	if sessions == nil {
		sessions = map[string]shown{}
		c.tenants[tenant] = sessions
	}
	if _, known := sessions[session]; !known {
		if c.sessions >= maxShown {
			c.room()
		}
		c.sessions++
	}
	sessions[session] = shown{view: v, at: time.Now()}
}

func (c *changes) drop(tenant, session string) {
	if _, known := c.tenants[tenant][session]; !known {
		return
	}
	c.sessions--
	delete(c.tenants[tenant], session)
	if len(c.tenants[tenant]) == 0 {
		delete(c.tenants, tenant)
	}
}

// room forgets a tenth of what is remembered, whichever it meets first.
func (c *changes) room() {
	left := maxShown / 10
	for tenant, sessions := range c.tenants {
		for session := range sessions {
			c.drop(tenant, session)
			if left--; left <= 0 {
				return
			}
		}
	}
}

// toolset tells the sessions of a tenant to which it matters that a toolset has
// other definitions than they were shown.
func (c *changes) toolset(tenant, name string) {
	now, live := c.registry.find(tenant, name)
	if !live || now.State != subjects.StateReady {
		return // what is gone for a while is told at the call
	}
	for session, v := range c.concerned(tenant, name, now.SHA256) {
		s := c.grants.known(tenant, session)
		if !s.allows(&catalog.Definition{Toolset: name, Registry: true}) && v.hashes[name] == "" {
			continue
		}
		c.tell(tenant, session, subjects.Event{
			Type: subjects.EventCatalogChanged, At: time.Now().UTC().Format(time.RFC3339Nano),
			Catalog: v.catalog, Toolset: name, RegistryRevision: now.Revision,
		})
	}
}

// concerned picks the sessions that have not seen this hash, and marks them told.
func (c *changes) concerned(tenant, name, hash string) map[string]*view {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]*view{}
	for session, s := range c.tenants[tenant] {
		if time.Since(s.at) > shownFor {
			c.drop(tenant, session)
			continue
		}
		if s.hashes[name] == hash || s.told == name+" "+hash || !asksFor(&s.asked, name) {
			continue
		}
		s.told = name + " " + hash
		c.tenants[tenant][session] = s
		found[session] = s.view
	}
	return found
}

// asksFor reports whether an assembly is about a toolset.
func asksFor(r *subjects.AssembleRequest, name string) bool {
	return toolsetWanted(r, name) && slices.ContainsFunc(r.Toolsets, func(glob string) bool { return subjects.MatchGlob(glob, name) })
}

func (c *changes) tell(tenant, session string, e subjects.Event) {
	body, err := subjects.Encode(e)
	if err == nil {
		err = c.nc.PublishMsg(&nats.Msg{
			Subject: c.space.Session(tenant, session, subjects.VerbEvent), Data: body,
			Header: nats.Header{subjects.HeaderKind: {subjects.KindEvent}},
		})
	}
	if err != nil {
		c.log.Debug("an event was not sent", "session", session, "type", string(e.Type), "error", err)
	}
}
