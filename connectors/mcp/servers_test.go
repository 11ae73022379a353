package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// tool adds a tool that answers with what run returns.
func tool(s *sdk.Server, name string, run func(ctx context.Context, args json.RawMessage) (*sdk.CallToolResult, error)) {
	s.AddTool(&sdk.Tool{Name: name, Description: "Test tool " + name + ".", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return run(ctx, r.Params.Arguments)
		})
}

func says(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// standard is a server with a tool for each of the usual things.
func standard() *sdk.Server { return standardWith(nil) }

func standardWith(o *sdk.ServerOptions) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "standard", Version: "1"}, o)
	tool(s, "echo", func(_ context.Context, args json.RawMessage) (*sdk.CallToolResult, error) {
		return says(string(args)), nil
	})
	tool(s, "say", func(_ context.Context, args json.RawMessage) (*sdk.CallToolResult, error) {
		var a struct{ Text string }
		err := json.Unmarshal(args, &a)
		return says(a.Text), err
	})
	tool(s, "fail", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		r := says("quota exceeded")
		r.IsError = true
		return r, nil
	})
	tool(s, "refuse", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return nil, fmt.Errorf("database is on fire")
	})
	tool(s, "image", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: []byte{1, 2, 3}}}}, nil
	})
	tool(s, "structured", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{
			Content:           []sdk.Content{&sdk.TextContent{Text: `{"b": 1.0, "a": 9007199254740993}`}},
			StructuredContent: json.RawMessage(`{"a":9007199254740993,"b":1}`),
		}, nil
	})
	tool(s, "sleep", func(ctx context.Context, args json.RawMessage) (*sdk.CallToolResult, error) {
		var a struct {
			MS      int
			Ignores bool // goes on when it is cancelled
		}
		_ = json.Unmarshal(args, &a)
		note("started")
		done := ctx.Done()
		if a.Ignores {
			done = nil
		}
		select {
		case <-time.After(time.Duration(a.MS) * time.Millisecond):
			note("finished")
			return says("slept"), nil
		case <-done:
			note("cancelled")
			return nil, ctx.Err()
		}
	})
	tool(s, "count", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		note("count")
		return says("counted"), nil
	})
	tool(s, "env", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		data, err := json.Marshal(os.Environ())
		return says(string(data)), err
	})
	tool(s, "crash", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "fatal: the reactor melted, token="+os.Getenv("TOKEN"))
		os.Exit(3)
		return nil, nil
	})
	tool(s, "big", func(_ context.Context, args json.RawMessage) (*sdk.CallToolResult, error) {
		var a struct{ Bytes int }
		err := json.Unmarshal(args, &a)
		return says(strings.Repeat("x", a.Bytes)), err
	})
	tool(s, "grow", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		s.RemoveTools("say")
		tool(s, "grown", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("I am new"), nil })
		return says("grown"), nil
	})
	return s
}

// note appends a line to the file that the test watches.
func note(line string) {
	if file := os.Getenv("NOTES"); file != "" {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, line)
			_ = f.Close()
		}
	}
}

func notes(file string) []string {
	data, _ := os.ReadFile(file)
	return strings.Fields(string(data))
}

type answers = map[string]func(w *wire, id, params json.RawMessage) string

func listOf(tools string) func(*wire, json.RawMessage, json.RawMessage) string {
	return func(*wire, json.RawMessage, json.RawMessage) string { return `{"tools":` + tools + `}` }
}

// named is a JSON array of tools of these names.
func named(list ...string) string {
	var b bytes.Buffer
	for i, n := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		q, _ := json.Marshal(n)
		fmt.Fprintf(&b, `{"name":%s,"description":"Test tool.","inputSchema":{"type":"object"}}`, q)
	}
	return "[" + b.String() + "]"
}

// sayName answers tools/call with the raw name that arrived.
func sayName(_ *wire, _, params json.RawMessage) string {
	var p struct{ Name string }
	_ = json.Unmarshal(params, &p)
	text, _ := json.Marshal("raw:" + p.Name)
	return `{"content":[{"type":"text","text":` + string(text) + `}]}`
}

func stdioServers() map[string]func() {
	return map[string]func(){
		"standard": func() {
			if pause, err := time.ParseDuration(os.Getenv("SLOW_START")); err == nil {
				time.Sleep(pause)
			}
			for file := os.Getenv("HOLD"); file != ""; { // it starts when the file is gone
				if _, err := os.Stat(file); err != nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			_ = standard().Run(context.Background(), &sdk.StdioTransport{})
		},
		// names: the tools of NAMES, a JSON array.
		"names": func() {
			var list []string
			_ = json.Unmarshal([]byte(os.Getenv("NAMES")), &list)
			newWire(answers{"tools/list": listOf(named(list...)), "tools/call": sayName}).run()
		},
		// raw: TOOLS and RESULT as they are.
		"raw": func() {
			newWire(answers{
				"tools/list": listOf(os.Getenv("TOOLS")),
				"tools/call": func(*wire, json.RawMessage, json.RawMessage) string { return os.Getenv("RESULT") },
			}).run()
		},
		"pages": func() {
			newWire(answers{"tools/list": func(_ *wire, _, params json.RawMessage) string {
				var p struct{ Cursor string }
				_ = json.Unmarshal(params, &p)
				switch p.Cursor {
				case "":
					return `{"tools":` + named("t1", "t2") + `,"nextCursor":"p2"}`
				case "p2":
					return `{"tools":` + named("t3") + `,"nextCursor":"p3"}`
				}
				return `{"tools":` + named("t4") + `,"nextCursor":null}`
			}}).run()
		},
		"no-tools": func() {
			newWire(answers{"initialize": func(*wire, json.RawMessage, json.RawMessage) string {
				return `{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"n","version":"1"}}`
			}}).run()
		},
		// endless: a new cursor on every page.
		"endless": func() {
			n := 0
			newWire(answers{"tools/list": func(*wire, json.RawMessage, json.RawMessage) string {
				n++
				return `{"tools":` + named("t"+strconv.Itoa(n)) + `,"nextCursor":"` + strconv.Itoa(n) + `"}`
			}}).run()
		},
		"circle": func() {
			newWire(answers{"tools/list": func(*wire, json.RawMessage, json.RawMessage) string {
				return `{"tools":` + named("t1") + `,"nextCursor":"again"}`
			}}).run()
		},
		"hang-initialize": func() {
			fmt.Fprintln(os.Stderr, "waiting for a licence server")
			w := newWire(answers{"initialize": func(*wire, json.RawMessage, json.RawMessage) string { return "" }})
			w.run()
		},
		"exit": func() {
			fmt.Fprintln(os.Stderr, "cannot find module 'left-pad'")
			os.Exit(1)
		},
		// garbage: banners, logs and broken JSON around every answer.
		"garbage": func() {
			fmt.Println("Welcome to garbage 1.0 ✨\n{not json}\n[1,2]\n\"a string\"\n" + strings.Repeat("g", 100_000))
			junk := func(w *wire) {
				w.print("INFO 200 OK {}")
				w.print(`{"jsonrpc":"2.0","id":4711,"result":{}}`)
				w.print(`{"jsonrpc":"2.0","id":{"a":1},"result":{}}`)
			}
			newWire(answers{
				"tools/list": func(w *wire, _, _ json.RawMessage) string { junk(w); return `{"tools":` + named("t1") + `}` },
				"tools/call": func(w *wire, id, params json.RawMessage) string { junk(w); return sayName(w, id, params) },
			}).run()
		},
		// huge: one answer above every limit.
		"huge": func() {
			newWire(answers{
				"tools/list": listOf(named("huge", "small")),
				"tools/call": func(w *wire, id, params json.RawMessage) string {
					if strings.Contains(string(params), `"huge"`) {
						return `{"content":[{"type":"text","text":"` + strings.Repeat("h", 3<<20) + `"}]}`
					}
					return sayName(w, id, params)
				},
			}).run()
		},
		// family: starts a child that outlives its input, and tells its pid.
		"family": func() {
			child := exec.Command("sleep", "300")
			child.Stdout = os.Stdout
			if err := child.Start(); err != nil {
				os.Exit(4)
			}
			_ = os.WriteFile(os.Getenv("PIDFILE"), []byte(strconv.Itoa(child.Process.Pid)), 0o600)
			newWire(answers{"tools/list": listOf(named("t1")), "tools/call": sayName}).run()
			select {} // ignores the end of its input
		},
		// deaf: never answers a call, and says so to no ping either.
		"deaf": func() {
			newWire(answers{
				"tools/list": listOf(named("t1")),
				"tools/call": func(w *wire, id, params json.RawMessage) string {
					note("started")
					select {}
				},
			}).run()
		},
		// modern: knows no initialize, only the newest protocol.
		"modern": func() {
			s := standardWith(&sdk.ServerOptions{SupportedProtocolVersions: sdk.SupportedProtocolVersions()[:1]})
			s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
					if method == "initialize" {
						return nil, &jsonrpc.Error{Code: -32601, Message: "initialize is not supported"}
					}
					return next(ctx, method, req)
				}
			})
			_ = s.Run(context.Background(), &sdk.StdioTransport{})
		},
	}
}
