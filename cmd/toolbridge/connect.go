package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
	"toolbridge/tracing"
)

const defaultNATS = nats.DefaultURL

// busFlags say which server a command talks to.
type busFlags struct {
	NATS  string `name:"nats" placeholder:"URL" env:"TOOLBRIDGE_NATS,NATS_URL" help:"NATS server, or several separated by commas. Default ${default_nats}."`
	Creds string `placeholder:"FILE" type:"existingfile" env:"TOOLBRIDGE_CREDS,NATS_CREDS" help:"NATS credentials file."`
	Inbox string `name:"inbox-prefix" placeholder:"SUBJECT" env:"TOOLBRIDGE_INBOX_PREFIX" help:"Beginning of this connection's reply subjects, where the server allows only one of its own. \"toolbridge permissions\" names it."`
}

// inbox is the option for the reply subjects.
func (b busFlags) inbox() ([]nats.Option, error) {
	if b.Inbox == "" {
		return nil, nil
	}
	prefix := strings.TrimSuffix(b.Inbox, ".")
	if !subjects.ReplyAllowed(prefix, subjects.ReplyPrefixes()) {
		return nil, usagef("--inbox-prefix: a subject that begins with %s is expected: workers answer to no other", subjects.ReplyPrefixes()[0])
	}
	return []nats.Option{nats.CustomInboxPrefix(prefix)}, nil
}

func (b busFlags) url() string {
	if b.NATS == "" {
		return defaultNATS
	}
	return b.NATS
}

// tenantFlags say at which tenant a client verb asks.
type tenantFlags struct {
	busFlags
	Tenant  string        `default:"default" env:"TOOLBRIDGE_TENANT" help:"Tenant."`
	Prefix  string        `env:"TOOLBRIDGE_PREFIX" placeholder:"SUBJECT" help:"Root of the subjects, where a deployment changed it. Default ${default_prefix}."`
	Timeout time.Duration `placeholder:"DURATION" help:"How long to wait for the answer. Default 30s; for call 5m; where a command waits for something to happen, as long as it takes."`
	JSON    bool          `name:"json" help:"Print JSON, as it came from the bus."`
}

// sessionFlags say as which session a client verb asks.
type sessionFlags struct {
	tenantFlags
	Session string `default:"cli" env:"TOOLBRIDGE_SESSION" help:"Session."`
}

// flags are those that a command to be typed next needs to mean the same session.
func (f sessionFlags) flags() string {
	s := ""
	if f.Session != "cli" {
		s += " --session " + f.Session
	}
	if f.Tenant != "default" {
		s += " --tenant " + f.Tenant
	}
	return s
}

// patience is how long a verb waits unless --timeout says otherwise.
const (
	patience     = 30 * time.Second
	callPatience = 5 * time.Minute
)

// open connects as the session; close ends the connection.
func (f sessionFlags) open(ctx context.Context) (s *client.Session, stop func(), err error) {
	if err := subjects.CheckToken("session", f.Session); err != nil {
		return nil, nil, usagef("--session: %w", err)
	}
	c, err := f.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err = c.Session(f.Tenant, f.Session)
	return s, func() { _ = c.Close() }, err
}

// dial checks the flags and connects.
func (f tenantFlags) dial(ctx context.Context) (*client.Client, error) {
	space, err := subjects.NewSpace(f.Prefix)
	if err != nil {
		return nil, usagef("--prefix: %w", err)
	}
	if f.Timeout < 0 {
		return nil, usagef("--timeout: must be more than zero")
	}
	if err := subjects.CheckToken("tenant", f.Tenant); err != nil {
		return nil, usagef("--tenant: %w", err)
	}
	inbox, err := f.inbox()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return client.Dial(ctx, client.Config{
		URL: f.url(), Creds: f.Creds, Name: "toolbridge", Space: space, Tracer: tracing.From(ctx),
		Options: append(inbox, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})),
	})
}

// within bounds a request by --timeout, or by what the verb allows; 0 is no
// bound.
func (f tenantFlags) within(ctx context.Context, usual time.Duration) (context.Context, context.CancelFunc) {
	if f.Timeout > 0 {
		usual = f.Timeout
	}
	if usual == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, usual)
}

// explain is the error for programs, and what people may do next.
func (f sessionFlags) explain(err error) (e *subjects.Error, advice string) {
	return f.explainTo(err, fmt.Sprintf("session %s of tenant %s", f.Session, f.Tenant))
}

// fail prints why a request failed.
func (f sessionFlags) fail(p *program, err error) error {
	var usage usageError
	if errors.As(err, &usage) {
		return err
	}
	e, advice := f.explain(err)
	return f.report(p, e, advice)
}

// explainTo is explain for whoever the command acts as.
func (f tenantFlags) explainTo(err error, who string) (e *subjects.Error, advice string) {
	at := shownURL(f.url())
	fail := func(code subjects.Code, format string, args ...any) *subjects.Error {
		return subjects.NewError(code, fmt.Sprintf(format, args...))
	}
	var own *subjects.Error
	switch {
	case errors.As(err, &own):
		switch own.Code {
		case subjects.CodeUnknownCatalog:
			advice = "A catalog belongs to one session: run \"toolbridge assemble\" with the same --session, or leave out --catalog."
		case subjects.CodeForbidden:
			advice = "What " + who + " may do stands in its grant."
		case subjects.CodeUnknownCall:
			advice = "Calls and results belong to one session and are kept for 24 hours: look at the id and at --session."
		case subjects.CodeIDReused:
			advice = "Give another --id, or none, and one is made."
		case subjects.CodeUnknownApproval:
			advice = "\"toolbridge approvals list\" shows what waits and what is remembered."
		case subjects.CodeArgumentsChanged:
			advice = "Look at it again with \"toolbridge approvals list\"."
		case subjects.CodeAlreadyDecided, subjects.CodeExpired, subjects.CodeWithdrawn:
			advice = "Nothing is left to decide here; should the model call the tool again, it is asked again."
		case subjects.CodeBusy, subjects.CodeUnavailable:
			advice = "Try again in a moment."
		case subjects.CodeDeadlineExceeded:
			advice = "Give it longer with --timeout."
		}
		return own, advice
	case errors.Is(err, nats.ErrNoResponders):
		return fail(subjects.CodeUnavailable, "no worker answers at %s for prefix %s", at, f.prefix()),
			"Is \"toolbridge dev\" or \"toolbridge worker\" running for this server?"
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrPermissionViolation):
		return fail(subjects.CodeForbidden, "the NATS server at %s refused: %v", at, err),
			"Give credentials that may act as " + who + " with --creds FILE."
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded):
		return fail(subjects.CodeUnavailable, "no NATS server at %s", at),
			"Start one with \"toolbridge dev\", or name another with --nats URL."
	case errors.Is(err, context.DeadlineExceeded):
		return fail(subjects.CodeDeadlineExceeded, "%v", err), "Give it longer with --timeout."
	case errors.Is(err, context.Canceled):
		return fail(subjects.CodeUnavailable, "interrupted"), ""
	}
	e = fail(subjects.CodeInternal, "%v", err)
	e.Retryable = false
	return e, ""
}

func (f tenantFlags) prefix() string {
	if f.Prefix == "" {
		return subjects.DefaultPrefix
	}
	return f.Prefix
}

// report prints a failure: on standard error for people, with --json on standard
// output for programs, too.
func (f tenantFlags) report(p *program, e *subjects.Error, advice string) error {
	if f.JSON {
		body, err := subjects.Encode(subjects.ErrorReply{Error: e})
		if err != nil {
			return err
		}
		if err := printLine(p.stdout, body); err != nil {
			return err
		}
	}
	out := output.New(p.stderr, p.lookup)
	out.Line(0, fmt.Sprintf("toolbridge: %s: %s", e.Code, e.Message))
	if advice != "" {
		out.Line(0, advice)
	}
	return errReported
}

// shownURL is an address without its password.
func shownURL(addresses string) string {
	parts := strings.Split(addresses, ",")
	for i, s := range parts {
		if u, err := url.Parse(strings.TrimSpace(s)); err == nil && u.User != nil {
			u.User = url.User("-")
			parts[i] = strings.Replace(u.String(), "//-@", "//***@", 1)
		}
	}
	return strings.Join(parts, ",")
}
