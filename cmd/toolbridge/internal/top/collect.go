package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"toolbridge/subjects"
)

// Collector keeps a Fleet current. Start it once, Stop it once.
type Collector struct {
	Conn     *nats.Conn
	Space    subjects.Space
	Tenant   string
	Approver string // as whom the approvals are listed
	Fleet    *Fleet

	events *nats.Subscription
	cancel context.CancelFunc
	owned  sync.WaitGroup
}

const (
	statsEvery   = time.Second
	statsWait    = 300 * time.Millisecond // for the answers of all workers
	approveEvery = 5 * time.Second
	backOff      = 5 * time.Second
)

// Start subscribes to the tenant's events and begins to ask for the rest. What
// the connection may not see stands in the picture as a note.
func (c *Collector) Start(ctx context.Context) error {
	sub, err := c.Conn.Subscribe(c.Space.Session(c.Tenant, "*", subjects.VerbEvent), c.event)
	if err != nil {
		return fmt.Errorf("following the events of tenant %s: %w", c.Tenant, err)
	}
	c.events = sub
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	c.owned.Go(func() { every(life, statsEvery, c.stats) })
	c.owned.Go(func() { every(life, approveEvery, c.approvals) })
	c.owned.Go(func() { every(life, backOff, c.registry) })
	c.owned.Go(func() { every(life, backOff, c.breakers) })
	return nil
}

// Stop ends what Start began.
func (c *Collector) Stop() {
	_ = c.events.Unsubscribe()
	c.cancel()
	c.owned.Wait()
}

func every(ctx context.Context, pause time.Duration, f func(context.Context)) {
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (c *Collector) event(m *nats.Msg) {
	if m.Header.Get(subjects.HeaderKind) != subjects.KindEvent {
		return
	}
	a, err := c.Space.Parse(m.Subject)
	if err != nil {
		return
	}
	var e subjects.Event
	if subjects.Decode(m.Data, &e) == nil {
		c.Fleet.Event(a.Session, e, time.Now())
	}
}

func (c *Collector) stats(ctx context.Context) {
	sub, err := c.Conn.SubscribeSync(c.Conn.NewInbox())
	if err != nil {
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.Conn.PublishRequest("$SRV.STATS."+subjects.ServiceName, sub.Subject, nil); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statsWait)
	defer cancel()
	var list []Worker
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break
		}
		var s micro.Stats
		if json.Unmarshal(m.Data, &s) != nil || s.ID == "" {
			continue
		}
		w := Worker{ID: s.ID, Version: s.Version}
		var busy time.Duration
		for _, e := range s.Endpoints {
			w.Requests += e.NumRequests
			w.Errors += e.NumErrors
			busy += e.ProcessingTime
		}
		if w.Requests > 0 {
			w.Mean = busy / time.Duration(w.Requests)
		}
		list = append(list, w)
	}
	c.Fleet.Workers(list, time.Now())
}

func (c *Collector) approvals(ctx context.Context) {
	const part = "approvals before now"
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	m, err := c.Conn.RequestWithContext(ctx, c.Space.ApprovalList(c.Tenant, c.Approver), []byte(`{}`))
	if err != nil {
		c.Fleet.Note(part, reason(err))
		return
	}
	var r subjects.ApprovalListReply
	if m.Header.Get(subjects.HeaderErrorCode) != "" || subjects.Decode(m.Data, &r) != nil {
		c.Fleet.Note(part, "the worker refuses to list them for approver "+c.Approver)
		return
	}
	c.Fleet.Note(part, "")
	c.Fleet.Approvals(r.Approvals)
}

// registry follows the tenant's executors until the watch ends.
func (c *Collector) registry(ctx context.Context) {
	const part = "executors"
	c.watch(ctx, part, subjects.BucketToolsets, c.Tenant+".>", func(e jetstream.KeyValueEntry) {
		parts := strings.Split(e.Key(), ".")
		if len(parts) != 3 {
			return
		}
		var t Toolset
		var r subjects.Registration
		if e.Operation() == jetstream.KeyValuePut && subjects.Decode(e.Value(), &r) == nil {
			name, err := subjects.DecodeToolset(parts[1])
			if err != nil {
				return
			}
			t = Toolset{Name: name, Executor: parts[2], State: r.State, Reason: r.Reason, Tools: r.ToolCount}
			if t.State == "" {
				t.State = subjects.StateReady
			}
		}
		c.Fleet.Toolset(e.Key(), t)
	})
}

func (c *Collector) watch(ctx context.Context, part, bucket, keys string, take func(jetstream.KeyValueEntry)) {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return
	}
	opening, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	kv, err := js.KeyValue(opening, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return
	}
	if err != nil {
		c.Fleet.Note(part, reason(err))
		return
	}
	w, err := kv.Watch(ctx, keys)
	if err != nil {
		c.Fleet.Note(part, reason(err))
		return
	}
	defer func() { _ = w.Stop() }()
	c.Fleet.Note(part, "")
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return
			}
			if e != nil {
				take(e)
			}
		case <-ctx.Done():
			return
		}
	}
}

// breakers follows the circuit breakers, where there is a gateway.
func (c *Collector) breakers(ctx context.Context) {
	c.watch(ctx, "breaker", subjects.BucketBreakers, "*."+c.Tenant, func(e jetstream.KeyValueEntry) {
		var r struct {
			State string    `json:"state"`
			At    time.Time `json:"at"`
		}
		if e.Operation() != jetstream.KeyValuePut || json.Unmarshal(e.Value(), &r) != nil {
			return
		}
		origin, _, _ := strings.Cut(e.Key(), ".")
		c.Fleet.Breaker(Breaker{Name: origin, State: r.State, Since: r.At})
	})
}

func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrPermissionViolation) {
		return "this connection may not see them, or nobody answers"
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return "no worker answers"
	}
	return err.Error()
}
