package worker

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// expiry keeps when what this worker asked for expires, so that it ends on the
// moment. It is a convenience: after a restart, or on another worker, the
// sweeper of calls ends it a little later. That it has expired is decided like
// anything else, once.
type expiry struct {
	mu   sync.Mutex
	due  dues
	wake chan struct{} // something earlier than before was added
}

type due struct {
	at         time.Time
	tenant, id string
}

type dues []due

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any) {
	if x, ok := x.(due); ok {
		*d = append(*d, x)
	}
}

func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func (e *expiry) add(at time.Time, tenant, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	heap.Push(&e.due, due{at, tenant, id})
	if e.due[0].id == id {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// next returns what is due, or when to look again.
func (e *expiry) next(now time.Time) (d due, ok bool, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.due) == 0 {
		return due{}, false, time.Hour
	}
	if wait = e.due[0].at.Sub(now); wait > 0 {
		return due{}, false, wait
	}
	d, ok = heap.Pop(&e.due).(due)
	return d, ok, 0
}

// expiring is how many approvals a worker ends at once.
const expiring = 8

// How often a worker looks for what was left behind, and how long an approval's
// call is given to end it.
const (
	tidyEvery = 10 * time.Minute
	tidyGrace = time.Minute
)

// expire ends what is due until the worker stops.
func (a *approvals) expire(ctx context.Context) {
	slots := make(chan struct{}, expiring)
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		d, ok, wait := a.expiry.next(time.Now())
		if ok {
			slots <- struct{}{}
			a.owned.Go(func() {
				defer func() { <-slots }()
				a.end(ctx, d)
			})
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-a.expiry.wake:
		case <-tidy.C:
			a.tidy(ctx)
		case <-a.stopping:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (a *approvals) end(ctx context.Context, d due) {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	if err := a.desk.Expire(ctx, d.tenant, d.id); err != nil {
		a.log.Warn("an expired approval could not be settled; the sweeper tries again", "approval", d.id, "error", err)
	}
}

func (a *approvals) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	if err := a.desk.Tidy(ctx, time.Now(), tidyGrace); err != nil {
		a.log.Warn("tidying approvals", "error", err)
	}
}
