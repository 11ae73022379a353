package call

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Accepted is the outcome of Accept: a refusal that was not stored, or a call
// that is stored and may be final already.
type Accepted struct {
	Refused []byte // the result of a refused envelope; nil when the call is stored
	final   []byte // the reply, when it is known
	here    bool   // this worker runs it
}

// Accept stores a call: from then on it reaches exactly one final state, whatever
// happens to this worker. The same id with the same body changes nothing; with
// another body the error is ID_REUSED.
func (e *Engine) Accept(ctx context.Context, c Call) (Accepted, error) {
	began := time.Now()
	p := e.plan(c)
	if slotErr := e.refuse(ctx, c, &p); slotErr != nil {
		e.cfg.Metrics.Count(tracing.CallsAccepted, 1, pathRefused)
		return Accepted{Refused: encode(subjects.CallFailure{Error: slotErr})}, nil
	}
	k := key{c.Tenant, c.Session, c.ID}
	e.step(StepAccept, k)
	now := time.Now()
	r := &Record{
		Version: recordVersion, Token: nuid.Next(), Body: digest(c.Arguments, c.CatalogHash+c.Direct), Accepted: now.UnixMilli(),
		User: c.User, Trace: c.Trace, Batch: p.batch, Entries: p.entries, Single: p.single, Direct: c.Direct,
	}
	if c.Connectors != nil {
		r.Surface = c.Connectors.Surface
	}
	e.identify(ctx, &c, r)
	var l *live // set when this worker runs the call itself
	if r.allDone() {
		if err := e.close(ctx, k, r, nil); err != nil {
			return Accepted{}, unstored(err)
		}
	} else if e.reserve() {
		l = e.newLive(k)
		l.lease(r, e.claims.Add(1), now)
	}
	revision, err := e.store(ctx, k, r)
	if err == nil {
		e.step(StepStored, k)
		e.event(k, r.Trace, subjects.Event{Type: subjects.EventCallAccepted, TotalCount: ptr(len(r.Entries))})
	}
	if l != nil {
		e.start(l, r, revision, err == nil)
	}
	if errors.Is(err, errConflict) {
		return e.again(ctx, k, r)
	}
	if err != nil {
		return Accepted{}, unstored(err)
	}
	e.auditDenied(k, r)
	switch {
	case r.Final:
		e.accepted(r, began, now, pathSettled)
		return e.settled(ctx, k, r)
	case l != nil:
		e.accepted(r, began, now, pathHere)
		return Accepted{here: true}, nil
	}
	e.accepted(r, began, now, pathQueued)
	if err := e.courier(ctx, e.cfg.Space.CallSubject(e.calls.Of(k.tenant, k.session).Number, k.tenant, k.session, k.id), r, revision); err != nil {
		// The journal has the call; the sweeper sends it again.
		e.log.Warn("an accepted call was not queued; it will be sent again", "call", k.String(), "error", err)
	}
	e.step(StepQueued, k)
	return Accepted{}, nil
}

// store writes a call's first record, unless it is one that could not be written
// with its results.
func (e *Engine) store(ctx context.Context, k key, r *Record) (revision uint64, err error) {
	size := int64(0)
	for i := range r.Entries {
		size += int64(len(r.Entries[i].Arguments) + len(r.Entries[i].Schema))
	}
	if limit := e.maxArguments(len(r.Entries)); size > limit {
		return 0, subjects.NewError(subjects.CodeTooLarge, fmt.Sprintf("the call's arguments are %d bytes, and at most %d can be kept here: send less at once", size, limit))
	}
	revision, err = e.journal.create(ctx, k, r)
	if errors.Is(err, nats.ErrMaxPayload) {
		return 0, subjects.NewError(subjects.CodeTooLarge, "the call is larger than the server's max_payload once it is written down: send less at once")
	}
	return revision, err
}

// reserve takes a slot for a call that this worker accepts and runs itself, which
// saves it the way through the queue. It takes none that is not free at once.
func (e *Engine) reserve() bool {
	if e.cfg.Queued || !e.started.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	select {
	case e.slots <- struct{}{}:
		e.owned.Add(1)
		return true
	default:
		return false
	}
}

// start runs a call in the slot that was reserved for it; unless it was stored,
// the slot is given back.
func (e *Engine) start(l *live, r *Record, revision uint64, stored bool) {
	l.slot = &slot{e: e}
	free := func() {
		l.slot.free()
		e.owned.Done()
	}
	if !stored {
		free()
		return
	}
	l.record, l.revision = r.clone(), revision
	l.ctx, l.abort = context.WithCancelCause(e.contextOf(r))
	go func() {
		defer free()
		e.runHere(l)
	}()
}

// runHere works on a call that came without a message. What it can not end, the
// sweeper sends to another worker.
func (e *Engine) runHere(l *live) {
	e.step(StepClaimed, l.key)
	e.attend(l, nil, 1)
	l.mu.Lock()
	lost, record := l.lost, l.record
	l.mu.Unlock()
	if lost || !record.Final {
		e.moved(l.key)
	}
	switch {
	case lost:
	case record.Final:
		for {
			_, err := e.publish(e.writing(), l.key, record, l)
			if err == nil || lasting(err) || !e.wait(writeRetry) {
				return
			}
			// What kept the result back may have lost what was written down before it.
			e.auditAgain(l.key, record)
		}
	case record.unfinished(): // this worker is stopping
		if err := e.wake(e.writing(), l.key); err != nil {
			e.log.Warn("a call could not be handed back; the sweeper does it", "call", l.key.String(), "error", err)
		}
	}
}

// again answers for an id that is known already.
func (e *Engine) again(ctx context.Context, k key, r *Record) (Accepted, error) {
	have, revision, err := e.journal.load(ctx, k)
	if err != nil {
		return Accepted{}, unstored(err)
	}
	if have.Body == "" { // a stop came before the call
		r.takeBack()
		r.stop()
		if err := e.close(ctx, k, r, nil); err != nil {
			return Accepted{}, unstored(err)
		}
		if _, err := e.journal.update(ctx, k, r, revision); err == nil {
			return e.settled(ctx, k, r)
		}
		if have, _, err = e.journal.load(ctx, k); err != nil {
			return Accepted{}, unstored(err)
		}
	}
	if have.Body == "" {
		return Accepted{}, unstored(errConflict) // a stop's record that could not be replaced now
	}
	if have.Body != r.Body {
		return Accepted{}, subjects.NewError(subjects.CodeIDReused, fmt.Sprintf("call id %s was used for another call in the last 24 hours; that call is untouched. Give each call its own id", k.id))
	}
	tracing.Current(ctx).Link(have.span())
	if have.Final {
		return e.settled(ctx, k, have)
	}
	return Accepted{}, nil
}

// settled publishes the result of a final record and returns it.
func (e *Engine) settled(ctx context.Context, k key, r *Record) (Accepted, error) {
	reply, err := e.publish(ctx, k, r, nil)
	if err != nil {
		return Accepted{}, unstored(err)
	}
	return Accepted{final: reply}, nil
}

// courierBody is what a queue carries: the record and its revision, so that the
// first worker need not read; and nothing when it is large.
type courierBody struct {
	Revision uint64  `json:"revision,omitempty"`
	Record   *Record `json:"record,omitempty"`
}

// maxCourier bounds the record that travels with its message.
const maxCourier = 128 << 10

func (e *Engine) courier(ctx context.Context, subject string, r *Record, revision uint64) error {
	body, err := subjects.Encode(courierBody{Revision: revision, Record: r})
	if err == nil && len(body) > maxCourier {
		body = []byte(`{}`)
	}
	if err != nil {
		return fmt.Errorf("queueing a call: %w", err)
	}
	if _, err := e.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: body}); err != nil {
		return fmt.Errorf("queueing a call: %w", err)
	}
	return nil
}

// wake asks any free worker to look at a call.
func (e *Engine) wake(ctx context.Context, k key) error {
	subject := e.cfg.Space.WakeSubject(e.calls.Of(k.tenant, k.session).Number, k.tenant, k.session, k.id)
	if _, err := e.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(`{}`)}); err != nil {
		return fmt.Errorf("waking call %s: %w", k.id, err)
	}
	return nil
}

// digest is the same for bodies that are equal as JSON, member order, white
// space and text in place of an object aside.
func digest(arguments []byte, catalogHash string) string {
	v := jsontext.Value(arguments).Clone()
	if v.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, v); err == nil {
			v = text
		}
	}
	// Numbers stay as they are written.
	_ = v.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	h := sha256.New()
	h.Write([]byte(catalogHash))
	h.Write([]byte{0})
	h.Write(v)
	return hex.EncodeToString(h.Sum(nil))
}

// unstored is the error of a request whose call may not be stored.
func unstored(err error) error {
	var e *subjects.Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return subjects.NewError(subjects.CodeDeadlineExceeded, "storing the call took longer than the request may; send it again with the same id")
	}
	return storeError(err)
}

func ptr[T any](v T) *T { return &v }
