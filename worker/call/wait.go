package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// recheck is how often a waiting request looks into the journal by itself, should
// the published result not have reached it.
const recheck = 5 * time.Second

// Run accepts a call and waits for its result until ctx ends; then the call goes
// on, and the error is DEADLINE_EXCEEDED.
func (e *Engine) Run(ctx context.Context, c Call) (reply []byte, err error) {
	k := key{c.Tenant, c.Session, c.ID}
	w, done := e.listen(k)
	defer done()
	accepted, err := e.Accept(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case accepted.Refused != nil:
		return subjects.Encode(subjects.BridgeReply{ID: c.ID, Name: cmp.Or(c.Direct, subjects.ToolCall), IsError: true, Result: accepted.Refused})
	case accepted.final != nil:
		return accepted.final, nil
	case !accepted.here: // any worker may run it
		offer(w.moved, struct{}{})
	}
	if c.Stored != nil {
		c.Stored()
	}
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	unsubscribe := func() {}
	defer func() { unsubscribe() }()
	for {
		var look bool
		select {
		case reply := <-w.reply:
			return reply, nil
		case <-w.moved:
			unsubscribe()
			if unsubscribe, err = e.subscribe(k, w.reply); err != nil {
				return nil, subjects.NewError(subjects.CodeUnavailable, "the call is stored, but its result can not be waited for here: "+err.Error())
			}
			look = true // it may be final by now
		case <-tick.C:
			look = true
		case <-ctx.Done():
			return nil, subjects.NewError(subjects.CodeDeadlineExceeded, "the call is stored and goes on; send the same id again, or fetch its result")
		case <-e.stopping:
			// Another worker has the call, or finishes it here; the requester hears
			// of it by the same id.
			select {
			case reply := <-w.reply:
				return reply, nil
			case <-ctx.Done():
			case <-e.base.Done():
			}
			return nil, subjects.NewError(subjects.CodeUnavailable, "this worker is stopping; the call is stored and goes on: send the same id again")
		}
		if !look {
			continue
		}
		if reply, err := e.Result(ctx, c.Tenant, c.Session, c.ID); err == nil && reply != nil {
			return reply, nil
		}
	}
}

// waiter is a request that waits for a result.
type waiter struct {
	reply chan []byte
	moved chan struct{} // the call ends in another worker, perhaps
}

// listen receives the result of a call that ends in this worker, and hears when
// it moves on to another.
func (e *Engine) listen(k key) (w *waiter, done func()) {
	w = &waiter{make(chan []byte, 1), make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting[k] == nil {
		e.waiting[k] = map[*waiter]struct{}{}
	}
	e.waiting[k][w] = struct{}{}
	return w, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.waiting[k], w)
		if len(e.waiting[k]) == 0 {
			delete(e.waiting, k)
		}
	}
}

// subscribe receives the result of a call that ends in another worker.
func (e *Engine) subscribe(k key, to chan []byte) (done func(), err error) {
	sub, err := e.nc.Subscribe(e.cfg.Space.Result(k.tenant, k.session, k.id), func(m *nats.Msg) {
		if m.Header.Get(subjects.HeaderKind) == subjects.KindResult {
			offer(to, m.Data)
		}
	})
	if err != nil {
		return func() {}, fmt.Errorf("subscribing for the result of call %s: %w", k.id, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

func offer[T any](ch chan T, v T) {
	select {
	case ch <- v:
	default: // it has one already, the same
	}
}

// deliver gives a final reply to the requests that wait in this worker.
func (e *Engine) deliver(k key, body []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.waiting[k] {
		offer(w.reply, body)
	}
}

// moved tells the requests that wait here that the call goes on elsewhere.
func (e *Engine) moved(k key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.waiting[k] {
		offer(w.moved, struct{}{})
	}
}

// Result is the reply of a call: nil while it is not final, UNKNOWN_CALL when no
// call of that id was accepted in the last 24 hours.
func (e *Engine) Result(ctx context.Context, tenant, session, id string) ([]byte, error) {
	k := key{tenant, session, id}
	r, _, err := e.journal.load(ctx, k)
	switch {
	case errors.Is(err, errNoRecord), err == nil && r.Body == "":
		return nil, subjects.NewError(subjects.CodeUnknownCall, "no call "+id+" of this session was accepted in the last 24 hours")
	case err != nil:
		return nil, storeError(err)
	case !r.Final:
		return nil, nil
	}
	body, err := e.bytes(ctx, r.Reply)
	if err != nil {
		return nil, storeError(err)
	}
	return body, nil
}

// Chunk is a part of a large result that belongs to the session, from offset on.
func (e *Engine) Chunk(ctx context.Context, tenant, session, blob string, offset int64, size int) ([]byte, error) {
	unknown := subjects.NewError(subjects.CodeUnknownCall, "no result of this session has a blob of that name")
	if len(blob) != 64 {
		return nil, unknown
	}
	if _, _, err := e.state.GetFresh(ctx, subjects.BucketBindings, ownerKey(tenant, session, blob)); errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, unknown
	} else if err != nil {
		return nil, storeError(err)
	}
	body, err := e.state.Blobs.Get(ctx, blob)
	if err != nil {
		return nil, storeError(err)
	}
	if offset < 0 || offset > int64(len(body)) {
		return nil, subjects.NewError(subjects.CodeBadRequest, fmt.Sprintf("offset %d lies outside the blob's %d bytes", offset, len(body)))
	}
	body = body[offset:]
	return body[:min(size, len(body))], nil
}
