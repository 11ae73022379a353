package worker

import (
	"sync"
	"time"
)

// maxIdleHands bounds the goroutines that wait for a request; busier workers start
// more and end them again.
const maxIdleHands = 256

// handsRest is the time in which a goroutine that was not needed once ends.
const handsRest = 4 * time.Second

// hands are goroutines that work on requests and are used again, the last one to
// finish first: a fresh goroutine would grow its stack anew for every request. How
// many run at once is for the caller to bound. After a rush those that are no
// longer needed end within twice handsRest.
type hands struct {
	mu     sync.Mutex
	idle   []chan func() // the last to finish stands last
	spare  int           // fewest that have been idle since the last look
	look   *time.Timer   // nil while none is idle
	closed bool
	all    sync.WaitGroup
}

// run hands work over and returns at once.
func (h *hands) run(work func()) {
	h.mu.Lock()
	if n := len(h.idle); n > 0 {
		next := h.idle[n-1]
		h.idle = h.idle[:n-1]
		h.spare = min(h.spare, n-1)
		h.mu.Unlock()
		next <- work
		return
	}
	h.mu.Unlock()
	h.all.Go(func() { h.loop(work) })
}

func (h *hands) loop(work func()) {
	next := make(chan func(), 1)
	for {
		work()
		h.mu.Lock()
		if h.closed || len(h.idle) >= maxIdleHands {
			h.mu.Unlock()
			return
		}
		h.idle = append(h.idle, next)
		if h.look == nil {
			h.spare = 0
			h.look = time.AfterFunc(handsRest, h.rest)
		}
		h.mu.Unlock()
		var ok bool
		if work, ok = <-next; !ok {
			return
		}
	}
}

// rest ends the goroutines that were not needed since the last look: of those that
// are idle the ones that have been so for longest.
func (h *hands) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for _, next := range h.idle[:h.spare] {
		close(next)
	}
	h.idle = append(h.idle[:0:0], h.idle[h.spare:]...)
	if h.spare = len(h.idle); h.spare == 0 {
		h.look = nil
		return
	}
	h.look.Reset(handsRest)
}

// close ends the idle goroutines and waits for those at work. Nothing may be
// handed over any more.
func (h *hands) close() {
	h.mu.Lock()
	h.closed = true
	if h.look != nil {
		h.look.Stop()
	}
	for _, next := range h.idle {
		close(next)
	}
	h.idle = nil
	h.mu.Unlock()
	h.all.Wait()
}
