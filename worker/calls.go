package worker

import (
	"context"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// call answers …call, the durable form of a bridged tool_call: the answer means
// that it is stored.
func (w *Worker) call(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	r, l, s, err := w.readBridge(ctx, q)
	if err != nil {
		return nil, err
	}
	if r.Name != catalog.ToolCall && !(r.Name == catalog.ManageConnections && manages(l)) {
		return nil, subjects.NewError(subjects.CodeBadRequest, "only tool_call can be stored; send "+r.Name+" to the bridge")
	}
	accepted, err := w.calls.Accept(ctx, w.callOf(ctx, q, r, l, s))
	if err != nil {
		return nil, err
	}
	if accepted.Refused != nil {
		return subjects.Encode(subjects.BridgeReply{ID: r.ID, Name: r.Name, IsError: true, Result: accepted.Refused})
	}
	return subjects.Encode(subjects.CallStored{ID: r.ID, Stored: true})
}

// fetch answers …fetch: a late result, or a part of a large one.
func (w *Worker) fetch(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	var r subjects.FetchRequest
	if err := subjects.Decode(q.body, &r); err != nil {
		return nil, unreadable(err)
	}
	switch {
	case r.Blob != "" && r.CallID == "":
		return w.calls.Chunk(ctx, q.Tenant, q.Session, r.Blob, r.Offset, chunk(w.nc.MaxPayload()))
	case r.CallID != "" && r.Blob == "":
		if err := subjects.CheckToken("call id", r.CallID); err != nil {
			return nil, subjects.NewError(subjects.CodeBadRequest, err.Error())
		}
		reply, err := w.calls.Result(ctx, q.Tenant, q.Session, r.CallID)
		if err != nil || reply != nil {
			return reply, err
		}
		return subjects.Encode(subjects.FetchPending{Pending: true})
	}
	return nil, subjects.NewError(subjects.CodeBadRequest, "name either a call_id, or a blob with its offset")
}

// chunk is how much of a blob one answer carries.
func chunk(maxPayload int64) int {
	const most = 1 << 20
	if maxPayload <= 0 || maxPayload > 2*most {
		return most
	}
	return int(maxPayload / 2)
}

// stopCalls answers …stop.
func (w *Worker) stopCalls(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	var r subjects.StopRequest
	if err := subjects.DecodeOptional(q.body, &r); err != nil {
		return nil, unreadable(err)
	}
	if r.CallID == "" {
		list, err := w.calls.StopAll(ctx, q.Tenant, q.Session)
		if err != nil {
			return nil, err
		}
		return subjects.Encode(subjects.StopReply{Stopped: list})
	}
	if err := subjects.CheckToken("call id", r.CallID); err != nil {
		return nil, subjects.NewError(subjects.CodeBadRequest, err.Error())
	}
	one, err := w.calls.StopCall(ctx, q.Tenant, q.Session, r.CallID)
	if err != nil {
		return nil, err
	}
	return subjects.Encode(subjects.StopReply{Stopped: []subjects.Stopped{one}})
}

func unreadable(err error) error {
	return subjects.NewError(subjects.CodeBadRequest, "the request is not readable: "+err.Error())
}
