package worker

import (
	"context"

	"toolbridge/connectors"
	"toolbridge/subjects"
	"toolbridge/worker/call"
)

// own executes the worker's own tools: manage_connections.
type own struct {
	manage  *connectors.Manage
	gateway *connectors.Gateway
}

// Execute implements call.Executor. A stop ends what is waited for and has a result;
// when the worker stops, another one goes on.
func (x own) Execute(ctx context.Context, e call.Execution) call.Outcome {
	who, _ := x.gateway.User(e.Tenant, e.User)
	running, stop, over := call.Outlive(ctx, e.Leaving)
	defer over()
	end := x.manage.Execute(running, connectors.ManageCall{
		Who: who, Tenant: e.Tenant, Session: e.Session, CallID: e.CallID, Index: e.Index, Surface: e.Surface,
		Arguments: e.Arguments, Trace: e.Trace, Stop: stop, Sent: e.Sent, Parks: e.Parks,
	})
	return call.Outcome{Response: end.Response, Error: end.Error, Unsent: end.Unsent, Again: end.Again}
}

// answerConnection answers …connection.answer: what the user did on a card. The
// worker that runs the operation finds it in the operation's state.
func (w *Worker) answerConnection(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := w.bounded(ctx, q)
	defer cancel()
	var a subjects.ConnectionAnswer
	if err := subjects.Decode(q.body, &a); err != nil {
		return nil, unreadable(err)
	}
	bad := func(path, message string) ([]byte, error) {
		e := subjects.NewError(subjects.CodeBadRequest, message)
		e.Path = path
		return nil, e
	}
	switch {
	case a.Operation == "":
		return bad("operation", "operation is missing: the card's event names it")
	case a.Action != subjects.ConnectionSkip && a.Action != subjects.ConnectionContinue && a.Action != subjects.ConnectionRetry:
		return bad("action", "action is skip, continue or retry")
	case a.Target == "" && a.Action != subjects.ConnectionContinue:
		return bad("target", "target is missing: "+string(a.Action)+" is about one of the card's targets")
	}
	if w.manage == nil {
		return subjects.Encode(subjects.ConnectionAnswerReply{Operation: a.Operation, Reason: "the session has no such operation"})
	}
	reply, err := w.manage.Answer(ctx, q.Tenant, q.Session, a)
	if err != nil {
		return nil, unavailable("taking the answer", err)
	}
	return subjects.Encode(reply)
}
