package call

import "sync"

// slot is a call's place among those that a worker runs at once.
type slot struct {
	e    *Engine
	once sync.Once
}

// free gives the place back; again it does nothing.
func (s *slot) free() { s.once.Do(func() { <-s.e.slots }) }

// maxParked bounds the calls of a worker that wait for a person while they run and
// hold no slot meanwhile; what comes on top keeps its slot.
const maxParked = 10_000

// park gives a running call's slot back, since from here on it waits for a person. It
// keeps its lease, and what is left to do afterwards is little.
func (l *live) park() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slot == nil || l.parked {
		return
	}
	select {
	case l.e.parked <- struct{}{}:
		l.parked = true
		l.slot.free()
	default:
	}
}

// unpark ends what park began, when the worker is done with the call.
func (l *live) unpark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked {
		l.parked = false
		<-l.e.parked
	}
}
