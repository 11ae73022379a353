package main

import (
	"context"
	"errors"
	"fmt"

	"toolbridge/client"
	"toolbridge/subjects"
)

// approverFlags say as whom the verbs of approvals decide.
type approverFlags struct {
	Approver string `env:"TOOLBRIDGE_APPROVER" placeholder:"NAME" help:"Who decides. Default: your user name, or cli."`
	Session  string `placeholder:"SESSION" help:"Only approvals of this session. Default: of all sessions."`
	tenantFlags
}

// name is who decides.
func (f approverFlags) name(p *program) string {
	if f.Approver != "" {
		return f.Approver
	}
	if user, _ := p.lookup("USER"); subjects.ValidToken(user) {
		return user
	}
	return "cli"
}

// open connects as the approver; stop ends the connection.
func (f approverFlags) open(ctx context.Context, p *program) (a *client.Approver, stop func(), err error) {
	if err := subjects.CheckToken("approver", f.name(p)); err != nil {
		return nil, nil, usagef("--approver: %w", err)
	}
	if f.Session != "" {
		if err := subjects.CheckToken("session", f.Session); err != nil {
			return nil, nil, usagef("--session: %w", err)
		}
	}
	c, err := f.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	a, err = c.Approver(f.Tenant, f.name(p))
	return a, func() { _ = c.Close() }, err
}

// fail prints why a request failed.
func (f approverFlags) fail(p *program, err error) error {
	var usage usageError
	if errors.As(err, &usage) {
		return err
	}
	e, advice := f.explainTo(err, fmt.Sprintf("approver %s of tenant %s", f.name(p), f.Tenant))
	return f.report(p, e, advice)
}
