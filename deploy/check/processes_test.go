package check

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Addresses in a test's network.
const (
	ipNATS       = 1 // of three servers
	ipWorker     = 11
	ipHost       = 21
	ipCollector  = 31
	ipPrometheus = 32
	ipGateway    = 33
)

// installation is what the chart renders, as processes on this machine.
type installation struct {
	*cluster
	binary  string
	nats    []*running
	workers []*running
	host    *running
}

// install runs the three NATS servers, the workers and one MCP host whose server is
// this test's own program, with the chart's defaults beside the given values.
func install(t *testing.T, workers int, values map[string]any) *installation {
	t.Helper()
	return installAt(t, newNetwork(t), workers, values)
}

func installAt(t *testing.T, net network, workers int, values map[string]any) *installation {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	values["mcpHosts"] = []any{map[string]any{
		"name": "check", "tenant": "default", "servers": map[string]any{
			"check": map[string]any{"command": []any{self}, "env": map[string]any{asMCPServer: "1"}},
		},
	}}
	objects, err := renderValues(values)
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{cluster: &cluster{objects: objects, net: net, dir: t.TempDir()}, binary: build(t, "toolbridge")}
	set := find[*appsv1.StatefulSet](t, objects, "toolbridge-nats")
	replicas := int(*set.Spec.Replicas)
	var names []string
	for i := range replicas {
		names = append(names, fmt.Sprintf("%s-%d.%s", set.Name, i, set.Spec.ServiceName), in.net.host(ipNATS+i))
	}
	names = append(names, "@"+set.Name+":", "@"+in.net.host(ipNATS)+":")
	in.hosts = strings.NewReplacer(names...)
	server := build(t, "nats-server")
	for i := range replicas {
		at := in.net.host(ipNATS + i)
		pod := set.Name + "-" + strconv.Itoa(i)
		listen := strings.NewReplacer(
			"\nport: 4222", "\nlisten: \""+at+":4222\"", "\nhttp_port: 8222", "\nhttp: \""+at+":8222\"",
			"  port: 6222", "  listen: \""+at+":6222\"", "/data", in.dir+"/"+pod+"/data", "/var/run/nats", in.dir+"/"+pod+"/var/run/nats")
		in.nats = append(in.nats, in.run(t, pod, server, ipNATS+i, set.Spec.Template, listen.Replace))
	}
	for _, n := range in.nats {
		n.ready(t)
	}
	deployment := find[*appsv1.Deployment](t, objects, "toolbridge-worker")
	same := func(s string) string { return s }
	for i := range workers {
		in.workers = append(in.workers, in.run(t, "toolbridge-worker-"+strconv.Itoa(i), in.binary, ipWorker+i, deployment.Spec.Template, same))
	}
	for _, w := range in.workers {
		w.ready(t)
	}
	host := find[*appsv1.Deployment](t, objects, "toolbridge-mcp-check")
	in.host = in.run(t, "toolbridge-mcp-check-0", in.binary, ipHost, host.Spec.Template, same)
	in.host.ready(t)
	return in
}

// url is where a user connects.
func (in *installation) url(user string) string {
	return fmt.Sprintf("nats://%s:%s@%s:4222", user, secretValue(user), in.net.host(ipNATS))
}

// connect connects as a user of NATS, with an inbox of its own; refusals come
// through the channel.
func (in *installation) connect(t *testing.T, user string) (*nats.Conn, <-chan error) {
	t.Helper()
	refused := make(chan error, 16)
	nc, err := nats.Connect(in.url(user), nats.CustomInboxPrefix("_INBOX."+user), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case refused <- err:
		default:
		}
	}))
	if err != nil {
		t.Fatalf("connecting as %s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc, refused
}

// grant writes a session's grant as the orchestrator does.
func (in *installation) grant(t *testing.T, session string) {
	t.Helper()
	nc, _ := in.connect(t, "orchestrator")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the grant", 20*time.Second, func(ctx context.Context) error {
		kv, err := js.KeyValue(ctx, "toolbridge_grants")
		if err != nil {
			return err
		}
		_, err = kv.Put(ctx, "default."+session, []byte(`{"user":"ada"}`))
		return err
	})
}

// tool runs the command line as a user and gives what it printed.
func (in *installation) tool(ctx context.Context, user string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, in.binary, append(args, "--nats", in.url(user), "--inbox-prefix", "_INBOX."+user, "--json")...)
	cmd.Env = []string{}
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("toolbridge %s: %w: %s%s", strings.Join(args, " "), err, failure.String(), out)
	}
	return string(out), nil
}

func TestThreeWorkersRunAsTheChartsDefaultsSay(t *testing.T) {
	if testing.Short() {
		t.Skip("runs seven processes")
	}
	deployment := find[*appsv1.Deployment](t, render(t, ""), "toolbridge-worker")
	in := install(t, 3, map[string]any{})
	if got := find[*appsv1.Deployment](t, in.objects, "toolbridge-worker").Spec.Template.Spec.Containers[0]; !equalContainers(got, deployment.Spec.Template.Spec.Containers[0]) {
		t.Fatal("the workers that run are not those of the defaults")
	}
	in.grant(t, "s1")
	session := []string{"--session", "s1"}
	await(t, "a search that finds the server's tool", 30*time.Second, func(ctx context.Context) error {
		out, err := in.tool(ctx, "default-agent", append([]string{"search", "say a text back"}, session...)...)
		if err == nil && !strings.Contains(out, "mcp__check__say") {
			err = fmt.Errorf("found: %s", out)
		}
		return err
	})
	// Nothing is allowed without a person's word: one decides, and the call ends.
	id, err := in.tool(t.Context(), "default-agent", append([]string{"call", "mcp__check__say", `{"text":"hello from the chart"}`, "--detach"}, session...)...)
	if err != nil {
		t.Fatal(err)
	}
	var stored struct {
		CallID string `json:"call_id"`
		ID     string `json:"id"`
	}
	if err := json.Unmarshal([]byte(id), &stored); err != nil {
		t.Fatalf("%v: %s", err, id)
	}
	call := stored.CallID + stored.ID
	await(t, "an approval to decide on", 20*time.Second, func(ctx context.Context) error {
		out, err := in.tool(ctx, "default-approver", "approvals", "list", "--approver", "ann")
		if err != nil {
			return err
		}
		var list struct {
			Approvals []struct {
				ID string `json:"id"`
			} `json:"approvals"`
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Approvals) != 1 {
			return fmt.Errorf("%w: %s", err, out)
		}
		_, err = in.tool(ctx, "default-approver", "approvals", "decide", list.Approvals[0].ID, "once", "--approver", "ann")
		return err
	})
	await(t, "the call's result", 30*time.Second, func(ctx context.Context) error {
		out, err := in.tool(ctx, "default-agent", append([]string{"fetch", call, "--wait"}, session...)...)
		if err == nil && !strings.Contains(out, "hello from the chart") {
			err = fmt.Errorf("result: %s", out)
		}
		return err
	})
	in.refusals(t)
	// One worker after the other stops as at a rollout; the rest goes on serving.
	for i, w := range in.workers {
		w.stop(t, w.grace)
		if i < len(in.workers)-1 {
			await(t, "a search after a worker's stop", 10*time.Second, func(ctx context.Context) error {
				_, err := in.tool(ctx, "default-agent", append([]string{"search", "say a text back"}, session...)...)
				return err
			})
		}
	}
	in.host.stop(t, in.host.grace)
	for _, n := range in.nats {
		n.stop(t, n.grace)
	}
}

func equalContainers(a, b corev1.Container) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// refusals tries what each user must not do.
func (in *installation) refusals(t *testing.T) {
	t.Helper()
	for _, c := range []struct{ user, publish, subscribe string }{
		{user: "default-agent", publish: "toolbridge.v1.default._approvals.decide.ann"},
		{user: "default-agent", publish: "toolbridge.v1.other.s1.call"},
		{user: "default-agent", publish: "toolbridge.v1.default.s1.result.c1"},
		{user: "default-agent", publish: "toolbridge.v1._calls.0.default.s1.c1"},
		{user: "default-agent", publish: "toolbridge.v1._decisions.default.a1"},
		{user: "default-agent", publish: "$KV.toolbridge_grants.default.s1"},
		{user: "default-agent", publish: "$JS.API.STREAM.PURGE.TOOLBRIDGE_RESULTS"},
		{user: "default-agent", publish: "_INBOX.default-approver.x"},
		{user: "default-agent", subscribe: "_INBOX.>"},
		{user: "default-agent", subscribe: "_INBOX.default-approver.>"},
		{user: "default-agent", subscribe: "toolbridge.v1.other.*.event"},
		{user: "default-agent", subscribe: "toolbridge.v1.default._approvals.requested"},
		{user: "default-approver", publish: "toolbridge.v1.default.s1.call"},
		{user: "default-approver", publish: "toolbridge.v1.other._approvals.decide.ann"},
		{user: "default-approver", subscribe: "toolbridge.v1.default.*.event"},
		{user: "default-host", publish: "$KV.toolbridge_toolsets.other.mcp-x.e1"},
		{user: "default-host", publish: "$KV.toolbridge_grants.default.s1"},
		{user: "default-host", publish: "toolbridge.v1.default.s1.call"},
		{user: "default-host", subscribe: "toolbridge.v1.other._exec.run.*"},
		{user: "default-host", subscribe: "_INBOX.>"},
		{user: "orchestrator", publish: "$KV.toolbridge_toolsets.default.mcp-x.e1"},
		{user: "orchestrator", subscribe: "toolbridge.v1.>"},
		{user: "worker", publish: "elsewhere"},
	} {
		nc, refused := in.connect(t, c.user)
		what := "publish on " + c.publish
		var err error
		if c.publish != "" {
			err = nc.Publish(c.publish, []byte("{}"))
		} else {
			what = "subscribe to " + c.subscribe
			_, err = nc.SubscribeSync(c.subscribe)
		}
		if err == nil {
			err = nc.FlushTimeout(5 * time.Second)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", c.user, what, err)
			continue
		}
		select {
		case <-refused:
		case <-time.After(5 * time.Second):
			t.Errorf("%s may %s", c.user, what)
		}
	}
}
