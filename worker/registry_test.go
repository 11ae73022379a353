package worker_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"toolbridge/subjects"
	"toolbridge/worker"
)

// settled assembles until the reply is as wanted; the registry comes by a watch.
func (f *fleet) settled(session, body, what string, ok func(map[string]any) bool) map[string]any {
	f.t.Helper()
	var reply map[string]any
	eventually(f.t, what, func() bool {
		reply = f.assemble(session, body)
		return ok(reply)
	})
	return reply
}

func count(n float64) func(map[string]any) bool {
	return func(r map[string]any) bool { return r["deferred_count"] == n }
}

const fromK = `{"toolsets":["mcp-k"]}`

func listing(t *testing.T, reply map[string]any) string {
	t.Helper()
	for _, d := range reply["tools"].([]any) {
		if at(t, d, "function", "name") == "tool_search" {
			return at(t, d, "function", "description").(string)
		}
	}
	return ""
}

func TestA01AChangedToolsetShowsAtTheNextAssemblyOnly(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.register("mcp-k", "e1", tools(plain("mcp__k__a", "Tool a."), plain("mcp__k__b", "Tool b.")))
	first := f.settled("s1", fromK, "both tools are there", count(2))
	ref := first["catalog"].(string)
	f.register("mcp-k", "e1", tools(plain("mcp__k__a", "Tool a."), plain("mcp__k__c", "Tool c.")))
	second := f.settled("s1", fromK, "the change is known", func(r map[string]any) bool { return r["catalog"] != ref })
	if l := listing(t, second); !strings.Contains(l, "mcp__k__c") || strings.Contains(l, "mcp__k__b") || second["deferred_count"] != 2.0 {
		t.Errorf("listing = %s", l)
	}
	if !(second["registry_revision"].(float64) > first["registry_revision"].(float64)) {
		t.Errorf("registry_revision went from %v to %v", first["registry_revision"], second["registry_revision"])
	}
	// The turn that was assembled before goes on with what its model was shown.
	if got := f.search("s1", ref, "tool b"); len(got) == 0 || got[0] != "mcp__k__b" {
		t.Errorf("the earlier catalog drifted: %v", got)
	}
}

func TestA03AReconnectWithTheSameToolsChangesNoByte(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	definitions := tools(plain("mcp__k__a", "Tool a."))
	revision := f.register("mcp-k", "e1", definitions)
	f.register("mcp-l", "e1", tools(plain("mcp__l__x", "Tool x.")))
	const both = `{"toolsets":["mcp-l","mcp-k"]}`
	f.settled("s1", both, "both are there", count(2))
	before := f.send("toolbridge.v1.t.s1.assemble", both).Data

	f.register("mcp-k", "e1", definitions, `,"state":"unavailable","reason":"exit status 1","tool_count":1,"revision":`, fmt.Sprint(revision))
	down := f.settled("s1", both, "the outage is known", count(1))
	if l := listing(t, down); !strings.Contains(l, "k") || !strings.Contains(l, "exit status 1") {
		t.Errorf("the outage is not said: %s", l)
	}
	f.register("mcp-k", "e1", definitions, `,"revision":`, fmt.Sprint(revision))
	f.settled("s1", both, "it is back", count(2))
	if after := f.send("toolbridge.v1.t.s1.assemble", both).Data; !bytes.Equal(before, after) {
		t.Errorf("bytes changed:\n%s\n%s", before, after)
	}
}

func TestA21AServerThatStillConnectsIsListedAndComesLater(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.register("mcp-k", "e1", `[]`, `,"state":"connecting","reason":"connecting"`)
	first := f.settled("s1", fromK, "the connecting server is listed", func(r map[string]any) bool {
		return strings.Contains(listing(t, r), "connecting") || len(r["warnings"].([]any)) == 0
	})
	if l := text(first); !strings.Contains(l, "connecting") {
		t.Errorf("first turn = %s", l)
	}
	f.register("mcp-k", "e1", tools(plain("mcp__k__a", "Tool a.")))
	f.settled("s1", fromK, "the second turn has the tools", count(1))
}

func TestF06AServerAddedLaterIsSeenBySessionsThatMaySeeIt(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{})
	f.register("mcp-x", "e1", tools(plain("mcp__x__a", "Tool a.")))
	f.grant("s1", `{"toolsets":["mcp-*"]}`)
	f.grant("s2", `{"toolsets":["mcp-x"]}`)
	const all = `{"toolsets":["*"]}`
	ref := f.settled("s1", all, "x is there", count(1))["catalog"].(string)
	f.register("mcp-y", "e1", tools(plain("mcp__y__b", "Tool b.")))
	f.settled("s1", all, "y is there in the next turn", count(2))
	if got := f.assemble("s2", all); got["deferred_count"] != 1.0 || strings.Contains(text(got), "mcp__y") {
		t.Errorf("the other session's scope was not kept: %s", text(got))
	}
	if got := f.search("s1", ref, "tool b"); len(got) != 0 {
		t.Errorf("the turn in progress changed: %v", got)
	}
}

func TestOfRivalsTheOldestLiveDefinitionStands(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.register("mcp-k", "young", tools(plain("mcp__k__new", "New.")))
	f.settled("s1", fromK, "the first is there", count(1))
	f.put("mcp-k", "zz", tools(plain("mcp__k__old", "Old.")), "2020-01-01T00:00:00Z")
	reply := f.settled("s1", fromK, "the older one stands", func(r map[string]any) bool { return strings.Contains(listing(t, r), "mcp__k__old") })
	if strings.Contains(listing(t, reply), "mcp__k__new") || !strings.Contains(text(reply["warnings"]), "EXECUTORS_DISAGREE") {
		t.Errorf("reply = %s", text(reply))
	}
}

// put registers with a given age.
func (f *fleet) put(toolset, executor, definitions, since string) {
	f.t.Helper()
	f.register("scratch-"+executor, executor, definitions) // stores the blob
	kv, err := f.js.KeyValue(f.t.Context(), "toolbridge_toolsets")
	if err != nil {
		f.t.Fatal(err)
	}
	e, err := kv.Get(f.t.Context(), subjects.ToolsetKey("t", "scratch-"+executor, executor))
	if err != nil {
		f.t.Fatal(err)
	}
	value := strings.Replace(string(e.Value()), "2026-01-01T00:00:00Z", since, 1)
	if _, err := kv.PutString(f.t.Context(), subjects.ToolsetKey("t", toolset, executor), value); err != nil {
		f.t.Fatal(err)
	}
}

func TestHeartbeatsDoNotMoveTheRegistryRevisionAndPinsHold(t *testing.T) {
	f := newFleet(t)
	a := f.start(worker.Config{Dev: true})
	definitions := tools(plain("mcp__k__a", "Tool a."))
	revision := f.register("mcp-k", "e1", definitions)
	first := f.settled("s1", fromK, "it is there", count(1))
	if first["registry_revision"] != float64(revision) {
		t.Errorf("registry_revision = %v, want %d", first["registry_revision"], revision)
	}
	for range 3 { // heartbeats as the MCP host sends them
		f.register("mcp-k", "e1", definitions, `,"revision":`, fmt.Sprint(revision))
	}
	before := f.send("toolbridge.v1.t.s1.assemble", fromK).Data
	stop(t, a)
	f.start(worker.Config{Dev: true})
	if after := f.send("toolbridge.v1.t.s1.assemble", fromK).Data; !bytes.Equal(before, after) || !bytes.Contains(after, fmt.Appendf(nil, `"registry_revision":%d,`, revision)) {
		t.Errorf("a worker that started later says\n%s\nnot\n%s", after, before)
	}
	if got := code(f.ask("s1", "assemble", fmt.Sprintf(`{"toolsets":["mcp-k"],"registry_revision":%d}`, revision))); got != "" {
		t.Errorf("a pin that holds: %q", got)
	}
	f.register("mcp-k", "e1", tools(plain("mcp__k__b", "Tool b.")))
	eventually(t, "the pin is gone", func() bool {
		return code(f.ask("s1", "assemble", fmt.Sprintf(`{"toolsets":["mcp-k"],"registry_revision":%d}`, revision))) == "UNKNOWN_CATALOG"
	})
}

func TestHeartbeatsThatNameNoRevisionDoNotMoveItEither(t *testing.T) {
	f := newFleet(t)
	a := f.start(worker.Config{Dev: true})
	definitions := tools(plain("mcp__k__a", "Tool a."))
	revision := f.register("mcp-k", "e1", definitions)
	f.settled("s1", fromK, "it is there", count(1))
	for range 3 {
		f.register("mcp-k", "e1", definitions)
	}
	before := f.send("toolbridge.v1.t.s1.assemble", fromK).Data
	b := f.start(worker.Config{Dev: true})
	stop(t, a)
	if after := f.send("toolbridge.v1.t.s1.assemble", fromK).Data; !bytes.Equal(before, after) || !bytes.Contains(after, fmt.Appendf(nil, `"registry_revision":%d,`, revision)) {
		t.Errorf("a worker that started later says\n%s\nnot\n%s", after, before)
	}
	if got := code(f.ask("s1", "assemble", fmt.Sprintf(`{"toolsets":["mcp-k"],"registry_revision":%d}`, revision))); got != "" {
		t.Errorf("a pin that holds: %q", got)
	}
	changed := f.register("mcp-k", "e1", tools(plain("mcp__k__b", "Tool b.")))
	f.settled("s1", fromK, "the change is known", func(r map[string]any) bool { return r["registry_revision"] == float64(changed) })
	f.register("mcp-k", "e1", tools(plain("mcp__k__b", "Tool b.")))
	stop(t, b)
	f.start(worker.Config{Dev: true})
	if r := f.assemble("s1", fromK); r["registry_revision"] != float64(changed) {
		t.Errorf("after the change a later worker says %v, want %d", r["registry_revision"], changed)
	}
}

func TestToolsetsOfAnyNameCanBeNamedAndFiltered(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.register("odd name/ü.*", "e1", tools(plain("odd_tool", "Odd.")))
	f.register("mcp-k", "e1", tools(plain("mcp__k__a", "Tool a.")))
	f.settled("s1", `{"toolsets":["odd name/ü.*","mcp-k"]}`, "both are there", count(2))
	for body, want := range map[string]float64{
		`{"toolsets":["*"]}`:                                   2,
		`{"toolsets":["mcp-*"]}`:                               1,
		`{"toolsets":["*"],"disabled_toolsets":["mcp-k"]}`:     1,
		`{"toolsets":["*"],"enabled_toolsets":["mcp-k"]}`:      1,
		`{"toolsets":["*"],"enabled_toolsets":[]}`:             0,
		`{"toolsets":["*"],"enabled_toolsets":null}`:           2,
		`{"toolsets":["mcp-k","mcp-k","*"]}`:                   2,
		`{"toolsets":["mcp-k"],"disabled_toolsets":["mcp-k"]}`: 0,
	} {
		if got := f.assemble("s1", body)["deferred_count"]; got != want {
			t.Errorf("%s gives %v tools, want %v", body, got, want)
		}
	}
	if got := text(f.assemble("s1", `{"toolsets":["gone"]}`)["warnings"]); !strings.Contains(got, "TOOLSET_UNAVAILABLE") || !strings.Contains(got, "gone") {
		t.Errorf("warnings = %s", got)
	}
}

func TestACallToAnExecutorThatIsGoneIsRefusedWithTheReason(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	definitions := tools(plain("mcp__k__a", "Tool a."))
	f.register("mcp-k", "e1", definitions)
	ref := f.settled("s1", fromK, "it is there", count(1))["catalog"].(string)
	received := f.serve("toolbridge.v1.t._exec.run.mcp-k", func(map[string]any) string { return `{"result":1}` })
	f.register("mcp-k", "e1", definitions, `,"state":"unavailable","reason":"exit status 3"`)
	eventually(t, "the outage is known", func() bool {
		return code(f.call("s1", ref, `{"calls":[{"name":"mcp__k__a"}]}`)) == "EXECUTOR_UNAVAILABLE"
	})
	if got := text(f.call("s1", ref, `{"calls":[{"name":"mcp__k__a"}]}`)); !strings.Contains(got, "exit status 3") {
		t.Errorf("reply = %s", got)
	}
	pre := f.ask("s1", "preflight", `{"names":["mcp__k__a"],"catalog":"`+ref+`"}`)
	if p := at(t, pre, "tools", "mcp__k__a"); at(t, p, "callable") != false || at(t, p, "code") != "EXECUTOR_UNAVAILABLE" {
		t.Errorf("preflight = %s", text(pre))
	}
	before := len(received())
	f.call("s1", ref, `{"calls":[{"name":"mcp__k__a"}]}`)
	if len(received()) != before {
		t.Error("the call was sent all the same")
	}
}

func TestRegistrationsThatCanNotBeReadCostNothingElse(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	kv, err := f.js.KeyValue(t.Context(), "toolbridge_toolsets")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"t.mcp-bad.e1": `{"definitions_sha256":`, "t.mcp-noblob.e1": `{"definitions_sha256":"x","blob":"absent","since":"now"}`,
		"t.mcp-a.b.c": `{}`, "t.mcp=zz.e1": `{}`, "t.mcp-empty.e1": `{}`,
		"t.mcp-endless.e1": `{"definitions_sha256":"x","blob":"` + strings.Repeat("x", 6000) + `"}`,
	} {
		if _, err := kv.PutString(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	f.register("mcp-noarray", "e1", `{"not":"an array"}`)
	f.register("mcp-k", "e1", tools(plain("mcp__k__a", "Tool a.")))
	reply := f.settled("s1", `{"toolsets":["*"]}`, "the good one is there", count(1))
	for _, name := range []string{"mcp-noblob", "mcp-noarray", "mcp-empty", "mcp-endless"} {
		if !strings.Contains(text(reply["warnings"]), name) {
			t.Errorf("no warning names %s: %s", name, text(reply["warnings"]))
		}
	}
}
