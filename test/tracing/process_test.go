//go:build unix

package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// serverVariable makes the test binary an MCP server; its value is the folder in
// which that leaves its marks.
const serverVariable = "TOOLBRIDGE_TRACING_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverVariable); dir != "" {
		if err := mcpServer(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// mcpServer has a tool that takes until it is let go, one that answers at once, and
// one that is asked for. All answer with the trace context that they were sent.
func mcpServer(dir string) error {
	server := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1.0.0"}, nil)
	answer := func(r *sdk.CallToolRequest) *sdk.CallToolResult {
		context, _ := r.Params.Meta["traceparent"].(string)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: context}}}
	}
	sdk.AddTool(server, &sdk.Tool{Name: "slow", Description: "Takes its time."},
		func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			if err := os.WriteFile(filepath.Join(dir, "started"), nil, 0o600); err != nil {
				return nil, nil, err
			}
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			return answer(r), nil, nil
		})
	for _, name := range []string{"pay", "look"} {
		sdk.AddTool(server, &sdk.Tool{Name: name, Description: "Does " + name + " at the desk."},
			func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
				return answer(r), nil, nil
			})
	}
	if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// program is one process, killed with the test.
type program struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	err  *lines
}

// lines keeps what a process says.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func start(t *testing.T, name, path string, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, name: name, cmd: exec.Command(path, args...), err: &lines{}}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.err
	p.cmd.Stdout = p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.err)
		}
	})
	return p
}

// says waits until the process has said something.
func (p *program) says(text string) {
	p.t.Helper()
	eventually(p.t, p.name+" says "+text, func() bool { return strings.Contains(p.err.String(), text) })
}

// stop ends the process in order, so that it sends the last of its telemetry.
func (p *program) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Errorf("%s: %v", p.name, err)
	}
	_ = p.cmd.Wait()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-tick.C
	}
}

// build builds a program of a module.
func build(t *testing.T, module, pkg, to string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), to)
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return path
}

// freeAddress is one that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// backend is where the collector sends what it has received.
type backend struct {
	collectortrace.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	spans []span
}

type span struct {
	service string
	*tracepb.Span
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{address: l.Addr().String()}
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, b)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return b
}

// Export implements the OTLP service.
func (b *backend) Export(_ context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, rs := range r.GetResourceSpans() {
		service := ""
		for _, kv := range rs.GetResource().GetAttributes() {
			if kv.GetKey() == "service.name" {
				service = kv.GetValue().GetStringValue()
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				b.spans = append(b.spans, span{service, s})
			}
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func (b *backend) of(traceID string) (list []span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.spans {
		if fmt.Sprintf("%x", s.GetTraceId()) == traceID {
			list = append(list, s)
		}
	}
	return list
}

func (s span) attribute(key string) string {
	for _, kv := range s.GetAttributes() {
		if kv.GetKey() == key {
			v := kv.GetValue()
			if v.GetStringValue() != "" {
				return v.GetStringValue()
			}
			return fmt.Sprint(v.GetBoolValue())
		}
	}
	return ""
}
