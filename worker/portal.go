package worker

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/connectors"
	"toolbridge/subjects"
)

// auditPortal stands for a session in the audit's subjects: what a desktop back end
// does belongs to none.
const auditPortal = "_portal"

// servePortal answers …_portal.<user>, for desktop back ends. Who may publish there
// is for the bus's permissions to say; the user must belong to the tenant besides.
func (w *Worker) servePortal(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	var r subjects.PortalRequest
	if err := subjects.Decode(q.body, &r); err != nil {
		return nil, unreadable(err)
	}
	if !w.member(ctx, q.Tenant, q.Name) || w.portal == nil {
		return nil, subjects.NewError(subjects.CodeForbidden, "connected accounts are not available to this user of this tenant")
	}
	reply, change, err := w.portal.Serve(ctx, connectors.Who{Tenant: q.Tenant, User: q.Name}, r)
	if change != nil {
		w.auditPortal(ctx, q, change)
	}
	if err != nil {
		return nil, err
	}
	return subjects.Encode(reply)
}

// member reports whether a user belongs to a tenant: a live grant of the tenant names
// the user; in dev everybody does.
func (w *Worker) member(ctx context.Context, tenant, user string) bool {
	if w.cfg.Dev {
		return true
	}
	for try := range memberTries { // a grant may be younger than this worker's view
		if try > 0 {
			select {
			case <-time.After(memberPause):
			case <-ctx.Done():
				return false
			}
		}
		if w.grants.names(tenant, user, time.Now()) {
			return true
		}
	}
	return false
}

const (
	memberTries = 3
	memberPause = 50 * time.Millisecond
)

// names reports whether a grant of the tenant that has not expired names the user.
func (g *grants) names(tenant, user string, now time.Time) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for key, value := range g.values {
		if !strings.HasPrefix(key, tenant+".") || !bytes.Contains(value, []byte(user)) {
			continue
		}
		var grant subjects.Grant
		if subjects.Decode(value, &grant) != nil || grant.User != user {
			continue
		}
		if grant.ExpiresAt == "" {
			return true
		}
		if until, err := time.Parse(time.RFC3339, grant.ExpiresAt); err == nil && now.Before(until) {
			return true
		}
	}
	return false
}

// auditPortal writes down who changed which account. What was changed stands, so it
// is tried also when the request is over.
func (w *Worker) auditPortal(ctx context.Context, q *request, change *connectors.PortalChange) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditWithin)
	defer cancel()
	body, err := subjects.Encode(subjects.AuditRecord{
		Type: change.Type, At: time.Now().UTC().Format(time.RFC3339Nano), Tenant: q.Tenant, User: q.Name, By: q.Name,
		Account: change.Account, Reason: change.Reason,
	})
	if err == nil {
		_, err = w.audits.PublishMsg(ctx, &nats.Msg{Subject: w.cfg.Space.AuditSubject(q.Tenant, auditPortal), Data: body})
	}
	if err != nil {
		w.log.Error("a change of an account could not be written to the audit", "tenant", q.Tenant, "user", q.Name, "change", change.Type, "account", change.Account, "error", err)
	}
}

const auditWithin = 10 * time.Second
