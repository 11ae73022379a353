package approval

import (
	"context"
	"fmt"
	"time"

	"toolbridge/subjects"
)

// List returns what is pending and what is remembered of a tenant, or of one of
// its sessions, oldest first. room bounds it in bytes of JSON: of what has no
// room only the number is told.
func (d *Desk) List(ctx context.Context, tenant, session string, room int) (subjects.ApprovalListReply, error) {
	var l subjects.ApprovalListReply
	now := time.Now()
	fits := func(v any) bool {
		body, err := subjects.Encode(v)
		if err == nil && len(body) < room {
			room -= len(body) + 1
			return true
		}
		l.Omitted++
		return false
	}
	err := d.store.EachPending(ctx, tenant, func(a subjects.Approval) bool {
		if session != "" && a.Session != session {
			return true
		}
		// The end of one that expired has decided it; that is written down soon.
		if !Expired(a, now) && fits(a) {
			l.Approvals = append(l.Approvals, a)
		}
		return true
	})
	if err != nil {
		return l, fmt.Errorf("listing approvals: %w", err)
	}
	err = d.store.EachChoice(ctx, tenant, func(c Choice) bool {
		if c.Forgotten == nil && (session == "" || c.Session == session) && fits(c.Remembered) {
			l.Remembered = append(l.Remembered, c.Remembered)
		}
		return true
	})
	if err != nil {
		return l, fmt.Errorf("listing remembered choices: %w", err)
	}
	return l, nil
}
