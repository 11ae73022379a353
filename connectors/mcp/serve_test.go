package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"toolbridge/client"
	"toolbridge/connectors/mcp"
	"toolbridge/state"
	"toolbridge/subjects"
	testbus "toolbridge/test/bus"
	"toolbridge/worker"
)

// served is an MCP client before a session of a real worker, and what it is told.
type served struct {
	t       *testing.T
	nc      *nats.Conn
	st      *state.State
	client  *sdk.ClientSession
	changed chan struct{}
	ended   chan error
}

func serveSession(t *testing.T) *served {
	t.Helper()
	server := testbus.Server(t)
	nc := testbus.Connect(t, server)
	w, err := worker.New(worker.Config{Dev: true}, testbus.Connect(t, server))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.Stop(ctx)
	})
	s := &served{t: t, nc: nc, changed: make(chan struct{}, 16), ended: make(chan error, 1)}
	if s.st, err = state.OpenRegistry(t.Context(), nc, state.Config{}); err != nil {
		t.Fatal(err)
	}
	s.offer(`[{"name":"mcp__notes__add","description":"Adds a note.","parameters":{"type":"object","properties":{"text":{"type":"string"}}}},
		{"name":"mcp__notes__picture","description":"Draws.","parameters":{"type":"object"}},
		{"name":"mcp__notes__wait","description":"Waits.","parameters":{"type":"object"}}]`)
	return s
}

func (s *served) offer(definitions string) {
	s.t.Helper()
	blob, err := s.st.Blobs.PutIfAbsent(s.t.Context(), []byte(definitions))
	if err != nil {
		s.t.Fatal(err)
	}
	value := `{"definitions_sha256":"` + blob + `","blob":"` + blob + `","since":"2026-01-01T00:00:00Z"}`
	if _, err := s.st.Toolsets.PutString(s.t.Context(), subjects.ToolsetKey("t", "mcp-notes", "pool"), value); err != nil {
		s.t.Fatal(err)
	}
}

// connect begins to serve once the registry is known to the worker.
func (s *served) connect() {
	s.t.Helper()
	c, err := client.New(s.nc, client.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	session, err := c.Session("t", "s1")
	if err != nil {
		s.t.Fatal(err)
	}
	for {
		r, err := session.Assemble(s.t.Context(), subjects.AssembleRequest{Toolsets: client.AllToolsets()})
		if err != nil {
			s.t.Fatal(err)
		}
		if r.DeferredCount > 0 || len(r.Tools) > 0 {
			break
		}
	}
	here, there := sdk.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(s.t.Context())
	go func() { s.ended <- mcp.Serve(ctx, session, mcp.ServeConfig{}, there) }()
	s.client, err = sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.changed <- struct{}{} },
	}).Connect(s.t.Context(), here, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = s.client.Close()
		if err := <-s.ended; err != nil {
			s.t.Errorf("serving ended with %v", err)
		}
		cancel()
		_ = c.Close()
	})
}

func (s *served) call(tool string, arguments any) *sdk.CallToolResult {
	s.t.Helper()
	r, err := s.client.CallTool(s.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		s.t.Fatalf("%s: %v", tool, err)
	}
	return r
}

func textOf(r *sdk.CallToolResult) string {
	if len(r.Content) == 1 {
		if c, ok := r.Content[0].(*sdk.TextContent); ok {
			return c.Text
		}
	}
	return ""
}

func TestAnMCPClientFindsAndCallsTheSessionsToolsThroughTheBridge(t *testing.T) {
	s := serveSession(t)
	cancelled := make(chan string, 1)
	sub, err := s.nc.QueueSubscribe("toolbridge.v1.t._exec.run.mcp-notes", "executors", func(m *nats.Msg) {
		var r subjects.ExecRequest
		if err := subjects.Decode(m.Data, &r); err != nil {
			t.Error(err)
		}
		switch {
		case strings.HasSuffix(r.Tool, "picture"):
			_ = m.Respond([]byte(`{"result":{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"text","text":"a picture"}]}}`))
		case strings.HasSuffix(r.Tool, "add"):
			_ = m.Respond([]byte(`{"result":{"added":` + string(r.Arguments) + `,"id":12345678901234567890}}`))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	cancels, err := s.nc.Subscribe("toolbridge.v1.t._exec.cancel.mcp-notes", func(m *nats.Msg) { cancelled <- string(m.Data) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cancels.Unsubscribe() }()
	s.connect()

	list, err := s.client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "tool_call tool_describe tool_search" {
		t.Errorf("the client is offered %s", got)
	}
	if r := s.call("tool_search", map[string]any{"queries": []string{"add note"}}); !strings.Contains(textOf(r), "mcp__notes__add") || r.IsError {
		t.Errorf("search: %s", textOf(r))
	}
	one := func(name, arguments string) *sdk.CallToolResult {
		return s.call("tool_call", map[string]any{"calls": []map[string]any{{"name": name, "arguments": json.RawMessage(arguments)}}})
	}
	if r := one("mcp__notes__add", `{"text":"x"}`); textOf(r) != `{"added":{"text":"x"},"id":12345678901234567890}` || r.IsError {
		t.Errorf("call: %v %s", r.IsError, textOf(r))
	}
	if r := one("mcp__notes__picture", `{}`); len(r.Content) != 2 {
		t.Errorf("typed content: %+v", r.Content)
	} else if image, ok := r.Content[0].(*sdk.ImageContent); !ok || image.MIMEType != "image/png" {
		t.Errorf("the image is a %T", r.Content[0])
	}
	if r := one("mcp__notes__nothing", `{}`); !r.IsError || !strings.Contains(textOf(r), "TOOL_NOT_FOUND") {
		t.Errorf("an unknown tool: %v %s", r.IsError, textOf(r))
	}

	// A client that gives up stops the call.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.client.CallTool(ctx, &sdk.CallToolParams{Name: "tool_call", Arguments: map[string]any{"calls": []map[string]any{{"name": "mcp__notes__wait", "arguments": map[string]any{}}}}}); err == nil {
		t.Error("the call has a result, though nobody answered it")
	}
	select {
	case <-cancelled:
	case <-time.After(20 * time.Second):
		t.Error("the executor never heard that the call was stopped")
	}
}

func TestAnMCPClientHearsOfOtherTools(t *testing.T) {
	s := serveSession(t)
	s.connect()
	before := listing(t, s)
	s.offer(`[{"name":"mcp__notes__shred","description":"Destroys a note.","parameters":{"type":"object"}}]`)
	for {
		select {
		case <-s.changed:
		case <-time.After(20 * time.Second):
			t.Fatalf("never told; the listing is still\n%s", before)
		}
		if now := listing(t, s); strings.Contains(now, "shred") && !strings.Contains(now, "picture") {
			return
		}
	}
}

func listing(t *testing.T, s *served) string {
	t.Helper()
	list, err := s.client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, tool := range list.Tools {
		all += tool.Description
	}
	return all
}
