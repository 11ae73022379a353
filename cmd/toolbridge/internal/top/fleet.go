// Package top shows what a tenant's sessions, calls, approvals and executors, and
// the workers, do now.
//
// Fleet is the picture, put together from events, the services' statistics, the
// registry and the approvals; Collector hears them on the bus; Render draws it.
package top

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"toolbridge/subjects"
)

// Bounds of the picture: what is older or more is left out, and counted.
const (
	maxSessions = 500
	maxCalls    = 2000
	quiet       = 10 * time.Minute // a session that was not heard of for so long is left out
)

// Worker is one worker's part of the statistics.
type Worker struct {
	ID, Version      string
	Requests, Errors int
	Rate             float64 // requests a second since the last time
	Mean             time.Duration

	at time.Time
}

// Session is one session's activity since the picture began.
type Session struct {
	Name                     string
	Running                  int // calls
	Finished, Failed         int // calls
	Tool                     string
	Last                     time.Time
	calls                    map[string]struct{}
	Executions, ExecFailures int
}

// Waiting is an approval that nobody has decided.
type Waiting struct {
	ID, Session, Tool, Reason string
	Requested, Expires        time.Time
}

// Toolset is one executor's entry in the registry.
type Toolset struct {
	Name, Executor, State, Reason string
	Tools                         int
}

// Breaker is the circuit breaker before a tenant's gateway.
type Breaker struct {
	Name, State string
	Since       time.Time
}

// Fleet is the picture; it may be changed and drawn at the same time.
type Fleet struct {
	mu       sync.Mutex
	began    time.Time
	workers  map[string]Worker
	sessions map[string]*Session
	waiting  map[string]Waiting
	toolsets map[string]Toolset
	breakers map[string]Breaker
	calls    int
	lost     int // sessions that found no room
	notes    map[string]string
}

// NewFleet is an empty picture.
func NewFleet(now time.Time) *Fleet {
	return &Fleet{
		began: now, workers: map[string]Worker{}, sessions: map[string]*Session{}, waiting: map[string]Waiting{},
		toolsets: map[string]Toolset{}, breakers: map[string]Breaker{}, notes: map[string]string{},
	}
}

// Note says why a part of the picture is missing; "" takes it back.
func (f *Fleet) Note(part, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if why == "" {
		delete(f.notes, part)
		return
	}
	f.notes[part] = why
}

// Event takes one event of a session.
func (f *Fleet) Event(session string, e subjects.Event, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[session]
	if s == nil {
		if len(f.sessions) >= maxSessions && !f.forget(now) {
			f.lost++
			return
		}
		s = &Session{Name: session, calls: map[string]struct{}{}}
		f.sessions[session] = s
	}
	s.Last = now
	if e.Tool != "" {
		s.Tool = e.Tool
	}
	failed := e.IsError != nil && *e.IsError
	switch e.Type {
	case subjects.EventCallAccepted:
		if _, known := s.calls[e.CallID]; !known && f.calls < maxCalls {
			s.calls[e.CallID] = struct{}{}
			f.calls++
		}
	case subjects.EventCallFinished:
		if _, known := s.calls[e.CallID]; known {
			delete(s.calls, e.CallID)
			f.calls--
		}
		s.Finished++
		if failed {
			s.Failed++
		}
	case subjects.EventToolFinished:
		s.Executions++
		if failed {
			s.ExecFailures++
		}
	case subjects.EventApprovalRequested:
		if e.Approval != nil && len(f.waiting) < maxCalls {
			f.waiting[e.Approval.ID] = waiting(*e.Approval)
		}
	case subjects.EventApprovalSettled:
		if e.Decision != nil {
			delete(f.waiting, e.Decision.ID)
		}
	}
	s.Running = len(s.calls)
}

// forget drops sessions that have been quiet; it reports whether there is room.
func (f *Fleet) forget(now time.Time) bool {
	for name, s := range f.sessions {
		if now.Sub(s.Last) > quiet {
			f.calls -= len(s.calls)
			delete(f.sessions, name)
		}
	}
	return len(f.sessions) < maxSessions
}

func waiting(a subjects.Approval) Waiting {
	w := Waiting{ID: a.ID, Session: a.Session, Tool: a.Tool, Reason: a.Reason}
	w.Requested, _ = time.Parse(time.RFC3339, a.RequestedAt)
	w.Expires, _ = time.Parse(time.RFC3339, a.ExpiresAt)
	return w
}

// Approvals replaces what waits by a list of everything that does.
func (f *Fleet) Approvals(list []subjects.Approval) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.waiting)
	for _, a := range list {
		f.waiting[a.ID] = waiting(a)
	}
}

// Workers replaces the workers by those that answered.
func (f *Fleet) Workers(list []Worker, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.workers
	f.workers = make(map[string]Worker, len(list))
	for _, w := range list {
		w.at = now
		if b, ok := before[w.ID]; ok && now.After(b.at) && w.Requests >= b.Requests {
			w.Rate = float64(w.Requests-b.Requests) / now.Sub(b.at).Seconds()
		}
		f.workers[w.ID] = w
	}
}

// Toolset takes an entry of the registry; without a name it is gone.
func (f *Fleet) Toolset(key string, t Toolset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.Name == "" {
		delete(f.toolsets, key)
		return
	}
	f.toolsets[key] = t
}

// Breaker takes the state of a breaker.
func (f *Fleet) Breaker(b Breaker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breakers[b.Name] = b
}

// Picture is the fleet at one moment, sorted for people: what is busy or broken
// comes first.
type Picture struct {
	At, Began time.Time
	Workers   []Worker
	Sessions  []Session
	Waiting   []Waiting
	Toolsets  []Toolset
	Breakers  []Breaker
	Lost      int
	Notes     []string
}

// Picture draws the fleet's state now.
func (f *Fleet) Picture(now time.Time) Picture {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(now)
	p := Picture{At: now, Began: f.began, Lost: f.lost}
	for _, w := range f.workers {
		p.Workers = append(p.Workers, w)
	}
	for _, s := range f.sessions {
		c := *s
		c.calls = nil
		p.Sessions = append(p.Sessions, c)
	}
	for _, w := range f.waiting {
		if w.Expires.IsZero() || now.Before(w.Expires) {
			p.Waiting = append(p.Waiting, w)
		}
	}
	for _, t := range f.toolsets {
		p.Toolsets = append(p.Toolsets, t)
	}
	for _, b := range f.breakers {
		p.Breakers = append(p.Breakers, b)
	}
	for part, why := range f.notes {
		p.Notes = append(p.Notes, part+": "+why)
	}
	slices.SortFunc(p.Workers, func(a, b Worker) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(p.Sessions, func(a, b Session) int {
		return cmp.Or(cmp.Compare(b.Running, a.Running), b.Last.Compare(a.Last), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(p.Waiting, func(a, b Waiting) int { return cmp.Or(a.Requested.Compare(b.Requested), cmp.Compare(a.ID, b.ID)) })
	slices.SortFunc(p.Toolsets, func(a, b Toolset) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Executor, b.Executor))
	})
	slices.SortFunc(p.Breakers, func(a, b Breaker) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(p.Notes)
	return p
}

func rank(state string) int {
	if state == subjects.StateReady {
		return 1
	}
	return 0
}
