package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// Bus executes over NATS: a registry tool by the executors of its toolset, any
// other by the session's own process.
type Bus struct {
	nc    *nats.Conn
	space subjects.Space
	inbox *inbox
}

// NewBus subscribes the inbox on which all answers come.
func NewBus(nc *nats.Conn, space subjects.Space) (*Bus, error) {
	in, err := newInbox(nc)
	if err != nil {
		return nil, fmt.Errorf("subscribing for executors' answers: %w", err)
	}
	return &Bus{nc: nc, space: space, inbox: in}, nil
}

// Close gives the inbox up. Executions that still wait see no answer.
func (b *Bus) Close() { _ = b.inbox.sub.Unsubscribe() }

const (
	// silence is how long an executor that has sent an interim message may be
	// quiet before it counts as lost.
	silence = 45 * time.Second
	// cancelWithin is how long a cancelled execution is waited for.
	cancelWithin = 3 * time.Second
	// maxMismatches is how often an execution is offered again to executors of
	// which some have other definitions; a refusal of that kind starts nothing.
	maxMismatches = 4
)

// Execute implements Executor.
func (b *Bus) Execute(ctx context.Context, e Execution) Outcome {
	response, err := b.execute(ctx, e)
	return Outcome{
		Response: response, Error: err,
		Unsent: err != nil && (err.Code == subjects.CodeInterrupted || err.Code == subjects.CodeExecutorUnavailable),
	}
}

func (b *Bus) execute(ctx context.Context, e Execution) (json.RawMessage, *subjects.SlotError) {
	for attempt := 1; ; attempt++ {
		reply, slotErr := b.once(ctx, e)
		if slotErr != nil {
			return nil, slotErr
		}
		if reply.Error == nil {
			return reply.Result, nil
		}
		if reply.Error.Code == subjects.CodeDefinitionMismatch && e.Registry && attempt < maxMismatches && ctx.Err() == nil {
			continue
		}
		return nil, slotError(reply.Error, e.Name)
	}
}

// once sends an execution and waits for its one answer. It returns a reply, or
// the reason why there is none.
func (b *Bus) once(ctx context.Context, e Execution) (*subjects.ExecReply, *subjects.SlotError) {
	now := time.Now()
	if ctx.Err() != nil {
		return nil, &subjects.SlotError{Code: subjects.CodeInterrupted, Message: "not started: " + context.Cause(ctx).Error() + "; it had no effect"}
	}
	if !now.Before(e.StartBy) {
		return nil, &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: e.Name + " was not sent in time; it was not started"}
	}
	deadline := now.Add(e.Timeout)
	startBy := e.StartBy
	if startBy.After(deadline) {
		startBy = deadline
	}
	body, err := subjects.Encode(subjects.ExecRequest{
		ExecutionID: e.ID, Session: e.Session, Tool: e.Tool, DefinitionSHA256: e.SHA256,
		Arguments: e.Arguments, IdempotencyKey: e.IdempotencyKey,
		StartBy: startBy.UnixMilli(), Deadline: deadline.UnixMilli(),
	})
	if err != nil {
		return nil, &subjects.SlotError{Code: subjects.CodeInternal, Message: "the execution could not be written: " + err.Error()}
	}
	if limit := b.nc.MaxPayload(); limit > 0 && int64(len(body)) > limit-headerRoom {
		return nil, &subjects.SlotError{
			Code: subjects.CodeInvalidArguments, Path: "arguments",
			Message: fmt.Sprintf("the arguments make a message of %d bytes, and the bus takes %d: send less at once", len(body), limit-headerRoom),
		}
	}
	reply, messages, done := b.inbox.open()
	defer done()
	msg := &nats.Msg{Subject: b.runSubject(e), Reply: reply, Data: body, Header: header(subjects.KindExec, e.Trace)}
	if err := b.nc.PublishMsg(msg); err != nil {
		return nil, &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: "the execution could not be sent: " + err.Error()}
	}
	if e.Sent != nil {
		e.Sent()
	}
	return b.wait(ctx, e, messages, deadline)
}

// headerRoom is left for headers, which count against the payload's limit: three
// of trace context of at most 8 KiB each, and the rest.
const headerRoom = 32 << 10

func (b *Bus) wait(ctx context.Context, e Execution, messages <-chan *nats.Msg, deadline time.Time) (*subjects.ExecReply, *subjects.SlotError) {
	end := time.NewTimer(time.Until(deadline))
	defer end.Stop()
	var quiet <-chan time.Time // runs once the executor has said that it works
	quietTimer := time.NewTimer(time.Hour)
	quietTimer.Stop()
	defer quietTimer.Stop()
	for {
		select {
		case m := <-messages:
			switch {
			case noResponders(m):
				return nil, &subjects.SlotError{Code: subjects.CodeExecutorUnavailable, Message: unreachable(e)}
			case m.Header.Get(subjects.HeaderStatus) == subjects.StatusWorking:
				quietTimer.Reset(silence)
				quiet = quietTimer.C
			default:
				return readReply(m, e)
			}
		case <-quiet:
			return nil, b.lost(e, fmt.Sprintf("its executor was silent for %s", silence))
		case <-end.C:
			return b.cancel(e, messages, fmt.Sprintf("the time limit of %s passed", e.Timeout))
		case <-ctx.Done():
			return b.cancel(e, messages, context.Cause(ctx).Error())
		}
	}
}

// cancel asks for the end of a started execution and reports what really
// happened, as far as it can be known.
func (b *Bus) cancel(e Execution, messages <-chan *nats.Msg, why string) (*subjects.ExecReply, *subjects.SlotError) {
	body, err := subjects.Encode(subjects.ExecCancel{ExecutionID: e.ID, Session: e.Session})
	if err == nil {
		err = b.nc.PublishMsg(&nats.Msg{Subject: b.cancelSubject(e), Data: body, Header: header(subjects.KindExec, e.Trace)})
	}
	if err != nil {
		return nil, b.lost(e, why+", and the cancel could not be sent")
	}
	grace := time.NewTimer(cancelWithin)
	defer grace.Stop()
	for {
		select {
		case m := <-messages:
			if m.Header.Get(subjects.HeaderStatus) == subjects.StatusWorking {
				continue
			}
			reply, slotErr := readReply(m, e)
			if slotErr == nil && reply.Error != nil && reply.Error.Code == subjects.CodeCancelled {
				return nil, cancelled(e, why)
			}
			return reply, slotErr
		case <-grace.C:
			return nil, b.lost(e, why)
		}
	}
}

// cancelled is the outcome of an execution whose executor confirmed its end.
func cancelled(e Execution, why string) *subjects.SlotError {
	if why == errStopped.Error() {
		return &subjects.SlotError{
			Code: subjects.CodeToolError, ExecutorCode: string(subjects.CodeCancelled),
			Message: "stopped after it had started; the executor confirmed that " + e.Name + " was cancelled",
		}
	}
	return &subjects.SlotError{Code: subjects.CodeTimeout, Message: why + "; the executor confirmed that " + e.Name + " was cancelled"}
}

// lost is the outcome of an execution that started and whose end nobody saw.
func (b *Bus) lost(e Execution, why string) *subjects.SlotError {
	if e.Repeatable && why != errStopped.Error() {
		return &subjects.SlotError{Code: subjects.CodeTimeout, Message: why + "; " + e.Name + " is safe to repeat"}
	}
	return &subjects.SlotError{
		Code:    subjects.CodeOutcomeUnknown,
		Message: why + " after " + e.Name + " was sent: it may have taken effect. Check before you repeat it",
	}
}

func (b *Bus) runSubject(e Execution) string {
	if e.Registry {
		return b.space.ExecRun(e.Tenant, e.Toolset)
	}
	return b.space.Session(e.Tenant, e.Session, subjects.VerbExec)
}

func (b *Bus) cancelSubject(e Execution) string {
	return cancelSubject(b.space, e.Tenant, e.Session, e.Toolset, e.Registry)
}

func cancelSubject(space subjects.Space, tenant, session, toolset string, registry bool) string {
	if registry {
		return space.ExecCancel(tenant, toolset)
	}
	return space.Session(tenant, session, subjects.VerbExecCancel)
}

func unreachable(e Execution) string {
	if e.Registry {
		return "no executor of toolset " + e.Toolset + " listens now; " + e.Name + " was not started"
	}
	return "the session's own process does not listen on its exec subject; " + e.Name + " was not started"
}

func noResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}

func readReply(m *nats.Msg, e Execution) (*subjects.ExecReply, *subjects.SlotError) {
	var r subjects.ExecReply
	data := m.Data
	if !utf8.Valid(data) { // one answer must not make a whole reply unreadable
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	err := subjects.Decode(data, &r)
	if err == nil && r.Error == nil && !subjects.Present(r.Result) && len(r.Result) == 0 {
		err = errors.New("it has neither result nor error")
	}
	if err != nil {
		return nil, &subjects.SlotError{
			Code:    subjects.CodeOutcomeUnknown,
			Message: "the executor's answer to " + e.Name + " is not readable (" + err.Error() + "): it may have taken effect. Check before you repeat it",
		}
	}
	return &r, nil
}

// slotError is an executor's error as the model reads it. Refusals that started
// nothing, and codes that mean the same on both sides, keep their meaning; any
// other is the tool's own.
func slotError(e *subjects.ExecError, tool string) *subjects.SlotError {
	switch e.Code {
	case subjects.CodeTooLate, subjects.CodeDefinitionMismatch, subjects.CodeBusy, subjects.CodeBadRequest:
		return &subjects.SlotError{
			Code: subjects.CodeExecutorUnavailable, ExecutorCode: string(e.Code),
			Message: "the executor did not start " + tool + ": " + e.Message,
		}
	case subjects.CodeExecutorUnavailable, subjects.CodeOutcomeUnknown, subjects.CodeTimeout, subjects.CodeResultTooLarge, subjects.CodeInvalidArguments:
		return &subjects.SlotError{Code: e.Code, Message: e.Message}
	case subjects.CodeToolError, "":
		return &subjects.SlotError{Code: subjects.CodeToolError, Message: e.Message}
	}
	return &subjects.SlotError{Code: subjects.CodeToolError, ExecutorCode: string(e.Code), Message: e.Message}
}
