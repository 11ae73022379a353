package connectors

import (
	"container/list"
	"time"
)

// answers keeps what the gateway found, for a short time and up to a total weight;
// the oldest go first. Its user locks it.
type answers struct {
	keep   time.Duration
	most   int64 // bytes
	weight int64
	byKey  map[string]*list.Element
	order  *list.List // of *answer; front: oldest, which ends first
}

type answer struct {
	key    string
	found  *Found
	weight int64
	until  time.Time
}

func newAnswers(keep time.Duration, most int64) *answers {
	return &answers{keep: keep, most: most, byKey: map[string]*list.Element{}, order: list.New()}
}

// get returns a key's answer while it lasts.
func (c *answers) get(key string, now time.Time) (*Found, bool) {
	e, ok := c.byKey[key]
	if !ok || !now.Before(e.Value.(*answer).until) {
		return nil, false
	}
	return e.Value.(*answer).found, true
}

// put keeps an answer, unless it alone is heavier than everything may be.
func (c *answers) put(key string, found *Found, now time.Time) {
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	a := &answer{key: key, found: found, weight: found.weight() + int64(2*len(key)), until: now.Add(c.keep)}
	if a.weight <= c.most {
		c.byKey[key] = c.order.PushBack(a)
		c.weight += a.weight
	}
	for e := c.order.Front(); e != nil && (c.weight > c.most || !now.Before(e.Value.(*answer).until)); e = c.order.Front() {
		c.drop(e)
	}
}

func (c *answers) drop(e *list.Element) {
	a := e.Value.(*answer)
	c.order.Remove(e)
	delete(c.byKey, a.key)
	c.weight -= a.weight
}
