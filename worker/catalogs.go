package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/catalog"
	"toolbridge/state"
	"toolbridge/subjects"
)

// loaded is one catalog in memory, shared by every session that has it.
type loaded struct {
	hex     string
	content *content
	catalog *catalog.Catalog
	bytes   int64 // of its content

	mu     sync.Mutex
	narrow map[[32]byte]*loaded // by scope; the value itself where a scope leaves nothing out
}

// weight estimates what a catalog holds: its definitions' bytes, and its index,
// which is built at the first search.
func (l *loaded) weight() int64 { return l.bytes*5/2 + 4096 }

func newLoaded(hex string, c *content, size int64) *loaded {
	return &loaded{hex: hex, content: c, catalog: catalog.New(c.Input), bytes: size}
}

// maxNarrow bounds the scopes whose part of one catalog is kept; a session with
// another scope has its part made again.
const maxNarrow = 64

// within is the part of a catalog that a scope leaves.
func (l *loaded) within(s *scope) *loaded {
	if s.unbounded && len(s.chain) == 0 {
		return l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if part, ok := l.narrow[s.print]; ok {
		return part
	}
	part := l
	kept, unavailable := s.filter(l.content.Input.Definitions), s.sources(l.content)
	if len(kept) != len(l.content.Input.Definitions) || len(unavailable) != len(l.content.Input.Unavailable) {
		c := &content{Header: l.content.Header, Input: l.content.Input}
		c.Input.Definitions, c.Input.Unavailable = kept, unavailable
		part = newLoaded(l.hex, c, l.bytes)
	}
	if l.narrow == nil {
		l.narrow = map[[32]byte]*loaded{}
	}
	if len(l.narrow) >= maxNarrow {
		clear(l.narrow)
	}
	l.narrow[s.print] = part
	return part
}

// catalogs keeps catalog content in the object store under its hash, with a
// binding per session, and what is used in memory.
type catalogs struct {
	state   *state.State
	log     *slog.Logger
	memory  *onceCache[*loaded]
	packing *packing
	making  func(ctx context.Context, kind string) (context.Context, func(error))

	mu    sync.Mutex
	bound map[string]time.Time // binding key → when this worker last refreshed it
}

func newCatalogs(st *state.State, bytes int64, p *packing, log *slog.Logger) *catalogs {
	return &catalogs{
		state: st, log: log, packing: p,
		memory: newOnceCache(bytes, (*loaded).weight),
		bound:  map[string]time.Time{},
		making: func(ctx context.Context, _ string) (context.Context, func(error)) { return ctx, func(error) {} },
	}
}

const (
	// refreshAfter is how old a binding's last refresh may be before a use
	// refreshes it. Together with the bucket's TTL of 25 hours a binding lasts
	// 24 hours from its last use.
	refreshAfter = time.Hour
	// maxBound bounds the bindings that a worker remembers.
	maxBound = 200_000
	prefix   = "sha256:"
)

// store binds content to the session and keeps it. The binding comes before the
// look whether it is kept: what is bound is not swept, and what was put within the
// hour is not either.
func (c *catalogs) store(ctx context.Context, tenant, session string, a *assembled) error {
	key := subjects.BindingKey(tenant, session, a.hex)
	if c.fresh(key) {
		return nil
	}
	if err := c.bind(ctx, key, a.hex); err != nil {
		return err
	}
	if time.Since(a.stored) < refreshAfter {
		return nil
	}
	if _, err := c.put(ctx, a.hex, a.encoded); err != nil {
		c.forget(key)
		return storing(err)
	}
	return nil
}

// put keeps content under its hash, packed where that is worth it, and says
// whether it was absent. What was put now is not swept for a day; what was there
// may be, until a session is bound to it.
func (c *catalogs) put(ctx context.Context, hex string, encoded []byte) (absent bool, err error) {
	packed := encoded
	if len(encoded) >= minPackedContent {
		if small, err := c.packing.pack(subjects.EncodingZstd, encoded); err == nil && len(small) < len(encoded) {
			packed = small
		}
	}
	return c.state.Catalogs.PutNamed(ctx, hex, packed)
}

// minPackedContent is the size from which content is kept packed.
const minPackedContent = 16 << 10

// zstdMagic begins every zstd frame; content itself begins with "{".
const zstdMagic = "\x28\xb5\x2f\xfd"

// get returns content by its hash.
func (c *catalogs) get(ctx context.Context, hex string) ([]byte, error) {
	data, err := c.state.Catalogs.Get(ctx, hex)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(string(data[:min(4, len(data))]), zstdMagic) {
		if data, err = c.packing.unzstd(data, maxContent); err != nil {
			return nil, fmt.Errorf("%w: object %s can not be unpacked: %w", errContent, hex, err)
		}
	}
	if hash(data) != hex {
		return nil, fmt.Errorf("%w: object %s has other bytes than its name says", errContent, hex)
	}
	return data, nil
}

// maxContent bounds content when it is unpacked.
const maxContent = 256 << 20

func (c *catalogs) bind(ctx context.Context, key, hex string) error {
	value, err := subjects.Encode(subjects.Binding{Catalog: prefix + hex, At: time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return fmt.Errorf("binding a catalog: %w", err)
	}
	if _, err := c.state.Bindings.Put(ctx, key, value); err != nil {
		return storing(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bound) >= maxBound {
		clear(c.bound)
	}
	c.bound[key] = time.Now()
	return nil
}

// fresh reports whether this worker refreshed the binding within refreshAfter.
func (c *catalogs) fresh(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.bound[key]
	return ok && time.Since(at) < refreshAfter
}

func (c *catalogs) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.bound, key)
}

// storing is the error for content that could not be kept.
func storing(err error) error {
	switch {
	case errors.Is(err, state.ErrTooLarge):
		return subjects.NewError(subjects.CodeTooLarge, "storing the catalog: "+err.Error())
	case state.Full(err):
		e := subjects.NewError(subjects.CodeBusy, "storing the catalog: the store is full: "+err.Error())
		e.RetryAfterMS = 1000
		return e
	}
	return unavailable("storing the catalog", err)
}

func unknownCatalog(ref string) error {
	return subjects.NewError(subjects.CodeUnknownCatalog,
		fmt.Sprintf("catalog %.80q is not one that this session assembled in the last 24 hours: assemble again", ref))
}

// open returns a catalog that the session assembled. A binding that this worker
// has not seen is read from the store, at last from its leader.
func (c *catalogs) open(ctx context.Context, tenant, session, ref string, maxTools int) (*loaded, error) {
	hex, ok := strings.CutPrefix(ref, prefix)
	if !ok || !isHash(hex) {
		return nil, unknownCatalog(ref)
	}
	key := subjects.BindingKey(tenant, session, hex)
	if !c.fresh(key) {
		if err := c.rebind(ctx, key, hex, ref); err != nil {
			return nil, err
		}
	}
	l, err := c.memory.get(ctx, hex, func(ctx context.Context) (_ *loaded, err error) {
		ctx, made := c.making(ctx, "load")
		defer func() { made(err) }()
		data, err := c.get(ctx, hex)
		if err != nil {
			return nil, err
		}
		content, err := decodeContent(data, maxTools)
		if err != nil {
			return nil, err
		}
		return newLoaded(hex, content, int64(len(data))), nil
	})
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, state.ErrNotFound), errors.Is(err, errContent):
		c.forget(key)
		c.log.Error("a bound catalog can not be read", "tenant", tenant, "session", session, "catalog", hex, "error", err)
		return nil, unknownCatalog(ref)
	}
	return nil, unavailable("reading the catalog", err)
}

// ready returns a catalog that open would return without a word to the store.
func (c *catalogs) ready(tenant, session, ref string) (*loaded, bool) {
	hex, ok := strings.CutPrefix(ref, prefix)
	if !ok || !c.fresh(subjects.BindingKey(tenant, session, hex)) {
		return nil, false
	}
	return c.memory.has(hex)
}

// rebind checks that the session has the binding and makes it last from now.
func (c *catalogs) rebind(ctx context.Context, key, hex, ref string) error {
	_, err := c.state.Bindings.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		_, _, err = c.state.GetFresh(ctx, subjects.BucketBindings, key)
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return unknownCatalog(ref)
	}
	if err != nil {
		return unavailable("reading the session's catalogs", err)
	}
	return c.bind(ctx, key, hex)
}

func isHash(hex string) bool {
	if len(hex) != 64 {
		return false
	}
	for i := range len(hex) {
		if c := hex[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
