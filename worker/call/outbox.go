package call

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
)

// outbox sends what nobody waits for. Events leave a moment later and several at
// once, in the order in which they came, so that they cost the calls little; they
// are a courtesy, and above a bound they are dropped. Audit records leave at once;
// one that the stream did not take is sent again, and so may be there twice.
type outbox struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	log  *slog.Logger
	wake chan struct{} // something is there
	done chan struct{} // closed: nothing more waits
	loop sync.WaitGroup

	mu      sync.Mutex
	running bool // events wait for others
	keeping bool // refused records are kept
	events  []*nats.Msg
	dropped int         // events, since the last flush
	again   []*nats.Msg // audit records that the stream did not take
}

const (
	// outboxDelay is how long an event waits for others.
	outboxDelay = 5 * time.Millisecond
	// outboxLimit bounds what waits, of events and of audit records each.
	outboxLimit = 10_000
	// auditWithin is how long the stream may take to acknowledge a record, and
	// auditRetry the time before one is sent again.
	auditWithin = 10 * time.Second
	auditRetry  = 250 * time.Millisecond
	// auditGrace is how long a worker that stops waits for the acknowledgements.
	auditGrace = 2 * time.Second
)

func newOutbox(nc *nats.Conn, log *slog.Logger) (*outbox, error) {
	o := &outbox{nc: nc, log: log, wake: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	o.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(auditWithin),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { o.refused(m, err) }))
	if err != nil {
		return nil, fmt.Errorf("opening JetStream: %w", err)
	}
	return o, nil
}

func (o *outbox) start() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running, o.keeping = true, true
	o.loop.Go(o.run)
}

// stop sends what waits. What comes afterwards is sent at once, and waited for.
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

func (o *outbox) event(m *nats.Msg) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.running:
		o.publish(m)
	case len(o.events) < outboxLimit:
		o.events = append(o.events, m)
		offer(o.wake, struct{}{})
	default:
		o.dropped++
	}
}

func (o *outbox) publish(m *nats.Msg) {
	if err := o.nc.PublishMsg(m); err != nil {
		o.log.Debug("an event was not sent", "subject", m.Subject, "error", err)
	}
}

// audit sends a record. What it returns tells when the stream has it; nil when
// that is known already.
func (o *outbox) audit(m *nats.Msg) jetstream.PubAckFuture {
	o.mu.Lock()
	keeping := o.keeping
	o.mu.Unlock()
	if !keeping {
		ctx, cancel := context.WithTimeout(context.Background(), auditGrace)
		defer cancel()
		if _, err := o.js.PublishMsg(ctx, m); err != nil {
			o.lost(m, err)
		}
		return nil
	}
	sent, err := o.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Second))
	if err != nil {
		o.refused(m, err)
		return nil
	}
	return sent
}

// taken waits until the stream has a record: usually it has by now. One that was
// refused is sent again, and waited for with all that are, for a while; not when the
// stream is full.
func (o *outbox) taken(ctx context.Context, sent jetstream.PubAckFuture) {
	select {
	case <-sent.Ok():
		return
	case err := <-sent.Err():
		if state.Full(err) {
			return
		}
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(auditRetry / 10)
	defer tick.Stop()
	for o.owed() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// refused keeps a record that the stream did not take. The library calls it with a
// lock held.
func (o *outbox) refused(m *nats.Msg, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.keeping || len(o.again) >= outboxLimit {
		o.lost(m, err)
		return
	}
	if len(o.again) == 0 {
		o.log.Warn("audit records are not written; they are sent again", "subject", m.Subject, "error", err)
	}
	o.again = append(o.again, m)
	offer(o.wake, struct{}{})
}

// lost gives a record up; it is in the log then.
func (o *outbox) lost(m *nats.Msg, err error) {
	o.log.Error("an audit record was not written", "subject", m.Subject, "record", string(m.Data), "error", err)
}

func (o *outbox) run() {
	retry := time.NewTimer(auditRetry)
	defer retry.Stop()
	for {
		var again <-chan time.Time
		if o.owed() {
			retry.Reset(auditRetry)
			again = retry.C
		}
		select {
		case <-o.wake:
			time.Sleep(outboxDelay)
		case <-again:
			ctx, cancel := context.WithTimeout(context.Background(), auditWithin)
			o.resend(ctx)
			cancel()
		case <-o.done:
			o.flush()
			o.settle()
			return
		}
		o.flush()
	}
}

func (o *outbox) owed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.again) > 0
}

// flush sends the events that wait.
func (o *outbox) flush() {
	o.mu.Lock()
	list, dropped := o.events, o.dropped
	o.events, o.dropped = nil, 0
	o.mu.Unlock()
	for _, m := range list {
		o.publish(m)
	}
	if dropped > 0 {
		o.log.Warn("events were dropped: they came faster than they could be sent", "events", dropped)
	}
}

// resend sends the refused records until one is refused again. It returns false
// then.
func (o *outbox) resend(ctx context.Context) bool {
	o.mu.Lock()
	list := slices.Clone(o.again)
	o.mu.Unlock()
	for i, m := range list {
		// The message has the reply subject of its first way; the copy has none.
		_, err := o.js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		if err != nil {
			o.log.Debug("an audit record was not written; it is sent again", "subject", m.Subject, "error", err)
		}
		if err != nil || i == len(list)-1 {
			n := i
			if err == nil {
				n++
			}
			o.mu.Lock()
			o.again = slices.Delete(o.again, 0, n)
			o.mu.Unlock()
			return err == nil
		}
	}
	return true
}

// settle waits until the stream has taken what was sent, for a while.
func (o *outbox) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), auditGrace)
	defer cancel()
	select {
	case <-o.js.PublishAsyncComplete():
	case <-ctx.Done():
	}
	for o.owed() && !o.resend(ctx) && ctx.Err() == nil {
		select {
		case <-time.After(auditRetry):
		case <-ctx.Done():
		}
	}
	o.mu.Lock()
	list := o.again
	o.again, o.keeping = nil, false
	o.mu.Unlock()
	for _, m := range list {
		o.lost(m, context.Cause(ctx))
	}
	o.js.CleanupPublisher() // refuses what has no answer yet
}
