package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// testMCPServe starts the program as an MCP client would, and reaches a tool of
// another MCP server through it.
func testMCPServe(t *testing.T, d *development) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := &syncBuffer{}
	cmd := exec.Command(binary, "mcp", "serve", "--nats", d.url, "--session", "mcpclient")
	cmd.Stderr = log
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	defer func() {
		if err := session.Close(); err != nil {
			t.Errorf("it does not end when its client hangs up: %v\n%s", err, log)
		}
	}()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "tool_call tool_describe tool_search" {
		t.Errorf("offered: %s", got)
	}
	use := func(name string, arguments any) string {
		t.Helper()
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		if len(r.Content) != 1 || text == nil {
			t.Fatalf("%s: %+v", name, r)
		}
		if r.IsError {
			return "error: " + text.Text
		}
		return text.Text
	}
	if got := use("tool_search", map[string]any{"queries": []string{"echo message"}}); !strings.Contains(got, "mcp__everything__echo") {
		t.Errorf("search: %s", got)
	}
	echo := func(arguments map[string]any) string {
		return use("tool_call", map[string]any{"calls": []any{map[string]any{"name": "mcp__everything__echo", "arguments": arguments}}})
	}
	if got := echo(map[string]any{"message": "through two servers"}); got != "Echo: through two servers" {
		t.Errorf("call: %s", got)
	}
	if got := echo(map[string]any{}); !strings.Contains(got, "error: ") || !strings.Contains(got, "INVALID_ARGUMENTS") {
		t.Errorf("a call without its argument: %s", got)
	}
}
