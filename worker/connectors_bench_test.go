package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"toolbridge/connectors"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

type brokenTransport struct{}

func (brokenTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

type oneToken struct{}

func (oneToken) Token(context.Context, connectors.Who) (connectors.Credential, error) {
	return connectors.Credential{Token: "token", ManagedTools: true}, nil
}

// BenchmarkSearchWithTheBreakerOpen measures a search with connectors whose breaker
// is open and the same without connectors, in alternation, and reports both medians
// in microseconds.
func BenchmarkSearchWithTheBreakerOpen(b *testing.B) {
	nc := bus.Connect(b, bus.Server(b))
	log := slog.New(slog.DiscardHandler)
	st, err := state.Open(b.Context(), nc, subjects.Space{}, state.Config{})
	if err != nil {
		b.Fatal(err)
	}
	g, err := connectors.New(connectors.Config{
		Client: connectors.ClientConfig{
			URL: "http://gateway.test", Proxy: "direct", Credentials: oneToken{},
			Transport: func(http.RoundTripper) http.RoundTripper { return brokenTransport{} },
		},
		Breaker: connectors.BreakerConfig{Threshold: 1, Cooldown: time.Hour}, DevUser: "dev", Logger: log,
	}, nc, st)
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Stop(context.Background()) })
	w, err := New(Config{Dev: true, Logger: log, Gateway: g}, nc)
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Stop(context.Background()) })
	var tools []string
	for i := range 500 {
		tools = append(tools, fmt.Sprintf(`{"name":"mcp__s%d__create_invoice_%d","toolset":"mcp-s%d","description":"Create the invoice of a workspace and return it."}`, i%20, i, i%20))
	}
	requestFor := func(tools []string) *request {
		addr := subjects.Address{Tenant: "t", Session: "s", Verb: subjects.VerbBridge}
		reply, err := w.assemble(b.Context(), &request{Address: addr, body: []byte(`{"tools":[` + strings.Join(tools, ",") + `]}`)})
		if err != nil {
			b.Fatal(err)
		}
		var assembled struct{ Catalog string }
		if err := json.Unmarshal(reply, &assembled); err != nil {
			b.Fatal(err)
		}
		return &request{Address: addr, place: &place{in: w.slots}, body: fmt.Appendf(nil, `{"id":"c1","name":"tool_search","arguments":{"queries":["create a new invoice for workspace"]},"catalog":%q}`, assembled.Catalog)}
	}
	off, open := requestFor(tools), requestFor(append(tools, `{"name":"manage_connections"}`))
	w.slots <- struct{}{} // the place of the first search, which waits for the gateway
	ask := func(q *request) ([]byte, time.Duration) {
		begun := time.Now()
		reply, err := w.bridge(w.base, q)
		if err != nil {
			b.Fatal(err)
		}
		return reply, time.Since(begun)
	}
	ask(open) // this one opens the breaker
	if reply, _ := ask(open); !strings.Contains(string(reply), `"unreachable"`) {
		b.Fatalf("%s", reply)
	}
	var took [2][]time.Duration
	for b.Loop() {
		for i, q := range []*request{off, open} {
			_, d := ask(q)
			took[i] = append(took[i], d)
		}
	}
	for i, name := range []string{"off-µs", "open-µs"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/1000, name)
	}
}
