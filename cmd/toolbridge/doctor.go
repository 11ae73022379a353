package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/cmd/toolbridge/internal/config"
	"toolbridge/cmd/toolbridge/internal/doctor"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
	"toolbridge/worker"
)

// exitWarned is the status of an examination that found only what will become a
// fault.
const exitWarned = 3

// doctorCommand says what is wrong with a deployment.
type doctorCommand struct {
	Config string `type:"path" placeholder:"FILE" env:"TOOLBRIDGE_CONFIG" help:"Configuration file (toolbridge.yaml) of the workers: where they connect, and the gateway to look at."`
	User   string `placeholder:"NAME" help:"User whose token is tried at the gateway. Default: that of the session's grant, or dev."`
	gatewayFlags
	sessionFlags
}

func (c *doctorCommand) Help() string {
	return "Exit status: 0 nothing is wrong, 1 something does not work, 3 only warnings."
}

func (c *doctorCommand) Run(ctx context.Context, p *program) error {
	if err := c.checkGateway(); err != nil {
		return err
	}
	cfg, err := c.configuration(p)
	if err != nil {
		return err
	}
	space, err := subjects.NewSpace(c.Prefix)
	if err != nil {
		return usagef("--prefix: %w", err)
	}
	if c.User != "" {
		if err := subjects.CheckToken("user", c.User); err != nil {
			return usagef("--user: %w", err)
		}
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
	patient.Further = append(patient.Further, c.gateway(p, cfg.Gateway, patient))
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

// configuration reads the file, whose section bus stands behind the flags.
func (c *doctorCommand) configuration(p *program) (config.Config, error) {
	cfg := config.Default()
	if c.Config != "" {
		var warnings []config.Problem
		var err error
		if cfg, warnings, err = config.Load(c.Config); err != nil {
			return cfg, err
		}
		for _, w := range warnings {
			fmt.Fprintf(p.stderr, "toolbridge: %s: warning: %s\n", c.Config, w)
		}
	}
	for flag, value := range map[*string]string{&c.NATS: cfg.Bus.URL, &c.Creds: cfg.Bus.Creds, &c.Prefix: cfg.Bus.Prefix} {
		if *flag == "" {
			*flag = value
		}
	}
	if c.Gateway != "" {
		cfg.Gateway.URL = c.Gateway
	}
	return cfg, nil
}

// gateway is the look at the gateway that the configuration or the flag names.
func (c *doctorCommand) gateway(p *program, g config.Gateway, patient *doctor.Patient) func(context.Context) []doctor.Finding {
	return func(ctx context.Context) []doctor.Finding {
		if g.URL == "" {
			return []doctor.Finding{{
				Check: "gateway", Status: doctor.Skipped, Detail: "no gateway of connectors is named",
				Advice: "Where workers have one, name it: --config with their file, or --gateway.",
			}}
		}
		credentials, err := credentialsOf(p, g, worker.Config{Space: patient.Space}, patient.Conn, slog.New(slog.DiscardHandler))
		if err != nil {
			return []doctor.Finding{{
				Check: "gateway identity", Status: doctor.Failed, Detail: err.Error(),
				Advice: "Workers do not start like that: give them the token, or take its name out of gateway.credentials.",
			}}
		}
		return patient.Gateway(ctx, doctor.Gateway{
			Client: clientConfig(g, credentials, patient.Version), User: c.User, TokenFrom: tokenFrom(g),
		})
	}
}

// tokenFrom says where a configuration takes tokens from, in the order in which they
// are tried.
func tokenFrom(g config.Gateway) string {
	var parts []string
	if len(g.Credentials.Env) > 0 {
		parts = append(parts, "gateway.credentials.env")
	}
	if g.Credentials.File != "" {
		parts = append(parts, g.Credentials.File)
	}
	if g.Credentials.Subject {
		parts = append(parts, "who answers on the bus")
	}
	name := g.TokenEnv
	if name == "" {
		name = tokenEnv
	}
	return "token from " + strings.Join(append(parts, "$"+name), ", ")
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
