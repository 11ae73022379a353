package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

var (
	errCancelRequested = errors.New("the call was cancelled")
	errStopping        = errors.New("the MCP host is shutting down")
)

// headerRoom is what the headers of a reply may add to its body: max_payload
// counts both.
const headerRoom = 1 << 10

const (
	maxExecutionID = 256
	maxTries       = 3 // of a call that never reached its server
)

// refusal is an answer to a request that was not run.
type refusal struct {
	code    subjects.Code
	message string
}

func (r *refusal) Error() string { return string(r.code) + ": " + r.message }

func refuse(code subjects.Code, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// onRun takes a request for one of the server's tools off the bus. It must not
// block: the subscription delivers one message at a time.
func (s *server) onRun(msg *nats.Msg) {
	if !subjects.ReplyAllowed(msg.Reply, s.host.cfg.ReplyPrefixes) {
		s.log.Debug("dropped an execution request whose reply subject is not allowed", "reply", cut(msg.Reply, 200))
		return
	}
	if kind := msg.Header.Get(subjects.HeaderKind); kind != "" && kind != subjects.KindExec {
		s.log.Debug("dropped a message that is no execution request", "kind", cut(kind, 50))
		return
	}
	if refused := s.admit(); refused != nil {
		s.reply(msg, msg.Reply, encodeError(refused.code, refused.message))
		return
	}
	go func() {
		defer s.release()
		s.execute(msg)
	}()
}

// admit counts a request in, bounded.
func (s *server) admit() *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return refuse(subjects.CodeExecutorUnavailable, "%s; the call was not started", errStopping)
	}
	select {
	case s.intake <- struct{}{}:
		s.executing.Add(1)
		return nil
	default:
		return refuse(subjects.CodeBusy, "%d calls of MCP server %q run or wait already", cap(s.intake), s.cfg.Name)
	}
}

func (s *server) release() {
	<-s.intake
	s.executing.Done()
}

// onCancel takes a cancellation off the bus.
func (s *server) onCancel(msg *nats.Msg) {
	if kind := msg.Header.Get(subjects.HeaderKind); kind != "" && kind != subjects.KindExec {
		return
	}
	var c struct {
		ExecutionID string `json:"execution_id"`
		Session     string `json:"session"` // narrows it: call ids are unique per session only
	}
	if err := subjects.Decode(msg.Data, &c); err != nil || c.ExecutionID == "" || len(c.ExecutionID) > maxExecutionID || len(c.Session) > subjects.MaxToken {
		s.log.Debug("dropped a cancellation that is not readable", "error", err)
		return
	}
	s.executions.cancel(c.Session, c.ExecutionID)
}

// execute answers one request.
func (s *server) execute(msg *nats.Msg) {
	req, refused := readRequest(msg.Data)
	if refused != nil {
		s.reply(msg, msg.Reply, encodeError(refused.code, refused.message))
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	e, first, answer := s.executions.join(req, msg.Reply, cancel)
	if !first {
		if answer != nil {
			s.reply(msg, msg.Reply, answer)
		}
		return
	}
	ctx, span := s.received(ctx, msg, &req)
	began := time.Now()
	answer, ran, code := s.answer(ctx, msg, e, req)
	s.executed(span, began, code)
	for _, to := range s.executions.finish(e, answer, ran) {
		s.reply(msg, to, answer)
	}
}

// answer runs a request and encodes what came of it. ran says that it was
// started; code is its error's, "" for a result.
func (s *server) answer(ctx context.Context, msg *nats.Msg, e *execution, req subjects.ExecRequest) (answer []byte, ran bool, code subjects.Code) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a call of an MCP tool panicked", "tool", req.Tool, "panic", p)
			answer, ran, code = encodeError(subjects.CodeOutcomeUnknown, "the MCP host failed while the call ran; it may have taken effect"), true, subjects.CodeOutcomeUnknown
		}
	}()
	result, err := s.runRequest(ctx, msg, e, req)
	var refused *refusal
	if errors.As(err, &refused) {
		// Only a cancel is final: whatever else kept the call from starting, it may
		// be sent again.
		return encodeError(refused.code, refused.message), refused.code == subjects.CodeCancelled, refused.code
	}
	if err != nil {
		failed := s.failure(err)
		return encodeError(failed.Code, failed.Message), true, failed.Code
	}
	mapped, failed := MapResult(result)
	if failed != nil {
		return encodeError(failed.Code, mask(failed.Message, s.secrets())), true, failed.Code
	}
	answer = append(append([]byte(`{"result":`), mapped...), '}')
	if limit := s.host.nc.MaxPayload(); int64(len(answer))+headerRoom > limit {
		return encodeError(subjects.CodeResultTooLarge, fmt.Sprintf("the tool ran, but its result of %d bytes is larger than the bus takes (%d)", len(mapped), limit)), true, subjects.CodeResultTooLarge
	}
	return answer, true, ""
}

// runRequest checks a request and runs it. A *refusal says that it was not run.
func (s *server) runRequest(ctx context.Context, msg *nats.Msg, e *execution, req subjects.ExecRequest) (jsontext.Value, error) {
	startBy := time.Now().Add(s.cfg.ConnectTimeout)
	if req.StartBy > 0 {
		startBy = time.UnixMilli(req.StartBy)
	}
	tooLate := func() error {
		return refuse(subjects.CodeTooLate, "the call was not started by %s", startBy.UTC().Format(time.RFC3339Nano))
	}
	if !time.Now().Before(startBy) || req.Deadline > 0 && !time.Now().Before(time.UnixMilli(req.Deadline)) {
		return nil, tooLate()
	}
	tool, refused := s.lookup(req)
	if refused != nil {
		return nil, refused
	}
	starting, stop := context.WithDeadlineCause(ctx, startBy, tooLate())
	defer stop()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-starting.Done():
		return nil, s.notBegun(starting)
	}

	var working stopper
	defer func() { working.stop() }()
	for try := 1; ; try++ {
		session, err := s.acquire(starting)
		if err != nil {
			if starting.Err() != nil {
				err = s.notBegun(starting)
			}
			return nil, err
		}
		if starting.Err() != nil {
			return nil, s.notBegun(starting)
		}
		if try == 1 {
			working = s.keepWorking(ctx, msg, e)
		}
		running, end := s.limit(ctx, req)
		meta, done := s.called(ctx, msg, tool.Name)
		result, err := session.call(running, tool.Name, jsontext.Value(req.Arguments), meta)
		end()
		done(result, err)
		var never notStartedError
		if !errors.As(err, &never) {
			return result, err
		}
		if try == maxTries {
			return nil, refuse(subjects.CodeExecutorUnavailable, "MCP server %q could not be reached: %s", s.cfg.Name, s.words(never.err))
		}
		session.markStale(never.err, false)
	}
}

// notBegun is the refusal of a call whose start was given up.
func (s *server) notBegun(starting context.Context) error {
	cause := context.Cause(starting)
	var refused *refusal
	switch {
	case errors.As(cause, &refused):
		return refused
	case errors.Is(cause, errStopping):
		return refuse(subjects.CodeExecutorUnavailable, "%s; the call was not started", errStopping)
	}
	return refuse(subjects.CodeCancelled, "%s before it was started", errCancelRequested)
}

// limit bounds a running call by its deadline and by the server's own limit,
// whichever is earlier; the cause names it.
func (s *server) limit(ctx context.Context, req subjects.ExecRequest) (context.Context, context.CancelFunc) {
	now := time.Now()
	own, what := s.cfg.Timeout, "its configured limit"
	if own == 0 && req.Deadline <= 0 {
		own, what = DefaultCallTimeout, "the limit where none is given"
	}
	if req.Deadline > 0 {
		if left := time.UnixMilli(req.Deadline).Sub(now); own == 0 || left < own {
			own, what = left, "the call's deadline"
		}
	}
	return context.WithDeadlineCause(ctx, now.Add(own), timeoutError(fmt.Sprintf("MCP server %q did not answer within %s (%s)", s.cfg.Name, own.Round(time.Millisecond), what)))
}

type timeoutError string

func (e timeoutError) Error() string { return string(e) }

// failure is the answer for a call that ran and brought no result.
func (s *server) failure(err error) *subjects.ExecError {
	var (
		answered  *rpcError
		large     errTooLarge
		lost      lostError
		cancelled cancelledError
		timeout   timeoutError
	)
	switch {
	case errors.As(err, &cancelled):
		message := cancelled.cause.Error()
		if cancelled.words != "" {
			message += "; the server ended the call: " + s.wordsOf(cancelled.words)
		}
		if errors.As(cancelled.cause, &timeout) {
			return &subjects.ExecError{Code: subjects.CodeTimeout, Message: message}
		}
		return &subjects.ExecError{Code: subjects.CodeCancelled, Message: message}
	case errors.As(err, &answered):
		return &subjects.ExecError{Code: CodeProtocolError, Message: cut(mask(answered.Error(), s.secrets()), maxErrorText)}
	case errors.As(err, &large):
		return &subjects.ExecError{Code: subjects.CodeResultTooLarge, Message: "the tool ran, but " + large.Error()}
	case errors.As(err, &lost) && (errors.As(lost.err, &timeout) || errors.Is(lost.err, errCancelRequested) || errors.Is(lost.err, errStopping)):
		return &subjects.ExecError{Code: subjects.CodeOutcomeUnknown, Message: lost.Error() + "; the server did not confirm that it ended the call, so it may still take effect"}
	}
	return &subjects.ExecError{Code: subjects.CodeOutcomeUnknown, Message: fmt.Sprintf(
		"the connection to MCP server %q was lost while the call ran, so it may have taken effect: %s", s.cfg.Name, s.words(err))}
}

// readRequest decodes and checks an execution request.
func readRequest(data []byte) (req subjects.ExecRequest, refused *refusal) {
	if err := subjects.Decode(data, &req); err != nil {
		return req, refuse(subjects.CodeBadRequest, "the execution request is not readable: %v", err)
	}
	switch {
	case req.ExecutionID == "" || len(req.ExecutionID) > maxExecutionID:
		return req, refuse(subjects.CodeBadRequest, "execution_id must have 1 to %d bytes", maxExecutionID)
	case req.Tool == "":
		return req, refuse(subjects.CodeBadRequest, "tool is missing")
	}
	arguments := jsontext.Value(req.Arguments)
	switch arguments.Kind() {
	case '{':
	case 'n', 0:
		if len(req.Arguments) > 0 && arguments.Kind() == 0 {
			return req, refuse(subjects.CodeInvalidArguments, "arguments is not a JSON object")
		}
		req.Arguments = json.RawMessage(`{}`)
	default:
		return req, refuse(subjects.CodeInvalidArguments, "arguments is not a JSON object")
	}
	return req, nil
}

// traceMeta passes the trace context on in the request's _meta, where MCP
// servers look for it.
func traceMeta(v tracing.Values) map[string]any {
	const longest = 2 << 10
	var meta map[string]any
	for i, name := range tracing.Names() {
		if v[i] != "" && len(v[i]) <= longest {
			if meta == nil {
				meta = map[string]any{}
			}
			meta[name] = v[i]
		}
	}
	return meta
}

// stopper ends a goroutine and waits for it; the zero value does nothing.
type stopper struct {
	end  context.CancelFunc
	done chan struct{}
}

func (s stopper) stop() {
	if s.end != nil {
		s.end()
		<-s.done
	}
}

// keepWorking sends interim messages until it is stopped.
func (s *server) keepWorking(ctx context.Context, msg *nats.Msg, e *execution) stopper {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	w := stopper{end, make(chan struct{})}
	go func() {
		defer close(w.done)
		t := time.NewTimer(s.host.cfg.FirstWorking)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			for _, to := range s.executions.waiting(e) {
				m := s.message(msg, to, nil)
				m.Header.Set(subjects.HeaderStatus, subjects.StatusWorking)
				s.publish(m)
			}
			t.Reset(s.host.cfg.Working)
		}
	}()
	return w
}

// message is an answer to a request, with what every message carries.
func (s *server) message(request *nats.Msg, to string, data []byte) *nats.Msg {
	m := nats.NewMsg(to)
	m.Data = data
	m.Header.Set(subjects.HeaderKind, subjects.KindReply)
	for _, name := range []string{subjects.HeaderTraceParent, subjects.HeaderTraceState, subjects.HeaderBaggage} {
		if v := request.Header.Get(name); v != "" && len(v) < headerRoom/4 {
			m.Header[name] = []string{v}
		}
	}
	return m
}

func (s *server) reply(request *nats.Msg, to string, data []byte) {
	s.publish(s.message(request, to, data))
}

func (s *server) publish(m *nats.Msg) {
	if err := s.host.nc.PublishMsg(m); err != nil {
		s.log.Warn("an answer could not be published", "subject", m.Subject, "bytes", len(m.Data), "error", err)
	}
}

func encodeError(code subjects.Code, message string) []byte {
	return wrap(`{"error":{"code":`, quote(string(code)), `,"message":`, quote(message), `}}`)
}
