package connectors

import (
	"context"
	"slices"
	"strings"
	"time"

	"toolbridge/subjects"
)

// mintAll asks the gateway once, after it is written down that it is asked.
func (m *Manage) mintAll(ctx context.Context, c ManageCall, key string, targets []target, request *MintRequest) (end ManageEnd, more bool) {
	_, written, err := m.operations.change(ctx, key, func(o *operation) bool {
		if o.Phase != unsent {
			return false
		}
		o.Phase, o.Targets = starting, targets
		return true
	})
	if err != nil {
		return m.unstored(ctx, err), false
	}
	if !written {
		return ManageEnd{}, true // another run is doing it
	}
	sentNow(c)
	reply, err := m.mint(ctx, c.Who, *request)
	if f, ok := AsFailure(err); ok && ctx.Err() != nil && !f.Sent { // as if it had not begun
		if end, ok := m.takeBack(ctx, key); ok {
			return end, false
		}
	}
	var pointers map[string]string
	if err == nil {
		pointers = m.pointersFor(ctx, c, reply)
	}
	failure := err
	err = m.change(ctx, key, func(o *operation) bool {
		if o.Phase != starting {
			return false
		}
		if failure != nil {
			o.Phase, o.Settled, o.Failure = settled, moment(time.Now()), notMinted(failure)
			return true
		}
		for i := range o.Targets {
			if t := &o.Targets[i]; t.State == subjects.ConnectionPending {
				t.minted(reply, pointers)
			}
		}
		m.opened(o)
		return true
	})
	if err != nil {
		return m.unstored(ctx, err), false
	}
	return ManageEnd{}, true
}

// takeBack returns an operation whose request has not left to unsent, for another
// run.
func (m *Manage) takeBack(ctx context.Context, key string) (ManageEnd, bool) {
	err := m.change(ctx, key, func(o *operation) bool {
		if o.Phase != starting {
			return false
		}
		o.Phase = unsent
		return true
	})
	return ManageEnd{Error: &subjects.SlotError{Code: subjects.CodeInterrupted, Message: "not started: the worker is stopping"}, Unsent: true, Again: true}, err == nil
}

// change is a change that is written although the caller may be going.
func (m *Manage) change(ctx context.Context, key string, f func(*operation) bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	_, _, err := m.operations.change(ctx, key, f)
	return err
}

func (m *Manage) mint(ctx context.Context, who Who, request MintRequest) (reply *MintReply, err error) {
	err = m.gateway.entry(ctx, who.Tenant, func() (err error) {
		reply, err = m.gateway.Client.Mint(ctx, who, request)
		return err
	})
	return reply, err
}

func notMinted(err error) *subjects.SlotError {
	f, ok := AsFailure(err)
	if ok && unknownAfter(f) {
		why := f.Message
		if why == "" {
			why = f.Code
		}
		return mintUnknown(oneLine(why, maxLabel))
	}
	return unserved("starting the connection", err)
}

// minted takes over what the gateway said of a target.
func (t *target) minted(reply *MintReply, pointers map[string]string) {
	i := slices.IndexFunc(reply.Results, func(r Minted) bool { return FoldConnector(r.Connector) == t.Name })
	if i < 0 {
		t.State, t.Detail = subjects.ConnectionPending, ""
		return
	}
	r := reply.Results[i]
	t.Connection, t.URL, t.Detail = r.ConnectionID, "", ""
	switch r.Status {
	case accountActive:
		t.State = subjects.ConnectionConnected
	case "initiated":
		t.State = subjects.ConnectionInitiated
		if t.URL = link(r.ConnectURL); t.URL == "" && r.ConnectURL != "" {
			t.Detail = "the gateway's link is none that a browser should open"
		}
	case accountFailed:
		t.State, t.Detail = subjects.ConnectionFailed, strings.TrimSpace(oneLine(r.StatusReason, maxMessageChars))
		if p := pointers[t.Name]; p != "" {
			t.Detail = strings.TrimPrefix(t.Detail+". "+p, ". ")
		}
	default:
		t.State, t.Detail = subjects.ConnectionFailed, "the gateway names a state that is not known: "+oneLine(r.Status, 40)
	}
}
