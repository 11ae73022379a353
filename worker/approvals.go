package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/approval"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/tracing"
	"toolbridge/worker/call"
)

// approvals connects questions to people with the calls that wait for them: it
// asks on the bus, ends what expires, and brings every decision to its call. A
// decision is one message of the stream of decisions; a consumer that all
// workers share applies it, so that it is not lost with the worker that took it.
type approvals struct {
	nc    *nats.Conn
	space subjects.Space
	desk  *approval.Desk
	store *approvalStore
	wait  bool // although nobody listens
	calls *call.Engine
	log   *slog.Logger

	metrics *tracing.Metrics

	expiry   expiry
	once     sync.Once
	stopping chan struct{}
	cutPulls context.CancelFunc // when stop no longer waits for what is on its way
	owned    sync.WaitGroup
}

func newApprovals(nc *nats.Conn, space subjects.Space, st *state.State, calls *state.Calls, wait bool, log *slog.Logger) *approvals {
	a := &approvals{nc: nc, space: space, store: &approvalStore{space, st, calls}, wait: wait, log: log, stopping: make(chan struct{})}
	a.desk = approval.NewDesk(a.store, a)
	a.expiry.wake = make(chan struct{}, 1)
	a.cutPulls = func() {}
	return a
}

// Waits implements approval.Calls.
func (a *approvals) Waits(ctx context.Context, tenant string, q subjects.Approval) (bool, error) {
	return a.calls.Waits(ctx, tenant, q)
}

// Ask implements call.Approvals.
func (a *approvals) Ask(ctx context.Context, tenant string, q subjects.Approval, trace [3]string) (none bool, err error) {
	pending, err := a.desk.Add(ctx, tenant, q)
	if err != nil || !pending {
		return false, err
	}
	heard, err := a.request(ctx, tenant, q, trace)
	if err != nil {
		return false, err
	}
	if !heard && !a.wait {
		return true, nil
	}
	if until, err := time.Parse(time.RFC3339Nano, q.ExpiresAt); err == nil {
		a.expiry.add(until, tenant, q.ID)
	}
	return false, nil
}

// request sends a question as a request and reports whether anybody is there to
// hear it. Their answers mean nothing. The server says that there are no
// responders before it answers the ping that is sent next, so that nobody is
// waited for.
func (a *approvals) request(ctx context.Context, tenant string, q subjects.Approval, trace [3]string) (heard bool, err error) {
	body, err := subjects.Encode(q)
	if err != nil {
		return false, fmt.Errorf("asking for approval %s: %w", q.ID, err)
	}
	fail := func(err error) (bool, error) { return false, fmt.Errorf("asking for approval %s: %w", q.ID, err) }
	inbox, first := a.nc.NewInbox(), make(chan *nats.Msg, 1)
	answers, err := a.nc.ChanSubscribe(inbox, first)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := answers.AutoUnsubscribe(1); err != nil {
		return fail(err)
	}
	msg := &nats.Msg{Subject: a.space.ApprovalRequested(tenant), Reply: inbox, Data: body, Header: traced(subjects.KindApproval, trace)}
	if err := a.nc.PublishMsg(msg); err != nil {
		return fail(err)
	}
	if err := a.nc.FlushWithContext(ctx); err != nil {
		return fail(err)
	}
	select {
	case m := <-first:
		return len(m.Data) > 0 || m.Header.Get("Status") != "503", nil
	default:
		return true, nil
	}
}

// Remembered implements call.Approvals.
func (a *approvals) Remembered(ctx context.Context, tenant string, s approval.Subject) (*subjects.Remembered, error) {
	return a.desk.Remembered(ctx, tenant, s)
}

// Settle implements call.Approvals. The decision comes to its call through the
// consumer, like any other.
func (a *approvals) Settle(ctx context.Context, tenant, id string, d subjects.Decision) error {
	return a.desk.Settle(ctx, tenant, id, d)
}

// start begins to apply decisions.
func (a *approvals) start(ctx context.Context, calls *call.Engine, decisions jetstream.Stream) error {
	a.calls = calls
	consumer, err := state.OpenConsumer(ctx, a.log, decisions, jetstream.ConsumerConfig{
		Durable: subjects.QueueWorkers, AckPolicy: jetstream.AckExplicitPolicy, AckWait: decisionWait,
		MaxAckPending: 10_000, MaxDeliver: -1,
	})
	if err != nil {
		return fmt.Errorf("consuming decisions: %w", err)
	}
	base := context.WithoutCancel(ctx) // what was begun is ended, and bounded by itself
	pulling, cut := context.WithCancel(base)
	a.cutPulls = cut
	for range decisionPullers {
		it, err := consumer.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(decisionWait), jetstream.PullHeartbeat(decisionWait/3))
		if err != nil {
			a.stop(ctx)
			return fmt.Errorf("consuming decisions: %w", err)
		}
		a.owned.Go(func() { a.consume(base, pulling, it) })
		a.owned.Go(func() {
			<-a.stopping
			it.Drain() // what is on its way is applied
		})
	}
	a.owned.Go(func() { a.expire(base) })
	return nil
}

// stop ends what start began; what is being applied is applied first, and what is
// on its way until ctx ends.
func (a *approvals) stop(ctx context.Context) {
	a.once.Do(func() { close(a.stopping) })
	cut := context.AfterFunc(ctx, a.cutPulls) // without the bus, draining takes long
	a.owned.Wait()
	cut()
	a.cutPulls()
}

const (
	// decisionPullers is how many decisions a worker applies at once.
	decisionPullers = 8
	// decisionWait is when a decision that a worker took and did not apply comes
	// to another.
	decisionWait = 30 * time.Second
	// decisionRetry is when one that could not be applied is tried again; twice
	// as long each time.
	decisionRetry = time.Second
	// decisionAttempts is after how many tries, half a minute apart in the end,
	// a decision becomes a dead letter.
	decisionAttempts = 60
	// applyWithin bounds applying one.
	applyWithin = 20 * time.Second
)

func (a *approvals) consume(ctx, pulling context.Context, it jetstream.MessagesContext) {
	for {
		msg, err := it.Next(jetstream.NextContext(pulling))
		switch {
		case err == nil:
			a.take(ctx, msg)
			continue
		case errors.Is(err, jetstream.ErrMsgIteratorClosed), pulling.Err() != nil:
			return
		case !errors.Is(err, jetstream.ErrNoHeartbeat):
			a.log.Warn("reading decisions", "error", err)
		}
		select {
		case <-time.After(decisionRetry / 4):
		case <-a.stopping:
			return
		}
	}
}

// take applies one decision and acknowledges it then, not before.
func (a *approvals) take(ctx context.Context, msg jetstream.Msg) {
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	meta, err := msg.Metadata()
	if err != nil {
		return
	}
	s, err := readSettled(msg.Data(), meta.Sequence.Stream)
	tenant, id, ok := a.store.parseDecision(msg.Subject())
	if err != nil || !ok || s.Tenant != tenant || s.ID != id {
		a.log.Error("a message in the stream of decisions is none", "subject", msg.Subject(), "error", err)
		_ = msg.TermWithReason("it is no decision")
		return
	}
	if err := a.apply(ctx, s, meta.NumDelivered == 1); err != nil {
		a.retry(ctx, msg, s, int(meta.NumDelivered), err)
		return
	}
	if err := msg.DoubleAck(ctx); err != nil {
		a.log.Debug("a decision was not acknowledged; it comes again", "approval", id, "error", err)
	}
}

// retry gives a decision back that could not be applied. One that never can
// ends in a dead letter.
func (a *approvals) retry(ctx context.Context, msg jetstream.Msg, s approval.Settled, attempts int, why error) {
	if attempts < decisionAttempts {
		a.log.Warn("a decision could not be applied; it is tried again", "approval", s.ID, "error", why)
		_ = msg.NakWithDelay(min(decisionRetry<<min(attempts-1, 10), decisionWait))
		return
	}
	a.log.Error("a decision can not be applied", "approval", s.ID, "attempts", attempts, "error", why)
	q := s.Approval
	body, err := subjects.Encode(subjects.DeadLetter{
		At: time.Now().UTC().Format(time.RFC3339Nano), Tenant: s.Tenant, Session: q.Session, CallID: q.CallID,
		Subject: msg.Subject(), Code: subjects.CodeInternal, Reason: why.Error(), Attempts: attempts, Body: string(msg.Data()[:min(len(msg.Data()), 4096)]),
	})
	if err == nil {
		_, err = a.store.calls.JS.PublishMsg(ctx, &nats.Msg{Subject: a.space.DeadSubject(s.Tenant, q.Session, q.CallID), Data: body})
	}
	if err != nil {
		_ = msg.NakWithDelay(decisionWait)
		return
	}
	a.metrics.Count(tracing.DeadLetters, 1, "decision")
	_ = msg.TermWithReason("it can not be applied: " + why.Error())
}

// apply does what a decision says: the choice is remembered, the question is
// not pending any more, the call goes on, approvers and the audit hear of it.
// Doing it again changes nothing, and says the same again.
func (a *approvals) apply(ctx context.Context, s approval.Settled, first bool) error {
	if err := a.desk.Conclude(ctx, s); err != nil {
		return err
	}
	if s.Approval.Session == "" {
		return nil // withdrawn before anybody was asked
	}
	trace, applied, err := a.calls.Decide(ctx, s.Tenant, s.Approval, s.Decision)
	if err != nil {
		return err
	}
	if !applied && first { // else the call has told its feed
		a.publish(a.space.Session(s.Tenant, s.Approval.Session, subjects.VerbEvent), subjects.KindEvent, trace, subjects.Event{
			Type: subjects.EventApprovalSettled, At: s.At, CallID: s.Approval.CallID, Index: &s.Approval.Index, Tool: s.Approval.Tool, Decision: &s.Decision,
		})
	}
	a.publish(a.space.ApprovalSettled(s.Tenant), subjects.KindApproval, trace, s.Decision)
	return a.audit(ctx, s.Tenant, s.Approval.Session, auditOf(s))
}

func (a *approvals) publish(subject, kind string, trace [3]string, message any) {
	body, err := subjects.Encode(message)
	if err == nil {
		err = a.nc.PublishMsg(&nats.Msg{Subject: subject, Data: body, Header: traced(kind, trace)})
	}
	if err != nil {
		a.log.Warn("a message about an approval was not sent", "subject", subject, "error", err)
	}
}

func auditOf(s approval.Settled) subjects.AuditRecord {
	q := s.Approval
	return subjects.AuditRecord{
		Type: string(subjects.EventApprovalSettled), At: s.At, Tenant: s.Tenant, Session: q.Session, User: q.User, CallID: q.CallID,
		Index: &q.Index, Tool: q.Tool, DefinitionSHA256: q.DefinitionSHA256, ArgumentsSHA256: q.ArgumentsSHA256,
		Rule: q.Rule, By: s.By, Decision: &s.Decision, Reason: s.Reason,
	}
}

// auditForgotten is the audit's word for a choice that was withdrawn.
const auditForgotten = "approval.forgotten"

func forgottenRecord(tenant string, d subjects.Decision, c approval.Choice) subjects.AuditRecord {
	return subjects.AuditRecord{
		Type: auditForgotten, At: d.At, Tenant: tenant, Session: c.Session, User: c.User, Tool: c.Tool,
		DefinitionSHA256: c.DefinitionSHA256, By: d.By, Decision: &d, Reason: d.Reason,
	}
}

// audit writes into the audit stream and waits for the server's word. What
// belongs to no session stands under a token that no session can have.
func (a *approvals) audit(ctx context.Context, tenant, session string, r subjects.AuditRecord) error {
	if session == "" {
		session = "_approvals"
	}
	body, err := subjects.Encode(r)
	if err == nil {
		_, err = a.store.calls.JS.PublishMsg(ctx, &nats.Msg{Subject: a.space.AuditSubject(tenant, session), Data: body})
	}
	if err != nil {
		return fmt.Errorf("writing the audit record of %s: %w", r.Decision.ID, err)
	}
	return nil
}

func traced(kind string, trace [3]string) nats.Header {
	h := nats.Header{subjects.HeaderKind: {kind}}
	for i, v := range trace {
		if v != "" {
			h[traceHeaders[i]] = []string{v}
		}
	}
	return h
}
