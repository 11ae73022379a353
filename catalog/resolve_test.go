package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"toolbridge/subjects"
)

// TestResolveFollowsTheVectors covers the names of single local calls: what a
// name means. How the envelope of a call is read is not decided here.
func TestResolveFollowsTheVectors(t *testing.T) {
	departs := map[string]string{
		"n107": "callable", "n108": "callable", "n112": "callable", // folded names resolve when one tool is meant
		"n120": "not in session", "n121": "unknown", "n122": "unknown", // a name without a definition does not resolve
	}
	var v struct {
		Cases []struct {
			ID    string
			Input struct {
				Calls json.RawMessage
			}
			Expect struct {
				Normalize struct {
					Entries []struct{ Name string }
				}
				Resolve struct {
					Local, Error, Name string
					Candidates         []string
				}
			}
		}
	}
	readVectors(t, "call_normalize.json", &v)
	tool := func(name, toolset string) string {
		return `{"name":"` + name + `","toolset":"` + toolset + `"}`
	}
	c := New(Input{Connectors: true, Definitions: decode(t, []byte("["+strings.Join([]string{
		tool("mcp__beacon__lamp_set", "mcp-beacon"), tool("mcp__beacon__ping", "mcp-beacon"), tool("kanban_card_move", "kanbanix"),
		tool("terminal", "terminal"), tool("read_window_below", "desktop_ui"), tool("project_list", "project"), tool("setup_guide", "setup"),
		tool("todo_list", "todo"), tool("mcp__a__lookup", "mcp-a"), tool("mcp__b__lookup", "mcp-b"), tool("manage_connections", "connections"),
	}, ",")+"]"))})
	tested := 0
	for _, x := range v.Cases {
		if len(x.Expect.Normalize.Entries) != 1 || IsConnector(x.Expect.Normalize.Entries[0].Name) {
			continue
		}
		tested++
		r := c.Resolve(x.Expect.Normalize.Entries[0].Name)
		want := x.Expect.Resolve
		switch {
		case departs[x.ID] == "callable":
			if r.Verdict != Callable || r.Definition.Name != want.Name {
				t.Errorf("%s: %+v, want %s", x.ID, r, want.Name)
			}
		case departs[x.ID] == "not in session":
			if r.Verdict != NotInSession {
				t.Errorf("%s: %+v", x.ID, r)
			}
		case departs[x.ID] == "unknown":
			if r.Verdict != Unknown {
				t.Errorf("%s: %+v", x.ID, r)
			}
		case want.Local != "":
			if r.Verdict != Callable || r.Definition.Name != want.Local || r.Refusal() != nil {
				t.Errorf("%s: %+v, want %s", x.ID, r, want.Local)
			}
		case want.Error == "direct_tool":
			if r.Verdict != Direct || r.Definition.Name != want.Name || r.Refusal().Code != subjects.CodeToolNotAllowed {
				t.Errorf("%s: %+v, want %s to be called directly", x.ID, r, want.Name)
			}
		case want.Error == "unknown_tool":
			if r.Verdict != Unknown || !slices.Equal(r.Names, want.Candidates) || r.Refusal().Code != subjects.CodeToolNotFound {
				t.Errorf("%s: %+v, want the suggestions %v", x.ID, r, want.Candidates)
			}
		default:
			t.Errorf("%s: an outcome that is not tested: %+v", x.ID, want)
		}
	}
	if tested < 25 {
		t.Errorf("only %d cases were tested", tested)
	}
}

func sessionCatalog(tb testing.TB) *Catalog {
	tb.Helper()
	return New(Input{Definitions: decode(tb, []byte(`[{"name":"mcp__mem__store"},{"name":"mcp__alpha__delete_record","aliases":["drop row"]},{"name":"write_file"}]`))})
}

// C09 and C10: the wrong door, a tool that is not offered and an unknown name have
// three answers; similar tools are suggested, never put in its place.
func TestC09C10ThreeMistakesHaveThreeAnswers(t *testing.T) {
	c := sessionCatalog(t)
	for _, x := range []struct {
		name string
		code subjects.Code
		says []string
	}{
		{"write_file", subjects.CodeToolNotAllowed, []string{"write_file", "call it directly"}},
		{"Write-File", subjects.CodeToolNotAllowed, []string{"write_file", "call it directly"}},
		{"terminal", subjects.CodeToolNotFound, []string{"terminal", "not available in this session", "do not retry"}},
		{"mcp__beta__delete_record", subjects.CodeToolNotFound, []string{"mcp__beta__delete_record", "Did you mean mcp__alpha__delete_record"}},
		{"delete_record", subjects.CodeToolNotFound, []string{"mcp__alpha__delete_record"}},
		{"Drop-Row", subjects.CodeToolNotFound, []string{"mcp__alpha__delete_record"}},
		{"nothing_like_it", subjects.CodeToolNotFound, []string{"nothing_like_it", "not available in this session", "tool_search"}},
		{"", subjects.CodeToolNotFound, []string{`""`}},
		{"x\ny" + strings.Repeat("z", 10000), subjects.CodeToolNotFound, []string{`"x yzzz`}},
		{"tool_search", subjects.CodeInvalidArguments, []string{"tool_search", "directly"}},
	} {
		r := c.Resolve(x.name).Refusal()
		if r == nil {
			t.Errorf("%q is callable", x.name)
			continue
		}
		if r.Code != x.code || len(r.Message) > 600 {
			t.Errorf("%q gives %+v, want %s", x.name, r, x.code)
		}
		for _, s := range x.says {
			if !strings.Contains(r.Message, s) {
				t.Errorf("%q gives %q, which lacks %q", x.name, r.Message, s)
			}
		}
	}
}

// C11: a deferred tool called by its own name is never said not to exist.
func TestC11DeferredToolsCalledByTheirOwnName(t *testing.T) {
	c := sessionCatalog(t)
	for name, says := range map[string][]string{
		"mcp__mem__store":  {"TOOL_NOT_ALLOWED", "tool_call", `{\"name\":\"mcp__mem__store\"`},
		"MCP__MEM__STORE":  {"TOOL_NOT_ALLOWED", "tool_call", `{\"name\":\"mcp__mem__store\"`},
		"write_file":       {"TOOL_NOT_ALLOWED", "call it directly"},
		"mcp__mem__gone":   {"TOOL_NOT_FOUND", "tool_search"},
		"terminal":         {"TOOL_NOT_FOUND", "not available in this session"},
		"connectors__x__Y": {"TOOL_NOT_ALLOWED", "tool_call", "connectors__x__Y"},
	} {
		answer := c.Answer(name)
		var e struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal(answer, &e); err != nil || e.Error.Message == "" {
			t.Errorf("%s: %v", answer, err)
		}
		for _, s := range says {
			if !strings.Contains(string(answer), s) {
				t.Errorf("%s gives %s, which lacks %s", name, answer, s)
			}
		}
		if strings.Contains(name, "store") && strings.Contains(string(answer), "no tool") {
			t.Errorf("%s gives %s", name, answer)
		}
	}
}

// G01: what is out of scope is answered like what does not exist.
func TestG01OutOfScopeIsUnknown(t *testing.T) {
	c := New(Input{Definitions: decode(t, []byte(`[{"name":"mcp__hr__list"}]`))})
	hidden, unknown := c.Resolve("mcp__hr__fire").Refusal(), c.Resolve("mcp__hr__nope").Refusal()
	if hidden.Code != unknown.Code || strings.ReplaceAll(hidden.Message, "mcp__hr__fire", "") != strings.ReplaceAll(unknown.Message, "mcp__hr__nope", "") {
		t.Errorf("%+v and %+v differ", hidden, unknown)
	}
}

// G02: what can be found, described and called is one set.
func TestG02SearchableDescribableAndCallableAreOneSet(t *testing.T) {
	c := sessionCatalog(t)
	found := search(t, c, `{"queries":["mcp__mem__store","mcp__alpha__delete_record","write_file"]}`, SearchOptions{})
	for _, name := range []string{"mcp__mem__store", "mcp__alpha__delete_record", "write_file", "mcp__hr__fire"} {
		_, searchable := found.Tools[name]
		_, describable := describe(t, c, `{"names":["`+name+`"]}`).Tools[name]
		callable := c.Resolve(name).Verdict == Callable
		if searchable != describable || describable != callable {
			t.Errorf("%s: searchable %v, describable %v, callable %v", name, searchable, describable, callable)
		}
	}
	if c.Len() != 2 {
		t.Errorf("%d deferred", c.Len())
	}
}

func TestDeferralOffLeavesNothingToTheBridge(t *testing.T) {
	c := New(Input{Definitions: decode(t, []byte(`[{"name":"mcp__mem__store"}]`)), Config: mustConfig(t, `false`)})
	if r := c.Resolve("mcp__mem__store"); r.Verdict != Direct {
		t.Errorf("%+v", r)
	}
	if got := search(t, c, `{"queries":["store"]}`, SearchOptions{}); got.TotalAvailable != 0 || len(got.Results[0].Matches) != 0 || got.Results[0].Hint != "" {
		t.Errorf("%+v", got)
	}
}

func TestANameOfAnUnavailableSourceSaysSo(t *testing.T) {
	c := New(Input{
		Definitions: decode(t, []byte(`[{"name":"mcp__gitlab__create_issue","toolset":"mcp-gitlab"},{"name":"mcp__git__log","toolset":"mcp-git"}]`)),
		Unavailable: []Unavailable{{Label: "git hub", Reason: "connecting"}, {Label: "mcp-git", Reason: "down"}},
	})
	for name, want := range map[string]string{
		"mcp__git_hub__create_issue": "git hub",
		"mcp__Git-Hub__create_issue": "git hub",
		"mcp__git__status":           "git",
		"mcp__git__":                 "",
		"mcp__gitea__create_issue":   "",
		"create_issue":               "",
	} {
		r := c.Resolve(name)
		if r.Verdict != Unknown || (r.Hidden == nil) != (want == "") || r.Hidden != nil && (r.Hidden.Label != want || len(r.Names) > 0) {
			t.Errorf("%s: %+v, want the hidden source %q", name, r, want)
		}
	}
	refusal := c.Resolve("mcp__git_hub__create_issue").Refusal()
	if refusal == nil || refusal.Code != subjects.CodeToolNotFound || !strings.Contains(refusal.Message, "git hub is unavailable (connecting)") || strings.Contains(refusal.Message, "not retry") {
		t.Errorf("refusal: %+v", refusal)
	}
	payload, isError := c.Describe([]byte(`{"names":["mcp__git_hub__create_issue","mcp__git__log"]}`))
	if isError || !strings.Contains(string(payload), `"not_found":["mcp__git_hub__create_issue"]`) || !strings.Contains(string(payload), "Unavailable now: git hub (connecting).") {
		t.Errorf("describe: %s", payload)
	}
	if r := c.Resolve("mcp__git__log"); r.Verdict != Callable {
		t.Errorf("a tool that is there: %+v", r)
	}
}
