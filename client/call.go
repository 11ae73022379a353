package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// ErrPending is the answer to a Fetch of a call that is not final yet.
var ErrPending = errors.New("the call is not final yet")

// CallDurable stores a call of one deferred tool and returns its id as soon as
// that is done: from then on the call reaches exactly one final state, whatever
// happens to the process or the worker. Wait or Fetch give its result.
// Arguments whose envelope the worker refuses make a *ResultError.
func (s *Session) CallDurable(ctx context.Context, from Source, tool string, arguments json.RawMessage) (id string, err error) {
	calls, err := oneCall(tool, arguments)
	if err != nil {
		return "", err
	}
	r, err := NewBridgeRequest(from, subjects.ToolCall, calls)
	if err != nil {
		return "", err
	}
	return r.ID, s.Store(ctx, r)
}

// Store stores a tool_call as the model called it. The same ID with the same
// body changes nothing, so that a Store whose answer was lost may be sent again;
// with another body the error is ID_REUSED.
func (s *Session) Store(ctx context.Context, r subjects.BridgeRequest) error {
	body, err := s.send(ctx, subjects.VerbCall, r, s.client.cfg.Timeout)
	if err != nil {
		return fmt.Errorf("storing call %s: %w", r.ID, err)
	}
	return Stored(r.ID, body)
}

// Stored reads the reply to a call that was to be stored: nil when it is.
func Stored(id string, reply []byte) error {
	var r struct {
		subjects.BridgeReply // a refused envelope

		Stored bool `json:"stored"`
	}
	if err := decode(subjects.VerbCall, reply, &r); err != nil {
		return err
	}
	switch {
	case r.Stored && r.ID == id:
		return nil
	case r.IsError:
		return newResultError(&r.BridgeReply)
	}
	return fmt.Errorf("storing call %s: the reply does not say that it is stored: %.200s", id, reply)
}

func oneCall(tool string, arguments json.RawMessage) (CallArguments, error) {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if !json.Valid(arguments) {
		return CallArguments{}, fmt.Errorf("tool_call: the arguments of %s are not JSON", tool)
	}
	return CallArguments{Calls: []CallEntry{{Name: tool, Arguments: arguments}}}, nil
}

// Fetch returns the result of a call that the session made in the last 24 hours.
// The error is ErrPending while it is not final, and UNKNOWN_CALL for an id that
// the session did not use.
func (s *Session) Fetch(ctx context.Context, id string) (*subjects.BridgeReply, error) {
	body, err := s.Request(ctx, subjects.VerbFetch, subjects.FetchRequest{CallID: id})
	if err != nil {
		return nil, fmt.Errorf("fetching call %s: %w", id, err)
	}
	return Fetched(body)
}

// Fetched reads the reply to a fetch of a call.
func Fetched(reply []byte) (*subjects.BridgeReply, error) {
	var r struct {
		subjects.BridgeReply
		subjects.FetchPending
	}
	if err := decode(subjects.VerbFetch, reply, &r); err != nil {
		return nil, err
	}
	if r.Pending {
		return nil, ErrPending
	}
	return &r.BridgeReply, nil
}

// refetch is how often Wait asks by itself, should the published result not have
// reached it.
const refetch = 5 * time.Second

// Wait returns the result of a call once it is final, or the context's error.
// Unlike other requests it has no time limit of its own.
func (s *Session) Wait(ctx context.Context, id string) (*subjects.BridgeReply, error) {
	if err := subjects.CheckToken("call id", id); err != nil {
		return nil, err
	}
	published := make(chan *nats.Msg, 1)
	sub, err := s.client.nc.Subscribe(s.client.cfg.Space.Result(s.tenant, s.name, id), func(m *nats.Msg) {
		if m.Header.Get(subjects.HeaderKind) != subjects.KindResult {
			return
		}
		select {
		case published <- m:
		default: // it is there already, the same
		}
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for call %s: %w", id, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	reply, err := s.look(ctx, id)
	if !errors.Is(err, ErrPending) {
		return reply, err
	}
	tick := time.NewTicker(refetch)
	defer tick.Stop()
	for {
		select {
		case m := <-published:
			return Fetched(m.Data)
		case <-tick.C:
			reply, err := s.look(ctx, id)
			if err == nil || !transient(err) {
				return reply, err
			}
		case <-s.client.done:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for call %s: %w", id, ctx.Err())
		}
	}
}

// look is Fetch for one that looks again: a reply that does not come, since the
// worker that was asked has died, counts as pending.
func (s *Session) look(ctx context.Context, id string) (*subjects.BridgeReply, error) {
	within, cancel := context.WithTimeout(ctx, refetch)
	defer cancel()
	reply, err := s.Fetch(within, id)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return nil, ErrPending
	}
	return reply, err
}

// transient reports whether a fetch may find the result later.
func transient(err error) bool {
	var e *subjects.Error
	if errors.As(err, &e) {
		return e.Retryable
	}
	return errors.Is(err, ErrPending) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded)
}

// Stop interrupts what has not started of one call and cancels what has; the
// call's result tells what really happened. An id that the session has not used
// yet is remembered: the call that comes with it is interrupted whole.
func (s *Session) Stop(ctx context.Context, id string) (subjects.Stopped, error) {
	if err := subjects.CheckToken("call id", id); err != nil { // "" would mean all
		return subjects.Stopped{}, err
	}
	list, err := s.stop(ctx, id)
	switch {
	case err != nil:
		return subjects.Stopped{}, fmt.Errorf("stopping call %s: %w", id, err)
	case len(list) == 0:
		return subjects.Stopped{CallID: id}, nil
	}
	return list[0], nil
}

// StopAll does the same with every call of the session that was accepted so far
// and is not final.
func (s *Session) StopAll(ctx context.Context) ([]subjects.Stopped, error) {
	list, err := s.stop(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("stopping all calls: %w", err)
	}
	return list, nil
}

func (s *Session) stop(ctx context.Context, id string) ([]subjects.Stopped, error) {
	body, err := s.Request(ctx, subjects.VerbStop, subjects.StopRequest{CallID: id})
	if err != nil {
		return nil, err
	}
	var reply subjects.StopReply
	return reply.Stopped, decode(subjects.VerbStop, body, &reply)
}
