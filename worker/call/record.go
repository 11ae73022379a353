package call

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"toolbridge/subjects"
)

// EntryState is where one entry of a call stands.
type EntryState string

// The states of an entry. Done is final; everything before Running has had no
// effect anywhere.
const (
	Received EntryState = "received" // may start
	Awaiting EntryState = "awaiting" // waits for a person
	Running  EntryState = "running"  // may have been sent
	Done     EntryState = "done"     // has its response or its error
)

// Record is what the journal knows of one call, in one value, so that every
// change of it is one compare-and-set.
type Record struct {
	Version  int       `json:"v"`
	Final    bool      `json:"final,omitempty"` // second in the value, so that the sweeper need not read on
	Token    string    `json:"token"`           // of the worker's attempt that accepted it: tells a won create from a lost one
	Body     string    `json:"body,omitempty"`  // digest of what was asked
	Accepted int64     `json:"accepted"`        // unix milliseconds
	User     string    `json:"user,omitempty"`
	Trace    [3]string `json:"trace"`
	Batch    bool      `json:"batch,omitempty"` // the result has slots
	Entries  []Entry   `json:"entries,omitempty"`
	Lease    *Lease    `json:"lease,omitempty"`
	Epoch    uint64    `json:"epoch,omitempty"` // of the last lease
	Attempts int       `json:"attempts,omitempty"`
	Stopped  bool      `json:"stopped,omitempty"` // a stop has been here; without Body it came first
	Surface  string    `json:"surface,omitempty"` // of the session
	Single   bool      `json:"single,omitempty"`  // its connector entries go out in one request
	Direct   string    `json:"direct,omitempty"`  // the worker's own tool that was called by its name, in place of tool_call
	Closed   uint64    `json:"closed,omitempty"`  // epoch of the lease that made it final; 0: none did
	Finished int64     `json:"finished,omitempty"`
	Reply    *Kept     `json:"reply,omitempty"` // once final
	Span     *Span     `json:"span,omitempty"`  // nil when the call is not traced
}

// Lease is who works on a call now. Its holder has the call's message, which
// comes again when the holder is lost.
type Lease struct {
	Worker string `json:"worker"`
	Claim  uint64 `json:"claim"` // of that worker's claims: tells a won one from a lost one
	Inbox  string `json:"inbox"` // where the holder hears that something changed
	Epoch  uint64 `json:"epoch"`
	Until  int64  `json:"until"` // unix milliseconds
}

// Entry is one execution.
type Entry struct {
	Name       string              `json:"name"`           // the underlying tool's
	Tool       string              `json:"tool,omitempty"` // as its executor knows it, where that differs
	Toolset    string              `json:"toolset,omitempty"`
	Registry   bool                `json:"registry,omitempty"`
	Place      Place               `json:"place,omitempty"`
	Key        string              `json:"key,omitempty"`    // idempotency key that its requests go with, where it is not made of the ids
	Also       []string            `json:"also,omitempty"`   // further names of what it may run
	SHA256     string              `json:"sha256,omitempty"` // of the definition
	Arguments  json.RawMessage     `json:"arguments,omitempty"`
	Parallel   bool                `json:"parallel,omitempty"`
	Repeatable bool                `json:"repeatable,omitempty"`
	ReadOnly   bool                `json:"read_only,omitempty"` // by a trusted hint
	Schema     json.RawMessage     `json:"schema,omitempty"`    // where a hook may change the arguments
	Rule       string              `json:"rule,omitempty"`      // by which policy decided
	Ask        string              `json:"ask,omitempty"`       // why a person must be asked; "" when none must, or none any more
	Approval   string              `json:"approval,omitempty"`  // id
	Expires    int64               `json:"expires,omitempty"`   // of the approval, unix milliseconds
	Asked      bool                `json:"asked,omitempty"`     // a person has been asked
	Hooked     bool                `json:"hooked,omitempty"`    // pre hooks and guardrails have been passed
	State      EntryState          `json:"state"`
	Starts     int                 `json:"starts,omitempty"`
	Started    int64               `json:"started,omitempty"` // unix milliseconds
	Ended      int64               `json:"ended,omitempty"`   // unix milliseconds, once done
	Seen       bool                `json:"seen,omitempty"`    // a hook has been asked: its span hangs below the entry's
	Response   *Kept               `json:"response,omitempty"`
	Error      *subjects.SlotError `json:"error,omitempty"`
	Account    string              `json:"account,omitempty"` // connected account that it ran under
}

// Kept is a body: here, or in the object store when it is large.
type Kept struct {
	JSON json.RawMessage `json:"json,omitempty"`
	Blob string          `json:"blob,omitempty"` // name in the object store
	Size int64           `json:"size,omitempty"`
}

const recordVersion = 1

// clone copies a record far enough that its entries can be changed.
func (r *Record) clone() *Record {
	c := *r
	c.Entries = slices.Clone(r.Entries)
	if r.Lease != nil {
		lease := *r.Lease
		c.Lease = &lease
	}
	return &c
}

// startable are the entries that may start now: every parallel-safe one that is
// ready, and the first ordered one that is not done, when it is ready and no
// ordered one runs. Where all go out in one request, they start together.
func (r *Record) startable() []int {
	if r.Single {
		return r.startableTogether()
	}
	var list []int
	lane := true // no ordered entry before this one is unfinished
	for i := range r.Entries {
		e := &r.Entries[i]
		switch {
		case e.State == Done:
		case e.Parallel:
			if e.State == Received && e.ready() {
				list = append(list, i)
			}
		default:
			if lane && e.State == Received && e.ready() {
				list = append(list, i)
			}
			lane = false
		}
	}
	return list
}

// start marks entries as running, before they are sent.
func (r *Record) start(indexes []int, now int64) {
	for _, i := range indexes {
		e := &r.Entries[i]
		e.State, e.Started = Running, now
		e.Starts++
	}
}

// unstart takes a start back of an entry that was not sent.
func (r *Record) unstart(i int) {
	e := &r.Entries[i]
	e.State, e.Started = Received, 0
	e.Starts--
}

// takeBack takes back what a record that was never stored says of starts.
func (r *Record) takeBack() {
	r.Lease, r.Epoch = nil, 0
	for i := range r.Entries {
		if e := &r.Entries[i]; e.State == Running {
			e.State, e.Started, e.Starts = Received, 0, 0
		}
	}
}

// finish gives an entry its outcome.
func (r *Record) finish(i int, response *Kept, err *subjects.SlotError) {
	e := &r.Entries[i]
	if err != nil && len(err.Message) > maxMessage {
		short := *err
		short.Message = strings.ToValidUTF8(err.Message[:maxMessage], "") + " … (cut)"
		err = &short
	}
	e.State, e.Response, e.Error, e.Ended = Done, response, err, time.Now().UnixMilli()
}

// maxMessage bounds an error's text, which comes from executors and stands in the
// record.
const maxMessage = 16 << 10

// interrupt settles an entry that does not run now. One that a lost worker had
// started before is not called unstarted.
func (r *Record) interrupt(i int, why string) {
	e := &r.Entries[i]
	if e.Starts > 0 {
		r.finish(i, nil, lostError(e.Name))
		return
	}
	r.finish(i, nil, &subjects.SlotError{Code: subjects.CodeInterrupted, Message: why})
}

// truth is the outcome of the last of an entry's starts, in words that hold for all
// of them: that this one came to nothing does not undo one before it, whose worker
// was lost.
func (e *Entry) truth(out Outcome) *subjects.SlotError {
	err := out.Error
	if err == nil || e.Starts < 2 || !out.Unsent {
		return err
	}
	again := lostError(e.Name)
	again.Message += " (it could not be repeated: " + err.Message + ")"
	return again
}

func lostError(name string) *subjects.SlotError {
	return &subjects.SlotError{
		Code:    subjects.CodeOutcomeUnknown,
		Message: "the worker that ran " + name + " was lost after it had sent it: it may have taken effect. Check before you repeat it",
	}
}

// ran reports whether anything of the call was started.
func (r *Record) ran() bool {
	return slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.Starts > 0 })
}

// count is how many entries are in a state.
func (r *Record) count(s EntryState) int {
	n := 0
	for i := range r.Entries {
		if r.Entries[i].State == s {
			n++
		}
	}
	return n
}

func (r *Record) allDone() bool { return r.count(Done) == len(r.Entries) }

// recover settles what a lost worker left running: what is safe to repeat runs
// again, the rest can not be known.
func (r *Record) recover(maxStarts int) {
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.State != Running {
			continue
		}
		if e.Repeatable && e.Starts < maxStarts && !r.Stopped {
			e.State = Received
			continue
		}
		r.finish(i, nil, lostError(e.Name))
	}
}

// stop interrupts everything that has not started. It returns what was
// interrupted and what is in flight.
func (r *Record) stop() (interrupted, inFlight []int) {
	interrupted, inFlight = []int{}, []int{}
	r.Stopped = true
	for i := range r.Entries {
		switch r.Entries[i].State {
		case Awaiting:
			r.interrupt(i, "stopped while it waited for approval, which is withdrawn; it had no effect")
			interrupted = append(interrupted, i)
		case Received:
			r.interrupt(i, stoppedError().Message)
			if r.Entries[i].Starts > 0 { // by a worker that was lost
				inFlight = append(inFlight, i)
				continue
			}
			interrupted = append(interrupted, i)
		case Running:
			inFlight = append(inFlight, i)
		case Done:
		}
	}
	return interrupted, inFlight
}

func stoppedError() *subjects.SlotError {
	return &subjects.SlotError{Code: subjects.CodeInterrupted, Message: "stopped before it was started; it had no effect"}
}
