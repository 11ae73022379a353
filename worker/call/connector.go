package call

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nuid"

	"toolbridge/approval"
	"toolbridge/catalog"
	"toolbridge/catalog/arguments"
	"toolbridge/connectors"
	"toolbridge/subjects"
)

// Connectors is what a session may reach through the hosted gateway.
type Connectors struct {
	Surface string                 // of the session
	Single  bool                   // a batch of connectors' tools goes out in one request
	Allows  func(name string) bool // the session's grants let it call this tool
}

// connectorToolset is what rules know connectors' tools by, beside their names.
const connectorToolset = "connectors"

// prepareConnector is the first half of the way of an entry that the gateway
// executes. Scope comes first, so that hooks never hear of what is out of it. Its
// schema is the gateway's, so the arguments pass as the model wrote them.
func (e *Engine) prepareConnector(item arguments.Entry, c Call) Entry {
	done := func(name string, err *subjects.SlotError) Entry {
		return Entry{Name: name, State: Done, Error: err}
	}
	name, also, err := ConnectorName(item.Name, c.Connectors)
	if err != nil {
		return done(name, err)
	}
	for _, n := range append([]string{name}, also...) {
		if err := e.Refused(n); err != nil {
			return done(name, err)
		}
	}
	args, invalid := e.anything.Adopt(item)
	if invalid == nil {
		args, invalid = e.anything.Repair(args)
	}
	if invalid != nil {
		invalid.Parameters = nil // they are not known here
		return done(name, invalidArguments(invalid))
	}
	j := e.JudgeConnector(name, also, c.Approval, args)
	entry := Entry{
		Name: name, Also: also, Toolset: connectorToolset, Place: AtGateway, Key: nuid.Next(), SHA256: connectorSHA256(name),
		Arguments: json.RawMessage(args), Repeatable: true, State: Received, Rule: j.Rule, Hooked: e.checks == nil,
	}
	if e.checks != nil {
		entry.Hooked = !e.checks.Needed(name)
		for _, n := range also {
			entry.Hooked = entry.Hooked && !e.checks.Needed(n)
		}
	}
	if !entry.Hooked {
		entry.Schema = json.RawMessage(`{}`)
	}
	switch {
	case j.Denied:
		entry.State = Done
		entry.Error = &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: reasonRule, Message: name + " is " + j.Reason + "; do not repeat it"}
	case j.NeedsApproval:
		entry.Ask = j.Reason
	}
	return entry
}

// ConnectorName is the name that an entry for a connector's tool goes by, its
// connector in lower case, and the further names that what it runs may have, all of
// them allowed; or why it is no tool of the session. c may be nil.
func ConnectorName(asked string, c *Connectors) (name string, also []string, err *subjects.SlotError) {
	if c == nil {
		return asked, nil, NoConnectors(asked)
	}
	if _, _, ok := connectors.Parse(asked); !ok {
		return asked, nil, &subjects.SlotError{
			Code:    subjects.CodeToolNotFound,
			Message: "there is no tool " + strconv.Quote(asked) + ": names of connectors' tools are " + catalog.ConnectorPrefix + "<connector>__<tool>. Find exact names with " + catalog.ToolSearch,
		}
	}
	name = connectors.FoldName(asked)
	also = connectors.OtherNames(name)
	for _, n := range append([]string{name}, also...) {
		if !c.Allows(n) {
			return name, nil, &subjects.SlotError{
				Code:    subjects.CodeToolNotFound,
				Message: name + " is not available in this session: no tool has that name. Do not retry it; find exact names with " + catalog.ToolSearch,
			}
		}
	}
	return name, also, nil
}

// JudgeConnector says what policy says of a connector's tool, before or with its
// arguments: the strictest word on any of the names that it may run under.
func (e *Engine) JudgeConnector(name string, also []string, grant string, args []byte) Judgement {
	var j Judgement
	for _, n := range append([]string{name}, also...) {
		d := e.cfg.Policy.Decide(approval.Request{Tool: n, Toolset: connectorToolset, Arguments: args, Grant: grant})
		switch {
		case j.Denied:
		case d.Action == approval.Deny:
			j = Judgement{Denied: true, Rule: d.Rule, Reason: "denied by " + d.Rule}
		case j.NeedsApproval:
		case d.Action == approval.Ask:
			j = Judgement{NeedsApproval: true, Rule: d.Rule, Reason: "asked for by " + d.Rule}
		case j.Rule == "":
			j.Rule = d.Rule
		}
	}
	return j
}

// rejudgeConnector is rejudge for a connector's tool, under each of its names.
func (l *live) rejudgeConnector(entry *Entry) *subjects.SlotError {
	j := l.e.JudgeConnector(entry.Name, entry.Also, "", entry.Arguments)
	switch {
	case j.Denied:
		entry.Rule = j.Rule
		return &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: reasonRule, Message: entry.Name + " is " + j.Reason + "; do not repeat it"}
	case j.NeedsApproval && j.Rule != "default" && entry.Ask == "":
		entry.Ask, entry.Rule = j.Reason, j.Rule
	}
	return nil
}

// planDirect plans the call of one of the worker's own tools, which reads its
// arguments itself.
func (e *Engine) planDirect(c Call) planned {
	args := c.Arguments
	if !subjects.Present(args) {
		args = []byte(`{}`)
	}
	envelope := slices.Concat([]byte(`{"calls":[{"name":`), encode(c.Direct), []byte(`,"arguments":`), args, []byte(`}]}`))
	list, refusal := arguments.Normalize(envelope, arguments.NormalizeOptions{})
	if refusal != nil {
		return planned{input: refusal.Key, refusal: refusal}
	}
	item := list[0]
	p := planned{input: item.Key()}
	entry := Entry{
		Name: c.Direct, Place: InWorker, Arguments: json.RawMessage(item.Arguments), Repeatable: true,
		State: Received, Hooked: e.checks == nil || !e.checks.Needed(c.Direct),
	}
	if d := c.Catalog.Resolve(c.Direct).Definition; d != nil {
		entry.SHA256 = d.SHA256()
	}
	if !entry.Hooked {
		entry.Schema = json.RawMessage(`{}`)
	}
	if entry.Error = e.Refused(c.Direct); c.Connectors == nil {
		entry.Error = NoConnectors(c.Direct)
	}
	d := e.cfg.Policy.Decide(approval.Request{Tool: c.Direct, Arguments: item.Arguments, Grant: c.Approval})
	switch {
	case entry.Error != nil:
	case d.Rule == "default" && !connectors.StartsServers(c.Connectors.Surface, item.Arguments): // the user decides by connecting
	case d.Action == approval.Deny:
		entry.Rule = d.Rule
		entry.Error = &subjects.SlotError{Code: subjects.CodeApprovalDenied, Reason: reasonRule, Message: c.Direct + " is denied by " + d.Rule + "; do not repeat it"}
	case d.Action == approval.Ask:
		entry.Ask, entry.Rule = "asked for by "+d.Rule, d.Rule
	}
	if entry.Error != nil {
		entry.State = Done
	}
	p.entries = []Entry{entry}
	return p
}

// connectorSHA256 stands for the hash of a definition that only the gateway has: it
// is taken over the name alone, so that a remembered choice holds for this tool
// while it has its name.
func connectorSHA256(name string) string {
	return sha256Hex(encode(struct {
		Name string `json:"name"`
	}{name}))
}

// Gateway executes connectors' tools through the hosted gateway. It does not cut
// short what is on its way: a stop keeps the rest from being sent, and the answer is
// waited for within its own time limit, so that the slot says what happened.
type Gateway struct{ gateway *connectors.Gateway }

// NewGateway executes through g.
func NewGateway(g *connectors.Gateway) *Gateway { return &Gateway{g} }

// Execute implements Executor.
func (x *Gateway) Execute(ctx context.Context, e Execution) Outcome {
	return x.ExecuteAll(ctx, []Execution{e})[0]
}

// ExecuteAll implements BatchExecutor: all go out in one request.
func (x *Gateway) ExecuteAll(ctx context.Context, list []Execution) []Outcome {
	first := &list[0]
	if ctx.Err() != nil {
		return same(list, Outcome{Unsent: true, Error: &subjects.SlotError{
			Code: subjects.CodeInterrupted, Message: "not started: " + context.Cause(ctx).Error() + "; it had no effect",
		}})
	}
	if !time.Now().Before(first.StartBy) {
		return same(list, Outcome{Unsent: true, Error: &subjects.SlotError{
			Code: subjects.CodeExecutorUnavailable, Message: "it was not sent in time; it was not started",
		}})
	}
	who, _ := x.gateway.User(first.Tenant, first.User)
	sending, stop, end := Outlive(ctx, first.Leaving)
	defer end()
	tools := make([]connectors.Tool, len(list))
	for i := range list {
		tools[i] = connectors.Tool{Name: list[i].Name, Arguments: list[i].Arguments, Key: list[i].IdempotencyKey}
	}
	ends := x.gateway.Execute(sending, connectors.Errand{Who: who, Surface: first.Surface, Stop: stop, Continue: first.Continue, Sent: first.Sent}, tools)
	out := make([]Outcome, len(list))
	for i := range ends {
		out[i] = Outcome{Response: ends[i].Response, Error: ends[i].Error, Account: ends[i].Account, Unsent: ends[i].Unsent, Again: ends[i].Cancelled && !ends[i].Unsent}
	}
	return out
}

func same(list []Execution, o Outcome) []Outcome {
	out := make([]Outcome, len(list))
	for i := range out {
		out[i] = o
	}
	return out
}
