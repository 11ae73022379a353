package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"toolbridge/connectors"
	"toolbridge/connectors/mcp"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/worker"
)

// mcpServer is an MCP server over HTTP with that many tools. While gate is not nil
// and says no, it answers 401.
func mcpServer(t *testing.T, toolCount int, gate func() bool) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "issues", Version: "1"}, nil)
	for i := range toolCount {
		sdk.AddTool(server, &sdk.Tool{Name: fmt.Sprintf("tool_%03d", i), Description: strings.Repeat("Creates an issue of some kind. ", 5)}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{}, nil, nil
		})
	}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gate != nil && !gate() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h.URL
}

func (c *cards) host(cfg mcp.Config) *mcp.Host {
	c.t.Helper()
	st, err := state.Open(c.t.Context(), c.nc, subjects.Space{}, state.Config{})
	if err != nil {
		c.t.Fatal(err)
	}
	cfg.Tenant, cfg.Logger = "t", slog.New(slog.DiscardHandler)
	h, err := mcp.New(cfg, c.nc, st)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := h.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Stop(ctx); err != nil {
			c.t.Error(err)
		}
	})
	return h
}

func TestAServerOfTheCatalogIsInstalledOnceTheUserAgrees(t *testing.T) {
	c := newCards(t, worker.Config{})
	h := c.host(mcp.Config{Catalog: []mcp.Offer{{Server: mcp.ServerConfig{Name: "Issues", URL: mcpServer(t, 200, nil)}}}})
	done := c.begin("m1", `{"action":"install","connectors":[{"name":"issues","mcp":true}]}`)
	card := c.card()
	if s := card.Targets[0]; s.State != subjects.ConnectionPending || !s.MCP || len(h.Status()) != 0 {
		t.Errorf("before the user agrees: %+v, %d servers run", s, len(h.Status()))
	}
	if r := c.ask("s1", "connection.answer", fmt.Sprintf(`{"operation":%q,"target":"issues","action":"continue"}`, card.Operation)); r["accepted"] != true {
		t.Fatalf("the user's word was not taken: %v", r)
	}
	result := at(t, c.reply(done), "result").(map[string]any)
	row := at(t, result, "targets", 0).(map[string]any)
	listing, _ := row["listing"].(string)
	if row["state"] != "connected" || row["mcp"] != true || len(row["tools"].([]any)) != 200 || listing == "" || len(listing) > 4*1500 {
		t.Errorf("the row is %.300s…, its listing %d bytes long", text(row), len(listing))
	}
	if got := c.assemble("s1", `{"toolsets":["mcp-Issues"]}`); got["deferred_count"] != 200.0 {
		t.Errorf("the next assembly has %v deferred tools", got["deferred_count"])
	}
	if again := at(t, c.reply(c.begin("m2", `{"action":"install","connectors":[{"name":"issues","mcp":true}]}`)), "result", "targets", 0, "state"); again != "connected" {
		t.Errorf("installed again: %v", again)
	}
}

func TestServersThatTheUserSkipsAreNotStarted(t *testing.T) {
	c := newCards(t, worker.Config{})
	h := c.host(mcp.Config{Servers: []mcp.ServerConfig{{Name: "off", URL: mcpServer(t, 1, nil), Disabled: true}}})
	done := c.begin("m1", `{"action":"enable","connectors":[{"name":"off","mcp":true}]}`)
	card := c.card()
	c.ask("s1", "connection.answer", fmt.Sprintf(`{"operation":%q,"target":"off","action":"skip"}`, card.Operation))
	if state := at(t, c.reply(done), "result", "targets", 0, "state"); state != "skipped" || len(h.Status()) != 0 {
		t.Errorf("state %v, %d servers run", state, len(h.Status()))
	}
}

func TestWithoutACardServersAreStartedAtOnce(t *testing.T) {
	c := newCards(t, worker.Config{})
	c.ref = c.catalogFor("s1", "cli")
	c.host(mcp.Config{
		Servers: []mcp.ServerConfig{{Name: "off", URL: mcpServer(t, 1, nil), Disabled: true}, {Name: "closed", URL: mcpServer(t, 1, func() bool { return false })}},
		Catalog: []mcp.Offer{{Server: mcp.ServerConfig{Name: "issues", URL: mcpServer(t, 1, nil)}}},
	})
	targets := func(id, arguments string) []any {
		return at(t, c.reply(c.begin(id, arguments)), "result", "targets").([]any)
	}
	if got := targets("m1", `{"action":"enable","connectors":[{"name":"off","mcp":true},{"name":"issues","mcp":true},{"name":"gmail","mcp":true},{"name":"nothing","mcp":true}]}`); at(t, got, 0, "state") != "connected" ||
		at(t, got, 1, "state") != "failed" || !strings.Contains(text(at(t, got, 1, "detail")), "install first") ||
		at(t, got, 2, "state") != "failed" || !strings.Contains(text(at(t, got, 2, "detail")), "hosted app") ||
		at(t, got, 3, "state") != "failed" || !strings.Contains(text(at(t, got, 3, "detail")), "there is no MCP server") {
		t.Errorf("enable: %v", got)
	}
	if got := targets("m2", `{"action":"authorize","connectors":[{"name":"closed","mcp":true}]}`); at(t, got, 0, "state") != "failed" || at(t, got, 0, "detail") == nil {
		t.Errorf("authorize: %v", got)
	}
	if got := targets("m3", `{"action":"connect","connectors":["issues"]}`); at(t, got, 0, "state") != "failed" || !strings.Contains(text(at(t, got, 0, "detail")), "install") {
		t.Errorf("connect of a server: %v", got)
	}
}

func TestWithoutAHostServersAreNotThere(t *testing.T) {
	c := newCards(t, worker.Config{})
	got := at(t, c.reply(c.begin("m1", `{"action":"install","connectors":[{"name":"issues","mcp":true}]}`)), "result", "targets", 0).(map[string]any)
	if got["state"] != "failed" || got["detail"] == nil {
		t.Errorf("%v", got)
	}
}

func TestWithoutACardPolicySaysWhetherServersAreStarted(t *testing.T) {
	c := newBareCards(t)
	c.start(worker.Config{Gateway: c.side(func(g *connectors.Config) { g.DevUser = "" })}) // no dev: whatever no rule allows needs a person
	c.grant("s1", `{"user":"ada"}`)
	h := c.host(mcp.Config{Catalog: []mcp.Offer{{Server: mcp.ServerConfig{Name: "issues", URL: mcpServer(t, 1, nil)}}}})
	c.ref = c.catalogFor("s1", "cli")
	if r := c.reply(c.begin("m1", `{"action":"install","connectors":[{"name":"issues","mcp":true}]}`)); !strings.Contains(text(r), "APPROVAL_DENIED") || len(h.Status()) != 0 {
		t.Errorf("without anybody to ask: %v", r)
	}
	if r := c.reply(c.begin("m2", `{"connectors":["gmail"]}`)); r["is_error"] == true {
		t.Errorf("status: %v", r)
	}
	c.ref = c.catalogFor("s1", "desktop")
	done := c.begin("m3", `{"action":"install","connectors":[{"name":"issues","mcp":true}]}`)
	card := c.card()
	c.ask("s1", "connection.answer", fmt.Sprintf(`{"operation":%q,"target":"issues","action":"retry"}`, card.Operation))
	if r := c.reply(done); at(t, r, "result", "targets", 0, "state") != "connected" {
		t.Errorf("with the card's word: %v", r)
	}
}
