package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"toolbridge/subjects"
	"toolbridge/test/bus"
)

// BenchmarkSearchRequest is a tool_search by catalog reference from its bytes to the
// bytes of its reply, without the bus.
func BenchmarkSearchRequest(b *testing.B) {
	w, err := New(Config{Dev: true, Logger: slog.New(slog.DiscardHandler)}, bus.Connect(b, bus.Server(b)))
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Stop(context.Background()) })
	var tools []string
	for i := range 500 {
		tools = append(tools, fmt.Sprintf(`{"name":"mcp__s%d__%s_%s_%d","toolset":"mcp-s%d","description":"%s the %s of a workspace and return it, page by page.","parameters":{"type":"object","properties":{"%s_id":{"type":"string"}}}}`,
			i%20, []string{"create", "list", "update"}[i%3], []string{"issue", "order", "invoice", "branch"}[i%4], i, i%20,
			[]string{"Create", "List", "Update"}[i%3], []string{"issue", "order", "invoice", "branch"}[i%4], []string{"issue", "order", "invoice", "branch"}[i%4]))
	}
	addr := subjects.Address{Tenant: "t", Session: "s", Verb: subjects.VerbBridge}
	reply, err := w.assemble(b.Context(), &request{Address: addr, body: []byte(`{"tools":[` + strings.Join(tools, ",") + `]}`)})
	if err != nil {
		b.Fatal(err)
	}
	var assembled struct{ Catalog string }
	if err := json.Unmarshal(reply, &assembled); err != nil {
		b.Fatal(err)
	}
	q := &request{Address: addr, body: fmt.Appendf(nil, `{"id":"c1","name":"tool_search","arguments":{"queries":["create a new invoice for workspace"]},"catalog":%q}`, assembled.Catalog)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.bridge(w.base, q); err != nil {
			b.Fatal(err)
		}
	}
}
