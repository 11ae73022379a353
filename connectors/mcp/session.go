package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

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
	transport, err := s.transport(kill, env)
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
func (s *session) transport(kill context.Context, env lookup) (sdk.Transport, error) {
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
	if s.proc, err = startProcess(kill, s.cfg, environ, secrets, s.log); err != nil {
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
func (s *session) staleness() (dead bool, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead, s.why
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

// answers reports whether the server answers a ping, be it with an error.
func (s *session) answers(ctx context.Context) bool {
	err := s.client.Ping(ctx, nil)
	return err == nil || asRPC(err) != nil
}
