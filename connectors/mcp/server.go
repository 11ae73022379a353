package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

const (
	maxReason    = 500 // bytes of a reason in the registry
	settleChange = 200 * time.Millisecond
	maxSettle    = 30 * time.Second // between two lists of a server that changes all the time
	calm         = time.Minute
	pingTimeout  = 10 * time.Second
	pingFailures = 2
	retireAfter  = 15 * time.Minute // a call in flight may hold a replaced session
)

// server keeps one MCP server connected, offers its tools on the bus and runs
// their calls. It never touches another server.
type server struct {
	host    *Host
	cfg     ServerConfig
	toolset string
	log     *slog.Logger

	executions *executions
	intake     chan struct{} // one for each call that runs or waits
	slots      chan struct{} // one for each call that runs
	executing  sync.WaitGroup
	retiring   sync.WaitGroup

	kick       chan struct{} // holds one: the registry is out of date
	again      chan struct{} // holds one: try to connect now
	first      chan struct{} // closed when the first attempt to connect has been registered
	registry   registryKey
	storeAgain atomic.Bool // the definitions may not be in the store any more

	mu       sync.Mutex
	session  *session
	moved    chan struct{} // closed when session or state changes
	state    string
	reason   string
	warnings []Warning // of the last list
	left     []Warning // of composing the names
	defs     *definitions
	hidden   []string // values that must not be repeated
	stopping bool
	runSub   *nats.Subscription
	cancels  *nats.Subscription
}

func newServer(h *Host, cfg ServerConfig) (*server, error) {
	s := &server{
		host: h, cfg: cfg, toolset: cfg.Toolset(), log: h.cfg.Logger.With("mcp_server", cfg.Name),
		executions: newExecutions(time.Now),
		intake:     make(chan struct{}, cfg.MaxConcurrent+cfg.MaxPending), slots: make(chan struct{}, cfg.MaxConcurrent),
		kick: make(chan struct{}, 1), again: make(chan struct{}, 1), first: make(chan struct{}), moved: make(chan struct{}),
		state: subjects.StateConnecting, reason: "connecting for the first time",
	}
	var err error
	s.defs, _, err = define(cfg, nil)
	return s, err
}

// supervise keeps the server connected until ctx ends; then, or when it has to
// end a connection, processes get their grace, until kill ends.
func (s *server) supervise(ctx, kill context.Context) {
	failures := 0
	for ctx.Err() == nil {
		session, err := s.connect(ctx, kill)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			s.unavailable(err)
			failures++
			s.rest(ctx, s.pause(failures))
			continue
		}
		since := time.Now()
		s.watch(ctx, session)
		stable := time.Since(since) >= s.host.cfg.Stable
		if stable {
			failures = 0
		}
		switch redial := s.leave(ctx, kill, session); {
		case redial && !stable:
			sleep(ctx, s.pause(1))
		case !redial:
			failures++
			s.rest(ctx, s.pause(failures))
		}
	}
}

// rest waits before the server is tried again, or until somebody asks for it.
func (s *server) rest(ctx context.Context, d time.Duration) {
	if sleepUnless(ctx, s.again, d) || ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setState(subjects.StateConnecting, "connecting again")
}

// connect dials the server and reads its tools.
func (s *server) connect(ctx, kill context.Context) (*session, error) {
	within, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	session, err := dial(within, kill, s.cfg, s.host.env, s.log)
	cancel()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.hidden = session.secrets
	s.mu.Unlock()
	if err := s.relist(ctx, session); err != nil {
		session.end(kill)
		return nil, err
	}
	s.mu.Lock()
	s.session = session
	s.setState(subjects.StateReady, "")
	count := len(s.defs.tools)
	s.mu.Unlock()
	s.log.Info("MCP server is ready", "tools", count)
	return session, nil
}

// relist reads the tools of the server and publishes them when they differ.
func (s *server) relist(ctx context.Context, session *session) error {
	tools, warnings, err := session.list(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.warnings = warnings
	s.mu.Unlock()
	for _, w := range warnings {
		s.log.Warn("an MCP tool is left out or repaired", "tool", w.Tool, "why", w.Message)
	}
	return s.host.compose(s.cfg.Name, tools)
}

// define takes the tools that the server keeps after names were composed.
func (s *server) define(tools []shownTool, left []Warning) error {
	defs, warnings, err := define(s.cfg, tools)
	if err != nil {
		return err
	}
	left = append(left, warnings...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(left, s.left) {
		s.left = left
		for _, w := range left {
			s.log.Warn("an MCP tool is left out or repaired", "tool", w.Tool, "why", w.Message)
		}
	}
	if defs.sha256 != s.defs.sha256 {
		s.defs = defs
		signal(s.kick)
	}
	return nil
}

// watch looks after a session until it is stale or ctx ends.
func (s *server) watch(ctx context.Context, session *session) {
	var pings <-chan time.Time
	if session.endpoint != nil && !session.modern && s.cfg.Ping > 0 {
		t := time.NewTicker(s.cfg.Ping)
		defer t.Stop()
		pings = t.C
	}
	missed := 0
	pause, last := settleChange, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-session.stale:
			return
		case <-session.changed:
			if time.Since(last) > calm {
				pause = settleChange
			}
			if !sleepUnless(ctx, session.stale, pause) {
				return
			}
			pause, last = min(2*pause, maxSettle), time.Now()
			var answered *rpcError
			switch err := s.relist(ctx, session); {
			case errors.As(err, &answered):
				s.log.Warn("the MCP server said that its tools have changed, but does not list them; the former ones stand", "error", s.words(err))
			case err != nil:
				session.markStale(fmt.Errorf("its tools have changed and can not be listed: %w", err), s.cfg.URL == "")
			}
		case <-session.suspect:
			if session.proc != nil && session.inFlight() == 0 && !s.alive(ctx, session) {
				sleepUnless(ctx, session.stale, drainTime) // a connection that ended has a better reason
				session.markStale(errors.New("the server stopped answering"), true)
			}
		case <-pings:
			if s.alive(ctx, session) {
				missed = 0
			} else if missed++; missed == pingFailures {
				session.markStale(errors.New("the server stopped answering"), true)
			}
		}
	}
}

func (s *server) alive(ctx context.Context, session *session) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return session.answers(ctx)
}

// leave gives up a session. redial says that the next one is to be tried at
// once, with the server still offered: the connection went bad, but nothing says
// that the server did.
func (s *server) leave(ctx, kill context.Context, session *session) (redial bool) {
	dead, why := session.staleness()
	redial = session.endpoint != nil && ctx.Err() == nil
	s.mu.Lock()
	s.session = nil
	s.move()
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		session.end(kill)
	case redial:
		s.log.Info("redialling the MCP server", "why", s.words(why))
		s.retiring.Go(func() {
			if !dead {
				t := time.NewTimer(retireAfter)
				defer t.Stop()
				select {
				case <-session.idle:
				case <-session.over:
				case <-ctx.Done():
				case <-t.C:
				}
			}
			session.end(kill)
		})
	default:
		s.unavailable(why)
		session.end(kill)
	}
	return redial
}

// pause is how long to wait after so many failures in a row.
func (s *server) pause(failures int) time.Duration {
	d := s.host.cfg.Backoff
	for range failures - 1 {
		if d *= 2; d >= s.host.cfg.MaxBackoff {
			d = s.host.cfg.MaxBackoff
			break
		}
	}
	return d/2 + rand.N(d) //nolint:gosec // pauses need no secrecy
}

func (s *server) unavailable(err error) {
	reason := s.words(err)
	s.log.Warn("MCP server is not available", "reason", reason)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setState(subjects.StateUnavailable, reason)
}

// setState is called with mu held.
func (s *server) setState(state, reason string) {
	s.state, s.reason = state, reason
	s.move()
	signal(s.kick)
}

// move wakes who waits for a session; mu is held.
func (s *server) move() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// acquire waits for a session that takes calls. It does not wait for a server
// that is known to be unavailable.
func (s *server) acquire(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		session, moved, state, reason := s.session, s.moved, s.state, s.reason
		s.mu.Unlock()
		if session != nil {
			if _, why := session.staleness(); why == nil {
				return session, nil
			}
		} else if state == subjects.StateUnavailable {
			return nil, refuse(subjects.CodeExecutorUnavailable, "MCP server %q is not available: %s", s.cfg.Name, reason)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *server) lookup(req subjects.ExecRequest) (offered, *refusal) {
	s.mu.Lock()
	defs := s.defs
	s.mu.Unlock()
	return defs.lookup(s.cfg.Name, req)
}

func (s *server) secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hidden
}

// words are an error's, safe to show: one line, bounded, without secrets.
func (s *server) words(err error) string { return s.wordsOf(err.Error()) }

func (s *server) wordsOf(text string) string {
	return cut(oneLine(mask(text, s.secrets())), maxReason)
}

// sleep waits until ctx ends at the latest.
func sleep(ctx context.Context, d time.Duration) { sleepUnless(ctx, nil, d) }

// sleepUnless waits; false when ctx or unless ended first.
func sleepUnless(ctx context.Context, unless <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-unless:
	case <-ctx.Done():
	}
	return false
}
