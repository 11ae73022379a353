package connectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"toolbridge/subjects"
)

func newOperation(c ManageCall, action string) *operation {
	return &operation{
		Version: operationVersion, ID: operationID(c.Tenant, c.Session, c.CallID, c.Index), Action: action, User: c.Who.User,
		Phase: unsent, CallID: c.CallID, Index: c.Index, Trace: c.Trace, Started: moment(time.Now()),
	}
}

// unstored is the end of a run that could not read or write its operation; another
// one may.
func (m *Manage) unstored(ctx context.Context, err error) ManageEnd {
	return ManageEnd{
		Error: &subjects.SlotError{Code: subjects.CodeToolError, Message: "the state of the connection could not be kept: " + err.Error() + ". Check status before starting again"},
		Again: ctx.Err() != nil,
	}
}

// conclude settles an operation with what f says. It is written down although the
// caller may be going.
func (m *Manage) conclude(ctx context.Context, key string, f func(*operation)) (*operation, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	o, _, err := m.operations.change(ctx, key, func(o *operation) bool {
		if o.Phase == settled {
			return false
		}
		f(o)
		o.Phase = settled
		if o.Settled == "" {
			o.Settled = moment(time.Now())
		}
		return true
	})
	return o, err
}

// end is what the model gets of a settled operation.
func (o *operation) end() ManageEnd {
	switch {
	case o.Failure != nil:
		return failedEnd(o.Failure)
	case o.Renamed != nil:
		return ended(subjects.Encode(struct {
			Renamed struct {
				Connector string `json:"connector"`
				Alias     string `json:"alias"`
				Label     string `json:"label"`
			} `json:"renamed"`
		}{struct {
			Connector string `json:"connector"`
			Alias     string `json:"alias"`
			Label     string `json:"label"`
		}{o.Renamed.Connector, o.Renamed.Alias, o.Renamed.Label}}))
	}
	return ended(o.payload())
}

// operate runs an operation from where it stands: connect and reconnect, and the
// actions on MCP servers.
func (m *Manage) operate(ctx context.Context, c ManageCall, q ManageRequest) ManageEnd {
	id := operationID(c.Tenant, c.Session, c.CallID, c.Index)
	key := operationKey(c.Tenant, c.Session, id)
	first := newOperation(c, q.Action)
	first.Card = c.Surface == subjects.SurfaceDesktop
	o, err := m.operations.create(ctx, key, first)
	if err != nil {
		return m.unstored(ctx, err)
	}
	if o.Phase == unsent {
		end, more := m.begin(ctx, c, q, key, o.Card)
		if !more {
			return end
		}
	}
	if o, _, err = m.operations.load(ctx, key); err != nil {
		return m.unstored(ctx, err)
	}
	switch o.Phase {
	case settled:
		return o.end()
	case open:
		return m.watch(ctx, c, key)
	default: // the run that sent its request was lost
		o, err = m.conclude(ctx, key, func(o *operation) {
			o.Failure = mintUnknown("the worker that asked for it was lost")
		})
		if err != nil {
			return m.unstored(ctx, err)
		}
		return o.end()
	}
}

// begin brings an operation from unsent as far as it goes without waiting. more is
// false when the run ends here.
func (m *Manage) begin(ctx context.Context, c ManageCall, q ManageRequest, key string, card bool) (end ManageEnd, more bool) {
	fail := func(e *subjects.SlotError) (ManageEnd, bool) {
		if ctx.Err() != nil {
			return ManageEnd{Error: e, Unsent: true, Again: true}, false
		}
		_, err := m.conclude(ctx, key, func(o *operation) { o.Failure = e })
		if err != nil {
			return m.unstored(ctx, err), false
		}
		return refusedEnd(e), false
	}
	if card {
		until := time.Now().Add(m.cfg.Deadline + time.Minute)
		ours, err := m.operations.claim(ctx, c.Tenant, c.Session, operationID(c.Tenant, c.Session, c.CallID, c.Index), until)
		if err != nil {
			return m.unstored(ctx, err), false
		}
		if !ours {
			return fail(&subjects.SlotError{Code: subjects.CodeToolError, Reason: "already_open", Message: "a connection card is open in this session already: wait until its call returns, then start what is still missing"})
		}
	}
	var targets []target
	var mint *MintRequest
	var slotErr *subjects.SlotError
	if len(q.MCP) > 0 {
		targets, slotErr = m.planServers(ctx, c, q)
	} else {
		targets, mint, slotErr = m.plan(ctx, c.Who, q)
	}
	if slotErr != nil {
		return fail(slotErr)
	}
	if mint != nil {
		if card {
			mint.ReturnTo = m.gateway.Config().ReturnTo
		}
		if end, more := m.mintAll(ctx, c, key, targets, mint); !more {
			return end, false
		}
		return ManageEnd{}, true
	}
	_, _, err := m.operations.change(ctx, key, func(o *operation) bool {
		if o.Phase != unsent {
			return false
		}
		o.Targets = targets
		m.opened(o)
		return true
	})
	if err != nil {
		return m.unstored(ctx, err), false
	}
	return ManageEnd{}, true
}

// opened makes an operation open, or settles it when there is nothing to wait for.
func (m *Manage) opened(o *operation) {
	now := time.Now()
	wait := m.cfg.Deadline
	switch {
	case o.Card:
	case slicesHasMCP(o.Targets): // they start at once, without a card
		wait = m.cfg.ServerDeadline
		for i := range o.Targets {
			if t := &o.Targets[i]; t.State == subjects.ConnectionPending {
				t.Start = wanted
			}
		}
	default:
		o.Phase, o.Settled = settled, moment(now)
		return
	}
	o.Phase, o.Deadline = open, moment(now.Add(wait))
	o.settleIfResolved()
	if o.Phase == settled && !o.Card {
		o.By = ""
	}
}

// plan says what must be asked for, and how the rest stands already.
func (m *Manage) plan(ctx context.Context, who Who, q ManageRequest) ([]target, *MintRequest, *subjects.SlotError) {
	targets := make([]target, len(q.Hosted))
	for i, t := range q.Hosted {
		targets[i] = target{Name: t.Name, Alias: t.Alias, State: subjects.ConnectionPending}
	}
	mint := &MintRequest{Reinitiate: q.Action == ActionReconnect}
	only := q.Hosted[0]
	switch {
	case q.Action == ActionConnect:
		mint.Alias = only.Alias // with an alias there is one target
	case only.Alias != "":
		accounts, err := m.gateway.Client.PortalAccounts(ctx, who)
		if err != nil {
			return nil, nil, unserved("reading the accounts", err)
		}
		found := named(accounts, only.Name, only.Alias)
		switch {
		case len(found) > 1:
			return nil, nil, &subjects.SlotError{Code: subjects.CodeToolError, Reason: "ambiguous", Message: fmt.Sprintf("%d accounts of %s go by %q; the user can reconnect the right one on the accounts page", len(found), only.Name, only.Alias)}
		case len(found) == 0 && !alias.MatchString(only.Alias):
			return nil, nil, &subjects.SlotError{Code: subjects.CodeToolError, Reason: "no_account", Message: fmt.Sprintf("%s has no account %q: %s", only.Name, only.Alias, namesOf(accounts, only.Name))}
		case len(found) == 0:
			mint.Alias = only.Alias
		default:
			if found[0].Alias == nil {
				targets[0].Alias = "" // it was meant by its label
			}
			if found[0].Status == accountActive && !found[0].Disabled && !q.Force {
				targets[0].State = subjects.ConnectionConnected
			}
			mint.ConnectionID = found[0].ConnectionID
		}
	case !q.Force:
		apps, err := m.list(ctx, who)
		if err != nil {
			return nil, nil, unserved("looking at connected apps", err)
		}
		for i := range targets {
			if slices.ContainsFunc(apps, func(a App) bool { return a.Connected && FoldConnector(a.Connector) == targets[i].Name }) {
				targets[i].State = subjects.ConnectionConnected
			}
		}
	}
	for i := range targets {
		if targets[i].State == subjects.ConnectionPending {
			mint.Connectors = append(mint.Connectors, targets[i].Name)
		}
	}
	if len(mint.Connectors) == 0 {
		return targets, nil, nil
	}
	return targets, mint, nil
}

// event tells the session's feed how an operation stands.
func (m *Manage) event(tenant, session string, o *operation, typ subjects.EventType) {
	if !o.Card {
		return
	}
	e := subjects.Event{
		Type: typ, At: moment(time.Now()), CallID: o.CallID, Index: &o.Index, Tool: ManageName,
		Operation: o.ID, Seq: o.Seq, Targets: o.card(), DeadlineAt: o.Deadline, Done: o.Phase == settled,
	}
	if typ == subjects.EventConnectionRequest {
		e.TimeoutSeconds = int(time.Until(o.deadline()).Round(time.Second) / time.Second)
	}
	body, err := subjects.Encode(e)
	if err == nil {
		err = m.nc.PublishMsg(message(m.cfg.Space.Session(tenant, session, subjects.VerbEvent), subjects.KindEvent, o.Trace, body))
	}
	if err != nil {
		m.log.Warn("the state of a connection was not published", "operation", o.ID, "error", err)
	}
}

// Answer takes what the user did on a card, on whichever worker. It never fails for
// what came too late.
func (m *Manage) Answer(ctx context.Context, tenant, session string, a subjects.ConnectionAnswer) (subjects.ConnectionAnswerReply, error) {
	reply := subjects.ConnectionAnswerReply{Operation: a.Operation}
	if !validOperation(a.Operation) {
		reply.Reason = "the session has no such operation"
		return reply, nil
	}
	var refused string
	o, written, err := m.operations.change(ctx, operationKey(tenant, session, a.Operation), func(o *operation) bool {
		if !o.Card {
			refused = "the operation has no card"
			return false
		}
		refused = o.answer(a)
		return refused == ""
	})
	switch {
	case errors.Is(err, errNoOperation):
		reply.Reason = "the session has no such operation"
		return reply, nil
	case err != nil:
		return reply, err
	}
	if written {
		m.event(tenant, session, o, subjects.EventConnectionUpdate)
	}
	reply.Accepted, reply.Reason, reply.Targets = written, refused, o.card()
	return reply, nil
}
