package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/catalog"
	"toolbridge/state"
	"toolbridge/subjects"
)

const (
	// maxInline is how large a body may be to stay in the journal; less where the
	// server's max_payload would not hold a record with ten of them.
	maxInline = 64 << 10
	// maxPreview bounds the preview of a large result, in characters.
	maxPreview = 2000
)

// keep puts a large body into the object store.
func (e *Engine) keep(ctx context.Context, body json.RawMessage) (*Kept, error) {
	if len(body) <= e.inline() {
		return &Kept{JSON: body}, nil
	}
	name, err := e.state.Blobs.PutIfAbsent(ctx, body)
	if err != nil {
		return nil, err
	}
	return &Kept{Blob: name, Size: int64(len(body))}, nil
}

func (e *Engine) inline() int {
	if limit := e.nc.MaxPayload(); limit > 0 {
		return int(min(maxInline, limit/32))
	}
	return maxInline
}

// maxArguments is how large the arguments of a call may be, so that its record
// can be written with the results of all its entries.
func (e *Engine) maxArguments(entries int) int64 {
	limit := e.nc.MaxPayload()
	if limit <= 0 {
		return math.MaxInt64
	}
	return limit - int64(entries)*int64(max(e.inline(), maxMessage)+recordFrame) - recordFrame
}

// recordFrame is what a record, and each entry, has beside what came from outside.
const recordFrame = 4 << 10

func (e *Engine) bytes(ctx context.Context, k *Kept) (json.RawMessage, error) {
	if k.Blob == "" {
		return k.JSON, nil
	}
	return e.state.Blobs.Get(ctx, k.Blob)
}

// close makes a record whose entries are all done final: it builds the reply,
// which never changes afterwards. It does not write the record.
func (e *Engine) close(ctx context.Context, k key, r *Record, _ error) error {
	result, isError, err := e.result(ctx, r)
	if err != nil {
		return err
	}
	reply := subjects.BridgeReply{ID: k.id, Name: cmp.Or(r.Direct, catalog.ToolCall), IsError: isError, Result: result}
	if e.tooLarge(result) {
		name, err := e.state.Blobs.PutIfAbsent(ctx, result)
		if err != nil {
			return err
		}
		if err := e.own(ctx, k, name); err != nil {
			return err
		}
		reply.Result = nil
		reply.Blob = &subjects.Blob{Name: name, Size: int64(len(result)), SHA256: name}
		reply.Preview = preview(result)
	}
	body, err := subjects.Encode(reply)
	if err != nil {
		return fmt.Errorf("writing the reply of call %s: %w", k.id, err)
	}
	kept, err := e.keep(ctx, body)
	if err != nil {
		return err
	}
	r.Final, r.Reply, r.Finished, r.Lease = true, kept, time.Now().UnixMilli(), nil
	for i := range r.Entries { // the reply has them; the journal keeps what happened
		r.Entries[i].Response, r.Entries[i].Schema = nil, nil
	}
	return nil
}

func (e *Engine) tooLarge(result []byte) bool {
	if e.cfg.MaxResult > 0 && len(result) > e.cfg.MaxResult && utf8.RuneCount(result) > e.cfg.MaxResult {
		return true
	}
	limit := e.nc.MaxPayload()
	return limit > 0 && int64(len(result)) > limit-headerRoom-maxReplyFrame
}

// maxReplyFrame is what a reply has beside its result.
const maxReplyFrame = 4 << 10

func preview(result []byte) string {
	n := 0
	for i := range string(result) {
		if n == maxPreview {
			return string(result[:i])
		}
		n++
	}
	return string(result)
}

// result is what the model reads: the tool's own result for one local entry,
// slots in the caller's order for several.
func (e *Engine) result(ctx context.Context, r *Record) (result []byte, isError bool, err error) {
	out := subjects.CallResults{TotalCount: len(r.Entries)}
	for i := range r.Entries {
		entry := &r.Entries[i]
		slot := subjects.CallSlot{Index: i, Name: entry.Name, Error: entry.Error, Account: entry.Account}
		if entry.Error != nil {
			out.ErrorCount++
		} else {
			out.SuccessCount++
			slot.Response, err = e.bytes(ctx, entry.Response)
			switch {
			case errors.Is(err, state.ErrNotFound):
				out.SuccessCount, out.ErrorCount, slot.Response = out.SuccessCount-1, out.ErrorCount+1, nil
				slot.Error = &subjects.SlotError{Code: subjects.CodeResultTooLarge, Message: entry.Name + " has run, but its result is no longer in the store"}
			case err != nil:
				return nil, false, fmt.Errorf("reading the result of entry %d: %w", i, err)
			}
		}
		out.Results = append(out.Results, slot)
	}
	if r.Batch {
		return encode(out), out.SuccessCount == 0, nil
	}
	if slot := out.Results[0]; slot.Error == nil {
		return slot.Response, false, nil
	}
	return encode(subjects.CallFailure{Error: out.Results[0].Error}), true, nil
}

// publish hands a final reply to those who wait here, and publishes it: once, and
// again only with the same bytes. l is the call when this worker made it final, and
// so wrote down what ran, nil when another one did. It returns the reply.
func (e *Engine) publish(ctx context.Context, k key, r *Record, l *live) ([]byte, error) {
	body, err := e.bytes(ctx, r.Reply)
	if err != nil {
		return nil, fmt.Errorf("reading the reply of call %s: %w", k.id, err)
	}
	e.deliver(k, body)
	if l != nil {
		l.audited()
	}
	msg := &nats.Msg{Subject: e.cfg.Space.Result(k.tenant, k.session, k.id), Data: body, Header: header(subjects.KindResult, r.Trace)}
	e.step(StepWritten, k)
	_, err = e.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(0))
	switch {
	case err == nil:
		e.step(StepPublished, k)
		e.event(k, r.Trace, callFinished(r))
		switch {
		case l == nil && r.ran(): // the worker that made it final was lost before it published
			e.auditAgain(k, r)
		case !r.ran(): // else each entry that ran has a record of its own
			e.audit(k, r, -1, subjects.AuditRecord{Type: string(subjects.EventCallFinished)})
		}
		e.reportFinal(k, r)
	case isWrongSequence(err): // it was published before, by a worker that was lost since
	default:
		return body, fmt.Errorf("publishing the result of call %s: %w", k.id, err)
	}
	return body, nil
}

func isWrongSequence(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) || apiCode(err) == 10071 || apiCode(err) == 10164
}

func apiCode(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

func callFinished(r *Record) subjects.Event {
	failed := 0
	for i := range r.Entries {
		if r.Entries[i].Error != nil {
			failed++
		}
	}
	return subjects.Event{
		Type: subjects.EventCallFinished, TotalCount: ptr(len(r.Entries)), SuccessCount: ptr(len(r.Entries) - failed), ErrorCount: ptr(failed),
		IsError: ptr(failed == len(r.Entries)), DurationMS: ptr(r.Finished - r.Accepted),
	}
}

// own notes that a blob belongs to a session, so that fetch gives it to that
// session only. It expires with the session's other bindings.
func (e *Engine) own(ctx context.Context, k key, blob string) error {
	value, err := subjects.Encode(subjects.Binding{Catalog: "", At: now()})
	if err != nil {
		return err
	}
	if _, err := e.state.Bindings.Put(ctx, ownerKey(k.tenant, k.session, blob), value); err != nil {
		return fmt.Errorf("noting whose the result is: %w", err)
	}
	return nil
}

func ownerKey(tenant, session, blob string) string {
	return subjects.BindingKey(tenant, session, "blob-"+blob)
}

// storeError is the error of a store that can not be reached or takes no more.
func storeError(err error) error {
	if state.Full(err) {
		e := subjects.NewError(subjects.CodeBusy, "the store of calls is full: "+err.Error())
		e.RetryAfterMS = 1000
		return e
	}
	return subjects.NewError(subjects.CodeUnavailable, "the store of calls can not be used now: "+err.Error())
}
