//go:build unix

package tracing

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"toolbridge/client"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/test/gateway/sim"
	"toolbridge/tracing/setup"
)

const workerConfig = `bus: {call_lease: 1s}
approvals:
  default: allow
  rules: [{match: "*pay", action: ask}, {match: "connectors__*", action: ask}]
telemetry: {trace: continue}
`

// collectorConfig takes OTLP as workers send it and hands it on; the shipped one is
// checked where deploy is.
const collectorConfig = `receivers:
  otlp:
    protocols:
      http: {endpoint: %q}
exporters:
  otlp: {endpoint: %q, tls: {insecure: true}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp]}
`

// hostedTools is what a session has that may use hosted tools.
const hostedTools = `[{"name":"manage_connections","toolset":"connections","description":"Connects accounts of hosted apps.","parameters":{"type":"object"}}]`

func TestOneTraceShowsATurnWithApprovalsAndAConnectorWhoseWorkerIsKilled(t *testing.T) {
	collector := os.Getenv("TOOLBRIDGE_COLLECTOR")
	if collector == "" {
		if os.Getenv("TOOLBRIDGE_LONG") == "" {
			t.Skip("set TOOLBRIDGE_LONG=1, or TOOLBRIDGE_COLLECTOR to a collector that is built")
		}
		collector = build(t, "../../deploy/check/collector", ".", "collector")
	}
	dir := t.TempDir()
	toolbridge := build(t, "../..", "./cmd/toolbridge", "toolbridge")
	store := newBackend(t)
	otlp := freeAddress(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	start(t, "collector", collector, nil, "--config", "file:"+write("collector.yaml", fmt.Sprintf(collectorConfig, otlp, store.address)))
	eventually(t, "the collector listens", func() bool { return listens(t, otlp) })

	server := bus.Server(t)
	gateway, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	origin, err := gateway.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer gateway.Stop()
	env := []string{"TOOLBRIDGE_GATEWAY_TOKEN=ada-token", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + otlp, "OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_METRICS_EXPORTER=none", "TOOLBRIDGE_NATS=" + server.ClientURL()}
	config := write("toolbridge.yaml", workerConfig)
	first := start(t, "first worker", toolbridge, env, "worker", "--config", config, "--gateway", origin)
	first.says("worker ready")
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hostConfig := write("host.yaml", fmt.Sprintf("mcp: {servers: {desk: {command: [%q], env: {%s: %q}, cancel_grace: 200ms}}}\n", own, serverVariable, dir))
	host := start(t, "MCP host", toolbridge, env, "mcp", "host", "--tenant", "acme", "--config", hostConfig)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+otlp)
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	agent, err := setup.Start(ctx, setup.Config{Service: "agent", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	nc := bus.Connect(t, server)
	grant(ctx, t, nc)
	c, err := client.New(nc, client.Config{Tracer: agent.Tracer})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Session("acme", "s1")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan subjects.Approval, 10)
	people, err := nc.Subscribe("toolbridge.v1.acme._approvals.requested", func(m *nats.Msg) {
		var a subjects.Approval
		if json.Unmarshal(m.Data, &a) == nil {
			asked <- a
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = people.Unsubscribe() }()

	turn, span := agent.Tracer.Start(ctx, "turn", trace.SpanKindInternal)
	traceID := span.Context().TraceID().String()
	var reply *subjects.AssembleReply
	eventually(t, "the toolset is there", func() bool {
		// Tried without a span, so that the trace has one assembly.
		reply, err = s.Assemble(ctx, subjects.AssembleRequest{Toolsets: []string{"mcp-desk"}, Tools: json.RawMessage(hostedTools)})
		return err == nil && reply.DeferredCount == 3
	})
	if reply, err = s.Assemble(turn, subjects.AssembleRequest{Toolsets: []string{"mcp-desk"}, Tools: json.RawMessage(hostedTools), ContextLength: ptr(int64(100_000))}); err != nil {
		t.Fatal(err)
	}
	from := client.Catalog(reply.Catalog)
	if _, err := s.Search(turn, from, client.SearchArguments{Queries: []string{"pay at the desk", "list the issues of a repository"}}); err != nil {
		t.Fatal(err)
	}
	request, err := client.NewBridgeRequest(from, subjects.ToolCall, client.CallArguments{Calls: []client.CallEntry{
		{Name: "mcp__desk__slow", Arguments: json.RawMessage(`{}`)},
		{Name: "mcp__desk__pay", Arguments: json.RawMessage(`{}`)},
		{Name: "mcp__desk__look", Arguments: json.RawMessage(`{}`)},
		{Name: "connectors__github__issues_list", Arguments: json.RawMessage(`{"owner":"acme","repo":"shop"}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan *subjects.BridgeReply, 1)
	impatient, giveUp := context.WithCancel(turn)
	defer giveUp()
	go func() {
		_, _ = s.Bridge(impatient, request) // its worker is killed: the result is waited for
		final, err := s.Wait(ctx, request.ID)
		if err != nil {
			t.Errorf("waiting: %v", err)
		}
		result <- final
	}()
	eventually(t, "the slow tool runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, "started"))
		return err == nil
	})
	questions := []subjects.Approval{<-asked, <-asked} // for pay and for the hosted tool
	second := start(t, "second worker", toolbridge, env, "worker", "--config", config, "--gateway", origin)
	second.says("worker ready")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	giveUp()
	for _, a := range questions {
		decide(ctx, t, nc, a)
	}
	final := <-result
	if final == nil {
		t.Fatal("no result")
	}
	write("go", "") // the slow tool may end: too late
	span.End()
	time.Sleep(300 * time.Millisecond) // the late answer is on its way
	host.stop()
	second.stop()
	if err := agent.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(final)
	if !strings.Contains(string(body), "OUTCOME_UNKNOWN") || !strings.Contains(string(body), `"success_count":3`) || strings.Count(string(body), traceID) != 2 {
		t.Errorf("result (trace %s): %s", traceID, body)
	}

	want := []string{
		"agent turn",
		"agent request assemble", "toolbridge-worker assemble", "toolbridge-worker build catalog",
		"agent request bridge", "toolbridge-worker bridge tool_search", "toolbridge-worker search local", "toolbridge-worker search gateway",
		"toolbridge-worker bridge tool_call", "toolbridge-worker tool_call", "toolbridge-worker validate", "toolbridge-worker process call",
		"toolbridge-worker execute_tool mcp__desk__slow", "toolbridge-worker execute_tool mcp__desk__pay", "toolbridge-worker execute_tool mcp__desk__look",
		"toolbridge-worker execute_tool connectors__github__issues_list", "toolbridge-worker POST",
		"toolbridge-worker approval wait", "toolbridge-worker attempt",
		"toolbridge-mcp-host exec mcp-desk", "toolbridge-mcp-host tools/call slow", "toolbridge-mcp-host tools/call pay", "toolbridge-mcp-host tools/call look",
	}
	var all []titled
	eventually(t, "every part of the trace has reached the collector", func() bool {
		all = nil
		for _, s := range store.of(traceID) {
			all = append(all, titled{s.service + " " + s.GetName(), s})
		}
		for _, w := range want {
			if !slices.ContainsFunc(all, func(s titled) bool { return s.title == w }) {
				return false
			}
		}
		return true
	})
	known := map[string]string{}
	for _, s := range all {
		known[string(s.GetSpanId())] = s.title
	}
	roots := 0
	for _, s := range all {
		if len(s.GetParentSpanId()) == 0 {
			roots++
		} else if known[string(s.GetParentSpanId())] == "" {
			t.Errorf("%s hangs in the air, below %x", s.title, s.GetParentSpanId())
		}
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("%s ends before it begins", s.title)
		}
	}
	if roots != 1 {
		t.Errorf("%d roots", roots)
	}
	lost, linked, entries := 0, 0, 0
	for _, s := range all {
		if s.attribute("toolbridge.worker.lost") == "true" {
			lost++
		}
		if s.GetName() == "process call" {
			for _, l := range s.GetLinks() {
				if known[string(l.GetSpanId())] == "toolbridge-worker process call" {
					linked++
				}
			}
		}
		if strings.HasPrefix(s.GetName(), "execute_tool ") {
			entries++
			if known[string(s.GetParentSpanId())] != "toolbridge-worker tool_call" {
				t.Errorf("%s is below %s", s.title, known[string(s.GetParentSpanId())])
			}
		}
	}
	if lost != 3 || linked < 1 || entries != 4 { // the request, the worker's part, the attempt
		t.Errorf("%d spans of the lost worker, %d links between the workers' parts, %d entries", lost, linked, entries)
	}
	// Each request to the gateway stands below what sent it, and brought the trace.
	sent := map[string]string{} // route, what is above
	for _, s := range all {
		if s.GetName() == "POST" {
			sent[s.attribute("toolbridge.gateway.route")] = known[string(s.GetParentSpanId())]
		}
	}
	if above := map[string]string{"search": "toolbridge-worker search gateway", "execute": "toolbridge-worker attempt"}; !maps.Equal(sent, above) {
		t.Errorf("requests to the gateway: %v, want %v", sent, above)
	}
	if t.Failed() {
		for _, s := range all {
			t.Logf("%-55s %x below %-45s %s", s.title, s.GetSpanId(), known[string(s.GetParentSpanId())], s.attribute("toolbridge.outcome"))
		}
	}
}

type titled struct {
	title string
	span
}

func ptr[T any](v T) *T { return &v }

func listens(t *testing.T, address string) bool {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// grant lets the session see everything, as an orchestrator would.
func grant(ctx context.Context, t *testing.T, nc *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	grants, err := js.KeyValue(ctx, subjects.BucketGrants)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := grants.PutString(ctx, subjects.GrantKey("acme", "s1"), `{"user":"ann"}`); err != nil {
		t.Fatal(err)
	}
}

// decide approves, as an approver would; the worker that is asked may be the one
// that is gone.
func decide(ctx context.Context, t *testing.T, nc *nats.Conn, a subjects.Approval) {
	t.Helper()
	eventually(t, "the decision is taken", func() bool {
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		m, err := nc.RequestWithContext(within, "toolbridge.v1.acme._approvals.decide.ann", []byte(`{"id":"`+a.ID+`","choice":"once"}`))
		return err == nil && strings.Contains(string(m.Data), `"approved"`)
	})
}
