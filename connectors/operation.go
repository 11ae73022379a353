package connectors

import (
	"slices"
	"strings"
	"time"

	"toolbridge/subjects"
)

// phase is how far an operation is.
type phase string

const (
	// unsent: nothing was asked of anybody that changes anything.
	unsent phase = "unsent"
	// starting: the gateway may have been asked. Who finds it so after a crash
	// can not know, and does not ask again.
	starting phase = "starting"
	// open: the card is shown, and the accounts are watched.
	open phase = "open"
	// settled: it has its result.
	settled phase = "settled"
)

// What an operation was settled by.
const (
	settledAll       = "all_resolved"
	settledContinue  = "continue"
	settledDeadline  = "deadline"
	settledInterrupt = "interrupt"
)

// operation is one call of manage_connections that changes something, as it is
// kept while it runs and afterwards, so that whichever worker gets the call goes
// on with it. Every change is one compare-and-set of the whole.
type operation struct {
	Version  int                 `json:"v"`
	ID       string              `json:"id"` // of the execution
	Action   string              `json:"action"`
	User     string              `json:"user,omitempty"`
	Phase    phase               `json:"phase"`
	Card     bool                `json:"card,omitempty"`
	CallID   string              `json:"call_id"`
	Index    int                 `json:"index"`
	Trace    [3]string           `json:"trace"`
	Seq      uint64              `json:"seq"`
	Targets  []target            `json:"targets,omitempty"`
	Started  string              `json:"started"`            // RFC 3339
	Deadline string              `json:"deadline,omitempty"` // of the card
	Full     string              `json:"full,omitempty"`     // the deadline before hurry brought it forward
	Settled  string              `json:"settled,omitempty"`
	By       string              `json:"by,omitempty"`
	Failure  *subjects.SlotError `json:"failure,omitempty"` // in place of a result
	Renamed  *renamed            `json:"renamed,omitempty"`
}

const operationVersion = 1

// target is one app or server of an operation.
type target struct {
	Name       string                    `json:"name"`
	Alias      string                    `json:"alias,omitempty"` // as it is shown
	MCP        bool                      `json:"mcp,omitempty"`
	Executor   string                    `json:"executor,omitempty"` // host of an MCP server
	State      subjects.ConnectionStatus `json:"state"`
	Connection string                    `json:"connection,omitempty"` // id of the account that is made or repaired
	URL        string                    `json:"url,omitempty"`
	Detail     string                    `json:"detail,omitempty"`
	Chosen     bool                      `json:"chosen,omitempty"`   // the user has seen that it failed, and goes on
	Hopeless   bool                      `json:"hopeless,omitempty"` // nothing that the user could do here would help
	Start      startState                `json:"start,omitempty"`
	Epoch      string                    `json:"epoch,omitempty"` // of the run that is making the attempt
	Tools      []subjects.ManagedTool    `json:"tools,omitempty"` // of a connected MCP server
}

// startState is what the user asked for on the card and the running worker does.
type startState string

const (
	wanted startState = "wanted" // by the user
	sent   startState = "sent"   // a run is about to send, or has sent, its request
)

// renamed is the outcome of a rename.
type renamed struct {
	Connection string `json:"connection"`
	Connector  string `json:"connector"`
	Alias      string `json:"alias"`
	Label      string `json:"label"`
	Done       bool   `json:"done,omitempty"`
}

func (o *operation) clone() *operation {
	c := *o
	c.Targets = slices.Clone(o.Targets)
	if o.Renamed != nil {
		r := *o.Renamed
		c.Renamed = &r
	}
	return &c
}

// resolved reports whether nothing about a target is waited for any more.
func (t *target) resolved() bool {
	return t.State == subjects.ConnectionConnected || t.State == subjects.ConnectionSkipped || t.Chosen || t.Hopeless
}

// stuck reports whether only the user can bring it further.
func (t *target) stuck() bool {
	return !t.resolved() && t.Start == "" && (t.State == subjects.ConnectionFailed || t.State == subjects.ConnectionExpired)
}

// watched reports whether the gateway is asked for the state of its account.
func (t *target) watched() bool {
	return !t.MCP && t.State == subjects.ConnectionInitiated && t.Connection != "" && t.Start == ""
}

// observe takes over what the gateway says of a target's account. It reports
// whether that changed anything.
func (t *target) observe(status string) bool {
	if t.State != subjects.ConnectionInitiated || t.Start != "" {
		return false
	}
	switch status {
	case accountActive:
		t.State, t.URL, t.Detail = subjects.ConnectionConnected, "", ""
	case accountFailed, accountRevoked, accountInactive:
		t.State, t.URL, t.Detail = subjects.ConnectionFailed, "", "the authorization did not succeed ("+status+")"
	case accountExpired:
		t.State, t.URL, t.Detail = subjects.ConnectionExpired, "", "the link has expired"
	default: // pending, and what nobody knows yet
		return false
	}
	return true
}

// answer is what the user did on the card. It says why it was not taken, or "".
func (o *operation) answer(a subjects.ConnectionAnswer) (refused string) {
	if o.Phase != open {
		return "the operation has ended"
	}
	if a.Target == "" {
		if a.Action != subjects.ConnectionContinue {
			return "skip and retry are about one target: name it"
		}
		o.settle(settledContinue)
		return ""
	}
	i := slices.IndexFunc(o.Targets, func(t target) bool { return t.Name == strings.ToLower(a.Target) })
	if i < 0 {
		return "the operation has no such target"
	}
	t := &o.Targets[i]
	if t.resolved() {
		return "this target's wait has ended"
	}
	pending := t.MCP && t.State == subjects.ConnectionPending
	switch {
	case a.Action == subjects.ConnectionSkip:
		if t.Start == sent {
			return "this target is being started"
		}
		t.State, t.URL, t.Start = subjects.ConnectionSkipped, "", ""
	case a.Action == subjects.ConnectionRetry, pending: // continue on a pending server approves it
		if t.Start != "" {
			return "this target is being started already"
		}
		if !t.stuck() && t.State != subjects.ConnectionPending {
			return "this target has not failed"
		}
		t.Start = wanted
		o.unhurry()
	case t.stuck():
		t.Chosen = true
	default: // continue, for one target that could still connect
		t.State, t.URL, t.Chosen = subjects.ConnectionNotConnected, "", true
	}
	o.settleIfResolved()
	return ""
}

// settleIfResolved ends an operation that nothing is waited for in.
func (o *operation) settleIfResolved() {
	for i := range o.Targets {
		if !o.Targets[i].resolved() {
			return
		}
	}
	o.settle(settledAll)
}

// settle ends an open operation: what is not resolved is not connected.
func (o *operation) settle(by string) {
	if o.Phase == settled {
		return
	}
	o.Phase, o.By, o.Settled = settled, by, moment(time.Now())
	for i := range o.Targets {
		t := &o.Targets[i]
		t.URL, t.Start = "", ""
		switch {
		case t.State == subjects.ConnectionConnected, t.State == subjects.ConnectionSkipped:
		case t.State == subjects.ConnectionFailed && (!o.Card || t.Hopeless): // nobody chose
		default:
			if t.State != subjects.ConnectionFailed {
				t.Detail = "" // it says what is no longer so
			}
			t.State = subjects.ConnectionNotConnected
		}
	}
}

// hurry brings the deadline of a card forward once only the user's word on
// failed targets is missing: such a target does not hold its call for the whole
// time. It reports whether it did.
func (o *operation) hurry(now time.Time, patience time.Duration) bool {
	stuck := false
	for i := range o.Targets {
		t := &o.Targets[i]
		if !t.resolved() && !t.stuck() {
			return false
		}
		stuck = stuck || t.stuck()
	}
	if !stuck || o.Phase != open {
		return false
	}
	if until := now.Add(patience); until.Before(o.deadline()) {
		if o.Full == "" {
			o.Full = o.Deadline
		}
		o.Deadline = moment(until)
		return true
	}
	return false
}

// unhurry gives a card its whole time back: the user tries again, and a new link
// needs as long as the first.
func (o *operation) unhurry() {
	if o.Full != "" {
		o.Deadline, o.Full = o.Full, ""
	}
}

func (o *operation) deadline() time.Time {
	at, err := time.Parse(time.RFC3339Nano, o.Deadline)
	if err != nil {
		return time.Time{}
	}
	return at
}

// card is the targets as an event shows them.
func (o *operation) card() []subjects.ConnectionTarget {
	list := make([]subjects.ConnectionTarget, len(o.Targets))
	for i := range o.Targets {
		t := &o.Targets[i]
		list[i] = subjects.ConnectionTarget{Target: t.Name, Name: t.Name, Alias: t.Alias, MCP: t.MCP, State: t.State, ConnectURL: t.URL, Detail: t.Detail}
	}
	return list
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// States of accounts, as gateway and portal name them.
const (
	accountPending  = "pending"
	accountActive   = "active"
	accountFailed   = "failed"
	accountRevoked  = "revoked"
	accountInactive = "inactive"
	accountExpired  = "expired"
)
