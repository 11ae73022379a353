package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"toolbridge/worker"
)

// seen is what a session can search, describe and preflight of some names.
func (f *fleet) seen(session, ref string, names ...string) (searched, described, callable []string) {
	f.t.Helper()
	for _, n := range names {
		reply := f.bridge(session, ref, "tool_search", fmt.Sprintf(`{"queries":[%q],"limit":50}`, n))
		if strings.Contains(text(at(f.t, reply, "result", "results", 0, "matches")), `"`+n+`"`) {
			searched = append(searched, n)
		}
		reply = f.bridge(session, ref, "tool_describe", fmt.Sprintf(`{"names":[%q]}`, n))
		if at(f.t, reply, "result", "tools", n) != nil {
			described = append(described, n)
		}
		reply = f.ask(session, "preflight", fmt.Sprintf(`{"names":[%q],"catalog":%q}`, n, ref))
		if at(f.t, reply, "tools", n, "callable") == true {
			callable = append(callable, n)
		}
	}
	return searched, described, callable
}

func TestG02SearchableDescribableAndCallableAreTheSameSet(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{})
	f.register("mcp-r", "e1", tools(plain("mcp__r__alpha", "Alpha."), plain("mcp__r__beta", "Beta."), plain("mcp__r__gamma", "Gamma.")))
	f.grant("s1", `{"user":"u","tools":["mcp__r__alpha","mcp__r__beta"]}`)
	var ref string
	eventually(t, "the toolset is known to the worker", func() bool {
		reply := f.assemble("s1", `{"toolsets":["mcp-r"]}`)
		ref = reply["catalog"].(string)
		return reply["deferred_count"] == 2.0
	})
	want := []string{"mcp__r__alpha", "mcp__r__beta"}
	searched, described, callable := f.seen("s1", ref, "mcp__r__alpha", "mcp__r__beta", "mcp__r__gamma")
	for what, got := range map[string][]string{"searchable": searched, "describable": described, "callable": callable} {
		if !slices.Equal(got, want) {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	t.Run("a grant that narrows later counts at once", func(t *testing.T) {
		f.grant("s1", `{"user":"u","tools":["mcp__r__*"],"deny":["*beta"]}`)
		eventually(t, "search follows the watched grant", func() bool {
			searched, _, _ := f.seen("s1", ref, "mcp__r__beta")
			return len(searched) == 0
		})
		_, described, callable := f.seen("s1", ref, "mcp__r__alpha", "mcp__r__beta")
		if !slices.Equal(described, []string{"mcp__r__alpha"}) || !slices.Equal(callable, described) {
			t.Errorf("described %v, callable %v", described, callable)
		}
		if got := at(t, f.bridge("s1", ref, "tool_search", `{"queries":["alpha"]}`), "result", "total_available"); got != 1.0 {
			t.Errorf("total_available = %v", got)
		}
	})
}

func TestRegistryToolsetsNeedAGrantOutsideDev(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{})
	f.register("mcp-r", "e1", tools(plain("mcp__r__alpha", "Alpha.")))
	f.grant("yes", `{"toolsets":["mcp-*"]}`)
	f.grant("none", `{"toolsets":[],"tools":[]}`)
	f.grant("expired", `{"expires_at":"2020-01-01T00:00:00Z"}`)
	f.grant("later", `{"expires_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	f.grant("garbled", `{"toolsets":`)
	f.grant("misspelt", `{"approval":"denny"}`)
	f.grant("child", `{"parent":"none"}`)
	f.grant("grandchild", `{"parent":"childofyes","tools":["*"]}`)
	f.grant("childofyes", `{"parent":"yes"}`)
	f.grant("orphan", `{"parent":"nobody"}`)
	f.grant("circle", `{"parent":"circle2"}`)
	f.grant("circle2", `{"parent":"circle"}`)
	eventually(t, "the toolset is known to the worker", func() bool {
		return f.assemble("yes", `{"toolsets":["mcp-r"]}`)["deferred_count"] == 1.0
	})
	for session, want := range map[string]float64{
		"yes": 1, "later": 1, "childofyes": 1, "grandchild": 1,
		"nogrant": 0, "none": 0, "expired": 0, "garbled": 0, "misspelt": 0, "child": 0, "orphan": 0, "circle": 0,
	} {
		reply := f.assemble(session, `{"toolsets":["mcp-r"]}`)
		if reply["deferred_count"] != want {
			t.Errorf("%s sees %v tools, want %v", session, reply["deferred_count"], want)
		}
		if want == 0 && strings.Contains(text(reply), "alpha") {
			t.Errorf("%s is told of what it may not see: %s", session, text(reply))
		}
	}
	missing := f.assemble("none", `{"toolsets":["mcp-absent"]}`)["warnings"].([]any)
	hidden := f.assemble("none", `{"toolsets":["mcp-r"]}`)["warnings"].([]any)
	if strings.ReplaceAll(text(missing), "mcp-absent", "mcp-r") != text(hidden) {
		t.Errorf("a hidden toolset is told apart from an absent one:\n%s\n%s", text(missing), text(hidden))
	}
}

func TestASearchIsNoOlderThanTheAssemblyBeforeIt(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{})
	f.start(worker.Config{})
	f.register("mcp-r", "e1", tools(plain("mcp__r__alpha", "Alpha.")))
	f.grant("first", `{}`)
	f.settled("first", `{"toolsets":["mcp-r"]}`, "the toolset is known", count(1))
	for i := range 200 {
		s := fmt.Sprintf("s%d", i)
		f.grant(s, `{"toolsets":["mcp-r"]}`)
		reply := f.assemble(s, `{"toolsets":["mcp-r"]}`)
		if reply["deferred_count"] != 1.0 {
			continue // the other worker knows the toolset later
		}
		if got := f.search(s, reply["catalog"].(string), "alpha"); len(got) != 1 {
			t.Fatalf("session %d: assembled one tool, found %v", i, got)
		}
	}
}

func TestG01ACallOutOfScopeIsAnsweredLikeAnUnknownName(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.register("mcp-hr", "e1", tools(plain("mcp__hr__list", "List."), plain("mcp__hr__fire", "Fire.", "id")))
	ran := f.count("toolbridge.v1.t._exec.run.mcp-hr")
	f.grant("s1", `{"tools":["mcp__hr__list"]}`)
	var ref string
	eventually(t, "the toolset is known to the worker", func() bool {
		reply := f.assemble("s1", `{"toolsets":["mcp-hr"]}`)
		ref = reply["catalog"].(string)
		return reply["deferred_count"] == 1.0
	})
	answer := func(name string) string {
		reply := f.bridge("s1", ref, "tool_call", fmt.Sprintf(`{"calls":[{"name":%q,"arguments":{"id":"1"}}]}`, name))
		if reply["is_error"] != true || code(reply) != "TOOL_NOT_FOUND" {
			t.Errorf("%s = %s", name, text(reply))
		}
		return strings.ReplaceAll(text(reply["result"]), name, "NAME")
	}
	if a, b := answer("mcp__hr__fire"), answer("mcp__hr__nope"); a != b {
		t.Errorf("answers differ:\n%s\n%s", a, b)
	}
	if n := ran(); n != 0 {
		t.Errorf("%d executions left the worker", n)
	}
}

func TestG04TheJobsOwnToolsComeWithTheJob(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{})
	f.grant("s1", `{"tools":["terminal"],"toolsets":[]}`)
	reply := f.assemble("s1", `{"tools":`+tools(tool("terminal", "", "Shell."), tool("task_complete", "", "Report the result."), tool("mcp__x__y", "mcp-x", "Y."))+`}`)
	var names []string
	for _, d := range reply["tools"].([]any) {
		names = append(names, at(t, d, "function", "name").(string))
	}
	if !slices.Equal(names, []string{"terminal", "task_complete"}) {
		t.Errorf("the session sees %v", names)
	}
	f.grant("s2", `{"deny":["task_*"]}`)
	if got := text(f.assemble("s2", `{"tools":`+tools(tool("task_complete", "", "Report."))+`}`)["tools"]); strings.Contains(got, "task_complete") {
		t.Errorf("deny does not hold for a plain tool: %s", got)
	}
}

func TestG05SuggestionsCountsAndErrorsNameNothingOutOfScope(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.register("mcp-hr", "e1", tools(plain("mcp__hr__fire_employee", "Fire an employee.")))
	eventually(t, "the toolset is known to the worker", func() bool {
		return f.assemble("admin", `{"toolsets":["mcp-hr"]}`)["deferred_count"] == 1.0
	})
	ref := f.assemble("s1", `{"tools":`+tools(tool("mcp__hr__list", "mcp-hr", "List employees."))+`}`)["catalog"].(string)
	call := f.bridge("s1", ref, "tool_call", `{"calls":[{"name":"fire_employee","arguments":{}}]}`)
	search := f.bridge("s1", ref, "tool_search", `{"queries":["fire employee"]}`)
	direct := f.bridge("s1", ref, "mcp__hr__fire_employee", `{}`)
	for _, reply := range []map[string]any{call, search, direct} {
		if strings.Contains(strings.ReplaceAll(text(reply), `"name":"mcp__hr__fire_employee"`, ""), "Fire an employee") {
			t.Errorf("a hidden tool shows in %s", text(reply))
		}
	}
	if strings.Contains(text(call), "mcp__hr__fire_employee") || strings.Contains(text(at(t, search, "result", "tools")), "fire_employee") {
		t.Errorf("a hidden tool is suggested: %s %s", text(call), text(search))
	}
	if got := at(t, search, "result", "total_available"); got != 1.0 {
		t.Errorf("total_available = %v", got)
	}
}

// count subscribes to a subject and tells how many messages have come.
func (f *fleet) count(subject string) func() int {
	f.t.Helper()
	sub, err := f.nc.SubscribeSync(subject)
	if err != nil {
		f.t.Fatal(err)
	}
	return func() int {
		f.t.Helper()
		if err := f.nc.Flush(); err != nil {
			f.t.Fatal(err)
		}
		n, _, err := sub.Pending()
		if err != nil {
			f.t.Fatal(err)
		}
		return n
	}
}

func TestAnUnavailableSourceIsHiddenByALaterGrantToo(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{})
	f.register("mcp-down", "e1", `[]`, `,"state":"unavailable","reason":"exit status 7"`)
	f.register("mcp-up", "e1", tools(plain("mcp__up__alpha", "Alpha.")))
	f.grant("s1", `{"toolsets":["mcp-*"]}`)
	ref := f.settled("s1", `{"toolsets":["mcp-up","mcp-down"]}`, "both are known", func(r map[string]any) bool {
		return r["deferred_count"] == 1.0 && strings.Contains(text(r), "exit status 7")
	})["catalog"].(string)
	if got := text(f.bridge("s1", ref, "tool_search", `{"queries":["nothing of that"]}`)); !strings.Contains(got, "exit status 7") {
		t.Errorf("the outage is not said: %s", got)
	}
	f.grant("s1", `{"toolsets":["mcp-*"],"deny":["mcp-down"]}`)
	eventually(t, "the narrower grant counts", func() bool {
		return !strings.Contains(text(f.bridge("s1", ref, "tool_search", `{"queries":["nothing of that"]}`)), "down")
	})
	if got := text(f.bridge("s1", ref, "tool_describe", `{"names":["mcp__down__x"]}`)); strings.Contains(got, "exit status 7") {
		t.Errorf("describe tells of the hidden source: %s", got)
	}
}
