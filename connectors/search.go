package connectors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// Bounds of what a Directory does; see DirectoryConfig for what can be set.
const (
	standardKeep    = 5 * time.Second
	standardKept    = 16 << 20
	standardAbandon = 8 * time.Second
	standardWait    = time.Second
	searchWithin    = 35 * time.Second // one search with the breaker's question; the client's own limit is 30 s
	maxSearches     = 1024             // different searches under way at once
	maxLoggedSlugs  = 5
)

// DirectoryConfig is how a Directory asks the gateway.
type DirectoryConfig struct {
	// Keep is how long an answer is used again for the same queries of the same
	// tenant and user; 0 means 5 s, less than 0 not at all.
	Keep time.Duration
	// KeptBytes bounds the answers that are kept; 0 means 16 MiB.
	KeptBytes int64
	// Abandon is how long a search that nobody waits for any more may still take, so
	// that its answer is there for the next one; 0 means 8 s. A gateway that has not
	// answered then counts as one that timed out.
	Abandon time.Duration
	// Logger; nil means slog.Default.
	Logger *slog.Logger
}

// Directory finds and describes the gateway's tools. Searches with the same
// queries of one tenant and user that are under way at the same time are asked
// once, and their answer is kept briefly; one that goes away ends nothing for the
// others. A gateway that fails costs nothing but its own tools, and the answer says
// so in a notice. It is safe for many goroutines.
type Directory struct {
	gateway *Gateway
	cfg     DirectoryConfig
	base    context.Context // ends at Stop
	cancel  context.CancelFunc
	owned   sync.WaitGroup

	mu      sync.Mutex
	flights map[string]*flight
	kept    *answers
	stopped bool
}

// NewDirectory makes a Directory on a gateway. It sends nothing.
func NewDirectory(cfg DirectoryConfig, g *Gateway) *Directory {
	if cfg.Keep == 0 {
		cfg.Keep = standardKeep
	}
	if cfg.KeptBytes == 0 {
		cfg.KeptBytes = standardKept
	}
	if cfg.Abandon == 0 {
		cfg.Abandon = standardAbandon
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	d := &Directory{gateway: g, cfg: cfg, flights: map[string]*flight{}, kept: newAnswers(cfg.Keep, cfg.KeptBytes)}
	d.base, d.cancel = context.WithCancel(context.Background())
	return d
}

// Stop ends the searches under way and waits for them. It may be called twice.
func (d *Directory) Stop() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.cancel()
	d.owned.Wait()
}

// Available reports whether connectors exist for a user; see Gateway.Available.
func (d *Directory) Available(ctx context.Context, who Who) bool {
	return d.gateway.Available(ctx, who)
}

// Wait is how long an answer with local matches waits for the gateway.
func (d *Directory) Wait() time.Duration {
	if w := d.gateway.Config().SearchWait; w > 0 {
		return w
	}
	return standardWait
}

// Found is what the gateway found for the queries of one search. It is shared: who
// gets it changes nothing in it.
type Found struct {
	// Groups holds the tools of each query, in its order; it may be shorter.
	Groups [][]catalog.Remote
	// Notice says why there are none, nil where there is nothing to say.
	Notice *subjects.ConnectorsNotice
}

// weight estimates the bytes that a Found holds.
func (f *Found) weight() int64 {
	n := int64(256)
	for _, group := range f.Groups {
		for i := range group {
			r := &group[i]
			n += 256 + int64(len(r.Document.Name)+len(r.Document.Text)+len(r.Document.Description)+len(r.Description)+len(r.SourceName))
			for _, p := range r.Required {
				n += 16 + int64(len(p))
			}
		}
	}
	return n
}

// flight is one request on its way, and those who wait for it.
type flight struct {
	key     string
	done    chan struct{} // closed when found is set
	found   *Found
	waiting int
	cancel  context.CancelCauseFunc
	unstop  func() bool // so that Stop does not cancel it any more
	idle    *time.Timer // runs while nobody waits
}

// errAbandoned ends a search that nobody waits for any more.
var errAbandoned = errors.New("nobody waits for this search any more")

// Asked is a search that one caller waits for.
type Asked struct {
	d     *Directory
	f     *flight // nil: found is known
	found *Found
}

// Search asks for tools, for at most MaxUseCases queries, and returns at once; Wait
// brings what was found. With the breaker open nothing is asked. Who asks must
// Leave in the end. The request carries ctx's values, of whoever asks first, and
// does not end with it.
func (d *Directory) Search(ctx context.Context, who Who, queries []string) *Asked {
	if state, after := d.gateway.Breakers.State(who.Tenant); state == StateOpen && after > 0 {
		return &Asked{found: &Found{Notice: unreachable()}}
	}
	queries = queries[:min(len(queries), MaxUseCases)]
	key := searchKey(who, queries)
	d.mu.Lock()
	defer d.mu.Unlock()
	if found, ok := d.kept.get(key, time.Now()); ok {
		return &Asked{found: found}
	}
	f, ok := d.flights[key]
	if !ok {
		if d.stopped || len(d.flights) >= maxSearches {
			d.cfg.Logger.Debug("hosted tools are not searched: too many searches are under way, or the worker stops", "tenant", who.Tenant)
			return &Asked{found: &Found{Notice: unreachable()}}
		}
		f = &flight{key: key, done: make(chan struct{})}
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		f.cancel = cancel
		f.unstop = context.AfterFunc(d.base, func() { cancel(context.Canceled) })
		d.flights[key] = f
		queries = append([]string(nil), queries...)
		d.owned.Go(func() { d.fly(ctx, f, who, queries) })
	}
	f.waiting++
	if f.idle != nil {
		f.idle.Stop()
		f.idle = nil
	}
	return &Asked{d: d, f: f}
}

// searchKey tells searches apart. Tenants and users hold no "/".
func searchKey(who Who, queries []string) string {
	var b strings.Builder
	b.WriteString(who.Tenant)
	b.WriteByte('/')
	b.WriteString(who.User)
	for _, q := range queries {
		b.WriteByte('/')
		b.WriteString(strconv.Itoa(len(q)))
		b.WriteByte(':')
		b.WriteString(q)
	}
	return b.String()
}

// Known is what was found where that is known already.
func (a *Asked) Known() (*Found, bool) {
	if a.f == nil {
		return a.found, true
	}
	select {
	case <-a.f.done:
		return a.f.found, true
	default:
		return nil, false
	}
}

// Wait waits for the gateway, until ctx ends at the longest. What it did not
// answer by then is missing, and the notice says so.
func (a *Asked) Wait(ctx context.Context) *Found {
	if found, ok := a.Known(); ok {
		return found
	}
	select {
	case <-a.f.done:
		return a.f.found
	case <-ctx.Done():
		return &Found{Notice: unreachable()}
	}
}

// Leave says that the caller waits no more. It may be called twice.
func (a *Asked) Leave() {
	f := a.f
	if f == nil {
		return
	}
	d := a.d
	a.f, a.found = nil, &Found{Notice: unreachable()}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.waiting--
	if f.waiting > 0 || d.flights[f.key] != f {
		return
	}
	f.idle = time.AfterFunc(d.cfg.Abandon, func() { d.abandon(f) })
}

// abandon ends a search, unless somebody has come to wait for it again.
func (d *Directory) abandon(f *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.waiting == 0 {
		f.cancel(errAbandoned)
	}
}

// fly makes one request and hands its outcome to those who wait.
func (d *Directory) fly(ctx context.Context, f *flight, who Who, queries []string) {
	ctx, cancel := context.WithTimeout(ctx, searchWithin)
	defer cancel()
	found, keep := &Found{Notice: unreachable()}, false
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Logger.Error("reading what the gateway found failed", "tenant", who.Tenant, "panic", p, "stack", string(debug.Stack()))
		}
		f.unstop()
		f.cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.flights, f.key)
		if f.idle != nil {
			f.idle.Stop()
		}
		if keep && d.cfg.Keep > 0 {
			d.kept.put(f.key, found, time.Now())
		}
		f.found = found
		close(f.done)
	}()
	found, keep = d.searchGateway(ctx, who, queries)
}

// searchGateway is the remote leg of a search: one request, through the breaker.
// answered is false when there was no answer to keep.
func (d *Directory) searchGateway(ctx context.Context, who Who, queries []string) (found *Found, answered bool) {
	done, refused := d.gateway.Breakers.Allow(ctx, who.Tenant)
	if refused != nil {
		return &Found{Notice: noticeOf(refused)}, false
	}
	request := SearchRequest{Queries: make([]UseCase, len(queries))}
	for i, q := range queries {
		request.Queries[i].UseCase = q
	}
	reply, err := d.gateway.Client.Search(ctx, who, request)
	done(d.outcome(ctx, err))
	if err != nil {
		d.cfg.Logger.Debug("hosted tools are missing from a search", "tenant", who.Tenant, "queries", len(queries), "error", err)
		return &Found{Notice: noticeOf(err)}, false
	}
	groups, twins := readGroups(reply, queries)
	if len(twins) > 0 {
		d.cfg.Logger.Warn("hosted tools are left out: other tools have the same name, and that name would run those",
			"tenant", who.Tenant, "count", len(twins), "slugs", twins[:min(len(twins), maxLoggedSlugs)])
	}
	return &Found{Groups: groups}, true
}

// outcome is what the breaker learns of a search. That it was given up after a long
// silence counts as a time-out, though it was us who ended it.
func (d *Directory) outcome(ctx context.Context, err error) error {
	if f, ok := AsFailure(err); ok && f.Kind == KindCancelled && errors.Is(context.Cause(ctx), errAbandoned) {
		return &Failure{Kind: KindTimeout, Sent: f.Sent, Message: fmt.Sprintf("no answer to a search, which was given up %s after its last caller had gone", d.cfg.Abandon), err: context.DeadlineExceeded}
	}
	return err
}
