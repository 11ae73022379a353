package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
	"toolbridge/worker"
)

func TestSessionsHearThatTheirToolsetsHaveOtherDefinitions(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{})
	f.register("mcp-notes", "pool", tools(tool("mcp__notes__add", "mcp-notes", "Adds a note.")))
	for session, grant := range map[string]string{"s1": `{}`, "all": `{}`, "narrow": `{"toolsets":["mcp-mail"]}`, "own": `{}`, "other": `{}`} {
		f.grant(session, grant)
	}
	eventually(t, "the toolset is known", func() bool { return f.assemble("s1", `{"toolsets":["mcp-notes"]}`)["deferred_count"] == 1.0 })
	first := map[string]string{}
	for session, body := range map[string]string{
		"s1": `{"toolsets":["mcp-notes"]}`, "all": `{"toolsets":["*"],"disabled_toolsets":["mcp-mail"]}`, "narrow": `{"toolsets":["*"]}`,
		"own": session(), "other": `{"toolsets":["mcp-mail"]}`,
	} {
		first[session], _ = f.assemble(session, body)["catalog"].(string)
	}
	heard := make(chan string, 100)
	sub, err := f.nc.Subscribe("toolbridge.v1.t.*.event", func(m *nats.Msg) {
		var e subjects.Event
		if err := subjects.Decode(m.Data, &e); err != nil {
			t.Errorf("%s: %v", m.Data, err)
		}
		a, _ := subjects.Space{}.Parse(m.Subject)
		heard <- fmt.Sprintf("%s %s %s %s", a.Session, e.Type, e.Toolset, e.Catalog)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	f.flush()
	hears := func(what string, want ...string) {
		t.Helper()
		got := map[string]bool{}
		for len(got) < len(want) {
			select {
			case h := <-heard:
				got[h] = true
			case <-time.After(wait):
				t.Fatalf("%s: heard %v, want %v", what, got, want)
			}
		}
		for _, w := range want {
			if !got[w] {
				t.Errorf("%s: heard %v, want %v", what, got, want)
			}
		}
	}
	f.register("mcp-notes", "pool", tools(tool("mcp__notes__add", "mcp-notes", "Adds a longer note.")))
	hears("other definitions", "s1 catalog.changed mcp-notes "+first["s1"], "all catalog.changed mcp-notes "+first["all"])

	// A toolset that was asked for has come; it is another's business where it is
	// switched off or out of scope.
	f.register("mcp-mail", "pool", tools(tool("mcp__mail__send", "mcp-mail", "Sends.")))
	hears("a new toolset", "narrow catalog.changed mcp-mail "+first["narrow"], "other catalog.changed mcp-mail "+first["other"])

	// Who has assembled again is told of the new catalog only, and a further executor
	// with the same definitions is no news: changes are told in their order, so its
	// event would have come before these.
	eventually(t, "the other definitions are known", func() bool {
		again, _ := f.assemble("s1", `{"toolsets":["mcp-notes"]}`)["catalog"].(string)
		defer func() { first["s1"] = again }()
		return again != first["s1"]
	})
	f.register("mcp-mail", "second", tools(tool("mcp__mail__send", "mcp-mail", "Sends.")))
	f.register("mcp-notes", "pool", tools(tool("mcp__notes__add", "mcp-notes", "Adds the longest note.")))
	hears("definitions that are others again", "s1 catalog.changed mcp-notes "+first["s1"], "all catalog.changed mcp-notes "+first["all"])
	select {
	case h := <-heard:
		t.Errorf("also heard %s", h)
	default:
	}
}
