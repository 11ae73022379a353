package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Handler runs one execution and returns its result as JSON. It must return
// soon after its context ended: at the execution's deadline, when the worker
// cancelled it, or when the Server is stopped. An error may be a *ToolError;
// any other is reported as TOOL_ERROR with its text.
type Handler func(ctx context.Context, r subjects.ExecRequest) (json.RawMessage, error)

// ServeConfig is how a session's process executes. The zero value is the
// documented default.
type ServeConfig struct {
	// Concurrency bounds the executions that run at once; further ones wait, and
	// are refused when their start_by passes. 0 means 16.
	Concurrency int
	// WorkingEvery is the time between two signs of life of a running execution;
	// at most 15 s. 0 means 10 s.
	WorkingEvery time.Duration
	// Definition returns the SHA-256 (hex) of the definition that the process has
	// under that name, "" when it has none; an execution with another hash is
	// refused with DEFINITION_MISMATCH. nil checks nothing.
	Definition func(tool string) string
	// ReplyPrefixes are the beginnings of reply subjects that are answered; nil
	// means _INBOX. and _R_.
	ReplyPrefixes []string
	// Logger; nil means slog.Default.
	Logger *slog.Logger
}

func (c ServeConfig) withDefaults() (ServeConfig, error) {
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	if c.WorkingEvery == 0 {
		c.WorkingEvery = 10 * time.Second
	}
	if c.ReplyPrefixes == nil {
		c.ReplyPrefixes = subjects.ReplyPrefixes()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Concurrency < 0 || c.WorkingEvery < 0 || c.WorkingEvery > 15*time.Second {
		return c, errors.New("serving a session: Concurrency is positive, WorkingEvery at most 15 s")
	}
	return c, nil
}

// Server executes a session's own tools. Stop it once done; Stop may be called
// more than once.
type Server struct {
	session *Session
	cfg     ServeConfig
	handler Handler

	exec    *nats.Subscription
	cancels *nats.Subscription
	slots   chan struct{}
	begin   func() (context.Context, context.CancelCauseFunc) // one execution's context; ends with giveUp
	giveUp  context.CancelCauseFunc
	closing chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	drained <-chan struct{} // closed: nothing more comes
	seen    memory
}

var (
	errCancelled = errors.New("the worker cancelled the execution")
	errStopped   = errors.New("the session's process stopped")
)

// Serve subscribes to the session's exec subjects and returns once the server
// knows it. Only the session's own process should serve it: every subscriber
// gets every execution.
func (s *Session) Serve(ctx context.Context, cfg ServeConfig, handler Handler) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if handler == nil {
		return nil, errors.New("serving a session: a handler is needed")
	}
	v := &Server{
		session: s, cfg: cfg, handler: handler, slots: make(chan struct{}, cfg.Concurrency),
		closing: make(chan struct{}), seen: newMemory(),
	}
	base, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	v.giveUp = giveUp
	v.begin = func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(base) }
	nc := s.client.nc
	for _, e := range []struct {
		verb subjects.Verb
		take nats.MsgHandler
		to   **nats.Subscription
	}{{subjects.VerbExecCancel, v.onCancel, &v.cancels}, {subjects.VerbExec, v.onExec, &v.exec}} {
		sub, err := nc.Subscribe(s.client.cfg.Space.Session(s.tenant, s.name, e.verb), e.take)
		if err != nil {
			v.unsubscribe()
			return nil, fmt.Errorf("serving session %s: %w", s.name, err)
		}
		*e.to = sub
	}
	if err := flush(ctx, nc); err != nil {
		v.unsubscribe()
		return nil, fmt.Errorf("serving session %s: %w", s.name, err)
	}
	return v, nil
}

func flush(ctx context.Context, nc *nats.Conn) error {
	if _, ok := ctx.Deadline(); !ok {
		return nc.FlushTimeout(10 * time.Second)
	}
	return nc.FlushWithContext(ctx)
}

func (v *Server) unsubscribe() {
	for _, sub := range []*nats.Subscription{v.exec, v.cancels} {
		if sub != nil {
			_ = sub.Unsubscribe() // fails only when it has ended
		}
	}
}

// Stop takes no further execution, lets the running ones finish until ctx ends,
// then cancels them and waits for their handlers. An execution that was on its way
// is refused, so that its worker knows that it had no effect.
func (v *Server) Stop(ctx context.Context) error {
	v.mu.Lock()
	if !v.stopped {
		v.stopped = true
		close(v.closing)
		v.drained = drain(v.exec)
	}
	v.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		<-v.drained
		v.running.Wait()
		close(idle)
	}()
	defer v.unsubscribe()
	select {
	case <-idle:
		v.giveUp(errStopped)
		return nil
	case <-ctx.Done():
		v.giveUp(errStopped)
		_ = v.exec.Unsubscribe() // whether it is drained or not
		<-idle
		return fmt.Errorf("stopping the executor: running executions were cancelled: %w", ctx.Err())
	}
}

// drain ends a subscription after what was sent to it has been handled; the channel
// is closed then.
func drain(sub *nats.Subscription) <-chan struct{} {
	done := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(done) })
	if err := sub.Drain(); err != nil { // the connection, or the subscription, is closed
		done = make(chan struct{})
		close(done)
	}
	return done
}

// onExec takes one message; it blocks while all slots are taken, and so holds
// back the ones behind it.
func (v *Server) onExec(m *nats.Msg) {
	if m.Header.Get(subjects.HeaderKind) != subjects.KindExec || !subjects.ReplyAllowed(m.Reply, v.cfg.ReplyPrefixes) {
		v.cfg.Logger.Warn("execution dropped: it is not of a worker", "session", v.session.name, "kind", m.Header.Get(subjects.HeaderKind))
		return
	}
	var r subjects.ExecRequest
	if err := subjects.Decode(m.Data, &r); err != nil {
		v.answer(m, m.Reply, refusal(subjects.CodeBadRequest, err.Error()))
		return
	}
	if r.ExecutionID == "" || r.Tool == "" || r.Session != v.session.name {
		v.answer(m, m.Reply, refusal(subjects.CodeBadRequest, fmt.Sprintf("execution_id, tool and session %q are expected", v.session.name)))
		return
	}
	e, first := v.seen.enter(r.ExecutionID, sha256.Sum256(append([]byte(r.Tool+"\x00"), r.Arguments...)), m.Reply)
	if !first {
		if body := e.repeat(m.Reply); body != nil {
			v.answer(m, m.Reply, body)
		}
		return
	}
	if body := v.refuse(r); body != nil {
		v.seen.forget(r.ExecutionID)
		v.answer(m, m.Reply, body)
		return
	}
	wait := time.NewTimer(untilMS(r.StartBy))
	defer wait.Stop()
	select {
	case v.slots <- struct{}{}:
	case <-wait.C:
		v.seen.forget(r.ExecutionID)
		v.answer(m, m.Reply, refusal(subjects.CodeTooLate, "start_by passed while other executions ran"))
		return
	case <-v.closing:
		v.seen.forget(r.ExecutionID)
		v.answer(m, m.Reply, refusal(subjects.CodeTooLate, "the session's process is stopping"))
		return
	}
	late := v.refuse(r) // the wait may have been long
	v.mu.Lock()
	if v.stopped && late == nil {
		late = refusal(subjects.CodeTooLate, "the session's process is stopping")
	}
	if late != nil {
		v.mu.Unlock()
		<-v.slots
		v.seen.forget(r.ExecutionID)
		v.answer(m, m.Reply, late)
		return
	}
	v.running.Add(1)
	v.mu.Unlock()
	go func() {
		defer v.running.Done()
		defer func() { <-v.slots }()
		v.run(m, r, e)
	}()
}

// refuse returns the answer to an execution that must not start.
func (v *Server) refuse(r subjects.ExecRequest) []byte {
	if r.StartBy > 0 && time.Now().UnixMilli() > r.StartBy {
		return refusal(subjects.CodeTooLate, "start_by had passed when the execution arrived")
	}
	if v.cfg.Definition != nil {
		if own := v.cfg.Definition(r.Tool); own != r.DefinitionSHA256 {
			return refusal(subjects.CodeDefinitionMismatch, fmt.Sprintf("the definition of %s is not the one that the session has now: assemble again", r.Tool))
		}
	}
	return nil
}

// untilMS is the time until a point in unix milliseconds; 0 is never.
func untilMS(ms int64) time.Duration {
	if ms <= 0 {
		return time.Duration(1<<63 - 1)
	}
	return time.Until(time.UnixMilli(ms))
}

func (v *Server) onCancel(m *nats.Msg) {
	var r subjects.ExecCancel
	if m.Header.Get(subjects.HeaderKind) != subjects.KindExec || subjects.Decode(m.Data, &r) != nil || r.ExecutionID == "" {
		return
	}
	v.seen.cancel(r.ExecutionID)
}

// run executes and answers, with a sign of life from time to time.
func (v *Server) run(m *nats.Msg, r subjects.ExecRequest, e *execution) {
	ctx, stop := v.begin()
	defer stop(nil)
	ctx, span := v.received(ctx, m, &r)
	defer span.End()
	if r.Deadline > 0 {
		var end context.CancelFunc
		ctx, end = context.WithDeadline(ctx, time.UnixMilli(r.Deadline))
		defer end()
	}
	var body []byte
	if e.start(stop) {
		body = v.supervise(ctx, m, r, e)
	} else {
		body = refusal(subjects.CodeCancelled, "cancelled before it started")
	}
	if fits := v.session.client.nc.MaxPayload() - headerRoom; fits > 0 && int64(len(body)) > fits {
		body = refusal(subjects.CodeResultTooLarge, fmt.Sprintf("the result has %d bytes; the server takes %d", len(body), fits))
	}
	if span.Recording() {
		span.Outcome(codeOfReply(body), "")
	}
	for _, to := range v.seen.finish(e, body) {
		v.answer(m, to, body)
	}
}

func (v *Server) supervise(ctx context.Context, m *nats.Msg, r subjects.ExecRequest, e *execution) []byte {
	outcome := make(chan []byte, 1)
	go func() { outcome <- v.call(ctx, r) }()
	tick := time.NewTicker(v.cfg.WorkingEvery)
	defer tick.Stop()
	for {
		select {
		case body := <-outcome:
			return body
		case <-tick.C:
			for _, to := range e.listeners() {
				v.send(m, to, nil, subjects.StatusWorking)
			}
		}
	}
}

// call runs the handler; a panic fails this execution only.
func (v *Server) call(ctx context.Context, r subjects.ExecRequest) (body []byte) {
	defer func() {
		if p := recover(); p != nil {
			v.cfg.Logger.Error("execution failed", "tool", r.Tool, "execution", r.ExecutionID, "panic", p)
			body = refusal(subjects.CodeToolError, "the tool's program failed; the session's log says why")
		}
	}()
	result, err := v.handler(ctx, r)
	switch {
	case err == nil && !json.Valid(result):
		return refusal(subjects.CodeToolError, "the tool's result is not JSON")
	case err == nil:
		body, err = subjects.Encode(subjects.ExecReply{Result: result})
		if err == nil {
			return body
		}
	}
	cause := context.Cause(ctx)
	var own *ToolError
	switch {
	case errors.Is(cause, errCancelled):
		return refusal(subjects.CodeCancelled, "cancelled: "+err.Error())
	case errors.As(err, &own):
		return refusal(own.Code, own.Message)
	case errors.Is(cause, context.DeadlineExceeded):
		return refusal(subjects.CodeTimeout, "the deadline passed: "+err.Error())
	}
	return refusal(subjects.CodeToolError, err.Error())
}

func refusal(code subjects.Code, message string) []byte {
	if code == "" {
		code = subjects.CodeToolError
	}
	if r := []rune(message); len(r) > 2000 {
		message = string(r[:2000]) + "…"
	}
	body, err := subjects.Encode(subjects.ExecReply{Error: &subjects.ExecError{Code: code, Message: message}})
	if err != nil {
		return []byte(`{"error":{"code":"TOOL_ERROR","message":"the error could not be written"}}`)
	}
	return body
}

// answer sends the answer to a request, with the request's trace context.
func (v *Server) answer(request *nats.Msg, to string, body []byte) { v.send(request, to, body, "") }

func (v *Server) send(request *nats.Msg, to string, body []byte, status string) {
	m := &nats.Msg{Subject: to, Data: body, Header: nats.Header{subjects.HeaderKind: {subjects.KindReply}}}
	tracing.Write(m.Header, tracing.Read(request.Header))
	if status != "" {
		m.Header[subjects.HeaderStatus] = []string{status}
	}
	if err := v.session.client.nc.PublishMsg(m); err != nil {
		v.cfg.Logger.Warn("answer not sent", "session", v.session.name, "error", err)
	}
}
