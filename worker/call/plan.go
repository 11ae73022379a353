package call

import (
	"encoding/json"
	"fmt"
	"strconv"

	"toolbridge/catalog"
	"toolbridge/catalog/arguments"
	"toolbridge/subjects"
)

// Call is one tool_call of one session.
type Call struct {
	Tenant, Session, ID string
	Arguments           []byte // the envelope as the model wrote it
	Trace               [3]string
	Caller              string           // traceparent of the requester; "" for none
	CatalogHash         string           // names the content that was called against
	Catalog             *catalog.Catalog // what the session may see
	Trusted             func(toolset string) bool
	User                string // of the session's grant
	Approval            string // the strictest word of the session's grants
	Live                func(toolset string) (Live, bool)
	// Connectors is what the session may reach through the gateway; nil: nothing.
	Connectors *Connectors
	// Direct names the worker's own tool that was called by its name, with Arguments
	// as its own; "" is a tool_call.
	Direct string
	// Stored, when not nil, is called by Run once the call is stored and only its
	// result is waited for.
	Stored func()
}

// Live is what the registry knows of a toolset now.
type Live struct {
	State, Reason string
}

// planned is a call as far as it goes without asking or running anything.
type planned struct {
	entries []Entry
	batch   bool
	single  bool                // all that the gateway executes goes out in one request
	input   string              // the same for equal calls, however they are spelled
	refusal *arguments.Refusal  // the envelope as a whole can not be read
	refused *subjects.SlotError // it can, and is refused as a whole
}

func (e *Engine) plan(c Call) planned {
	if c.Direct != "" {
		return e.planDirect(c)
	}
	list, refusal := arguments.Normalize(c.Arguments, arguments.NormalizeOptions{})
	if refusal != nil {
		return planned{input: refusal.Key, refusal: refusal}
	}
	p := planned{batch: len(list) > 1}
	local := false // some entry is none of a connector
	for _, item := range list {
		p.input += item.Key()
		if catalog.IsConnector(item.Name) {
			p.batch = true
		} else {
			local = true
		}
	}
	if e.cfg.RejectLocalBatches && local && len(list) > 1 {
		p.refused = oneAtATime(list)
		return p
	}
	p.single = !local && c.Connectors != nil && c.Connectors.Single
	p.entries = make([]Entry, len(list))
	for i, item := range list {
		p.entries[i] = e.prepare(item, c)
	}
	return p
}

// prepare is the first half of an entry's way: scope, arguments, policy.
func (e *Engine) prepare(item arguments.Entry, c Call) Entry {
	done := func(name string, err *subjects.SlotError) Entry {
		return Entry{Name: name, State: Done, Error: err}
	}
	found := c.Catalog.Resolve(item.Name)
	if err := found.Refusal(); err != nil {
		return done(item.Name, err)
	}
	d := found.Definition
	if d == nil { // a connector's tool
		return e.prepareConnector(item, c)
	}
	if e.checks != nil {
		if err := e.checks.Refused(d.Name); err != nil {
			return done(d.Name, err)
		}
	}
	schema := e.schemas.of(d)
	args, invalid := schema.Adopt(item)
	if invalid == nil {
		args, invalid = schema.Repair(args)
	}
	if invalid != nil {
		return done(d.Name, invalidArguments(invalid))
	}
	j := e.judge(d, c.Trusted, c.Approval, args)
	entry := Entry{
		Name: d.Name, Toolset: d.Toolset, Registry: d.Registry, SHA256: d.SHA256(), Arguments: json.RawMessage(args),
		Parallel: j.Parallel, Repeatable: j.Repeatable, ReadOnly: j.ReadOnly, State: Received, Rule: j.Rule,
		Hooked: e.checks == nil || !e.checks.Needed(d.Name),
	}
	if d.Original != d.Name {
		entry.Tool = d.Original
	}
	if !entry.Hooked {
		entry.Schema = json.RawMessage(d.Parameters)
	}
	switch {
	case j.Denied:
		entry.State = Done
		entry.Error = &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: reasonRule, Message: d.Name + " is " + j.Reason + "; do not repeat it"}
		return entry
	case j.NeedsApproval:
		entry.Ask = j.Reason
	}
	if d.Registry {
		if err := Reachable(d, c.Live); err != nil {
			return done(d.Name, err)
		}
	}
	return entry
}

func invalidArguments(i *arguments.Invalid) *subjects.SlotError {
	return &subjects.SlotError{
		Code: subjects.CodeInvalidArguments, Message: i.Message, Path: i.Path,
		Constraint: i.Constraint, Parameters: json.RawMessage(i.Parameters), Hint: i.Hint,
	}
}

// oneAtATime refuses a batch where local batches are switched off.
func oneAtATime(entries []arguments.Entry) *subjects.SlotError {
	first := entries[0]
	return &subjects.SlotError{Code: subjects.CodeInvalidArguments, Message: fmt.Sprintf(
		"Nothing was run: one tool_call takes one local tool here. Send the first alone, %s, then the %d left, one tool_call each.",
		arguments.Shape(first.Name, first.Arguments), len(entries)-1)}
}

// NoConnectors is the answer for a connector's tool where connectors are not
// available: the same as for any unknown name.
func NoConnectors(name string) *subjects.SlotError {
	return &subjects.SlotError{
		Code:    subjects.CodeToolNotFound,
		Message: "there is no tool " + strconv.Quote(name) + " in this session: connectors are not available",
	}
}

// Reachable says why a registry tool can not be executed now, or nil.
func Reachable(d *catalog.Definition, live func(string) (Live, bool)) *subjects.SlotError {
	now, ok := live(d.Toolset)
	switch {
	case !ok:
		return &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: "no live executor offers the toolset of " + d.Name + " now; the call was not sent"}
	case now.State != subjects.StateReady:
		reason := now.Reason
		if reason == "" {
			reason = now.State
		}
		return &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: "the executor of " + d.Name + " is not available (" + reason + "); the call was not sent"}
	}
	return nil
}
