package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"toolbridge/subjects"
)

// A17: every page is read.
func TestA17EveryPageIsRead(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("p", "pages")}})
	want := []string{"mcp__p__t1", "mcp__p__t2", "mcp__p__t3", "mcp__p__t4"}
	if diff := cmp.Diff(want, names(b.definitions(h, "p"))); diff != "" {
		t.Error(diff)
	}
}

func TestEndlessListsAreBounded(t *testing.T) {
	b := newBus(t)
	pages, tools, size := stdio("pages", "endless"), stdio("tools", "endless"), stdio("size", "endless")
	pages.MaxPages, tools.MaxTools, size.MaxListBytes = 50, 40, 1000
	h, _ := b.host(Config{Servers: []ServerConfig{pages, tools, size, stdio("circle", "circle")}})
	for server, want := range map[string]struct {
		count int
		says  string
	}{
		"pages": {50, "more than 50 pages"}, "tools": {40, "more than 40 tools"}, "size": {33, "larger than 1000 bytes"}, "circle": {1, "repeats the cursor"},
	} {
		if got := len(b.definitions(h, server)); got != want.count {
			t.Errorf("%s: %d tools, want %d", server, got, want.count)
		}
		for _, s := range h.Status() {
			if s.Name == server && !strings.Contains(fmt.Sprint(s.Warnings), want.says) {
				t.Errorf("%s: warnings %v", server, s.Warnings)
			}
		}
	}
}

func TestDefinitionsKeepTheServersBytes(t *testing.T) {
	const schema = `{"type":"object","properties":{"z":{"type":"integer","maximum":9007199254740993,"default":1.10},"a":{"const":"<&> é"}},"required":["z"],"x-order":[3,1,2]}`
	const annotations = `{"title":"T","readOnlyHint":false,"openWorldHint":true,"x":12345678901234567890}`
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("r", "raw", "TOOLS",
		`[{"name":"one","description":"First.","inputSchema":`+schema+`,"annotations":`+annotations+`,"outputSchema":{"type":"string"}},{"name":"two","inputSchema":{"type":"object"},"annotations":{}},{"name":"three","title":"Third tool","inputSchema":{"type":"object"}}]`)}})
	defs := b.definitions(h, "r")
	if len(defs) != 3 {
		t.Fatalf("%v", names(defs))
	}
	want := `{"name":"mcp__r__one","description":"First.","parameters":` + schema + `,"toolset":"mcp-r","annotations":` + annotations + `,"parallel":false}`
	if diff := cmp.Diff(want, string(defs[0].Raw)); diff != "" {
		t.Error(diff)
	}
	a := defs[0].Annotations
	if a.ReadOnlyHint == nil || *a.ReadOnlyHint || a.DestructiveHint != nil || a.IdempotentHint != nil || a.OpenWorldHint == nil || !*a.OpenWorldHint {
		t.Errorf("a false hint and an absent one must differ: %+v", a)
	}
	if a := defs[1].Annotations; a.ReadOnlyHint != nil || a.DestructiveHint != nil || a.IdempotentHint != nil || a.OpenWorldHint != nil {
		t.Errorf("absent hints: %+v", a)
	}
	if defs[2].Description != "Third tool" {
		t.Errorf("the title stands in for a description: %q", defs[2].Description)
	}
}

func TestOneBadDefinitionNeverCostsTheOthers(t *testing.T) {
	b := newBus(t)
	cfg := stdio("r", "raw", "TOOLS", `[
		null, 5, "x", [], {},
		{"name":""}, {"name":7,"inputSchema":{}}, {"name":"`+strings.Repeat("n", 2000)+`"},
		{"name":"good","description":"Good.","inputSchema":{"type":"object"}},
		{"name":"good","description":"Twice.","inputSchema":{"type":"object"}},
		{"name":"no-schema"}, {"name":"list","inputSchema":[1]}, {"name":"null","inputSchema":null,"annotations":null,"description":null},
		{"name":"words","description":{"a":1},"annotations":"yes","inputSchema":{"type":"object"}},
		{"name":"large","inputSchema":{"type":"object","x":"`+strings.Repeat("s", 20_000)+`"}},
		{"name":"talkative","description":"`+strings.Repeat("é", 20_000)+`","inputSchema":{"type":"object"}},
		{"name":"deep","inputSchema":`+strings.Repeat(`{"a":`, 500)+`1`+strings.Repeat(`}`, 500)+`},
		{"name":"surrogate \ud800","description":"\ud800","inputSchema":{"type":"object","title":"\ud800"}}
	]`)
	cfg.Env["RESULT"] = `{"content":[]}`
	cfg.Env["TOOLS"] = strings.ReplaceAll(cfg.Env["TOOLS"], "\n", " ")
	cfg.MaxToolBytes = 10_000
	h, l := b.host(Config{Servers: []ServerConfig{cfg}})
	b.awaitState(h, "r", subjects.StateReady)
	got := names(b.definitions(h, "r"))
	want := []string{"mcp__r__good", "mcp__r__no-schema", "mcp__r__list", "mcp__r__null", "mcp__r__words", "mcp__r__talkative"}
	if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
		t.Errorf("%s\nlog:\n%s", diff, l)
	}
	if len(got) != len(want)+1 || !strings.HasPrefix(got[len(want)], "mcp__r__surrogate") {
		t.Errorf("got %v", got)
	}
	said := fmt.Sprint(h.Status()[0].Warnings)
	for _, s := range []string{"not an object", "without a name", "2000 bytes long", "lists this name twice", "schema is 2", "not a string", "annotations are not an object", "levels deep"} {
		if !strings.Contains(said, s) {
			t.Errorf("no warning says %q: %s", s, said)
		}
	}
	for _, name := range got {
		if r := b.call(h, "r", name, `{}`); r.Error != nil && r.Error.Code == subjects.CodeDefinitionMismatch {
			t.Errorf("%s is registered and can not be called: %s", name, r.Error.Message)
		}
	}
}

func TestAServerWithoutToolsIsReady(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("n", "no-tools"), stdio("m", "modern")}})
	if reg := b.awaitState(h, "n", subjects.StateReady); reg.ToolCount != 0 {
		t.Errorf("%+v", reg)
	}
}

func TestAServerThatKnowsOnlyTheNewestProtocolIsServed(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("m", "modern")}})
	b.awaitState(h, "m", subjects.StateReady)
	wantResult(t, b.call(h, "m", "mcp__m__echo", `{"id":7310046220981450071}`), `{"id":7310046220981450071}`)
	wantResult(t, b.call(h, "m", "mcp__m__grow", `{}`), `"grown"`)
	b.await(h, "m", "the new tool", func(subjects.Registration) bool {
		return strings.Contains(strings.Join(names(b.definitions(h, "m")), " "), "mcp__m__grown")
	})
}

func TestATrickyOutputOnStandardOutputIsSkipped(t *testing.T) {
	b := newBus(t)
	huge := stdio("huge", "huge")
	huge.MaxMessage = 1 << 20
	h, l := b.host(Config{Servers: []ServerConfig{stdio("garbage", "garbage"), huge}})
	b.awaitState(h, "garbage", subjects.StateReady)
	wantResult(t, b.call(h, "garbage", "mcp__garbage__t1", `{}`), `"raw:t1"`)
	if !strings.Contains(l.String(), "Welcome to garbage") {
		t.Error("nothing is logged about it")
	}
	wantCode(t, b.call(h, "huge", "mcp__huge__huge", `{}`), subjects.CodeResultTooLarge, "1048576")
	wantResult(t, b.call(h, "huge", "mcp__huge__small", `{}`), `"raw:small"`)
}
