package call

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

// tallies counts what sessions run, in one value per session in the journal's
// bucket, so that limits hold whichever worker runs a call.
type tallies struct {
	state *state.State
	calls *state.Calls
	// turns keeps entries of one session from racing each other in this worker;
	// between workers the write at a revision decides.
	turns [64]sync.Mutex
}

// tallyID is no valid call id in the grammar of subjects, so that no call can
// take the key.
const tallyID = "=guardrails"

// tally is what is known of one session. Its size is bounded: at most
// maxTallied tools with spansPerWindow+1 spans each, and maxCounted ids.
type tally struct {
	Tools   []toolTally `json:"tools,omitempty"`
	Last    string      `json:"last,omitempty"`    // digest of the last counted call
	Row     int         `json:"row,omitempty"`     // how often it was counted in a row
	Counted []string    `json:"counted,omitempty"` // the last executions counted, oldest first
}

// toolTally is how often one tool was run lately.
type toolTally struct {
	Name  string `json:"name"`
	Spans []span `json:"spans"`
}

// span counts calls that were close together. It leaves the window with its last
// call, so that a limit is never exceeded and at most held a little longer.
type span struct {
	From int64 `json:"from"` // unix milliseconds, of the first
	To   int64 `json:"to"`   // of the last
	N    int   `json:"n"`
}

const (
	spansPerWindow = 32
	maxTallied     = 128
	maxCounted     = 64
)

// count counts one entry, or says why it may not run: then it is not counted. An
// entry that was counted before (its worker was lost since) is not counted again.
func (t *tallies) count(ctx context.Context, g *Guardrails, q Check) (*subjects.SlotError, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(q.Tenant + "." + q.Session))
	turn := &t.turns[h.Sum32()%uint32(len(t.turns))]
	turn.Lock()
	defer turn.Unlock()
	p := t.calls.Of(q.Tenant, q.Session)
	name := q.Tenant + "." + q.Session + "." + tallyID
	for {
		value, revision, err := t.state.GetFresh(ctx, p.Bucket, name)
		var have tally
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
		case err != nil:
			return nil, fmt.Errorf("reading what the session has run: %w", err)
		default:
			if err := subjects.Decode(value, &have); err != nil {
				return nil, fmt.Errorf("reading what the session has run: %w", err)
			}
		}
		block, changed := have.add(g, q, time.Now())
		if !changed {
			return block, nil
		}
		body, err := subjects.Encode(have)
		if err != nil {
			return nil, fmt.Errorf("writing what the session has run: %w", err)
		}
		_, err = p.Journal.Update(ctx, name, body, revision)
		switch {
		case err == nil:
			return nil, nil
		case errors.Is(err, jetstream.ErrKeyExists) && ctx.Err() == nil: // another worker was faster
		default:
			return nil, fmt.Errorf("writing what the session has run: %w", err)
		}
	}
}

// add counts one entry at a time, or blocks it. changed is false when nothing has
// to be written.
func (t *tally) add(g *Guardrails, q Check, at time.Time) (block *subjects.SlotError, changed bool) {
	id := executionID(q.CallID, q.Index)
	if slices.Contains(t.Counted, id) {
		return nil, false
	}
	same := ""
	if g.Repeat > 0 {
		if same = digest(q.Arguments, q.Tool); same == t.Last && t.Row >= g.Repeat {
			return tooAlike(q.Tool, g.Repeat), false
		}
	}
	if g.Rate.Calls > 0 {
		now := at.UnixMilli()
		t.prune(now, g.Rate.Per)
		tool := t.of(q.Tool)
		if tool.calls() >= g.Rate.Calls {
			wait := time.Duration(tool.Spans[0].To-now)*time.Millisecond + g.Rate.Per
			return tooOften(q.Tool, g.Rate, wait), false
		}
		tool.add(now, g.Rate.Per)
	}
	if g.Repeat > 0 {
		if same != t.Last {
			t.Last, t.Row = same, 0
		}
		t.Row++
	}
	t.Counted = append(t.Counted, id)
	if n := len(t.Counted); n > maxCounted {
		t.Counted = t.Counted[n-maxCounted:]
	}
	return nil, true
}

// prune drops what has left the window, and tools of which nothing is left.
func (t *tally) prune(now int64, per time.Duration) {
	kept := t.Tools[:0]
	for _, tool := range t.Tools {
		for len(tool.Spans) > 0 && now-tool.Spans[0].To >= per.Milliseconds() {
			tool.Spans = tool.Spans[1:]
		}
		if len(tool.Spans) > 0 {
			kept = append(kept, tool)
		}
	}
	t.Tools = kept
}

// of returns a tool's tally. When there are too many, the one with the fewest
// calls makes room (the oldest of several), so that no tool gets past its limit
// by calls of others.
func (t *tally) of(name string) *toolTally {
	for i := range t.Tools {
		if t.Tools[i].Name == name {
			return &t.Tools[i]
		}
	}
	if len(t.Tools) >= maxTallied {
		least := 0
		for i := range t.Tools {
			a, b := &t.Tools[i], &t.Tools[least]
			if a.calls() < b.calls() || a.calls() == b.calls() && a.last() < b.last() {
				least = i
			}
		}
		t.Tools = slices.Delete(t.Tools, least, least+1)
	}
	t.Tools = append(t.Tools, toolTally{Name: name})
	return &t.Tools[len(t.Tools)-1]
}

func (t *toolTally) calls() int {
	n := 0
	for _, s := range t.Spans {
		n += s.N
	}
	return n
}

func (t *toolTally) last() int64 {
	if len(t.Spans) == 0 {
		return 0
	}
	return t.Spans[len(t.Spans)-1].To
}

// add notes one call, in the last span when that began not long ago. Another
// worker's clock may be ahead: time does not go back here.
func (t *toolTally) add(now int64, per time.Duration) {
	now = max(now, t.last())
	if n := len(t.Spans); n > 0 && now-t.Spans[n-1].From < per.Milliseconds()/spansPerWindow {
		s := &t.Spans[n-1]
		s.To = now
		s.N++
		return
	}
	t.Spans = append(t.Spans, span{now, now, 1})
}
