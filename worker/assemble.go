package worker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// assembled is the outcome of one assembly, before it is bound to a session.
type assembled struct {
	hex     string
	encoded []byte // content, as it is stored
	reply   []byte
	loaded  *loaded
	view    *view
	sizes   sizes
	stored  time.Time // when this worker put the content into the store; zero when it did not
}

func (a *assembled) weight() int64 { return int64(len(a.encoded)+len(a.reply)) + a.loaded.weight() }

// assemble answers …assemble.
func (w *Worker) assemble(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	s, err := w.grants.fresh(ctx, q.Tenant, q.Session)
	if err != nil {
		return nil, err
	}
	a, err := w.assembly(ctx, q.Tenant, q.body, nil, &s, w.catalogs.put)
	if err != nil {
		return nil, err
	}
	if err := w.catalogs.store(ctx, q.Tenant, q.Session, a); err != nil {
		return nil, err
	}
	w.changes.note(q.Tenant, q.Session, a.view)
	w.countAssembly(q, a)
	return a.reply, nil
}

// assembly makes, or finds, the catalog of a request in one session's scope. The
// same bytes in the same scope with the same registry are answered from memory.
// parsed may be nil; then the body is read when it must be. put, which may be nil,
// keeps new content while the rest of the work goes on.
func (w *Worker) assembly(ctx context.Context, tenant string, body []byte, parsed *subjects.AssembleRequest, s *scope, put putContent) (*assembled, error) {
	h := sha256.New()
	var fixed [8]byte
	binary.LittleEndian.PutUint64(fixed[:], w.registry.stamp())
	h.Write(fixed[:])
	h.Write(s.print[:])
	connected := mayAsk(body) && w.connectorsFor(ctx, tenant, s)
	if connected {
		h.Write([]byte{1})
	}
	h.Write([]byte(tenant))
	h.Write([]byte{0})
	h.Write(body)
	a, err := w.assemblies.get(ctx, string(h.Sum(nil)), func(ctx context.Context) (_ *assembled, err error) {
		ctx, made := w.making(ctx, "assembly")
		defer func() { made(err) }()
		if parsed == nil {
			if parsed, err = readAssemble(body); err != nil {
				return nil, err
			}
		}
		select {
		case w.building <- struct{}{}:
			defer func() { <-w.building }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		a, err := w.build(ctx, tenant, parsed, s, connected, put)
		if err != nil {
			return nil, err
		}
		// Searches by reference find the same value.
		a.loaded, err = w.catalogs.memory.get(ctx, a.hex, func(context.Context) (*loaded, error) { return a.loaded, nil })
		return a, err
	})
	if isContextError(err) {
		return nil, subjects.NewError(subjects.CodeDeadlineExceeded, "the assembly took longer than the request may")
	}
	return a, err
}

// readAssemble reads a request. Where something nests deeper than any reader goes,
// that value is cut, so that the rest can be read.
func readAssemble(body []byte) (*subjects.AssembleRequest, error) {
	r := new(subjects.AssembleRequest)
	err := subjects.Decode(body, r)
	if err != nil {
		if flat, cut := shallow(body, maxLevels); cut {
			r = new(subjects.AssembleRequest)
			err = subjects.Decode(flat, r)
		}
	}
	if err != nil {
		return nil, subjects.NewError(subjects.CodeBadRequest, "the request is not readable: "+err.Error())
	}
	return r, nil
}

// build makes the catalog of a request from scratch. connected says that connectors
// are available to the session.
func (w *Worker) build(ctx context.Context, tenant string, r *subjects.AssembleRequest, s *scope, connected bool, put putContent) (*assembled, error) {
	if err := checkAssemble(r); err != nil {
		return nil, err
	}
	warnings := []subjects.Warning{}
	var own []catalog.Definition
	if subjects.Present(r.Tools) {
		defs, warned, err := catalog.Decode(r.Tools, catalog.Limits{Tools: w.cfg.MaxTools})
		if err != nil {
			return nil, subjects.NewError(subjects.CodeBadRequest, "tools: "+err.Error())
		}
		own, warnings = defs, append(warnings, warned...)
	}
	cfg, warned := w.settings.With(r.Config)
	warnings = append(warnings, warned...)

	g := gathering{warnings: warnings, names: map[string]bool{}, connectors: connected, surface: r.Surface, keep: func(d *catalog.Definition) bool {
		return toolsetWanted(r, d.Toolset) && s.allows(d)
	}}
	g.add(own, run{})
	revision, err := w.fromRegistry(ctx, tenant, r, s, &g)
	if err != nil {
		return nil, err
	}
	if r.RegistryRevision != nil && *r.RegistryRevision != revision {
		return nil, subjects.NewError(subjects.CodeUnknownCatalog, fmt.Sprintf(
			"registry revision %d is gone: the toolsets are at %d; assemble without the pin", *r.RegistryRevision, revision))
	}
	in := catalog.Input{
		Definitions: g.defs, Config: cfg, Dialect: dialectOf(r, own),
		Unavailable: g.unavailable, Connectors: g.asked, ConnectOnly: r.Surface == subjects.SurfaceSide,
	}
	if r.ContextLength != nil {
		in.ContextLength = *r.ContextLength
	}
	settings, err := cfg.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("writing the catalog's settings: %w", err)
	}
	c := &content{Input: in, Header: contentHeader{
		Version: contentVersion, Tenant: tenant, Config: settings, ContextLength: in.ContextLength,
		Dialect: in.Dialect, Surface: r.Surface, Connectors: g.asked, Unavailable: in.Unavailable, Hidden: g.hidden, Runs: g.runs,
	}}
	a, err := finish(ctx, c, g.warnings, revision, put)
	if err != nil {
		return nil, err
	}
	a.view = newView(a.hex, c, r)
	return a, nil
}

// putContent is catalogs.put.
type putContent func(ctx context.Context, hex string, encoded []byte) (absent bool, err error)

// finish encodes the content and names it, has it kept, and meanwhile assembles
// what a model sees.
func finish(ctx context.Context, c *content, warnings []subjects.Warning, revision uint64, put putContent) (*assembled, error) {
	encoded, err := c.encode()
	if err != nil {
		return nil, err
	}
	a := &assembled{hex: hash(encoded), encoded: encoded}
	var kept sync.WaitGroup
	var putErr error
	if put != nil {
		kept.Go(func() {
			var absent bool
			if absent, putErr = put(ctx, a.hex, encoded); absent {
				a.stored = time.Now()
			}
		})
	}
	asm := catalog.Assemble(c.Input)
	kept.Wait()
	if putErr != nil {
		return nil, storing(putErr)
	}
	a.loaded = newLoaded(a.hex, c, int64(len(encoded)))
	a.sizes = sizesOf(&asm, len(c.Input.Definitions))
	tools := make([]json.RawMessage, len(asm.Tools))
	for i, t := range asm.Tools {
		tools[i] = t
	}
	a.reply, err = subjects.Encode(subjects.AssembleReply{
		Catalog: prefix + a.hex, RegistryRevision: revision,
		Activated: asm.Activated, Tier: asm.Tier, ListingForm: asm.ListingForm,
		DeferredCount: asm.DeferredCount, DeferredTokens: asm.DeferredTokens,
		ListingTokens: asm.ListingTokens, ListingBudgetTokens: asm.ListingBudgetTokens,
		Tools: tools, Warnings: append(warnings, asm.Warnings...),
	})
	if err != nil {
		return nil, fmt.Errorf("writing the assembly: %w", err)
	}
	return a, nil
}

func checkAssemble(r *subjects.AssembleRequest) error {
	bad := func(format string, args ...any) error {
		return subjects.NewError(subjects.CodeBadRequest, fmt.Sprintf(format, args...))
	}
	if !subjects.Present(r.Tools) && len(r.Toolsets) == 0 {
		return bad("the request has neither tools (an array of definitions) nor toolsets (names from the registry): give at least one")
	}
	if !slices.Contains([]string{"", "desktop", "tui", "cli", "messaging", "scheduled", "side"}, r.Surface) {
		return bad("surface %.40q is not known: desktop, tui, cli, messaging, scheduled or side", r.Surface)
	}
	if r.Dialect != "" && !slices.Contains([]string{"openai", "responses", "anthropic", "mcp"}, r.Dialect) {
		return bad("dialect %.40q is not known: openai, responses, anthropic or mcp", r.Dialect)
	}
	return nil
}

func dialectOf(r *subjects.AssembleRequest, own []catalog.Definition) catalog.Dialect {
	switch {
	case r.Dialect != "":
		return catalog.Dialect(r.Dialect)
	case len(own) > 0:
		return own[0].Dialect
	}
	return catalog.OpenAI
}

// toolsetWanted applies the request's own filters. Tools without a toolset are
// not touched by them.
func toolsetWanted(r *subjects.AssembleRequest, toolset string) bool {
	if toolset == "" {
		return true
	}
	if slices.Contains(r.DisabledToolsets, toolset) {
		return false
	}
	return r.EnabledToolsets == nil || slices.Contains(r.EnabledToolsets, toolset)
}
