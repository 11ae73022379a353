package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"toolbridge/subjects"
)

// Bounds of what one server's executions are remembered by.
const (
	keptAnswers = 32 << 20         // bytes of answers
	keptDone    = 16 << 10         // executions that are done
	keptFor     = 15 * time.Minute // since they were done
	keptCancels = 1 << 10          // cancels that came before their execution
	cancelFor   = 30 * time.Second
	maxReplies  = 16 // requesters of one execution
)

// executions knows what runs and what ran lately, so that a request that is
// delivered twice runs once and is answered twice.
type executions struct {
	mu    sync.Mutex
	now   func() time.Time
	byKey map[executionKey]*execution
	done  []*execution // the oldest first
	kept  []*execution // those of them whose answer is kept
	bytes int          // of kept answers
	early []earlyCancel
}

type executionKey [sha256.Size]byte

// execution is one run of one request.
type execution struct {
	key         executionKey
	id, session string
	cancel      context.CancelCauseFunc

	replies []string // who waits; guarded by executions.mu
	ended   time.Time
	answer  []byte // nil when it was too much to keep
	isDone  bool
}

type earlyCancel struct {
	session, id string
	at          time.Time
}

func newExecutions(now func() time.Time) *executions {
	return &executions{now: now, byKey: map[executionKey]*execution{}}
}

// keyOf tells executions apart: a duplicate is equal in all of it. Call ids are
// unique per session only.
func keyOf(r subjects.ExecRequest) executionKey {
	h := sha256.New()
	for _, part := range []string{r.Session, r.ExecutionID, r.IdempotencyKey, r.Tool, r.DefinitionSHA256, string(r.Arguments)} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return executionKey(h.Sum(nil))
}

// join is the execution of a request. first says that the caller has to run it
// and to finish it; otherwise reply gets the answer when it is done, or answer
// is that already.
func (x *executions) join(r subjects.ExecRequest, reply string, cancel context.CancelCauseFunc) (e *execution, first bool, answer []byte) {
	key := keyOf(r)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forgetOld()
	if e, ok := x.byKey[key]; ok {
		switch {
		case e.isDone && e.answer == nil:
			return e, false, encodeError(subjects.CodeOutcomeUnknown, "this execution has run before, and its answer was too large to keep")
		case e.isDone:
			return e, false, e.answer
		case len(e.replies) < maxReplies && !slices.Contains(e.replies, reply):
			e.replies = append(e.replies, reply)
		}
		return e, false, nil
	}
	e = &execution{key: key, id: r.ExecutionID, session: r.Session, cancel: cancel, replies: []string{reply}}
	x.byKey[key] = e
	for i, c := range x.early {
		if c.id == e.id && (c.session == "" || c.session == e.session) {
			x.early = slices.Delete(x.early, i, i+1)
			cancel(errCancelRequested)
			break
		}
	}
	return e, true, nil
}

// waiting are the reply subjects of an execution.
func (x *executions) waiting(e *execution) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(e.replies)
}

// finish ends an execution and returns who waits for the answer. Without
// remember it is forgotten: it did not run, and may be tried again.
func (x *executions) finish(e *execution, answer []byte, remember bool) (replies []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !remember {
		delete(x.byKey, e.key)
		return e.replies
	}
	e.isDone, e.answer, e.ended = true, answer, x.now()
	x.done, x.kept = append(x.done, e), append(x.kept, e)
	x.bytes += len(answer)
	for x.bytes > keptAnswers {
		x.bytes -= len(x.kept[0].answer)
		x.kept[0].answer = nil
		x.kept = x.kept[1:]
	}
	x.forgetOld()
	return e.replies
}

func (x *executions) forgetOld() {
	for len(x.done) > 0 {
		e := x.done[0]
		if len(x.done) <= keptDone && x.now().Sub(e.ended) < keptFor {
			return
		}
		if len(x.kept) > 0 && x.kept[0] == e {
			x.kept = x.kept[1:]
			x.bytes -= len(e.answer)
		}
		x.done = x.done[1:]
		delete(x.byKey, e.key)
	}
}

// cancel ends the execution of that id. Without a session it must be the only
// one of that id. An id that is not known yet is remembered for a moment: the
// cancel may have overtaken its request.
func (x *executions) cancel(session, id string) (found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var match []*execution
	known := false
	for _, e := range x.byKey {
		if e.id == id && (session == "" || e.session == session) {
			known = true
			if !e.isDone {
				match = append(match, e)
			}
		}
	}
	if session == "" && len(match) > 1 {
		return false
	}
	for _, e := range match {
		e.cancel(errCancelRequested)
	}
	if known {
		return len(match) > 0
	}
	now := x.now()
	x.early = slices.DeleteFunc(x.early, func(c earlyCancel) bool { return now.Sub(c.at) > cancelFor })
	if len(x.early) == keptCancels {
		x.early = x.early[1:]
	}
	x.early = append(x.early, earlyCancel{session, id, now})
	return false
}

// cancelAll ends everything that runs.
func (x *executions) cancelAll(cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.byKey {
		if !e.isDone {
			e.cancel(cause)
		}
	}
}
