package worker

import (
	"context"
	"fmt"

	"toolbridge/catalog"
	"toolbridge/subjects"
	"toolbridge/worker/call"
)

// bridge answers …bridge: a bridge tool as the model called it.
func (w *Worker) bridge(ctx context.Context, q *request) ([]byte, error) {
	r, l, s, err := w.readBridge(ctx, q)
	if err != nil {
		return nil, err
	}
	var result []byte
	var isError bool
	switch r.Name {
	case catalog.ToolSearch:
		return w.search(ctx, q, r, l, s)
	case catalog.ToolDescribe:
		result, isError = w.describe(ctx, q, r.Arguments, l, s)
	case catalog.ToolCall:
		return w.run(ctx, q, r, l, s)
	case catalog.ManageConnections:
		if !manages(l) {
			result, isError = l.catalog.Answer(r.Name), true
			break
		}
		return w.run(ctx, q, r, l, s)
	default:
		result, isError = l.catalog.Answer(r.Name), true
	}
	return subjects.Encode(subjects.BridgeReply{ID: r.ID, Name: r.Name, IsError: isError, Result: result})
}

// run stores a call and waits for its result.
func (w *Worker) run(ctx context.Context, q *request, r *subjects.BridgeRequest, l *loaded, s *scope) ([]byte, error) {
	ctx, cancel := w.waiting(ctx, q)
	defer cancel()
	c := w.callOf(ctx, q, r, l, s)
	c.Stored = func() {
		q.place.move(w.waits) // waiting for a person is not work
		q.body = nil
	}
	return w.calls.Run(ctx, c)
}

// search answers a tool_search in lent buffers, which the request gives back once
// its reply is sent.
func (w *Worker) search(ctx context.Context, q *request, r *subjects.BridgeRequest, l *loaded, s *scope) ([]byte, error) {
	w.indexed(l)
	var o catalog.SearchOptions
	if w.directory != nil && l.catalog.Connectors() {
		o = w.hosted(ctx, q, r.Arguments, l, s)
	}
	payload, reply := w.buffers.lend(), w.buffers.lend()
	var result []byte
	var isError bool
	w.rank(ctx, func(found *catalog.SearchStats) {
		o.Stats = found
		result, isError = l.catalog.AppendSearch((*payload)[:0], r.Arguments, o)
	})
	body, err := subjects.AppendEncode((*reply)[:0], &subjects.BridgeReply{ID: r.ID, Name: r.Name, IsError: isError, Result: result})
	q.sent = func() {
		w.buffers.giveBack(payload, result)
		w.buffers.giveBack(reply, body)
	}
	return body, err
}

// readBridge reads a request and finds the catalog that it means.
func (w *Worker) readBridge(ctx context.Context, q *request) (*subjects.BridgeRequest, *loaded, *scope, error) {
	r := new(subjects.BridgeRequest)
	if err := subjects.Decode(q.body, r); err != nil {
		return nil, nil, nil, unreadable(err)
	}
	if err := subjects.CheckToken("id", r.ID); err != nil {
		return nil, nil, nil, subjects.NewError(subjects.CodeBadRequest, err.Error())
	}
	if q.Verb == subjects.VerbBridge {
		q.bridged(r.Name)
	}
	if r.Name == "" {
		return nil, nil, nil, subjects.NewError(subjects.CodeBadRequest, "name is missing: the tool that the model called")
	}
	l, s, err := w.catalogOf(ctx, q, r)
	return r, l, s, err
}

// catalogOf finds the catalog that a request means, in the session's scope. Only
// tool_search by reference goes by the watched copy of grants, see the package's
// promises; and not where that copy leaves nothing of a catalog from the registry:
// the session had a grant when it assembled, which the watch may still have to bring.
func (w *Worker) catalogOf(ctx context.Context, q *request, r *subjects.BridgeRequest) (*loaded, *scope, error) {
	byReference := r.Name == catalog.ToolSearch && r.Catalog != ""
	s := w.grants.known(q.Tenant, q.Session)
	if byReference { // the usual case needs no clock
		if l, ok := w.catalogs.ready(q.Tenant, q.Session, r.Catalog); ok && (s.open() || !l.content.registry()) {
			return l.within(&s), &s, nil
		}
	}
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	if !byReference || !s.open() {
		var err error
		if s, err = w.grants.fresh(ctx, q.Tenant, q.Session); err != nil {
			return nil, nil, err
		}
	}
	if r.Catalog != "" {
		l, err := w.catalogs.open(ctx, q.Tenant, q.Session, r.Catalog, w.cfg.MaxTools)
		if err != nil {
			return nil, nil, err
		}
		return l.within(&s), &s, nil
	}
	if !subjects.Present(r.Tools) && len(r.Toolsets) == 0 {
		return nil, nil, subjects.NewError(subjects.CodeBadRequest, "the request names no catalog: send the reference that assemble gave, or tools or toolsets")
	}
	body, err := subjects.Encode(r.AssembleRequest)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the inline catalog: %w", err)
	}
	a, err := w.assembly(ctx, q.Tenant, body, &r.AssembleRequest, &s, nil)
	if err != nil {
		return nil, nil, err
	}
	return a.loaded, &s, nil
}

// waiting is the context of a request that waits for a call's result. The
// requester's deadline bounds the reply only: the call goes on.
func (w *Worker) waiting(ctx context.Context, q *request) (context.Context, context.CancelFunc) {
	if q.deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, q.deadline)
}

func (w *Worker) callOf(ctx context.Context, q *request, r *subjects.BridgeRequest, l *loaded, s *scope) call.Call {
	c := call.Call{
		Tenant: q.Tenant, Session: q.Session, ID: r.ID, Arguments: r.Arguments, Trace: q.trace, Caller: q.caller,
		CatalogHash: l.hex, Catalog: l.catalog, Trusted: l.content.trusted, User: s.user(), Approval: s.approval(),
		Live: w.liveIn(q.Tenant), Connectors: w.connected(ctx, q.Tenant, l, s),
	}
	if r.Name != catalog.ToolCall {
		c.Direct = r.Name
	}
	return c
}

// liveIn is what the call path asks of a tenant's registry before it accepts.
func (w *Worker) liveIn(tenant string) func(string) (call.Live, bool) {
	return func(name string) (call.Live, bool) {
		t, ok := w.registry.find(tenant, name)
		return call.Live{State: t.State, Reason: t.Reason}, ok
	}
}
