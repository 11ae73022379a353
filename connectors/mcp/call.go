package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Errors of a call that has no answer.
type (
	// notStartedError: the request never reached the server.
	notStartedError struct{ err error }
	// lostError: it did, and nobody can know what came of it.
	lostError struct{ err error }
	// cancelledError: the server ended it after it was asked to.
	cancelledError struct {
		cause error  // why it was asked
		words string // the server's, if any
	}
)

func (e notStartedError) Error() string { return "not started: " + e.err.Error() }
func (e notStartedError) Unwrap() error { return e.err }
func (e lostError) Error() string       { return e.err.Error() }
func (e lostError) Unwrap() error       { return e.err }
func (e cancelledError) Error() string  { return e.cause.Error() }
func (e cancelledError) Unwrap() error  { return e.cause }

// call runs a tool. It returns the result of tools/call as the server wrote it,
// or *rpcError, errTooLarge, notStartedError, lostError or cancelledError.
//
// When ctx ends, the server is told (notifications/cancelled) and has
// CancelGrace to answer: a result is the result; an error confirms that the
// call ended through the cancel; silence leaves the outcome unknown.
func (s *session) call(ctx context.Context, tool string, arguments jsontext.Value, meta map[string]any) (jsontext.Value, error) {
	if !s.begin() {
		_, why := s.staleness()
		return nil, notStartedError{why}
	}
	defer s.finish()
	result, err := s.run(ctx, tool, arguments, meta)
	var lost lostError
	switch {
	case !errors.As(err, &lost):
	case s.endpoint != nil: // one request without an answer may have poisoned it
		s.markStale(err, false)
	case ctx.Err() != nil: // the process may hang
		signal(s.suspect)
	}
	return result, err
}

func (s *session) run(ctx context.Context, tool string, arguments jsontext.Value, meta map[string]any) (jsontext.Value, error) {
	waiting := newCapture()
	running, abort := context.WithCancel(withCapture(context.WithoutCancel(ctx), waiting))
	defer abort()
	ended := make(chan error, 1)
	s.owned.Go(func() {
		_, err := s.client.CallTool(running, &sdk.CallToolParams{Meta: meta, Name: tool, Arguments: rawJSON(arguments)})
		ended <- err
	})
	select {
	case err := <-ended:
		return s.settle(waiting, err)
	case <-ctx.Done():
	}

	cause := context.Cause(ctx)
	if id, ok := waiting.requestID(); ok {
		s.tellCancelled(ctx, id, cause)
		grace := time.NewTimer(s.cfg.CancelGrace)
		defer grace.Stop()
		select {
		case err := <-ended:
			return confirm(cause)(s.settle(waiting, err))
		case <-grace.C:
		}
	}
	abort()
	result, err := confirm(cause)(s.settle(waiting, <-ended))
	var lost lostError
	if errors.As(err, &lost) {
		err = lostError{cause}
	}
	var never notStartedError
	if errors.As(err, &never) {
		err = cancelledError{cause: cause, words: "it had not reached the server"}
	}
	return result, err
}

// confirm tells what an answer means that came after a cancel.
func confirm(cause error) func(jsontext.Value, error) (jsontext.Value, error) {
	return func(result jsontext.Value, err error) (jsontext.Value, error) {
		var answered *rpcError
		switch {
		case errors.As(err, &answered):
			return nil, cancelledError{cause, answered.Message}
		case err == nil:
			if failed, words := toolFailed(result); failed {
				return nil, cancelledError{cause, words}
			}
		}
		return result, err
	}
}

// tellCancelled tells the server that nobody waits for a request any more.
func (s *session) tellCancelled(ctx context.Context, id any, cause error) {
	s.owned.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CancelGrace)
		defer cancel()
		_, err := s.send(ctx, "notifications/cancelled", &sdk.ClientRequest[*sdk.CancelledParams]{
			Session: s.client, Params: &sdk.CancelledParams{RequestID: id, Reason: cause.Error()},
		})
		if err != nil {
			s.log.Debug("telling the MCP server of a cancelled call", "error", err)
		}
	})
}

// settle makes the outcome of a request from what was captured and, when
// nothing was, from the SDK's error.
func (s *session) settle(waiting *capture, err error) (jsontext.Value, error) {
	if result, ok, err := waiting.answer(); ok {
		return result, err
	}
	if c, ok := s.conn.(*stdioConn); ok {
		c.drop(waiting)
	}
	switch {
	case err == nil:
		return nil, lostError{errors.New("the SDK took the answer from elsewhere")}
	case !waiting.started():
		return nil, notStartedError{err}
	}
	if answered := asRPC(err); answered != nil {
		return nil, answered
	}
	if s.proc != nil && !errors.Is(err, context.Canceled) {
		// The process is ending or has ended: its reason says more.
		t := time.NewTimer(2 * drainTime)
		defer t.Stop()
		select {
		case <-s.stale:
		case <-t.C:
		}
	}
	if dead, why := s.staleness(); dead && why != nil {
		err = why
	}
	return nil, lostError{err}
}

// signal fills a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// request sends a request for which no result of the SDK is wanted.
func (s *session) request(ctx context.Context, send func(context.Context) error) (jsontext.Value, error) {
	waiting := newCapture()
	err := send(withCapture(ctx, waiting))
	return s.settle(waiting, err)
}
