package call

import (
	"errors"
	"slices"
	"time"
)

// task is something to do for one entry.
type task struct {
	kind  taskKind
	index int
}

type taskKind uint8

const (
	runTask taskKind = iota
	batchTask
	checkTask
	askTask
)

// due are the tasks that the record calls for and that are not under way.
// Called with mu held.
func (l *live) due() []task {
	var list []task
	stopping := l.e.base.Err() != nil // then only what is running is seen to its end
	for i := range l.record.Entries {
		e := &l.record.Entries[i]
		if l.busy[i] {
			continue
		}
		switch {
		case e.State == Running && l.record.Single:
			if at := slices.IndexFunc(list, func(t task) bool { return t.kind == batchTask }); at < 0 {
				list = append(list, task{batchTask, i}) // the first of all that run
			}
		case e.State == Running:
			list = append(list, task{runTask, i})
		case stopping:
			continue
		case e.State == Received && !e.ready():
			list = append(list, task{checkTask, i})
		case e.State == Awaiting && !e.Asked:
			list = append(list, task{askTask, i})
		default:
			continue
		}
		l.busy[i] = true
	}
	return list
}

// run does everything that can be done now and returns when nothing of the call
// is under way: it is final, or it waits for people and the lease is given up,
// or another worker has it.
func (l *live) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list := l.due(); len(list) == 1 { // as most calls: it needs no goroutine of its own
		l.tasks++
		l.mu.Unlock()
		l.do(list[0])
		l.mu.Lock()
		l.tasks--
	} else {
		l.spawn(list)
	}
	for {
		for l.tasks > 0 {
			l.idle.Wait()
		}
		if l.leave() {
			return
		}
	}
}

// spawn starts tasks. Called with mu held.
func (l *live) spawn(list []task) {
	l.tasks += len(list)
	for _, t := range list {
		go func() {
			defer l.ended()
			l.do(t)
		}()
	}
}

func (l *live) do(t task) {
	switch t.kind {
	case runTask:
		l.runEntry(t.index)
	case batchTask:
		l.runTogether()
	case checkTask:
		l.checkEntry(t.index)
	case askTask:
		l.askEntry(t.index)
	}
}

// ended is the end of a task; run waits for the last.
func (l *live) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks--; l.tasks == 0 {
		l.idle.Broadcast()
	}
}

// leave closes the call, or gives the lease up while it waits for people. It
// returns false when there is more to do after all. Called with mu held, and no
// task under way.
func (l *live) leave() bool {
	if l.lost || l.record.Final {
		return true
	}
	err := l.write(func(r *Record) bool {
		if r.allDone() {
			return true // write closes it
		}
		l.claimStarts(r, time.Now())
		if r.count(Running) > 0 || r.undecided() && l.e.base.Err() == nil {
			return true
		}
		r.Lease = nil // for people, or for another worker when this one is stopping
		return true
	})
	if err != nil {
		if !errors.Is(err, errLost) {
			l.e.log.Warn("a call's record could not be written; another worker takes over", "call", l.key.String(), "error", err)
		}
		l.lost = true
		return true
	}
	if l.record.Final || l.record.Lease == nil {
		return true
	}
	list := l.due()
	l.spawn(list)
	return len(list) == 0
}

// undecided reports whether an entry waits for checks, or to be asked for.
func (r *Record) undecided() bool {
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.State == Received && !e.ready() || e.State == Awaiting && !e.Asked {
			return true
		}
	}
	return false
}

// unfinished reports whether a call that nobody holds has something to do.
func (r *Record) unfinished() bool {
	return !r.Final && r.Lease == nil && (len(r.startable()) > 0 || r.undecided() || r.allDone())
}
