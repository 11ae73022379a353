package worker

import (
	"context"
	"fmt"

	"toolbridge/catalog"
	"toolbridge/subjects"
	"toolbridge/worker/call"
)

// maxPreflight bounds the names of one preflight.
const maxPreflight = 1000

// preflight answers …preflight: could these tools be called now, and if not why.
func (w *Worker) preflight(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	var r subjects.PreflightRequest
	if err := subjects.Decode(q.body, &r); err != nil {
		return nil, subjects.NewError(subjects.CodeBadRequest, "the request is not readable: "+err.Error())
	}
	if r.Catalog == "" {
		return nil, subjects.NewError(subjects.CodeBadRequest, "the request names no catalog: send the reference that assemble gave")
	}
	if len(r.Names) == 0 || len(r.Names) > maxPreflight {
		return nil, subjects.NewError(subjects.CodeBadRequest, fmt.Sprintf("names has %d entries: 1 to %d are expected", len(r.Names), maxPreflight))
	}
	s, err := w.grants.fresh(ctx, q.Tenant, q.Session)
	if err != nil {
		return nil, err
	}
	l, err := w.catalogs.open(ctx, q.Tenant, q.Session, r.Catalog, w.cfg.MaxTools)
	if err != nil {
		return nil, err
	}
	l = l.within(&s)
	connected := w.connected(ctx, q.Tenant, l, &s)
	out := subjects.PreflightReply{Tools: make(map[string]subjects.Preflight, len(r.Names))}
	for _, name := range r.Names {
		out.Tools[name] = w.preflightOne(ctx, call.Asker{Tenant: q.Tenant, Session: q.Session, User: s.user()}, name, l, &s, connected)
	}
	return subjects.Encode(out)
}

func (w *Worker) preflightOne(ctx context.Context, asker call.Asker, name string, l *loaded, s *scope, connected *call.Connectors) subjects.Preflight {
	found := l.catalog.Resolve(name)
	if found.Verdict == catalog.Connector {
		return w.preflightConnector(ctx, asker, found.Asked, s, connected)
	}
	if e := found.Refusal(); found.Definition == nil && e != nil {
		return subjects.Preflight{Code: e.Code, Reason: e.Message}
	}
	p := w.calls.Judge(found.Definition, l.content.trusted, s.approval())
	if found.Verdict == catalog.Direct {
		return subjects.Preflight{Callable: true, Parallel: p.Parallel, Reason: "listed directly: it is called without the bridge"}
	}
	out := subjects.Preflight{Callable: true, Parallel: p.Parallel, NeedsApproval: p.NeedsApproval}
	if e := w.calls.Refused(found.Definition.Name); e != nil {
		return subjects.Preflight{Code: e.Code, Reason: e.Message, Parallel: p.Parallel}
	}
	if p.Denied {
		return subjects.Preflight{Code: subjects.CodeApprovalDenied, Reason: p.Reason, Parallel: p.Parallel}
	}
	if found.Definition.Registry {
		if e := call.Reachable(found.Definition, w.liveIn(asker.Tenant)); e != nil {
			out.Callable, out.Code, out.Reason = false, e.Code, e.Message
		}
	}
	out.NeedsApproval = out.NeedsApproval && !w.calls.Spared(ctx, asker, found.Definition)
	return out
}
