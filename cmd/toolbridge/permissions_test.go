package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/approval"
	"toolbridge/client"
	"toolbridge/connectors/mcp"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/worker"
)

// stdoutOf is what a command prints on standard output.
func stdoutOf(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, lookup: func(string) (string, bool) { return "", false }}
	if status := run(args, p); status != 0 {
		t.Fatalf("toolbridge %s: status %d: %s", strings.Join(args, " "), status, stderr.String())
	}
	return stdout.String()
}

// configured starts a NATS server on a configuration file.
func configured(t *testing.T, text string) *server.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	text = fmt.Sprintf("host: 127.0.0.1, port: -1, max_payload: 8MB\njetstream {store_dir: %q}\n", t.TempDir()) + text
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("the server refuses the configuration: %v\n%s", err, text)
	}
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s
}

// as connects one of the users; what the server refuses it goes to refused.
func as(t *testing.T, s *server.Server, user, inbox string, refused chan<- error) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo(user, "secret"), nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case refused <- fmt.Errorf("%s: %w", user, err):
			default:
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// notesOverHTTP is an MCP server with one tool.
func notesOverHTTP(t *testing.T) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	type input struct {
		Text string `json:"text"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Adds a note."}, func(context.Context, *sdk.CallToolRequest, input) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "added"}}}, nil, nil
	})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(h.Close)
	return h.URL
}

// deployment is what a test of permissions starts: a worker, an MCP host, an agent
// that runs a tool of its own, and an approver.
type deployment struct {
	t       *testing.T
	refused chan error
	space   subjects.Space
}

func (d *deployment) worker(nc *nats.Conn) {
	w, err := worker.New(worker.Config{Space: d.space, Policy: approval.Policy{Rules: []approval.Rule{{Match: "mcp__notes__*", Action: approval.Ask}}, Default: approval.Allow}}, nc)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := w.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.Stop(ctx)
	})
}

func (d *deployment) host(nc *nats.Conn) {
	st, err := state.OpenRegistry(d.t.Context(), nc, state.Config{})
	if err != nil {
		d.t.Fatal(err)
	}
	h, err := mcp.New(mcp.Config{Tenant: "acme", Executor: "pool", Space: d.space, Servers: []mcp.ServerConfig{{Name: "notes", URL: notesOverHTTP(d.t)}}}, nc, st)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := h.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = h.Stop(ctx)
	})
	if err := h.Ready(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *deployment) client(nc *nats.Conn) *client.Client {
	c, err := client.New(nc, client.Config{Space: d.space})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (d *deployment) grant(nc *nats.Conn) {
	js, err := jetstream.New(nc)
	if err != nil {
		d.t.Fatal(err)
	}
	kv, err := js.KeyValue(d.t.Context(), subjects.BucketGrants)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := kv.Put(d.t.Context(), subjects.GrantKey("acme", "s1"), []byte(`{"user":"ann"}`)); err != nil {
		d.t.Fatal(err)
	}
}

// uses goes once around: own tools and the pool's, events, approval, result.
func (d *deployment) uses(agent, approver *nats.Conn) {
	t := d.t
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	session, err := d.client(agent).Session("acme", "s1")
	if err != nil {
		t.Fatal(err)
	}
	own, err := session.Serve(ctx, client.ServeConfig{}, func(_ context.Context, _ subjects.ExecRequest) (json.RawMessage, error) {
		return json.RawMessage(`{"own":true}`), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Stop(ctx) }()
	events, err := session.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	source := client.Source{Assemble: subjects.AssembleRequest{Toolsets: []string{"mcp-notes"}, Tools: json.RawMessage(`[{"name":"own_tool","toolset":"own","description":"Mine.","parameters":{"type":"object"}}]`)}}
	call := func(name string) json.RawMessage {
		t.Helper()
		reply, err := session.Call(ctx, source, name, json.RawMessage(`{"text":"x"}`))
		var refused *client.ResultError
		if errors.As(err, &refused) {
			return refused.Reply.Result
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return reply.Result
	}
	if got := call("own_tool"); string(got) != `{"own":true}` {
		t.Errorf("the own tool answered %s", got)
	}

	// Nobody is there to decide: that is known at once.
	if got := call("mcp__notes__add"); !strings.Contains(string(got), "no_approver") {
		t.Errorf("without an approver: %s", got)
	}
	ann, err := d.client(approver).Approver("acme", "ann")
	if err != nil {
		t.Fatal(err)
	}
	news, err := ann.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer news.Stop()
	decided := make(chan error, 1)
	go func() {
		for n := range news.C {
			if n.Requested != nil {
				_, err := ann.Decide(ctx, client.Answer(*n.Requested, subjects.ChoiceOnce, ""))
				decided <- err
				return
			}
		}
	}()
	if got := call("mcp__notes__add"); !strings.Contains(string(got), "added") {
		t.Errorf("the pool's tool answered %s", got)
	}
	if err := <-decided; err != nil {
		t.Errorf("deciding: %v", err)
	}
	for seen := map[subjects.EventType]bool{}; !seen[subjects.EventApprovalSettled] || !seen[subjects.EventToolFinished]; {
		select {
		case e := <-events.C:
			seen[e.Type] = true
		case <-ctx.Done():
			t.Fatalf("events seen: %v", seen)
		}
	}
	select {
	case err := <-d.refused:
		t.Errorf("the server refused what is needed: %v", err)
	default:
	}
}

func TestPrintedPermissionsAllowWhatIsNeeded(t *testing.T) {
	user := func(name string, args ...string) string {
		return fmt.Sprintf("{user: %s, password: secret, %s}\n", name, stdoutOf(t, append([]string{"permissions"}, args...)...))
	}
	s := configured(t, "authorization {users: [\n"+
		user("worker", "worker")+
		user("host", "executor", "--tenant", "acme", "--name", "pool", "--toolset", "mcp-notes")+
		user("agent", "session", "--tenant", "acme", "--session", "s1")+
		user("ann", "approver", "--tenant", "acme", "--name", "ann")+
		user("boss", "orchestrator", "--tenant", "acme")+
		"]}\n")
	d := &deployment{t: t, refused: make(chan error, 8)}
	d.worker(as(t, s, "worker", "_INBOX.worker", d.refused))
	d.host(as(t, s, "host", "_INBOX.executor.acme.pool", d.refused))
	d.grant(as(t, s, "boss", "_INBOX.orchestrator.acme", d.refused))
	agent, ann := as(t, s, "agent", "_INBOX.session.acme.s1", d.refused), as(t, s, "ann", "_INBOX.approver.acme.ann", d.refused)
	d.uses(agent, ann)

	// And nothing else.
	for _, c := range []struct {
		who       *nats.Conn
		name      string
		publishes string
	}{
		{agent, "another session's request", "toolbridge.v1.acme.s2.call"},
		{agent, "another tenant's request", "toolbridge.v1.other.s1.call"},
		{agent, "a decision", "toolbridge.v1.acme._approvals.decide.ann"},
		{agent, "an execution", "toolbridge.v1.acme._exec.run.mcp-notes"},
		{agent, "a queue of the workers", "toolbridge.v1._calls.0.acme.s1.x"},
		{agent, "its grant", "$KV.toolbridge_grants.acme.s1"},
		{agent, "JetStream", "$JS.API.STREAM.LIST"},
		{ann, "another approver's decision", "toolbridge.v1.acme._approvals.decide.bob"},
		{ann, "a session's request", "toolbridge.v1.acme.s1.stop"},
	} {
		if err := c.who.Publish(c.publishes, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.who.FlushTimeout(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-d.refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", c.name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: publishing on %s is allowed", c.name, c.publishes)
		}
	}
	for name, subject := range map[string]string{
		"all inboxes": "_INBOX.>", "another's inbox": "_INBOX.session.acme.s2.>", "another's results": "toolbridge.v1.acme.s2.result.*",
		"all of the tenant": "toolbridge.v1.acme.>", "questions to approvers": "toolbridge.v1.acme._approvals.requested",
	} {
		sub, err := agent.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.FlushTimeout(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		select {
		case <-d.refused:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: subscribing to %s is allowed", name, subject)
		}
		_ = sub.Unsubscribe()
	}
}

func TestPrintedAccountsCarryWholeCallsBetweenTheWorkersAndATenant(t *testing.T) {
	text := stdoutOf(t, "permissions", "accounts", "--tenant", "acme", "--user", "ann")
	other := stdoutOf(t, "permissions", "accounts", "--tenant", "other")
	for _, account := range []string{"TOOLBRIDGE", "ACME"} {
		name := map[string]string{"TOOLBRIDGE": "worker", "ACME": "tenant"}[account]
		extra := "users: [{user: " + name + ", password: secret}]\n"
		if account == "TOOLBRIDGE" {
			extra += "    jetstream: enabled\n"
		}
		text = strings.Replace(text, "  "+account+": {\n", "  "+account+": {\n    "+extra, 1)
	}
	if _, err := server.ProcessConfigFile(write(t, other)); err != nil {
		t.Errorf("the other tenant's accounts are refused: %v", err)
	}
	s := configured(t, text)
	d := &deployment{t: t, refused: make(chan error, 8)}
	workers := as(t, s, "worker", "_INBOX.worker", d.refused)
	d.worker(workers)
	d.host(as(t, s, "worker", "_INBOX.host", d.refused))
	d.grant(workers)
	d.uses(as(t, s, "tenant", "_INBOX.agent", d.refused), as(t, s, "tenant", "_INBOX.ann", d.refused))
	if _, err := as(t, s, "tenant", "_INBOX.x", d.refused).Request("toolbridge.v1.other.s1.assemble", []byte(`{"toolsets":["*"]}`), 5*time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("another tenant's request from this account: %v", err)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPermissionsRefuseWrongUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"no tenant": {"session", "--session", "s1"}, "no session": {"session", "--tenant", "acme"}, "a wildcard": {"session", "--tenant", "acme", "--session", "*"},
		"an approver without a name": {"approver", "--tenant", "acme"}, "no such role": {"admin"}, "a user that is none": {"accounts", "--tenant", "acme", "--user", "exec"}, "accounts alike": {"accounts", "--tenant", "acme", "--to", "TOOLBRIDGE"},
		"a name that is two": {"hook", "--tenant", "acme", "--name", "a.b"}, "a reserved tenant": {"console", "--tenant", "_x"}, "partitions": {"worker", "--partitions", "0"},
	} {
		var stderr bytes.Buffer
		p := &program{stdin: strings.NewReader(""), stdout: &stderr, stderr: &stderr, lookup: func(string) (string, bool) { return "", false }}
		if status := run(append([]string{"permissions"}, args...), p); status != exitUsage {
			t.Errorf("%s: status %d: %s", name, status, stderr.String())
		}
	}
}
