package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func examined(t *testing.T, s *server.Server, options ...nats.Option) map[string]Finding {
	t.Helper()
	p := &Patient{Tenant: "acme", Session: "s1", Wait: time.Second}
	p.Conn = bus.Connect(t, s, append(options, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	found := map[string]Finding{}
	for _, f := range Examine(t.Context(), p) {
		found[f.Check] = f
		if f.Status != OK && f.Status != Skipped && f.Advice == "" {
			t.Errorf("%s: nothing is said about what to do: %s", f.Check, f.Detail)
		}
	}
	return found
}

func works(t *testing.T, s *server.Server, options ...nats.Option) {
	t.Helper()
	w, err := worker.New(worker.Config{}, bus.Connect(t, s, options...))
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
}

func want(t *testing.T, found map[string]Finding, check string, status Status, detail string) {
	t.Helper()
	if f, ok := found[check]; !ok || f.Status != status || !strings.Contains(f.Detail, detail) {
		t.Errorf("%s: %+v, want %s with %q\nall: %v", check, f, status, detail, found)
	}
}

func TestAHealthyDeploymentHasNothingWrong(t *testing.T) {
	s := bus.Server(t)
	works(t, s)
	found := examined(t, s)
	for check, f := range found {
		if f.Status != OK && check != "toolsets" {
			t.Errorf("%s: %+v", check, f)
		}
	}
	want(t, found, "toolsets", Warning, "tenant acme has none")
	want(t, found, "trace propagation", OK, "")
	want(t, found, "workers", OK, "1 running")
}

func TestWithoutAWorkerThatIsSaid(t *testing.T) {
	found := examined(t, bus.Server(t))
	want(t, found, "shared state", Failed, "there is none yet")
	want(t, found, "workers", Failed, "no worker answers")
	want(t, found, "search", Failed, "no worker takes")
}

func TestWithoutJetStreamThatIsSaid(t *testing.T) {
	found := examined(t, bus.Server(t, func(o *server.Options) { o.JetStream = false }))
	want(t, found, "jetstream", Failed, "")
}

func TestASmallPayloadIsSaid(t *testing.T) {
	s := bus.Server(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	works(t, s)
	want(t, examined(t, s), "max_payload", Warning, "1048576")
}

func TestARegisteredToolsetThatNobodyServesIsSaid(t *testing.T) {
	s := bus.Server(t)
	works(t, s)
	nc := bus.Connect(t, s)
	st, err := state.OpenRegistry(t.Context(), nc, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	register := func(toolset, value string) {
		t.Helper()
		if _, err := st.Toolsets.Put(t.Context(), subjects.ToolsetKey("acme", toolset, "pool"), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	register("mcp-lost", `{"definitions_sha256":"x","blob":"x","since":"2026-01-01T00:00:00Z"}`)
	register("mcp-down", `{"definitions_sha256":"","blob":"","since":"2026-01-01T00:00:00Z","state":"unavailable","reason":"no such command"}`)
	register("mcp-odd", `"x"`)
	found := examined(t, s)
	want(t, found, "executor of mcp-lost", Failed, "nobody takes its work")
	want(t, found, "toolset mcp-down", Warning, "no such command")
	want(t, found, "toolset mcp-odd", Warning, "can not be read")
}

func TestCallsThatCouldNotBeServedAndQueuesWithoutWorkersAreSaid(t *testing.T) {
	s := bus.Server(t)
	works(t, s)
	nc := bus.Connect(t, s)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), subjects.Space{}.DeadSubject("acme", "s1", "c1"), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), subjects.StreamCalls+"_0", subjects.QueueWorkers); err != nil {
		t.Fatal(err)
	}
	found := examined(t, s)
	want(t, found, subjects.StreamDead, Warning, "1 calls")
	want(t, found, subjects.StreamCalls+"_0", Failed, "no worker takes")
}

// A trace that is lost, renamed or broken on the way is found.
func TestBrokenPropagationIsFound(t *testing.T) {
	change := func(name string, to func(string) string) func(nats.Header) {
		return func(h nats.Header) {
			if v := h.Get(name); v != "" {
				h.Set(name, to(v))
			}
		}
	}
	first := ""
	for name, c := range map[string]struct {
		change func(nats.Header) // of what is answered, which is else what was sent
		status Status
		detail string
	}{
		"dropped":             {func(h nats.Header) { clear(h) }, Failed, "carries no traceparent"},
		"under another case":  {func(h nats.Header) { h.Set("Traceparent", h.Get("traceparent")); h.Del("traceparent") }, Failed, "case-sensitive"},
		"broken":              {change("traceparent", func(string) string { return "00-1-2" }), Failed, "not readable"},
		"without state":       {func(h nats.Header) { h.Del("tracestate") }, Failed, "tracestate"},
		"with other baggage":  {change("baggage", func(string) string { return "a=b" }), Failed, "baggage"},
		"mixed up":            {func(h nats.Header) { first += h.Get("traceparent"); h.Set("traceparent", first) }, Failed, "mixed up"},
		"a trace of its own":  {change("traceparent", func(s string) string { return "00-" + strings.Repeat("1", 32) + s[35:] }), Warning, "of its own"},
		"a span of the trace": {change("traceparent", func(s string) string { return s[:36] + "2222222222222222-01" }), OK, "2222222222222222"},
		"as it came":          {func(nats.Header) {}, OK, "as it was sent"},
	} {
		t.Run(name, func(t *testing.T) {
			s := bus.Server(t)
			nc := bus.Connect(t, s)
			searches := 0
			sub, err := nc.Subscribe("toolbridge.v1.acme.s1.bridge", func(m *nats.Msg) {
				h := nats.Header{}
				for _, name := range []string{"traceparent", "tracestate", "baggage"} {
					if v := m.Header.Get(name); v != "" {
						h.Set(name, v)
					}
				}
				if searches++; searches > 1 { // the first is not about traces
					c.change(h)
				}
				_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: h, Data: []byte(`{"id":"x","name":"tool_search","is_error":false,"result":{"tools":{"doctor_probe":{}}}}`)})
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Unsubscribe() }()
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			want(t, examined(t, s), "trace propagation", c.status, c.detail)
		})
	}
}

// A session's own rights are enough to run it, and what it may not see is skipped,
// not called broken.
func TestASessionsRightsSkipWhatTheyDoNotShow(t *testing.T) {
	rights, err := subjects.Space{}.Permissions(subjects.Holder{Role: subjects.RoleSession, Tenant: "acme", Session: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	s := bus.Server(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "w", Password: "w"},
			{Username: "open", Password: "open"},
			{Username: "lost", Password: "lost", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{">"}}}},
			{Username: "s", Password: "s", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: rights.Publish}, Subscribe: &server.SubjectPermission{Allow: rights.Subscribe},
			}},
		}
	})
	works(t, s, nats.UserInfo("w", "w"))
	found := examined(t, s, nats.UserInfo("s", "s"), nats.CustomInboxPrefix(rights.Inbox))
	want(t, found, "inbox", OK, "replies arrive")
	want(t, found, "search", OK, "")
	for _, check := range []string{"jetstream", "shared state", "clock", "workers", "toolsets"} {
		want(t, found, check, Skipped, "may not")
	}
	for check, f := range found {
		if f.Status == Failed || f.Status == Warning {
			t.Errorf("%s: %+v", check, f)
		}
	}
	want(t, examined(t, s, nats.UserInfo("open", "open")), "inboxes", Warning, "everybody's replies")
	want(t, examined(t, s, nats.UserInfo("lost", "lost")), "inbox", Failed, "subscribe to its own replies")
}

func TestTheWorstFindingDecides(t *testing.T) {
	for _, c := range []struct {
		has  []Status
		want Status
	}{{nil, OK}, {[]Status{OK, Skipped}, OK}, {[]Status{Warning, OK}, Warning}, {[]Status{Warning, Failed, OK}, Failed}} {
		var list []Finding
		for i, s := range c.has {
			list = append(list, Finding{Check: fmt.Sprint(i), Status: s})
		}
		if got := Worst(list); got != c.want {
			t.Errorf("%v: %s", c.has, got)
		}
	}
}
