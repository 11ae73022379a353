package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

func printed(t *testing.T, show func(*output.Printer, json.RawMessage) error, raw string) string {
	t.Helper()
	var b strings.Builder
	if err := show(output.New(&b, func(string) (string, bool) { return "", false }), json.RawMessage(raw)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestResultsArePrintedAsWhatTheyAre(t *testing.T) {
	for raw, want := range map[string]string{
		`"two\nlines\u001b[31m"`:              "two\nlines�[31m\n",
		`{"a":1.00,"b":[]}`:                   "{\n  \"a\": 1.00,\n  \"b\": []\n}\n",
		`12345678901234567890`:                "12345678901234567890\n",
		`null`:                                "null\n",
		`{"content":[]}`:                      "{\n  \"content\": []\n}\n",
		`{"content":[{"type":"new"}]}`:        "{\n  \"content\": [\n    {\n      \"type\": \"new\"\n    }\n  ]\n}\n",
		`{"content":[{"type":"text"}],"x":1}`: "{\n  \"content\": [\n    {\n      \"type\": \"text\"\n    }\n  ],\n  \"x\": 1\n}\n",
		`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"QUJD"},{"type":"resource","resource":{"uri":"file:///x","text":"body"}},{"type":"resource_link","uri":"file:///y"}]}`: "a\n[image image/png, 4 characters of base64; --json shows it]\n[resource file:///x] body\n[resource file:///y]\n",
	} {
		if diff := cmp.Diff(want, printed(t, printResult, raw)); diff != "" {
			t.Errorf("%s:\n%s", raw, diff)
		}
	}
}

func TestSearchResultsShowNearMatchesAndNotices(t *testing.T) {
	got := printed(t, printSearch, `{"queries":["a","b"],"total_available":1,"results":[
		{"query":"a","matches":["x"],"near_matches":["y"]},
		{"query":"b","matches":[],"unmatched_terms":["b"],"available_sources":[{"name":"s","tool_count":1},{"name":"u","tool_count":2,"unavailable":"crashed"}]}],
		"tools":{"x":{"source":"mcp","source_name":"s","description":"Does x.","required":["p","q"]},"y":{"source":"mcp","source_name":"s","description":"","required":[]}},
		"connectors":{"status":"unavailable","reason":"unreachable"}}`)
	want := `a
  x  Does x. (needs p, q)
  near:
    y

b
  Nothing matches, among 1 tool.
  words that no tool has: b
  sources: s (1), u (unavailable: crashed)

connectors: unavailable unreachable
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEventsAreOneLineEach(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"call.accepted","call_id":"c1","total_count":3}`:                                                           "call.accepted       c1 3 entries",
		`{"type":"tool.started","call_id":"c1","index":2,"tool":"t"}`:                                                       "tool.started        c1 t (entry 2)",
		`{"type":"tool.finished","call_id":"c1","index":0,"tool":"t","is_error":true,"code":"TIMEOUT","duration_ms":1500}`:  "tool.finished       c1 t failed TIMEOUT in 1.5s",
		`{"type":"call.finished","call_id":"c1","is_error":false,"total_count":3,"error_count":1,"duration_ms":12}`:         "call.finished       c1 1 of 3 failed in 12ms",
		`{"type":"approval.settled","call_id":"c1","tool":"t","decision":{"id":"a1","state":"expired","reason":"expired"}}`: "approval.settled    c1 t approval a1 expired",
		`{"type":"approval.requested","call_id":"c1","tool":"t","approval":{"id":"a1","reason":"two\nlines\u001b[31m"}}`:    "approval.requested  c1 t approval a1: two lines [31m",
		`{"type":"tool.late","call_id":"c1","tool":"t","is_error":false}`:                                                   "tool.late           c1 t ok",
		`{"type":"connection.update","operation":"o1","targets":[{"target":"x","name":"gmail","state":"connected"}]}`:       "connection.update   o1 gmail connected",
		`{"type":"catalog.changed","catalog":"sha256:ab","toolset":"mcp-x"}`:                                                "catalog.changed     mcp-x sha256:ab",
		`{"type":"brand.new"}`: "brand.new           ",
	} {
		var e subjects.Event
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			t.Fatal(err)
		}
		e.At = "soon"
		if got := eventLine(e); got != "soon  "+want {
			t.Errorf("%s\n%q, want\n%q", raw, got, "soon  "+want)
		}
	}
}

func TestStopsAreTold(t *testing.T) {
	var b strings.Builder
	printStopped(output.New(&b, func(string) (string, bool) { return "", false }), "", []subjects.Stopped{
		{CallID: "c1", Interrupted: []int{1, 2}, InFlight: []int{0}}, {CallID: "c2"},
	})
	if want := "c1\n  interrupted, will never start: entries 1, 2\n  had started and was told to end: entry 0; the result tells what happened\n"; b.String() != want {
		t.Error(b.String())
	}
}

func TestAnApprovalWithAForeignDigestIsMarked(t *testing.T) {
	var b strings.Builder
	a := subjects.Approval{ID: "a1", Tool: "t", ArgumentsJSON: `{"a":1}`, ArgumentsSHA256: "00", ExpiresAt: "2026-01-01T00:00:10Z", RequestedAt: "x"}
	now, err := time.Parse(time.RFC3339, "2026-01-01T00:00:11Z")
	if err != nil {
		t.Fatal(err)
	}
	printApprovals(output.New(&b, func(string) (string, bool) { return "", false }), subjects.ApprovalListReply{Approvals: []subjects.Approval{a}, Omitted: 2}, now)
	for _, want := range []string{"  warning    the arguments below are not those", ", now\n", "2 entries more had no room"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestNamesOfDefinitionsAreFoundInEveryDialect(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"function","function":{"name":"a"}}`: "a", `{"type":"function","name":"b"}`: "b",
		`{"name":"c","input_schema":{}}`: "c", `{"name":"d","inputSchema":{}}`: "d", `{}`: "?", `5`: "?",
	} {
		if got := toolName(json.RawMessage(raw)); got != want {
			t.Errorf("%s: %s", raw, got)
		}
	}
}

func TestExamplesCanBePasted(t *testing.T) {
	for raw, want := range map[string]string{
		"mcp__a__b-c": "mcp__a__b-c", "echo a": "'echo a'", "it's": `'it'\''s'`, "": "''", "a;b\x1b": "'a;b'", `{"a":1}`: `'{"a":1}'`,
	} {
		if got := shellQuote(raw); got != want {
			t.Errorf("%q: %s, want %s", raw, got, want)
		}
	}
	got := sample(output.Parameters([]byte(`{"properties":{"s":{"type":"string"},"o":{"type":"string"},"i":{"type":["integer","null"]},"b":{"type":"boolean"},"l":{"type":"array"},"m":{"type":"object"},"e":{"enum":["x","y"]},"\"":{}},"required":["s","i","b","l","m","e","\""]}`)))
	want := `{"s":"hello","i":1,"b":true,"l":[],"m":{},"e":"x","\"":"…"}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !json.Valid([]byte(got)) {
		t.Error("the example is no JSON")
	}
}

func TestVerdicts(t *testing.T) {
	for want, p := range map[string]subjects.Preflight{
		"not callable": {Code: subjects.CodeToolNotFound, Parallel: true}, "callable": {Callable: true},
		"callable, in parallel": {Callable: true, Parallel: true}, "callable after approval": {Callable: true, NeedsApproval: true},
	} {
		if got := verdict(p); got != want {
			t.Errorf("%+v: %s", p, got)
		}
	}
}
