package call

import (
	"context"

	"toolbridge/approval"
	"toolbridge/catalog"
)

// Asker is the session whose remembered choices may spare a question.
type Asker struct{ Tenant, Session, User string }

// Spared reports whether a remembered choice covers a tool now, so that nobody would
// be asked. What can not be read spares nothing.
func (e *Engine) Spared(ctx context.Context, a Asker, d *catalog.Definition) bool {
	return e.spared(ctx, a, &Entry{Name: d.Name, Toolset: d.Toolset, Registry: d.Registry, SHA256: d.SHA256()})
}

// SparedConnector is Spared for a tool behind the gateway.
func (e *Engine) SparedConnector(ctx context.Context, a Asker, name string) bool {
	return e.spared(ctx, a, &Entry{Name: name, Toolset: connectorToolset, Place: AtGateway, SHA256: connectorSHA256(name)})
}

func (e *Engine) spared(ctx context.Context, a Asker, entry *Entry) bool {
	if e.approvals == nil {
		return false
	}
	remembered, err := e.approvals.Remembered(ctx, a.Tenant, approval.Subject{
		Session: a.Session, User: a.User, Tool: entry.Name, DefinitionSHA256: entry.SHA256, Executor: entry.executor(),
	})
	return err == nil && remembered != nil
}
