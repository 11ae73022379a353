package main

import (
	"context"
	"encoding/json"
	"slices"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type approvalsDecideCommand struct {
	ID     string `arg:"" name:"id" help:"Id of the approval."`
	Choice string `arg:"" enum:"once,session,always,deny" help:"What may be done: ${enum}. Session and always also spare later questions about the same tool, in this session or for its user."`
	Reason string `placeholder:"TEXT" help:"Why; the model reads it when you deny."`
	SHA256 string `name:"arguments-sha256" placeholder:"HEX" help:"Digest of the arguments that you saw: the decision is refused when they are others."`
	approverFlags
}

func (c *approvalsDecideCommand) Run(ctx context.Context, p *program) error {
	if err := subjects.CheckToken("approval id", c.ID); err != nil {
		return usageError{err}
	}
	return c.send(ctx, p, subjects.ApprovalDecideRequest{ID: c.ID, Choice: subjects.Choice(c.Choice), Reason: c.Reason, ArgumentsSHA256: c.SHA256})
}

type approvalsForgetCommand struct {
	ID     string `arg:"" name:"id" help:"Id of the remembered choice, as \"toolbridge approvals list\" shows it."`
	Reason string `placeholder:"TEXT" help:"Why; for the audit."`
	approverFlags
}

func (c *approvalsForgetCommand) Run(ctx context.Context, p *program) error {
	if err := subjects.CheckToken("id", c.ID); err != nil {
		return usageError{err}
	}
	return c.send(ctx, p, subjects.ApprovalDecideRequest{Forget: c.ID, Reason: c.Reason})
}

// send sends a decision and prints what stands then.
func (f approverFlags) send(ctx context.Context, p *program, r subjects.ApprovalDecideRequest) error {
	a, stop, err := f.open(ctx, p)
	if err != nil {
		return f.fail(p, err)
	}
	defer stop()
	ctx, cancel := f.within(ctx, patience)
	defer cancel()
	if err := f.owned(ctx, a, r); err != nil {
		return f.fail(p, err)
	}
	body, err := a.Request(ctx, subjects.AreaApprovalsDecide, r)
	if err != nil {
		return f.fail(p, err)
	}
	return f.printDecision(p, body)
}

// owned refuses, where --session is given, what is another session's.
func (f approverFlags) owned(ctx context.Context, a *client.Approver, r subjects.ApprovalDecideRequest) error {
	if f.Session == "" {
		return nil
	}
	list, err := a.List(ctx, "")
	if err != nil {
		return err
	}
	other := slices.ContainsFunc(list.Approvals, func(q subjects.Approval) bool { return q.ID == r.ID && q.Session != f.Session }) ||
		slices.ContainsFunc(list.Remembered, func(q subjects.Remembered) bool { return q.ID == r.Forget && q.Session != f.Session })
	if other {
		return subjects.NewError(subjects.CodeUnknownApproval, "it is not of session "+f.Session)
	}
	return nil
}

func (f approverFlags) printDecision(p *program, body json.RawMessage) error {
	if f.JSON {
		return printLine(p.stdout, body)
	}
	var d subjects.Decision
	if err := subjects.Decode(body, &d); err != nil {
		return f.fail(p, err)
	}
	out := output.New(p.stdout, p.lookup)
	out.Line(0, outcome(d))
	return out.Err()
}
