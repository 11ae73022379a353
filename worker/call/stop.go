package call

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"toolbridge/subjects"
)

// StopCall interrupts what has not started of one call, wherever it runs, and
// cancels what has. An id that was not seen yet is remembered: the call that
// comes with it is interrupted whole.
func (e *Engine) StopCall(ctx context.Context, tenant, session, id string) (subjects.Stopped, error) {
	k := key{tenant, session, id}
	tombstone := &Record{Version: recordVersion, Token: nuid.Next(), Accepted: time.Now().UnixMilli(), Stopped: true}
	if _, err := e.journal.create(ctx, k, tombstone); err == nil {
		return subjects.Stopped{CallID: id, Interrupted: []int{}, InFlight: []int{}}, nil
	} else if !errors.Is(err, errConflict) {
		return subjects.Stopped{}, unstored(err)
	}
	out, err := e.stop(ctx, k)
	if errors.Is(err, errNoRecord) { // it expired in this moment
		return e.StopCall(ctx, tenant, session, id)
	}
	return out, err
}

func (e *Engine) stop(ctx context.Context, k key) (subjects.Stopped, error) {
	out := subjects.Stopped{CallID: k.id, Interrupted: []int{}, InFlight: []int{}}
	var waiting []string // approvals to withdraw
	var withdrawn []int  // the entries that waited for them
	record, _, err := e.journal.change(ctx, k, nil, 0, func(r *Record) bool {
		waiting, withdrawn = waiting[:0], withdrawn[:0]
		out.Interrupted, out.InFlight = []int{}, []int{} // of a try that came to nothing
		if r.Final || r.Body == "" {
			return false
		}
		for i := range r.Entries {
			if r.Entries[i].State == Awaiting {
				waiting = append(waiting, r.Entries[i].Approval)
				withdrawn = append(withdrawn, i)
			}
		}
		out.Interrupted, out.InFlight = r.stop()
		return true
	})
	switch {
	case errors.Is(err, errNoRecord):
		return out, err
	case err != nil:
		return out, unstored(err)
	}
	if record.Final || record.Body == "" {
		return out, nil
	}
	for _, i := range withdrawn {
		e.approvalEnded(record, i, record.Entries[i].Approval, choiceWithdrawn, e.asked(&record.Entries[i]))
	}
	for _, id := range waiting {
		if e.approvals == nil {
			break
		}
		d := subjects.Decision{ID: id, State: subjects.ApprovalWithdrawn, At: now(), Reason: "stopped"}
		if err := e.approvals.Settle(e.writing(), k.tenant, id, d); err != nil {
			e.log.Warn("an approval could not be withdrawn", "approval", id, "error", err)
		}
	}
	for _, i := range out.InFlight {
		e.cancelExecution(k, record, i)
		if entry := &record.Entries[i]; entry.State == Done { // its worker was lost, and nobody else says so
			e.auditFinished(k, record, i, entry.Error)
		}
	}
	e.audit(k, record, -1, subjects.AuditRecord{Type: "call.stopped"})
	e.poke(ctx, record, k)
	if record.Lease == nil {
		if err := e.wake(ctx, k); err != nil {
			e.log.Warn("a stopped call could not be woken; the sweeper settles it", "call", k.String(), "error", err)
		}
	}
	return out, nil
}

// cancelExecution tells the executor at once; the worker that waits for it hears
// the executor's answer.
func (e *Engine) cancelExecution(k key, r *Record, index int) {
	entry := &r.Entries[index]
	if entry.Place != OnBus {
		return // its worker hears of the stop
	}
	body, err := subjects.Encode(subjects.ExecCancel{ExecutionID: executionID(k.id, index), Session: k.session})
	if err == nil {
		err = e.nc.PublishMsg(&nats.Msg{Subject: cancelSubject(e.cfg.Space, k.tenant, k.session, entry.Toolset, entry.Registry), Data: body, Header: header(subjects.KindExec, r.Trace)})
	}
	if err != nil {
		e.log.Warn("a cancel could not be sent", "call", k.String(), "error", err)
	}
}

// StopAll stops every call of a session that is not final.
func (e *Engine) StopAll(ctx context.Context, tenant, session string) ([]subjects.Stopped, error) {
	list := []subjects.Stopped{}
	names, err := e.state.Keys(ctx, e.calls.Of(tenant, session).Bucket, tenant+"."+session+".*")
	if err != nil {
		return nil, unstored(err)
	}
	var ids []string
	for _, name := range names {
		if id := name[strings.LastIndexByte(name, '.')+1:]; subjects.ValidToken(id) { // the others are counters
			ids = append(ids, id)
		}
	}
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	at := make(chan struct{}, stopsAtOnce)
	for _, id := range ids {
		at <- struct{}{}
		all.Go(func() {
			defer func() { <-at }()
			s, err := e.stop(ctx, key{tenant, session, id})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, errNoRecord): // gone since it was listed
			case err != nil:
				errs = append(errs, err)
			case len(s.Interrupted)+len(s.InFlight) > 0:
				list = append(list, s)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return list, err
	}
	slices.SortFunc(list, func(a, b subjects.Stopped) int { return strings.Compare(a.CallID, b.CallID) })
	return list, nil
}

// stopsAtOnce bounds the calls that one request stops side by side.
const stopsAtOnce = 16

// poke tells the worker that holds a call that its record has changed. It is a
// courtesy: the holder reads the record again with each heartbeat.
func (e *Engine) poke(_ context.Context, r *Record, k key) {
	if r.Lease == nil {
		return
	}
	if err := e.nc.PublishMsg(&nats.Msg{Subject: r.Lease.Inbox, Data: []byte(k.String()), Header: header(subjects.KindReply, r.Trace)}); err != nil {
		e.log.Debug("a poke was not sent", "call", k.String(), "error", err)
	}
}

// poked looks at a call again that another worker has changed.
func (e *Engine) poked(m *nats.Msg) {
	parts := strings.Split(string(m.Data), ".")
	if len(parts) != 3 {
		return
	}
	e.mu.Lock()
	l := e.live[key{parts[0], parts[1], parts[2]}]
	e.mu.Unlock()
	if l == nil {
		return
	}
	e.spawn(l.look)
}

// look reads the record again and obeys it.
func (l *live) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost || l.record.Final || l.record.Lease == nil {
		return
	}
	r, revision, err := l.e.journal.load(l.e.writing(), l.key)
	if err != nil || revision <= l.revision {
		return
	}
	l.record, l.revision = r, revision
	if r.Lease == nil || r.Lease.Epoch != l.epoch {
		return // the next write finds out
	}
	if len(r.startable()) > 0 && !r.Stopped {
		if err := l.write(func(r *Record) bool { l.claimStarts(r, time.Now()); return true }); err != nil {
			return
		}
	}
	l.obey()
}
