package check

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// gateway is the simulator of hosted apps, with one user who has the token that the
// chart's secret would hold.
type gateway struct{ origin string }

// gatewayValues are the chart's for a run with a gateway: its secret, and a breaker
// that opens and closes soon.
func gatewayValues(values map[string]any, g gateway) {
	values["gateway"] = map[string]any{"existingSecret": "gateway"}
	config, _ := values["config"].(map[string]any)
	config["gateway"] = map[string]any{"url": g.origin}
	config["breaker"] = map[string]any{"threshold": 2, "cooldown_s": 1}
}

// startGateway runs the simulator.
func startGateway(t *testing.T, at string) gateway {
	t.Helper()
	start(t, "gateway", build(t, "gateway"), []string{"--address", at, "--user", "ada=" + secretValue("token") + ",github,slack"}, []string{})
	g := gateway{"http://" + at}
	await(t, "the gateway", 20*time.Second, func(ctx context.Context) error { return g.ask(ctx, http.MethodGet, "/_sim/faults", "") })
	return g
}

// ask uses the simulator's control.
func (g gateway) ask(ctx context.Context, method, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, g.origin+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return nil
}

// during does something while a fault hits all requests of a route.
func (g gateway) during(t *testing.T, fault string, do func()) {
	t.Helper()
	if err := g.ask(t.Context(), http.MethodPut, "/_sim/faults", fault); err != nil {
		t.Fatal(err)
	}
	do()
	if err := g.ask(t.Context(), http.MethodDelete, "/_sim/faults", ""); err != nil {
		t.Fatal(err)
	}
}

// issues is an entry of a batch that a hosted tool runs.
func issues() map[string]any {
	return map[string]any{"name": "connectors__github__issues_list", "arguments": map[string]any{"owner": "acme", "repo": "shop"}}
}

// outage is a search that the gateway is too late for, a breaker that opens, an
// entry that is not sent, and a breaker that closes again.
func (g gateway) outage(t *testing.T, s *session, id string) {
	t.Helper()
	bridge := func(id, name string, arguments map[string]any) string {
		return string(s.send("bridge", map[string]any{"id": id, "name": name, "catalog": s.catalog, "arguments": arguments}))
	}
	g.during(t, `[{"kind":"latency","route":"search","delay_ms":3000,"count":-1}]`, func() {
		if got := bridge(id+"-late", "tool_search", map[string]any{"queries": []any{"say back a text"}}); !strings.Contains(got, "unreachable") {
			t.Errorf("a search that the gateway is too late for: %s", got)
		}
	})
	g.during(t, `[{"kind":"status","route":"execute","count":-1}]`, func() {
		if got := bridge(id+"-open", "tool_call", map[string]any{"calls": []any{issues(), issues(), issues(), issues()}}); !strings.Contains(got, "GATEWAY_UNAVAILABLE") {
			t.Errorf("the breaker stays closed: %s", got)
		}
	})
	n := 0
	await(t, "a breaker that closes", 20*time.Second, func(context.Context) error {
		n++
		got := bridge(fmt.Sprintf("%s-closed-%d", id, n), "tool_call", map[string]any{"calls": []any{issues()}})
		if !strings.Contains(got, `"success_count":1`) {
			return fmt.Errorf("the answer: %s", got)
		}
		return nil
	})
}
