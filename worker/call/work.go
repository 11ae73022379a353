package call

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// work takes one message of the queue as far as it goes.
func (e *Engine) work(msg jetstream.Msg, place *slot) {
	k, ok := e.keyOf(msg)
	if !ok {
		e.bury(msg, key{}, "the subject names no call", 0)
		return
	}
	delivered := uint64(1)
	if meta, err := msg.Metadata(); err == nil {
		delivered = meta.NumDelivered
	}
	if delivered > 1 {
		e.cfg.Metrics.Count(tracing.Redeliveries, 1)
	}
	var body courierBody
	if err := subjects.Decode(msg.Data(), &body); err != nil {
		e.bury(msg, k, "the message is not readable: "+err.Error(), int(delivered))
		return
	}
	if delivered > 1 {
		body.Record = nil // the journal knows better
	}
	l, outcome, err := e.claim(e.base, k, body.Record, body.Revision)
	switch {
	case errors.Is(err, errNoRecord):
		e.bury(msg, k, "the journal has no record of this call", int(delivered))
		return
	case errors.Is(err, errUnreadable):
		e.bury(msg, k, err.Error(), int(delivered))
		return
	case err != nil:
		e.log.Warn("a call could not be claimed; it comes again", "call", k.String(), "error", err)
		_ = msg.NakWithDelay(retryDelay)
		return
	case outcome == held:
		// Its holder has a message of its own and reads the record again before
		// it lets go; should it be lost, this one comes again.
		_ = msg.NakWithDelay(l.untilFree())
		return
	case outcome == isEmpty:
		e.ack(msg)
		return
	case outcome == isFinal:
		if _, err := e.publish(e.base, k, l.record, nil); err != nil {
			e.log.Warn("a result could not be published; it is tried again", "call", k.String(), "error", err)
			_ = msg.NakWithDelay(retryDelay)
			return
		}
		e.ack(msg)
		return
	case outcome == ours:
	}
	l.slot = place
	e.step(StepClaimed, k)
	if l.spent {
		if err := e.deadLetter(k, msg.Subject(), msg.Data(), spentReason, l.record.Attempts); err != nil {
			e.log.Error("a dead letter could not be written", "call", k.String(), "error", err)
		}
	}
	e.attend(l, msg, delivered)
	l.mu.Lock()
	lost, record := l.lost, l.record
	l.mu.Unlock()
	switch {
	case lost:
		return // whoever took over has the message, or gets it
	case record.Final:
		if _, err := e.publish(e.writing(), k, record, l); err != nil {
			e.log.Warn("a result could not be published; it is tried again", "call", k.String(), "error", err)
			_ = msg.NakWithDelay(retryDelay)
			return
		}
	case e.base.Err() != nil && record.unfinished():
		_ = msg.Nak() // this worker is stopping; another one goes on
		return
	}
	e.ack(msg)
}

// attend works on a call that this worker has the lease of, as far as it goes.
// msg is the call's message, or nil.
func (e *Engine) attend(l *live, msg jetstream.Msg, delivered uint64) {
	span := l.workSpan(msg != nil, delivered)
	defer span.End()
	e.hold(l)
	beat := e.heartbeat(l, msg)
	l.run()
	beat()
	e.release(l)
	l.unpark()
}

const retryDelay = time.Second

// ack acknowledges and waits for the server's word, so that nothing settled
// comes again. When that fails the message comes again, and finds a final call.
func (e *Engine) ack(msg jetstream.Msg) {
	if k, ok := e.keyOf(msg); ok {
		e.step(StepAck, k)
	}
	ctx, cancel := context.WithTimeout(context.Background(), ackWithin)
	defer cancel()
	if err := msg.DoubleAck(ctx); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		e.log.Debug("a call's message was not acknowledged; it comes again", "subject", msg.Subject(), "error", err)
	}
}

const ackWithin = 5 * time.Second

func (e *Engine) keyOf(msg jetstream.Msg) (k key, ok bool) {
	k.tenant, k.session, k.id, ok = e.cfg.Space.ParseQueued(msg.Subject())
	return k, ok
}
