package worker

import "sync"

// place is a request's place among those that a bound counts. Only its own
// goroutine uses it.
type place struct{ in chan struct{} }

// move gives the place up for one among to, when there is one free.
func (p *place) move(to chan struct{}) {
	select {
	case to <- struct{}{}:
		<-p.in
		p.in = to
	default:
	}
}

func (p *place) leave() { <-p.in }

// flight counts the requests in work. After close no more are taken, and idle is
// closed when the last one has left.
type flight struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{}
}

func newFlight() *flight { return &flight{idle: make(chan struct{})} }

func (f *flight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.n++
	return true
}

func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.closed && f.n == 0 {
		close(f.idle)
	}
}

func (f *flight) close() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		if f.n == 0 {
			close(f.idle)
		}
	}
	return f.idle
}
