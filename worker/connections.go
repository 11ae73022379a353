package worker

import (
	"bytes"
	"context"
	"slices"
	"time"

	"toolbridge/catalog"
	"toolbridge/connectors"
	"toolbridge/subjects"
	"toolbridge/worker/call"
)

// connectorToolset is the toolset of connectors' tools, as grants and rules name
// it. Their definitions are the gateway's.
const connectorToolset = "connectors"

// who is whose connected accounts a session may use; ok is false for nobody.
func (w *Worker) who(tenant string, s *scope) (who connectors.Who, ok bool) {
	if w.cfg.Gateway == nil || s.closed {
		return connectors.Who{}, false
	}
	return w.cfg.Gateway.User(tenant, s.user())
}

// connectorsFor reports whether connectors are available to a session that asks
// for them.
func (w *Worker) connectorsFor(ctx context.Context, tenant string, s *scope) bool {
	who, ok := w.who(tenant, s)
	return ok && w.cfg.Gateway.Available(ctx, who)
}

// mayAsk reports whether a request may hold a definition of manage_connections: its
// name, or an escape that could spell it.
func mayAsk(body []byte) bool {
	return bytes.Contains(body, []byte(catalog.ManageConnections)) || bytes.Contains(body, []byte(`\u`))
}

// connected is what a session may reach through connectors: nil where it did not
// ask for them, or has none now.
func (w *Worker) connected(ctx context.Context, tenant string, l *loaded, s *scope) *call.Connectors {
	if !l.catalog.Connectors() || !w.connectorsFor(ctx, tenant, s) {
		return nil
	}
	return &call.Connectors{
		Surface: l.content.Header.Surface, Single: w.cfg.Gateway.Config().Single, Allows: s.allowsConnector,
	}
}

// manages reports whether manage_connections is a tool of the session's.
func manages(l *loaded) bool {
	return l.catalog.Connectors() && !l.content.Input.ConnectOnly
}

// route is who executes what.
func (w *Worker) route() call.Route {
	r := call.Route{Bus: w.bus}
	if w.cfg.Gateway != nil {
		r.Gateway = call.NewGateway(w.cfg.Gateway)
	}
	if w.manage != nil {
		r.Worker = own{w.manage, w.cfg.Gateway}
	}
	return r
}

// preflightConnector says whether a tool behind the gateway could be called now, as
// far as is known without asking the gateway for it.
func (w *Worker) preflightConnector(ctx context.Context, asker call.Asker, asked string, s *scope, connected *call.Connectors) subjects.Preflight {
	name, also, err := call.ConnectorName(asked, connected)
	if err != nil {
		return subjects.Preflight{Code: err.Code, Reason: err.Message}
	}
	for _, n := range append([]string{name}, also...) {
		if err := w.calls.Refused(n); err != nil {
			return subjects.Preflight{Code: err.Code, Reason: err.Message}
		}
	}
	p := w.calls.JudgeConnector(name, also, s.approval(), nil)
	if p.Denied {
		return subjects.Preflight{Code: subjects.CodeApprovalDenied, Reason: p.Reason}
	}
	// Calls of one turn may run side by side; the entries of one call do not.
	out := subjects.Preflight{Callable: true, Parallel: true, NeedsApproval: p.NeedsApproval}
	if state, after := w.cfg.Gateway.Breakers.State(asker.Tenant); state != connectors.StateClosed && after > 0 {
		out.Callable, out.Code = false, subjects.CodeGatewayUnavailable
		out.Reason = "the gateway of connectors is unavailable; retry after " + after.Round(time.Millisecond).String()
	}
	out.NeedsApproval = out.NeedsApproval && !w.calls.SparedConnector(ctx, asker, name)
	return out
}

// allowsConnector decides for a tool behind the gateway, by its name.
func (s *scope) allowsConnector(name string) bool {
	return s.allows(&catalog.Definition{Name: name, Toolset: connectorToolset, Registry: true})
}

// manage is the definition of manage_connections that stands for one that came, nil
// where none does. A session asks with its own definition; the text, the schema and
// what happens are the worker's.
func (g *gathering) manage(came *catalog.Definition) *catalog.Definition {
	switch {
	case came.Registry:
		g.warn(subjects.WarnNameReserved, came.Name, "left out: this name is the worker's own, and no executor's")
		return nil
	case !g.connectors:
		g.warn(subjects.WarnConnectorsMissing, came.Name, "left out: connectors are not available to this session")
		return nil
	}
	surface := g.surface
	if surface == subjects.SurfaceSide {
		// It stands in the content, so that the session has connectors, and is not shown.
		g.warn(subjects.WarnConnectorsMissing, came.Name, "left out: a side agent uses what is connected and connects nothing itself")
		surface = ""
	}
	own := decodeOne(connectors.ManageDefinition(surface))
	if own == nil {
		return nil
	}
	if came.Dialect != own.Dialect {
		own = decodeOne(own.Render(came.Dialect))
	}
	g.asked = own != nil
	return own
}

// decodeOne reads one definition of the worker's own.
func decodeOne(raw []byte) *catalog.Definition {
	defs, _, err := catalog.Decode(slices.Concat([]byte("["), raw, []byte("]")), catalog.Limits{})
	if err != nil || len(defs) != 1 {
		return nil
	}
	return &defs[0]
}
