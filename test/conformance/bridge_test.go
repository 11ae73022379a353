package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestSearchFindsByWordsAndTellsWhatItFound(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	for _, c := range []struct{ what, arguments, match string }{
		{"a list of queries", `{"queries":["send email"]}`, "mcp__mail__send_message"},
		{"one query as a text", `{"queries":"open an issue"}`, "mcp__github__create_issue"},
		{"arguments as a string", `"{\"queries\":[\"weather forecast\"]}"`, "get_forecast"},
		{"the exact name", `{"queries":["mcp__github__list_releases"]}`, "mcp__github__list_releases"},
		{"a limit as a text", `{"queries":["email"],"limit":"3"}`, "mcp__mail__send_message"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := &session{t: t, nc: s.nc, name: s.name}
			v := s.bridge(ref, "tool_search", c.arguments)
			if got := at(v, "result", "results", 0, "matches", 0); got != c.match || v["is_error"] != false {
				t.Errorf("reply = %s", encode(v))
			}
			if at(v, "result", "tools", c.match, "description") == nil {
				t.Errorf("no record of %s in %s", c.match, encode(v))
			}
			if at(v, "result", "total_available") != json.Number("4") {
				t.Errorf("total_available = %v", at(v, "result", "total_available"))
			}
		})
	}
	v := s.bridge(ref, "tool_search", `{"queries":["zzyzx","email"]}`)
	if encode(at(v, "result", "results", 0, "matches")) != "[]" || at(v, "result", "results", 0, "available_sources") == nil || at(v, "result", "results", 0, "hint") == nil {
		t.Errorf("a query that finds nothing: %s", encode(at(v, "result", "results", 0)))
	}
}

func TestDescribeGivesTheSchemaAsItCame(t *testing.T) {
	s := newSession(t)
	odd := `{"properties":{"n":{"type":"number","maximum":1e3,"multipleOf":0.10},"größe":{"type":"string"}},"type":"object","x-big":9007199254740993}`
	_, ref := s.assemble(request(`{"type":"function","toolset":"mcp-x","function":{"name":"mcp__x__odd","description":"Odd <one> & \u00fcber.","parameters":` + odd + `}}`))
	m := s.send(s.subject("bridge"), fmt.Sprintf(`{"id":"c1","name":"tool_describe","arguments":{"names":["mcp__x__odd","mcp__x__gone"]},"catalog":%q}`, ref))
	v := valid(t, "bridge-reply", m.Data)
	s.holdResult("bridge", v)
	if !strings.Contains(string(m.Data), `"parameters":`+odd) {
		t.Errorf("the schema is not the one that was sent: %s", m.Data)
	}
	if got := encode(at(v, "result", "not_found")); got != `["mcp__x__gone"]` || v["is_error"] != false {
		t.Errorf("not_found = %s in %s", got, m.Data)
	}
	if got := at(v, "result", "tools", "mcp__x__odd", "description"); got != "Odd <one> & über." {
		t.Errorf("description = %q", got)
	}
}

func TestWhatTheModelGetsWrongIsAResultItCanActOn(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	for _, c := range []struct{ what, name, arguments, code string }{
		{"no queries", "tool_search", `{}`, "INVALID_ARGUMENTS"},
		{"queries of the wrong kind", "tool_search", `{"queries":7}`, "INVALID_ARGUMENTS"},
		{"blank queries", "tool_search", `{"queries":["  "]}`, "INVALID_ARGUMENTS"},
		{"eight queries", "tool_search", `{"queries":["a","b","c","d","e","f","g","h"]}`, "INVALID_ARGUMENTS"},
		{"a list as arguments", "tool_search", `["x"]`, "INVALID_ARGUMENTS"},
		{"a string that holds no object", "tool_describe", `"names"`, "INVALID_ARGUMENTS"},
		{"no names", "tool_describe", `{}`, "INVALID_ARGUMENTS"},
		{"no calls", "tool_call", `{}`, "INVALID_ARGUMENTS"},
		{"an unknown tool", "tool_call", call(entry("mcp__github__nope", `{}`)), "TOOL_NOT_FOUND"},
		{"a core tool that the session lacks", "tool_call", call(entry("write_file", `{}`)), "TOOL_NOT_FOUND"},
		{"a visible tool", "tool_call", call(entry("terminal", `{"command":"ls"}`)), "TOOL_NOT_ALLOWED"},
		{"a bridge tool", "tool_call", call(entry("tool_search", `{}`)), ""},
		{"a deferred tool called directly", "mcp__mail__send_message", `{}`, ""},
		{"an unknown tool called directly", "no_such_tool", `{}`, ""},
		{"a missing argument", "tool_call", call(entry("mcp__github__create_issue", `{"title":"x"}`)), "INVALID_ARGUMENTS"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := &session{t: t, nc: s.nc, name: s.name}
			v := s.bridge(ref, c.name, c.arguments)
			if v["is_error"] != true || c.code != "" && code(v) != c.code {
				t.Errorf("want is_error and %s: %s", c.code, encode(v))
			}
			if message, _ := at(v, "result", "error", "message").(string); message == "" {
				t.Errorf("no message: %s", encode(v))
			}
		})
	}
}

func TestABridgeRequestMayCarryItsTools(t *testing.T) {
	s := newSession(t)
	v := s.ask("bridge", `{"id":"c1","name":"tool_search","arguments":{"queries":["send email"]},`+usual()[1:])
	if got := at(v, "result", "results", 0, "matches", 0); got != "mcp__mail__send_message" {
		t.Errorf("reply = %s", encode(v))
	}
}
