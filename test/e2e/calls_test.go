//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func testEverything(t *testing.T, d *development) {
	a := newAgent(t, d.url, "default")
	ref := a.assemble("mcp-everything")["catalog"].(string)

	if got, _ := a.result(ref, "mcp__everything__echo", `{"message":"grüße <b> & \"quotes\""}`).(string); got != `Echo: grüße <b> & "quotes"` {
		t.Errorf("echo = %q", got)
	}
	for arguments, want := range map[string]string{`{"a":2,"b":40}`: "42", `{"a":0.1,"b":1e2}`: "100.1", `{"a":"2","b":" 3"}`: "5"} {
		if got, _ := a.result(ref, "mcp__everything__get-sum", arguments).(string); !strings.HasSuffix(got, " is "+want+".") {
			t.Errorf("get-sum %s = %q", arguments, got)
		}
	}

	structured := a.result(ref, "mcp__everything__get-structured-content", `{"location":"Chicago"}`)
	if at(structured, "temperature") == nil || at(structured, "humidity") == nil {
		t.Errorf("structured content = %s", encode(structured))
	}

	image := a.result(ref, "mcp__everything__get-tiny-image", `{}`)
	blocks, _ := at(image, "content").([]any)
	found := false
	for _, b := range blocks {
		data, _ := at(b, "data").(string)
		found = found || at(b, "type") == "image" && at(b, "mimeType") == "image/png" && len(data) > 100
	}
	if !found {
		t.Errorf("the image did not stay typed: %.300s", encode(image))
	}

	links := a.result(ref, "mcp__everything__get-resource-links", `{"count":2}`)
	if got := encode(links); strings.Count(got, `"type":"resource_link"`) != 2 {
		t.Errorf("resource links = %s", got)
	}

	begin := time.Now()
	if got := encode(a.result(ref, "mcp__everything__trigger-long-running-operation", `{"duration":2,"steps":4}`)); !strings.Contains(got, "completed") {
		t.Errorf("long-running operation = %s", got)
	}
	if took := time.Since(begin); took < 2*time.Second {
		t.Errorf("the long-running operation took %s", took)
	}

	batch := a.bridge(ref, "tool_call", `{"calls":[{"name":"mcp__everything__echo","arguments":{"message":"one"}},{"name":"mcp__everything__nope","arguments":{}},{"name":"mcp__everything__echo","arguments":{"message":"three"}}]}`)
	if at(batch, "result", "results", 0, "response") != "Echo: one" || at(batch, "result", "results", 1, "error", "code") != "TOOL_NOT_FOUND" || at(batch, "result", "results", 2, "response") != "Echo: three" {
		t.Errorf("batch = %s", encode(batch))
	}
}

func testMemory(t *testing.T, d *development) {
	a := newAgent(t, d.url, "default")
	ref := a.assemble("mcp-memory")["catalog"].(string)
	a.result(ref, "mcp__memory__create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["writes programs"]},{"name":"Engine","entityType":"machine","observations":[]}]}`)
	a.result(ref, "mcp__memory__create_relations", `{"relations":[{"from":"Ada","to":"Engine","relationType":"programs"}]}`)
	// Another session sees what the server remembers.
	b := newAgent(t, d.url, "default")
	graph := b.result(b.assemble("mcp-memory")["catalog"].(string), "mcp__memory__read_graph", `{}`)
	if got := encode(graph); !strings.Contains(got, "writes programs") || at(graph, "relations", 0, "from") != "Ada" {
		t.Errorf("graph = %s", got)
	}
	// An entry of the wrong shape is refused by its schema, and says where.
	wrong := a.call(ref, "mcp__memory__create_entities", `{"entities":[{"name":"X"}]}`)
	if code(wrong) != "INVALID_ARGUMENTS" || !strings.Contains(encode(at(wrong, "result", "error", "path")), "entities") {
		t.Errorf("reply = %s", encode(wrong))
	}
}

func testFilesystem(t *testing.T, d *development) {
	a := newAgent(t, d.url, "default")
	ref := a.assemble("mcp-files")["catalog"].(string)
	path := filepath.Join(d.allowed, "note.txt")
	arguments := func(path, content string) string {
		b, err := json.Marshal(map[string]string{"path": path, "content": content})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const content = "line 1\nzweite Zeile: ü\n"
	a.result(ref, "mcp__files__write_file", arguments(path, content))
	if got, err := os.ReadFile(path); err != nil || string(got) != content {
		t.Errorf("the file holds %q (%v)", got, err)
	}
	read := a.result(ref, "mcp__files__read_text_file", `{"path":`+encode(path)+`}`)
	if got := encode(read); !strings.Contains(got, "zweite Zeile: ü") {
		t.Errorf("read = %s", got)
	}
	outside := filepath.Join(t.TempDir(), "outside.txt")
	refused := a.call(ref, "mcp__files__write_file", arguments(outside, "x"))
	if refused["is_error"] != true || code(refused) != "TOOL_ERROR" || !strings.Contains(encode(refused), "denied") {
		t.Errorf("writing outside: %s", encode(refused))
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("the file outside was written")
	}
}

func testEnvironment(t *testing.T, d *development) {
	a := newAgent(t, d.url, "default")
	ref := a.assemble("mcp-everything")["catalog"].(string)
	got := encode(a.result(ref, "mcp__everything__get-env", `{}`))
	if !strings.Contains(got, "for-the-server") {
		t.Errorf("the server lacks what was given to it: %.500s", got)
	}
	if strings.Contains(got, "for-nobody") {
		t.Error("the server got a variable of the host that nobody gave to it")
	}
}

func testRefusals(t *testing.T, d *development) {
	a := newAgent(t, d.url, "default")
	ref := a.assemble()["catalog"].(string)
	for _, c := range []struct{ tool, arguments, code string }{
		{"mcp__everything__echo", `{}`, "INVALID_ARGUMENTS"},
		{"mcp__everything__get-structured-content", `{"location":"Atlantis"}`, "INVALID_ARGUMENTS"},
		{"mcp__everything__gone", `{}`, "TOOL_NOT_FOUND"},
	} {
		v := a.call(ref, c.tool, c.arguments)
		if v["is_error"] != true || code(v) != c.code {
			t.Errorf("%s %s: %s", c.tool, c.arguments, encode(v))
		}
	}
	direct := a.bridge(ref, "mcp__everything__echo", `{"message":"x"}`)
	if direct["is_error"] != true || !strings.Contains(encode(direct), "tool_call") {
		t.Errorf("a deferred tool called directly: %s", encode(direct))
	}
	other := newAgent(t, d.url, "default")
	v := other.ask("bridge", `{"id":"c1","name":"tool_search","arguments":{"queries":["echo"]},"catalog":"`+ref+`"}`)
	if at(v, "error", "code") != "UNKNOWN_CATALOG" {
		t.Errorf("another session's catalog: %s", encode(v))
	}
}
