package call

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// event tells a session's feed what happens. Events are a courtesy: they are not
// stored, and a lost one costs nothing.
func (e *Engine) event(k key, trace [3]string, event subjects.Event) {
	event.At, event.CallID = now(), k.id
	body, err := subjects.Encode(event)
	if err != nil {
		e.log.Debug("an event was not sent", "call", k.String(), "type", string(event.Type), "error", err)
		return
	}
	e.outbox.event(&nats.Msg{Subject: e.cfg.Space.Session(k.tenant, k.session, subjects.VerbEvent), Data: body, Header: header(subjects.KindEvent, trace)})
}

// finished reports the end of one entry to the feed.
func (e *Engine) finished(k key, r *Record, index int, err *subjects.SlotError) {
	entry := &r.Entries[index]
	event := subjects.Event{Type: subjects.EventToolFinished, Index: ptr(index), Tool: entry.Name, IsError: ptr(err != nil)}
	if entry.Started > 0 {
		event.DurationMS = ptr(time.Now().UnixMilli() - entry.Started)
	}
	if err != nil {
		event.Code = err.Code
	}
	e.event(k, r.Trace, event)
}

// auditFinished writes down how one execution ended.
func (e *Engine) auditFinished(k key, r *Record, index int, err *subjects.SlotError) jetstream.PubAckFuture {
	a := subjects.AuditRecord{Type: string(subjects.EventToolFinished)}
	if err != nil {
		a.Code, a.Reason = err.Code, err.Reason
	}
	return e.audit(k, r, index, a)
}

// auditAgain writes down what became of every entry that was started and is done.
// The worker that was to do so was lost, perhaps before it did: then it is written
// down here only, else twice.
func (e *Engine) auditAgain(k key, r *Record) {
	for i := range r.Entries {
		if entry := &r.Entries[i]; entry.Starts > 0 && entry.State == Done {
			e.auditFinished(k, r, i, entry.Error)
		}
	}
}

// audit writes who ran what into the audit stream. It does not hold the call up:
// the journal is the record of what happened until the audit has it. See
// outbox.audit for what it returns.
func (e *Engine) audit(k key, r *Record, index int, a subjects.AuditRecord) jetstream.PubAckFuture {
	a.At, a.Tenant, a.Session, a.CallID, a.User = now(), k.tenant, k.session, k.id, r.User
	if index >= 0 {
		entry := &r.Entries[index]
		a.Index, a.Tool, a.DefinitionSHA256, a.Rule = ptr(index), entry.Name, entry.SHA256, entry.Rule
		if entry.Arguments != nil {
			a.ArgumentsSHA256 = sha256Hex(entry.Arguments)
		}
	}
	body, err := subjects.Encode(a)
	if err != nil {
		e.log.Warn("an audit record was not written", "call", k.String(), "type", a.Type, "error", err)
		return nil
	}
	return e.outbox.audit(&nats.Msg{Subject: e.cfg.Space.AuditSubject(k.tenant, k.session), Data: body})
}

// bury writes a dead letter for a message that can not be served, and ends it.
func (e *Engine) bury(msg jetstream.Msg, k key, reason string, attempts int) {
	e.log.Error("a call can not be served", "subject", msg.Subject(), "reason", reason)
	if err := e.deadLetter(k, msg.Subject(), msg.Data(), reason, attempts); err != nil {
		e.log.Error("its dead letter could not be written; it is tried again", "subject", msg.Subject(), "error", err)
		_ = msg.NakWithDelay(retryDelay)
		return
	}
	_ = msg.TermWithReason(reason)
}

const maxDeadBody = 4096

func (e *Engine) deadLetter(k key, subject string, data []byte, reason string, attempts int) error {
	dead := subjects.DeadLetter{
		At: now(), Tenant: k.tenant, Session: k.session, CallID: k.id, Subject: subject,
		Code: subjects.CodeInternal, Reason: reason, Attempts: attempts, Body: string(data[:min(len(data), maxDeadBody)]),
	}
	body, err := subjects.Encode(dead)
	if err != nil {
		return err
	}
	if k == (key{}) {
		k = key{"unknown", "unknown", "unknown"}
	}
	_, err = e.js.PublishMsg(e.writing(), &nats.Msg{Subject: e.cfg.Space.DeadSubject(k.tenant, k.session, k.id), Data: body})
	if err == nil {
		e.cfg.Metrics.Count(tracing.DeadLetters, 1, "call")
	}
	return err
}

func header(kind string, trace [3]string) nats.Header {
	h := nats.Header{subjects.HeaderKind: {kind}}
	for i, name := range [3]string{subjects.HeaderTraceParent, subjects.HeaderTraceState, subjects.HeaderBaggage} {
		if trace[i] != "" {
			h[name] = []string{trace[i]}
		}
	}
	return h
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

func itoa(n int) string { return strconv.Itoa(n) }

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// encode writes values of this package, which can not fail.
func encode(v any) []byte {
	b, err := subjects.Encode(v)
	if err != nil {
		return []byte(`{"error":{"code":"` + string(subjects.CodeInternal) + `","message":"the result could not be written"}}`)
	}
	return b
}
