package worker

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// onceCache keeps the most recently used values, up to a total weight, and makes
// each value once however many ask for it at the same time. A failed make is not
// kept. The value used last stays, however heavy.
type onceCache[V any] struct {
	max   int64
	weigh func(V) int64
	asked func(hit bool) // hears of every look-up, when not nil

	mu      sync.Mutex
	entries map[string]*list.Element
	order   *list.List // front: last used
	weight  int64
	making  map[string]*making[V]
}

type cached[V any] struct {
	key    string
	value  V
	weight int64
}

type making[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// newOnceCache weighs each value once, when it is made; a nil weigh counts them.
func newOnceCache[V any](most int64, weigh func(V) int64) *onceCache[V] {
	if weigh == nil {
		weigh = func(V) int64 { return 1 }
	}
	return &onceCache[V]{max: most, weigh: weigh, entries: map[string]*list.Element{}, order: list.New(), making: map[string]*making[V]{}}
}

// get returns the value of key, made by build when it is not there. build runs
// under the context of the first who asked; when that one is cancelled the next
// who waits makes it.
func (c *onceCache[V]) get(ctx context.Context, key string, build func(context.Context) (V, error)) (V, error) {
	var zero V
	for {
		c.mu.Lock()
		if e, ok := c.entries[key]; ok {
			c.order.MoveToFront(e)
			v := e.Value.(*cached[V]).value
			c.mu.Unlock()
			c.tell(true)
			return v, nil
		}
		if m, ok := c.making[key]; ok {
			c.mu.Unlock()
			c.tell(true)
			select {
			case <-m.done:
				if m.err == nil {
					return m.value, nil
				}
				if ctx.Err() == nil && isContextError(m.err) {
					continue
				}
				return zero, m.err
			case <-ctx.Done():
				return zero, ctx.Err()
			}
		}
		m := &making[V]{done: make(chan struct{})}
		c.making[key] = m
		c.mu.Unlock()
		c.tell(false)
		return c.fill(ctx, key, m, build)
	}
}

// has returns the value of key when it is there.
func (c *onceCache[V]) has(key string) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(e)
	c.tell(true)
	return e.Value.(*cached[V]).value, true
}

func (c *onceCache[V]) tell(hit bool) {
	if c.asked != nil {
		c.asked(hit)
	}
}

// size is how many values are kept, and their weight.
func (c *onceCache[V]) size() (n int, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len(), c.weight
}

func (c *onceCache[V]) fill(ctx context.Context, key string, m *making[V], build func(context.Context) (V, error)) (V, error) {
	m.err = context.Canceled // what the others see should build panic
	defer func() {
		c.mu.Lock()
		delete(c.making, key)
		if m.err == nil {
			v := &cached[V]{key, m.value, c.weigh(m.value)}
			c.entries[key] = c.order.PushFront(v)
			c.weight += v.weight
			for c.weight > c.max && c.order.Len() > 1 {
				c.drop(c.order.Back())
			}
		}
		c.mu.Unlock()
		close(m.done)
	}()
	m.value, m.err = build(ctx)
	return m.value, m.err
}

func (c *onceCache[V]) drop(e *list.Element) {
	c.order.Remove(e)
	v := e.Value.(*cached[V])
	delete(c.entries, v.key)
	c.weight -= v.weight
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
