package call

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// outbox sends what nobody waits for, events and audit records, a moment later
// and several at once, so that it costs the calls themselves little. What is sent
// leaves in the order in which it was put. An audit record that the stream did not
// take is sent again.
type outbox struct {
	e    *Engine
	wake chan struct{} // something is there
	done chan struct{} // closed: nothing waits any more
	loop sync.WaitGroup

	mu      sync.Mutex
	running bool
	waiting []letter

	unsure []*letter // audit records without an answer yet; the loop's own
}

type letter struct {
	msg    *nats.Msg
	stored bool // takes a stream's answer
	tries  int
	ack    jetstream.PubAckFuture
}

const (
	// outboxDelay is how long a message waits for others.
	outboxDelay = 5 * time.Millisecond
	// outboxLimit bounds what waits; above it the caller sends by itself.
	outboxLimit = 10_000
	// auditTries is how often an audit record is sent before it is given up, and
	// auditRetry the time between two looks at those that had no answer yet.
	auditTries = 10
	auditRetry = 250 * time.Millisecond
	// auditWithin is how long a worker that stops waits for the answers.
	auditWithin = 2 * time.Second
)

func newOutbox(e *Engine) *outbox {
	return &outbox{e: e, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (o *outbox) start() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running = true
	o.loop.Go(o.run)
}

// stop sends what waits. What is put afterwards is sent at once.
func (o *outbox) stop() {
	o.mu.Lock()
	running := o.running
	o.running = false
	o.mu.Unlock()
	if running {
		close(o.done)
		o.loop.Wait()
	}
}

func (o *outbox) put(msg *nats.Msg, stored bool) {
	o.mu.Lock()
	if o.running && len(o.waiting) < outboxLimit {
		o.waiting = append(o.waiting, letter{msg: msg, stored: stored})
		o.mu.Unlock()
		offer(o.wake, struct{}{})
		return
	}
	o.mu.Unlock()
	o.send(&letter{msg: msg, stored: stored})
}

func (o *outbox) run() {
	again := time.NewTimer(auditRetry)
	defer again.Stop()
	for {
		var look <-chan time.Time
		if len(o.unsure) > 0 {
			again.Reset(auditRetry)
			look = again.C
		}
		select {
		case <-o.wake:
			time.Sleep(outboxDelay)
		case <-look:
			o.settle()
		case <-o.done:
			o.flush()
			o.settleAll()
			return
		}
		o.flush()
	}
}

func (o *outbox) flush() {
	o.mu.Lock()
	list := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	for i := range list {
		if o.send(&list[i]) {
			o.unsure = append(o.unsure, &list[i])
		}
	}
	if len(o.unsure) > outboxLimit {
		o.settle()
	}
}

// send returns true when an answer is to come.
func (o *outbox) send(l *letter) bool {
	var err error
	l.tries++
	if !l.stored {
		if err = o.e.nc.PublishMsg(l.msg); err != nil {
			o.e.log.Debug("an event was not sent", "subject", l.msg.Subject, "error", err)
		}
		return false
	}
	// A message that was sent before carries the reply subject of then.
	msg := &nats.Msg{Subject: l.msg.Subject, Header: l.msg.Header, Data: l.msg.Data}
	if l.ack, err = o.e.js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Second)); err != nil {
		l.ack = nil
		o.e.log.Warn("an audit record was not sent", "subject", l.msg.Subject, "error", err)
	}
	return true
}

// settle looks at the answers that have come, and sends again what was refused.
func (o *outbox) settle() {
	keep := o.unsure[:0]
	for _, l := range o.unsure {
		var err error
		if l.ack != nil {
			select {
			case <-l.ack.Ok():
				continue
			case err = <-l.ack.Err():
			default:
				keep = append(keep, l)
				continue
			}
		}
		if l.tries >= auditTries {
			o.e.log.Error("an audit record was not written", "subject", l.msg.Subject, "record", string(l.msg.Data), "error", err)
			continue
		}
		if o.send(l) {
			keep = append(keep, l)
		}
	}
	clear(o.unsure[len(keep):])
	o.unsure = keep
}

func (o *outbox) settleAll() {
	ctx, cancel := context.WithTimeout(context.Background(), auditWithin)
	defer cancel()
	for len(o.unsure) > 0 {
		o.settle()
		select {
		case <-ctx.Done():
			return
		case <-o.e.js.PublishAsyncComplete():
			o.settle()
			if len(o.unsure) > 0 && !o.e.nc.IsConnected() {
				return
			}
		}
	}
}
