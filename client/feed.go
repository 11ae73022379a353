package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// feedBacklog is how many messages of a feed may wait for their reader.
const feedBacklog = 4096

// Feed brings messages of the bus, in the order in which they came. Stop it once
// done.
type Feed[T any] struct {
	// C has the messages; it is closed when the feed has ended. Read it without
	// long pauses: what finds no room is lost, which Lost tells.
	C <-chan T

	lost atomic.Int64
	subs []*nats.Subscription
	end  chan struct{}
	once sync.Once
	done chan struct{}
}

// Lost is how many messages were lost since the feed began, because their reader
// was slow or they were not readable.
func (f *Feed[T]) Lost() int64 { return f.lost.Load() }

// Stop ends the feed and waits until nothing of it runs. It may be called more
// than once.
func (f *Feed[T]) Stop() {
	f.once.Do(func() { close(f.end) })
	<-f.done
}

// feed subscribes and returns once the server knows it. read makes an item of a
// message of the right kind; it is called for each at once, however slow the
// reader of the feed is.
func feed[T any](ctx context.Context, c *Client, kind string, read func(*nats.Msg) (T, error), names ...string) (*Feed[T], error) {
	fail := func(err error) (*Feed[T], error) {
		return nil, fmt.Errorf("subscribing to %s: %w", strings.Join(names, " and "), err)
	}
	out, in := make(chan T, feedBacklog), make(chan *nats.Msg, feedBacklog)
	f := &Feed[T]{C: out, end: make(chan struct{}), done: make(chan struct{})}
	before := c.nc.LastError()
	for _, subject := range names {
		sub, err := c.nc.ChanSubscribe(subject, in)
		if err != nil {
			f.unsubscribe()
			return fail(err)
		}
		f.subs = append(f.subs, sub)
	}
	err := flush(ctx, c.nc)
	if err == nil {
		err = refused(c.nc, before, names)
	}
	if err != nil {
		f.unsubscribe()
		return fail(err)
	}
	go func() {
		defer close(f.done)
		defer close(out)
		defer f.unsubscribe()
		for {
			select {
			case m := <-in:
				f.take(m, kind, read, out)
			case <-f.end:
				return
			case <-c.done:
				return
			}
		}
	}()
	return f, nil
}

func (f *Feed[T]) take(m *nats.Msg, kind string, read func(*nats.Msg) (T, error), out chan<- T) {
	if m.Header.Get(subjects.HeaderKind) != kind {
		return
	}
	item, err := read(m)
	if err != nil {
		f.lost.Add(1)
		return
	}
	select {
	case out <- item:
	default:
		f.lost.Add(1)
	}
}

func (f *Feed[T]) unsubscribe() {
	for _, sub := range f.subs {
		if n, err := sub.Dropped(); err == nil {
			f.lost.Add(int64(n))
		}
		_ = sub.Unsubscribe() // fails only on a closed connection
	}
}

// refused is the server's word that the connection may not subscribe, which it
// sends before it answers a flush.
func refused(nc *nats.Conn, before error, names []string) error {
	last := nc.LastError()
	if last == nil || last == before || !errors.Is(last, nats.ErrPermissionViolation) { //nolint:errorlint // the very same value is meant
		return nil
	}
	for _, subject := range names {
		if strings.Contains(last.Error(), `"`+subject+`"`) {
			return last
		}
	}
	return nil
}

// Event is one event of a session's activity feed.
type Event struct {
	subjects.Event

	JSON json.RawMessage // as it came
}

// Events subscribes to the session's activity feed and returns once the server
// knows it. Events are a courtesy: they are not stored, and what happened while
// nobody listened is in the results.
func (s *Session) Events(ctx context.Context) (*Feed[Event], error) {
	return feed(ctx, s.client, subjects.KindEvent, func(m *nats.Msg) (Event, error) {
		e := Event{JSON: m.Data}
		err := subjects.Decode(m.Data, &e.Event)
		return e, err
	}, s.client.cfg.Space.Session(s.tenant, s.name, subjects.VerbEvent))
}
