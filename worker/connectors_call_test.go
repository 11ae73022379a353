package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"toolbridge/connectors"
	"toolbridge/worker"
	"toolbridge/worker/call"
)

// executed is one request that a gateway has got.
type executed struct {
	Path, Tenant, User, Key string
	Body                    connectors.ExecuteRequest
}

// shown is the only tool of a request, as connector/slug arguments.
func (x executed) shown() string {
	t := x.Body.Tools[0]
	return t.Connector + "/" + t.Tool + " " + string(t.Arguments)
}

// callGateway answers by a function, and writes down what came.
type callGateway struct {
	*httptest.Server
	answer func(n int, x executed) gatewayAnswer // n: how many came before, of the tenant

	mu           sync.Mutex
	got          map[string][]executed // by tenant
	flying, most int
}

func newCallGateway(t testing.TB, answer func(n int, x executed) gatewayAnswer) *callGateway {
	g := &callGateway{answer: answer, got: map[string][]executed{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func (g *callGateway) requests(tenant string) []executed {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.got[tenant])
}

func (g *callGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	x := executed{Path: strings.TrimPrefix(r.URL.Path, "/"), Key: r.Header.Get("x-idempotency-key")}
	x.Tenant, x.User, _ = strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token-of-"), ".")
	if err := json.Unmarshal(body, &x.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	g.mu.Lock()
	n := len(g.got[x.Tenant])
	g.got[x.Tenant] = append(g.got[x.Tenant], x)
	g.flying++
	g.most = max(g.most, g.flying)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.flying--
	}()
	a := g.answer(n, x)
	if a.Raise != "" {
		panic(http.ErrAbortHandler)
	}
	var text string
	if json.Unmarshal(a.Body, &text) == nil {
		a.Body = []byte(text)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
}

// ran is the answer of tools that ran: one result each.
func ran(results ...string) gatewayAnswer {
	for i, r := range results {
		results[i] = fmt.Sprintf(`{"index":%d,%s}`, i, r)
	}
	return gatewayAnswer{Status: 200, Body: json.RawMessage(`{"results":[` + strings.Join(results, ",") + `]}`)}
}

// echo answers every tool with its own arguments.
func echo(_ int, x executed) gatewayAnswer {
	var out []string
	for _, t := range x.Body.Tools {
		out = append(out, `"data":`+string(t.Arguments))
	}
	return ran(out...)
}

// perUser makes tokens of tenant and user.
type perUser struct{ without func(tenant string) error }

func (c perUser) Token(_ context.Context, who connectors.Who) (connectors.Credential, error) {
	if c.without != nil {
		if err := c.without(who.Tenant); err != nil {
			return connectors.Credential{}, err
		}
	}
	return connectors.Credential{Token: "token-of-" + who.Tenant + "." + who.User, ManagedTools: true}, nil
}

// hooked answers hooks of every tenant and writes down which tools they saw.
type hooked struct {
	mu    sync.Mutex
	seen  map[string][]string
	block map[string][]string
}

func hookOn(t *testing.T, f *fleet) *hooked {
	h := &hooked{seen: map[string][]string{}, block: map[string][]string{}}
	sub, err := f.nc.Subscribe("toolbridge.v1.*._hooks.run.watch", func(m *nats.Msg) {
		var q struct{ Tool string }
		_ = json.Unmarshal(m.Data, &q)
		tenant := strings.Split(m.Subject, ".")[2]
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen[tenant] = append(h.seen[tenant], q.Tool)
		action := "allow"
		if slices.Contains(h.block[tenant], q.Tool) {
			action = "block"
		}
		_ = m.Respond([]byte(`{"action":"` + action + `"}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	f.flush()
	return h
}

func (h *hooked) of(tenant string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen[tenant])
}

// overruledBatches are vectors whose outcome a decision has changed, and how.
var overruledBatches = map[string]struct {
	why    string
	change func(*batchVector)
}{
	"conn_required_card": {"a connection's id never appears where links are hidden; a surface with cards is the desktop, where the gateway is told where to lead back", func(v *batchVector) {
		delete(v.Expect.Results[0].Error, "connection_id")
		v.Expect.Requests[0].ReturnTo = "hermes-desktop"
	}},
	"conn_required_side": {"a connection's id never appears where links are hidden", func(v *batchVector) { delete(v.Expect.Results[0].Error, "connection_id") }},
	"uppercase_connector": {"a connector's name is folded as in search", func(v *batchVector) {
		v.Expect.Results[0].Name = "connectors__gmail__SEND_EMAIL"
		v.Expect.Requests[0].Tools[0].Connector = "gmail"
		v.Expect.Hooks = []string{"connectors__gmail__SEND_EMAIL"}
	}},
	"transport_twice":     {"no answer leaves the outcome unknown", func(v *batchVector) { v.Expect.Results[0].Error["code"] = "OUTCOME_UNKNOWN" }},
	"connectors_disabled": {"availability is checked before hooks see anything", func(v *batchVector) { v.Expect.Hooks = nil }},
	"not_rolled_out":      {"availability is checked before hooks see anything", func(v *batchVector) { v.Expect.Hooks = nil }},
	"hook_blocks_one":     {"a hook's refusal is BLOCKED", func(v *batchVector) { v.Expect.Results[0].Error["code"] = "BLOCKED" }},
	"hook_blocks_all": {"a hook's refusal is BLOCKED", func(v *batchVector) {
		v.Expect.Results[0].Error["code"], v.Expect.Results[1].Error["code"] = "BLOCKED", "BLOCKED"
	}},
	"no_manage_connections": {"what is out of scope is TOOL_NOT_FOUND in its slot, like what does not exist", func(v *batchVector) {
		v.Expect.Rejected = ""
		v.Expect.Results = []batchSlot{{Name: "connectors__gmail__SEND_EMAIL", Error: map[string]any{"code": "TOOL_NOT_FOUND"}}}
		v.Expect.ErrorCount, v.Expect.TotalCount = 1, 1
	}},
}

type batchSlot struct {
	Index    int
	Name     string
	Response json.RawMessage
	Error    map[string]any
	Account  string
}

type batchVector struct {
	ID    string
	Input struct {
		Calls   json.RawMessage
		Gateway []gatewayAnswer
		Options struct {
			vectorOptions
			Surface, Platform   string
			InterruptAfter      *int     `json:"interrupt_after"`
			Block               []string `json:"block"`
			NoManageConnections bool     `json:"no_manage_connections"`
		}
	}
	Expect struct {
		Rejected     string
		Results      []batchSlot
		SuccessCount int `json:"success_count"`
		ErrorCount   int `json:"error_count"`
		TotalCount   int `json:"total_count"`
		Requests     []struct {
			Path     string
			Tools    []connectors.ToolCall
			ReturnTo string
			Same     bool `json:"idem_same_as_prev"`
		}
		Hooks []string `json:"hooks_seen"`
	}
}

// surface is where the session's user sits.
func (v *batchVector) surface() string {
	switch o := v.Input.Options; {
	case o.Surface == "card", o.Platform == "desktop":
		return "desktop"
	case o.Surface == "side":
		return "side"
	case o.Platform != "":
		return "messaging"
	}
	return "cli"
}

func TestConnectorBatchVectors(t *testing.T) {
	var file struct{ Cases []*batchVector }
	readVectors(t, "connector_batches.json", &file)
	byID := map[string]*batchVector{}
	without := map[string]error{}
	for _, v := range file.Cases {
		byID["v-"+v.ID] = v
		without["v-"+v.ID] = v.Input.Options.without()
	}
	gateway := newCallGateway(t, func(n int, x executed) gatewayAnswer {
		if script := byID[x.Tenant].Input.Gateway; n < len(script) {
			return script[n]
		}
		return gatewayAnswer{Raise: "beyond the script"}
	})
	credentials := func(c *connectors.Config) {
		c.Client.Credentials = perUser{without: func(tenant string) error { return without[tenant] }}
		c.ReturnTo = "hermes-desktop"
	}
	disabled := func(c *connectors.Config) { c.Disabled = true }
	cfg := worker.Config{Dev: true, Hooks: []call.Hook{{Name: "watch"}}}
	fleets, hooks := map[string]*fleet{}, map[string]*hooked{}
	for name, more := range map[string]func(*connectors.Config){"on": func(*connectors.Config) {}, "off": disabled, "reject": func(*connectors.Config) {}} {
		f, cfg := newFleet(t), cfg
		cfg.RejectLocalBatches = name == "reject"
		cfg.Gateway = gatewayOf(t, f, gateway.URL, credentials, more)
		hooks[name] = hookOn(t, f)
		f.start(cfg)
		fleets[name] = f
	}
	for _, v := range file.Cases {
		t.Run(v.ID, func(t *testing.T) {
			where := "on"
			if o, ok := overruledBatches[v.ID]; ok {
				o.change(v)
			}
			switch {
			case !v.Input.Options.available():
				where = "off"
			case v.Expect.Rejected == "local_batch": // holds with batch.local: reject
				where = "reject"
			}
			v.check(t, fleets[where], gateway, hooks[where])
		})
	}
}

func (v *batchVector) check(t *testing.T, f *fleet, gateway *callGateway, hooks *hooked) {
	tenant := "v-" + v.ID
	hooks.mu.Lock()
	hooks.block[tenant] = v.Input.Options.Block
	hooks.mu.Unlock()
	defs := []string{tool("mcp__x__y", "mcp-x", "A tool")}
	if !v.Input.Options.NoManageConnections {
		defs = append(defs, manageConnections)
	}
	catalog := f.assembleIn(tenant, "s", fmt.Sprintf(`{"tools":%s,"surface":%q}`, tools(defs...), v.surface()))
	if v.Input.Options.InterruptAfter != nil {
		f.calls++
		f.send("toolbridge.v1."+tenant+".s.stop", fmt.Sprintf(`{"call_id":"c%d"}`, f.calls))
		f.calls--
	}
	raw := f.bridgeIn(tenant, "s", catalog, "tool_call", `{"calls":`+string(v.Input.Calls)+`}`)

	requests := gateway.requests(tenant)
	if len(requests) != len(v.Expect.Requests) {
		t.Fatalf("%d requests, want %d: %+v\nresult %s", len(requests), len(v.Expect.Requests), requests, raw)
	}
	seen := map[string]bool{}
	for i, x := range requests {
		want := v.Expect.Requests[i]
		if x.Path != want.Path || x.Body.ReturnTo != want.ReturnTo || text(x.Body.Tools) != text(want.Tools) {
			t.Errorf("request %d = %+v, want %+v", i, x, want)
		}
		if same := i > 0 && x.Key == requests[i-1].Key; same != want.Same || x.Key == "" || !same && seen[x.Key] {
			t.Errorf("request %d has key %q, the one before %v", i, x.Key, requests[:i])
		}
		seen[x.Key] = true
	}
	if diff := cmp.Diff(v.Expect.Hooks, hooks.of(tenant)); diff != "" && len(v.Expect.Hooks)+len(hooks.of(tenant)) > 0 {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	var got struct {
		Results      []batchSlot
		SuccessCount int `json:"success_count"`
		ErrorCount   int `json:"error_count"`
		TotalCount   int `json:"total_count"`
		Error        map[string]any
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if v.Expect.Rejected != "" {
		if got.Error["code"] != "INVALID_ARGUMENTS" {
			t.Errorf("result = %s, want it refused whole", raw)
		}
		return
	}
	if diff := cmp.Diff([]int{v.Expect.SuccessCount, v.Expect.ErrorCount, v.Expect.TotalCount}, []int{got.SuccessCount, got.ErrorCount, got.TotalCount}); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for i := range got.Results {
		e := got.Results[i].Error
		if e == nil {
			continue
		}
		if m, _ := e["message"].(string); m == "" {
			t.Errorf("slot %d: %v says nothing", i, e)
		}
		if h, ok := e["hint"].(string); ok && h != "HINT" && h != "" {
			e["hint"] = "builtin"
		}
		for _, more := range []string{"message", "reason", "executor_code", "retry_after_ms"} {
			delete(e, more)
		}
	}
	if diff := cmp.Diff(text(v.Expect.Results), text(got.Results)); diff != "" {
		t.Errorf("results (-want +got):\n%s\n%s", diff, raw)
	}
}
