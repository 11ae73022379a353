package worker

import (
	"context"
	"errors"

	"toolbridge/state"
	"toolbridge/subjects"
)

// listApprovals answers …_approvals.list.<approver>.
func (w *Worker) listApprovals(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	var r subjects.ApprovalListRequest
	if err := subjects.DecodeOptional(q.body, &r); err != nil {
		return nil, unreadable(err)
	}
	if r.Session != "" {
		if err := subjects.CheckToken("session", r.Session); err != nil {
			return nil, subjects.NewError(subjects.CodeBadRequest, err.Error())
		}
	}
	room := maxList
	if limit := w.nc.MaxPayload(); limit > 0 {
		room = int(min(int64(room), limit-listRoom))
	}
	list, err := w.approvals.desk.List(ctx, q.Tenant, r.Session, room)
	if err != nil {
		return nil, approvalError(err)
	}
	return subjects.Encode(list)
}

// maxList bounds a list in bytes, whatever the server would take.
const maxList = 8 << 20

// listRoom is left beside a list for headers and the rest of the reply.
const listRoom = 8 << 10

// decideApproval answers …_approvals.decide.<approver>. Who may send there is a
// matter of the bus's permissions.
func (w *Worker) decideApproval(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	var r subjects.ApprovalDecideRequest
	if err := subjects.Decode(q.body, &r); err != nil {
		return nil, unreadable(err)
	}
	if r.Forget != "" {
		return w.forgetChoice(ctx, q, r)
	}
	d, err := w.approvals.desk.Decide(ctx, q.Tenant, q.Name, r)
	if err != nil {
		return nil, approvalError(err)
	}
	return subjects.Encode(d)
}

func (w *Worker) forgetChoice(ctx context.Context, q *request, r subjects.ApprovalDecideRequest) ([]byte, error) {
	if r.ID != "" || r.Choice != "" {
		return nil, subjects.NewError(subjects.CodeBadRequest, "forget stands alone: send it without id and choice")
	}
	d, c, err := w.approvals.desk.Forget(ctx, q.Tenant, q.Name, r.Forget, r.Reason)
	if err != nil {
		return nil, approvalError(err)
	}
	// A repeated request writes the same record again: the first may have been
	// lost after the choice was forgotten.
	if err := w.approvals.audit(ctx, q.Tenant, c.Session, forgottenRecord(q.Tenant, d, c)); err != nil {
		return nil, approvalError(err)
	}
	return subjects.Encode(d)
}

// approvalError is the error of a request whose store may have failed.
func approvalError(err error) error {
	var e *subjects.Error
	switch {
	case errors.As(err, &e):
		return err
	case state.Full(err):
		e := subjects.NewError(subjects.CodeBusy, "the store of approvals is full: "+err.Error())
		e.RetryAfterMS = 1000
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return subjects.NewError(subjects.CodeDeadlineExceeded, "the store of approvals did not answer in time; send the same again, the first decision stands")
	}
	return subjects.NewError(subjects.CodeUnavailable, "the store of approvals can not be used now; send the same again: "+err.Error())
}
