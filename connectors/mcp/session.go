package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is one connection to a server, from initialize to its end. Calls may
// run on it at the same time. It is not used again once it is stale or over.
type session struct {
	cfg     ServerConfig
	log     *slog.Logger
	secrets []string

	client *sdk.ClientSession
	send   sdk.MethodHandler // sends any message of the protocol
	modern bool              // speaks the protocol without initialize

	proc      *process      // stdio
	endpoint  *httpEndpoint // HTTP
	conn      sdk.Connection
	connected atomic.Bool

	changed chan struct{} // holds one: tools/list has changed
	suspect chan struct{} // holds one: a call timed out and nothing confirmed its cancel
	over    chan struct{} // closed when the connection has ended

	mu    sync.Mutex
	stale chan struct{} // closed when no new call should use the session
	why   error         // why it is stale
	dead  bool          // the calls in flight can not end either
	calls int
	idle  chan struct{} // closed when stale and no call is in flight

	owned sync.WaitGroup
}

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

// Versions of the protocol that are offered: first the one that begins with
// initialize, which every server knows; a server that refuses it is asked again
// with the newest.
const initializeVersion = "2025-11-25"

// dial starts or dials the server and initializes the session. ctx bounds only
// that; when it fails, the process gets its grace until kill ends.
func dial(ctx, kill context.Context, cfg ServerConfig, env lookup, log *slog.Logger) (*session, error) {
	s, err := dialVersion(ctx, kill, cfg, env, log, false)
	var answered *jsonrpc.Error
	if errors.As(err, &answered) && !madeUp(answered.Code) && ctx.Err() == nil {
		if m, modernErr := dialVersion(ctx, kill, cfg, env, log, true); modernErr == nil {
			return m, nil
		}
	}
	return s, err
}

func dialVersion(ctx, kill context.Context, cfg ServerConfig, env lookup, log *slog.Logger, modern bool) (*session, error) {
	s := &session{
		cfg: cfg, log: log, modern: modern,
		changed: make(chan struct{}, 1), suspect: make(chan struct{}, 1), over: make(chan struct{}), stale: make(chan struct{}), idle: make(chan struct{}),
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "toolbridge", Version: "1"}, &sdk.ClientOptions{
		Logger:                 slog.New(slog.DiscardHandler),
		Capabilities:           &sdk.ClientCapabilities{}, // no roots, sampling or elicitation: nobody is there to answer
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { signal(s.changed) },
	})
	client.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		s.send = next
		return next
	})
	transport, err := s.transport(env)
	if err != nil {
		return nil, err
	}
	options := &sdk.ClientSessionOptions{ProtocolVersion: initializeVersion}
	if modern {
		options = nil
	}
	// The SDK waits within Connect for things that ctx does not end.
	stop := context.AfterFunc(ctx, func() { s.closeConn() })
	s.client, err = client.Connect(ctx, transport, options)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = s.describe(ctx, err)
		s.end(kill)
		return nil, err
	}
	s.connected.Store(true)
	s.owned.Go(func() {
		err := s.client.Wait()
		s.markStale(s.ended(err), true)
		close(s.over)
	})
	return s, nil
}

// transport makes the transport of the server's kind.
func (s *session) transport(env lookup) (sdk.Transport, error) {
	if s.cfg.URL != "" {
		endpoint, secrets, err := newHTTPEndpoint(s.cfg, env)
		if err != nil {
			return nil, err
		}
		endpoint.failed = func(err error, dead bool) {
			if s.connected.Load() {
				s.markStale(err, dead)
			}
		}
		s.endpoint, s.secrets = endpoint, secrets
		return rememberConn{&sdk.StreamableClientTransport{
			Endpoint: endpoint.url.String(), HTTPClient: endpoint.client(), MaxRetries: httpRetries, MaxEventSize: s.cfg.MaxMessage,
		}, s}, nil
	}
	environ, secrets, err := environment(s.cfg, env)
	if err != nil {
		return nil, err
	}
	s.secrets = secrets
	if s.proc, err = startProcess(s.cfg, environ, secrets, s.log); err != nil {
		return nil, err
	}
	conn := newStdioConn(s.proc, s.cfg.MaxMessage, s.log)
	s.conn = conn
	return stdioTransport{conn}, nil
}

// rememberConn keeps the connection that the SDK's transport makes, to be able
// to close it under the SDK.
type rememberConn struct {
	sdk.Transport
	s *session
}

func (r rememberConn) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := r.Transport.Connect(ctx)
	r.s.mu.Lock()
	r.s.conn = conn
	r.s.mu.Unlock()
	return conn, err
}

func (s *session) closeConn() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// describe says why connecting failed, in words for an operator.
func (s *session) describe(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		err = fmt.Errorf("no answer to initialize within %s", s.cfg.ConnectTimeout)
		if s.proc != nil {
			if last := s.proc.stderr.lastLine(); last != "" {
				err = fmt.Errorf("%w; its last words: %s", err, last)
			}
		}
		return err
	case s.proc != nil && asRPC(err) == nil:
		return fmt.Errorf("the server %s (%w)", s.proc.reason(), err)
	}
	return err
}

// ended says why a connection is over.
func (s *session) ended(err error) error {
	switch {
	case s.proc != nil:
		return fmt.Errorf("the server %s", s.proc.reason())
	case err != nil:
		return fmt.Errorf("the connection ended: %w", err)
	}
	return errors.New("the connection ended")
}

// markStale says that new calls must use another session. dead says that those
// in flight have no chance either.
func (s *session) markStale(why error, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = s.dead || dead
	select {
	case <-s.stale:
	default:
		s.why = why
		close(s.stale)
		if s.calls == 0 {
			close(s.idle)
		}
	}
}

// staleness is why the session is stale, nil while it is not.
func (s *session) staleness() (why error, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why, s.dead
}

// begin counts a call in; false when the session is stale.
func (s *session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return false
	}
	s.calls++
	return true
}

func (s *session) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 && s.why != nil {
		close(s.idle)
	}
}

func (s *session) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// end closes the session and everything that belongs to it, at the latest when
// ctx ends (a server that can not be reached may hold it 5 s longer).
func (s *session) end(ctx context.Context) {
	s.markStale(errors.New("the session was closed"), true)
	s.closeConn()
	if s.proc != nil {
		s.proc.stop(ctx, s.cfg.TerminateGrace)
	}
	if s.client != nil {
		_ = s.client.Close()
	}
	<-s.idle
	s.owned.Wait()
	if s.endpoint != nil {
		s.endpoint.transport.CloseIdleConnections()
	}
}

// call runs a tool. It returns the result of tools/call as the server wrote it,
// or *rpcError, errTooLarge, notStartedError, lostError or cancelledError.
//
// When ctx ends, the server is told (notifications/cancelled) and has
// CancelGrace to answer: a result is the result; an error confirms that the
// call ended through the cancel; silence leaves the outcome unknown.
func (s *session) call(ctx context.Context, tool string, arguments jsontext.Value, meta map[string]any) (jsontext.Value, error) {
	if !s.begin() {
		why, _ := s.staleness()
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
		s.tellCancelled(id, cause)
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
func (s *session) tellCancelled(id any, cause error) {
	s.owned.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CancelGrace)
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
	if result, err, ok := waiting.answer(); ok {
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
	if why, dead := s.staleness(); dead && why != nil {
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

// ping asks the server whether it is there.
func (s *session) ping(ctx context.Context) error {
	err := s.client.Ping(ctx, nil)
	if err != nil && asRPC(err) != nil {
		return nil // it answered
	}
	return err
}
