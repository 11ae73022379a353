package check

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// asMCPServer is the variable that makes this test's own program an MCP server.
const asMCPServer = "TOOLBRIDGE_CHECK_MCP"

// serveMCP is a small MCP server on standard input and output: one tool that says
// what it is told, one that waits, and one that fails.
func serveMCP(in io.Reader, out io.Writer) {
	tool := func(name, description string) map[string]any {
		return map[string]any{"name": name, "description": description, "inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}},
		}}
	}
	var calls sync.WaitGroup
	var writing sync.Mutex
	answer := func(id json.RawMessage, result any) {
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
		if err != nil {
			return
		}
		writing.Lock()
		defer writing.Unlock()
		_, _ = fmt.Fprintf(out, "%s\n", body) // whoever reads it may be gone
	}
	defer calls.Wait()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string `json:"protocolVersion"`
				Name            string `json:"name"`
				Arguments       struct {
					Text string `json:"text"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || len(m.ID) == 0 {
			continue
		}
		var result any = map[string]any{}
		switch m.Method {
		case "initialize":
			result = map[string]any{
				"protocolVersion": m.Params.ProtocolVersion, "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "check", "version": "1"},
			}
		case "tools/list":
			result = map[string]any{"tools": []any{
				tool("say", "Says a text back to whoever asks"),
				tool("linger", "Waits for half a second, then says how long it waited"),
				tool("break", "Fails on purpose, to see what happens then"),
			}}
		case "tools/call":
			calls.Go(func() {
				if m.Params.Name == "linger" {
					time.Sleep(500 * time.Millisecond) // what the tool is for
				}
				answer(m.ID, map[string]any{
					"content": []any{map[string]any{"type": "text", "text": m.Params.Arguments.Text}},
					"isError": m.Params.Name == "break",
				})
			})
			continue
		}
		answer(m.ID, result)
	}
}

// mcpMain serves where the variable is set and says whether it did.
func mcpMain() bool {
	if os.Getenv(asMCPServer) == "" {
		return false
	}
	serveMCP(os.Stdin, os.Stdout)
	return true
}
