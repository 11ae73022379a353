package approval

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SessionMemory is how long a session's choice is remembered: sessions end
// without saying so. A forgotten choice is kept as long, to stay forgotten.
const SessionMemory = 30 * 24 * time.Hour

// Tidy ends what nobody will: approvals that expired and whose call has ended
// without a word here, since its worker was lost, and old choices. grace is how
// long the call is given to end an approval itself.
func (d *Desk) Tidy(ctx context.Context, now time.Time, grace time.Duration) error {
	type question struct{ tenant, id string }
	var old []question
	err := d.store.EachOld(ctx, now.Add(-grace), func(tenant, id string) bool {
		old = append(old, question{tenant, id})
		return len(old) < maxTidied
	})
	if err != nil {
		return fmt.Errorf("looking for approvals that were left behind: %w", err)
	}
	for _, q := range old {
		a, err := d.store.Pending(ctx, q.tenant, q.id)
		if err == nil && Expired(a, now.Add(-grace)) {
			err = d.Expire(ctx, q.tenant, q.id)
		}
		if err != nil && !errors.Is(err, ErrNone) {
			return fmt.Errorf("ending approval %s, which was left behind: %w", q.id, err)
		}
	}
	if err := d.store.DropChoices(ctx, now.Add(-SessionMemory)); err != nil {
		return fmt.Errorf("dropping old choices: %w", err)
	}
	return nil
}

// maxTidied bounds one pass.
const maxTidied = 10_000
