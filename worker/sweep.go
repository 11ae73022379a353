package worker

import (
	"context"
	"strings"
	"time"

	"toolbridge/subjects"
)

const (
	sweepEvery = time.Hour
	// sweepAge is how old content must be before it may be swept: older than any
	// binding that was made with it and not refreshed.
	sweepAge = 26 * time.Hour
)

// sweep removes, every hour until ctx ends, content that no session is bound to
// any more.
func (c *catalogs) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if n, err := c.sweepOnce(ctx, time.Now()); err != nil && ctx.Err() == nil {
				c.log.Warn("sweeping unbound catalogs", "removed", n, "error", err)
			}
		}
	}
}

func (c *catalogs) sweepOnce(ctx context.Context, now time.Time) (removed int, err error) {
	objects, err := c.state.Catalogs.List(ctx)
	if err != nil || len(objects) == 0 {
		return 0, err
	}
	bound, err := c.boundHashes(ctx)
	if err != nil {
		return 0, err
	}
	for _, o := range objects {
		if bound[o.Name] || now.Sub(o.ModTime) < sweepAge {
			continue
		}
		data, err := c.state.Catalogs.Get(ctx, o.Name)
		if err != nil {
			return removed, err
		}
		if err := c.state.Catalogs.Delete(ctx, o.Name); err != nil {
			return removed, err
		}
		removed++
		// A session may have bound it between the two looks: then it comes back.
		again, err := c.boundHashes(ctx)
		if err != nil || again[o.Name] {
			if _, putErr := c.state.Catalogs.PutNamed(ctx, o.Name, data); putErr != nil {
				return removed, putErr
			}
			removed--
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// boundHashes are the catalogs that some session is bound to.
func (c *catalogs) boundHashes(ctx context.Context) (map[string]bool, error) {
	keys, err := c.state.Keys(ctx, subjects.BucketBindings, ">")
	if err != nil {
		return nil, err
	}
	bound := map[string]bool{}
	for _, key := range keys {
		bound[key[strings.LastIndexByte(key, '.')+1:]] = true
	}
	return bound, nil
}
