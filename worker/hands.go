package worker

import "sync"

// maxIdleHands bounds the goroutines that wait for a request; busier workers start
// more and end them again.
const maxIdleHands = 256

// hands are goroutines that work on requests and are used again, the last one to
// finish first: a fresh goroutine would grow its stack anew for every request. How
// many run at once is for the caller to bound.
type hands struct {
	mu     sync.Mutex
	idle   []chan func()
	closed bool
	all    sync.WaitGroup
}

// run hands work over and returns at once.
func (h *hands) run(work func()) {
	h.mu.Lock()
	if n := len(h.idle); n > 0 {
		next := h.idle[n-1]
		h.idle = h.idle[:n-1]
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
		h.mu.Unlock()
		var ok bool
		if work, ok = <-next; !ok {
			return
		}
	}
}

// close ends the idle goroutines and waits for those at work. Nothing may be
// handed over any more.
func (h *hands) close() {
	h.mu.Lock()
	h.closed = true
	for _, next := range h.idle {
		close(next)
	}
	h.idle = nil
	h.mu.Unlock()
	h.all.Wait()
}
