package main

import (
	"encoding/json"
	"strings"
	"testing"

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
