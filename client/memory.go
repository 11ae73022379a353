package client

import (
	"context"
	"slices"
	"sync"

	"toolbridge/subjects"
)

// Bounds of what a Server remembers. Of finished executions the oldest give
// way first: their answers beyond maxAnswers bytes, then they themselves beyond
// maxExecutions.
const (
	maxExecutions = 10_000
	maxAnswers    = 32 << 20
	maxListeners  = 16
)

// memory knows which executions a Server has seen, so that none runs twice.
type memory struct {
	mu      sync.Mutex
	byID    map[string]*execution
	ended   []*execution // finished or cancelled before they came, oldest first
	answers int          // bytes
}

// execution is one execution id's state. Its fields belong to the memory's
// lock.
type execution struct {
	in     *memory
	id     string
	digest [32]byte // of tool and arguments
	early  bool     // only a cancel has come so far
	halted bool     // cancelled
	ended  bool
	answer []byte // once ended; nil when it had to give way
	to     []string
	stop   context.CancelCauseFunc // while it runs
}

func newMemory() memory { return memory{byID: map[string]*execution{}} }

// enter notes an execution that arrived; first says that it was not known.
func (m *memory) enter(id string, digest [32]byte, reply string) (e *execution, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e = m.byID[id]; e != nil && !e.early {
		if e.digest != digest {
			return &execution{in: m, ended: true, answer: refusal(subjects.CodeIDReused, "this execution id was used for another tool or other arguments")}, false
		}
		return e, false
	}
	if e == nil {
		e = &execution{in: m, id: id}
		m.byID[id] = e
	} else {
		m.ended = slices.DeleteFunc(m.ended, func(o *execution) bool { return o == e })
	}
	e.early, e.digest, e.to = false, digest, []string{reply}
	return e, true
}

// repeat returns the answer for one more copy of the same message; nil when it
// will be answered together with the first.
func (e *execution) repeat(reply string) []byte {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	switch {
	case !e.ended && len(e.to) < maxListeners:
		if !slices.Contains(e.to, reply) {
			e.to = append(e.to, reply)
		}
		return nil
	case !e.ended:
		return nil
	case e.answer == nil:
		return refusal(subjects.CodeOutcomeUnknown, "it ran before; its answer is no longer held")
	}
	return e.answer
}

// start makes the execution cancellable; false when it was cancelled already.
func (e *execution) start(stop context.CancelCauseFunc) bool {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	e.stop = stop
	return !e.halted
}

func (e *execution) listeners() []string {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	return slices.Clone(e.to)
}

// cancel stops an execution, also one that is still to come.
func (m *memory) cancel(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if e == nil {
		e = &execution{in: m, id: id, early: true}
		m.byID[id] = e
		m.keep(e)
	}
	if e.ended {
		return
	}
	e.halted = true
	if e.stop != nil {
		e.stop(errCancelled)
	}
}

// forget drops an execution that never started; a later copy may.
func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byID, id)
}

// finish keeps the answer and returns where it goes.
func (m *memory) finish(e *execution, answer []byte) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.ended, e.answer, e.stop = true, answer, nil
	to := e.to
	e.to = nil
	m.answers += len(answer)
	m.keep(e)
	return to
}

func (m *memory) keep(e *execution) {
	m.ended = append(m.ended, e)
	for i := 0; m.answers > maxAnswers && i < len(m.ended)-1; i++ {
		m.answers -= len(m.ended[i].answer)
		m.ended[i].answer = nil
	}
	for len(m.ended) > maxExecutions {
		old := m.ended[0]
		m.ended[0] = nil
		m.ended = m.ended[1:]
		m.answers -= len(old.answer)
		if m.byID[old.id] == old {
			delete(m.byID, old.id)
		}
	}
}
