package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/cmd/toolbridge/internal/doctor"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

// exitWarned is the status of an examination that found only what will become a
// fault.
const exitWarned = 3

// doctorCommand says what is wrong with a deployment.
type doctorCommand struct {
	sessionFlags
}

func (c *doctorCommand) Help() string {
	return "Exit status: 0 nothing is wrong, 1 something does not work, 3 only warnings."
}

func (c *doctorCommand) Run(ctx context.Context, p *program) error {
	space, err := subjects.NewSpace(c.Prefix)
	if err != nil {
		return usagef("--prefix: %w", err)
	}
	for kind, token := range map[string]string{"tenant": c.Tenant, "session": c.Session} {
		if err := subjects.CheckToken(kind, token); err != nil {
			return usagef("--%s: %w", kind, err)
		}
	}
	if c.Timeout < 0 {
		return usagef("--timeout: must be more than zero")
	}
	patient := &doctor.Patient{Space: space, Tenant: c.Tenant, Session: c.Session, Version: buildInfo().Version, Wait: c.Timeout}
	out := output.New(p.stdout, p.lookup)
	findings, err := c.examine(ctx, patient)
	if err != nil {
		return err
	}
	worst := doctor.Worst(findings)
	if c.JSON {
		body, err := subjects.Encode(map[string]any{"status": worst, "findings": findings})
		if err != nil {
			return err
		}
		if err := printLine(p.stdout, body); err != nil {
			return err
		}
	} else {
		var rows [][]string
		for _, f := range findings {
			rows = append(rows, []string{string(f.Status), f.Check, f.Detail})
			if f.Advice != "" && f.Status != doctor.OK {
				rows = append(rows, []string{"", "", "→ " + f.Advice})
			}
		}
		out.Rows(0, rows)
		out.Line(0, summary(findings))
	}
	switch worst {
	case doctor.Failed:
		return errReported
	case doctor.Warning:
		return errWarned
	}
	return out.Err()
}

func (c *doctorCommand) examine(ctx context.Context, patient *doctor.Patient) ([]doctor.Finding, error) {
	options, err := c.inbox()
	if err != nil {
		return nil, err
	}
	options = append(options, nats.Name("toolbridge-doctor"), nats.Timeout(5*time.Second), nats.MaxReconnects(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // what is forbidden, the findings say
	if c.Creds != "" {
		options = append(options, nats.UserCredentials(c.Creds))
	}
	nc, err := nats.Connect(c.url(), options...)
	if err != nil {
		e, advice := c.explain(err)
		return []doctor.Finding{{Check: "connection", Status: doctor.Failed, Detail: e.Message, Advice: advice}}, nil
	}
	defer nc.Close()
	patient.Conn = nc
	return doctor.Examine(ctx, patient), nil
}

func summary(findings []doctor.Finding) string {
	n := map[doctor.Status]int{}
	for _, f := range findings {
		n[f.Status]++
	}
	var parts []string
	for _, s := range []struct {
		status doctor.Status
		word   string
	}{{doctor.Failed, "failed"}, {doctor.Warning, "to look at"}, {doctor.OK, "in order"}, {doctor.Skipped, "skipped"}} {
		if n[s.status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s.status], s.word))
		}
	}
	return strings.Join(parts, ", ")
}
