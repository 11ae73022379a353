package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
	"toolbridge/test/bus"
)

func TestEveryErrorSaysWhatToDo(t *testing.T) {
	f := sessionFlags{tenantFlags: tenantFlags{busFlags: busFlags{NATS: "nats://u:secret@h:1"}, Tenant: "t"}, Session: "s"}
	for name, tt := range map[string]struct {
		err    error
		code   subjects.Code
		advice string
	}{
		"unknown catalog": {subjects.NewError(subjects.CodeUnknownCatalog, "m"), subjects.CodeUnknownCatalog, "toolbridge assemble"},
		"forbidden":       {subjects.NewError(subjects.CodeForbidden, "m"), subjects.CodeForbidden, "session s of tenant t"},
		"busy":            {subjects.NewError(subjects.CodeBusy, "m"), subjects.CodeBusy, "Try again"},
		"unknown call":    {subjects.NewError(subjects.CodeUnknownCall, "m"), subjects.CodeUnknownCall, "--session"},
		"id reused":       {subjects.NewError(subjects.CodeIDReused, "m"), subjects.CodeIDReused, "--id"},
		"no approval":     {subjects.NewError(subjects.CodeUnknownApproval, "m"), subjects.CodeUnknownApproval, "approvals list"},
		"decided":         {subjects.NewError(subjects.CodeAlreadyDecided, "m"), subjects.CodeAlreadyDecided, "Nothing is left to decide"},
		"other arguments": {subjects.NewError(subjects.CodeArgumentsChanged, "m"), subjects.CodeArgumentsChanged, "approvals list"},
		"no worker":       {nats.ErrNoResponders, subjects.CodeUnavailable, "toolbridge worker"},
		"no server":       {nats.ErrNoServers, subjects.CodeUnavailable, "toolbridge dev"},
		"refused":         {nats.ErrAuthorization, subjects.CodeForbidden, "--creds"},
		"no rights":       {nats.ErrPermissionViolation, subjects.CodeForbidden, "--creds"},
		"late":            {context.DeadlineExceeded, subjects.CodeDeadlineExceeded, "--timeout"},
		"late there":      {subjects.NewError(subjects.CodeDeadlineExceeded, "m"), subjects.CodeDeadlineExceeded, "--timeout"},
		"interrupted":     {context.Canceled, subjects.CodeUnavailable, ""},
		"anything else":   {errors.New("odd"), subjects.CodeInternal, ""},
	} {
		e, advice := f.explain(fmt.Errorf("wrapped: %w", tt.err))
		if e.Code != tt.code || !strings.Contains(advice, tt.advice) || strings.Contains(e.Message, "secret") {
			t.Errorf("%s: %v, %q", name, e, advice)
		}
	}
}

// command runs the command line in this process.
func command(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	status = run(args, &program{
		stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		lookup: func(string) (string, bool) { return "", false },
	})
	return status, out.String(), errs.String()
}

func TestAServerThatRefusesIsToldFromOneThatIsNotThere(t *testing.T) {
	ns := bus.Server(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "a", Password: "a", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"toolbridge.>"}}}},
		}
	})
	status, stdout, stderr := command(t, "search", "q", "--nats", ns.ClientURL(), "--json")
	if status != 1 || !strings.Contains(stdout, `{"error":{"code":"FORBIDDEN"`) || !strings.Contains(stderr, "--creds") {
		t.Errorf("no credentials: %d %s %s", status, stdout, stderr)
	}
	url := strings.Replace(ns.ClientURL(), "nats://", "nats://a:a@", 1)
	status, stdout, stderr = command(t, "search", "q", "--nats", url, "--json")
	if status != 1 || !strings.Contains(stdout, `{"error":{"code":"FORBIDDEN"`) || !strings.Contains(stderr, "Permissions Violation") {
		t.Errorf("no rights: %d %s %s", status, stdout, stderr)
	}
	status, _, stderr = command(t, "search", "q", "--nats", ns.ClientURL(), "--creds", "no-such-file")
	if status != exitUsage || !strings.Contains(stderr, "no-such-file") {
		t.Errorf("no such credentials: %d %s", status, stderr)
	}
}

func TestTheWorkersSilenceEndsAtTheTimeout(t *testing.T) {
	ns := bus.Server(t)
	nc := bus.Connect(t, ns)
	if _, err := nc.Subscribe("toolbridge.v1.*.*.bridge", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := command(t, "search", "q", "--nats", ns.ClientURL(), "--timeout", "50ms")
	if status != 1 || !strings.Contains(stderr, "DEADLINE_EXCEEDED") || !strings.Contains(stderr, "--timeout") {
		t.Errorf("%d %s", status, stderr)
	}
}

func TestVariablesStandForTheCommonFlags(t *testing.T) {
	ns := bus.Server(t)
	nc := bus.Connect(t, ns)
	got := make(chan string, 1)
	if _, err := nc.Subscribe("toolbridge.v1.*.*.preflight", func(m *nats.Msg) {
		got <- m.Subject
		_ = m.RespondMsg(&nats.Msg{Data: []byte(`{"tools":{}}`), Header: nats.Header{subjects.HeaderKind: {subjects.KindReply}}})
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NATS_URL", ns.ClientURL())
	t.Setenv("TOOLBRIDGE_TENANT", "acme")
	t.Setenv("TOOLBRIDGE_SESSION", "s7")
	if status, _, stderr := command(t, "preflight", "a", "--catalog", "x"); status != 0 {
		t.Fatalf("%d %s", status, stderr)
	}
	if subject := <-got; subject != "toolbridge.v1.acme.s7.preflight" {
		t.Errorf("subject = %s", subject)
	}
	t.Setenv("NATS_URL", "nats://127.0.0.1:1")
	t.Setenv("TOOLBRIDGE_NATS", ns.ClientURL())
	if status, _, stderr := command(t, "preflight", "a", "--catalog", "x", "--session", "s8"); status != 0 {
		t.Fatalf("TOOLBRIDGE_NATS does not win over NATS_URL: %d %s", status, stderr)
	}
	if subject := <-got; subject != "toolbridge.v1.acme.s8.preflight" {
		t.Errorf("a flag does not win: %s", subject)
	}
}
