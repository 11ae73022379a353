package mcp

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"toolbridge/subjects"
)

func TestToolNameIsSafeAndStable(t *testing.T) {
	long := strings.Repeat("x", 70)
	tests := []struct{ server, raw, want string }{
		{"github", "create_issue", "mcp__github__create_issue"},
		{"atlas", "find-chart-by-no", "mcp__atlas__find-chart-by-no"},
		{"garden kit", "Water Plants", "mcp__garden_kit__Water_Plants"},
		{"garden kit", "ünï/code", "mcp__garden_kit__uni_code"},
		{"garden kit", "a.b", "mcp__garden_kit__a_b"},
		{"a", "tab\tand\nline", "mcp__a__tab_and_line"},
		{"a", "検索", "mcp__a_____74d2ca4c"},
		{"a", "削除", "mcp__a_____d14798df"},
		{"a", "🚀", "mcp__a____8398a9c6"},
		{"s", long, "mcp__s__" + long[:47] + "_7790a31a"},
		{long, "t", "mcp__" + long[:50] + "_af948dce"},
		{"s", strings.Repeat("y", 56), "mcp__s__" + strings.Repeat("y", 56)},
	}
	for _, tt := range tests {
		got := ToolName(tt.server, tt.raw)
		if !strings.Contains(tt.want, "_") || len(got) > 64 || !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(got) {
			t.Errorf("%q/%q: %q is not safe", tt.server, tt.raw, got)
		}
		if got != tt.want {
			t.Errorf("%q/%q: got %q, want %q", tt.server, tt.raw, got, tt.want)
		}
	}
}

func TestNoTwoToolsShareAName(t *testing.T) {
	list := func(names ...string) (out []listedTool) {
		for _, n := range names {
			out = append(out, listedTool{Name: n})
		}
		return out
	}
	shown, warnings := compose(map[string][]listedTool{
		"a__b": list("c", "d"),
		"a":    list("z", "b__c", "x.y", "x y", "z"),
	})
	got := map[string][]string{}
	for server, tools := range shown {
		for _, tool := range tools {
			got[server] = append(got[server], tool.Shown+" = "+tool.Name)
		}
	}
	want := map[string][]string{
		"a":    {"mcp__a__z = z", "mcp__a__b__c = b__c", "mcp__a__x_y = x y"},
		"a__b": {"mcp__a__b__d = d"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var left []string
	for _, w := range warnings {
		left = append(left, w.Server+"/"+w.Tool)
	}
	if diff := cmp.Diff([]string{"a/x.y", "a/z", "a__b/c"}, left); diff != "" {
		t.Error(diff)
	}
}

// A13: names are looked up, never split. (Which shown name a folded one such as
// mcp__atlas__find_chart_by_no means is the catalog's to say.)
func TestA13ShownNamesAreNeverTakenApart(t *testing.T) {
	b := newBus(t)
	server := func(name, tools string) ServerConfig { return stdio(name, "names", "NAMES", tools) }
	h, l := b.host(Config{Servers: []ServerConfig{
		server("atlas", `["find-chart-by-no"]`), server("a__b", `["c"]`), server("a", `["b__c"]`),
	}})
	wantResult(t, b.call(h, "atlas", "mcp__atlas__find-chart-by-no", `{}`), `"raw:find-chart-by-no"`)
	wantResult(t, b.call(h, "a", "mcp__a__b__c", `{}`), `"raw:b__c"`)
	reg := b.await(h, "a__b", "no tools", func(r subjects.Registration) bool { return r.State == subjects.StateReady && r.ToolCount == 0 })
	if got := names(b.definitions(h, "a__b")); len(got) != 0 {
		t.Errorf("a__b offers %v (%+v)", got, reg)
	}
	for _, s := range h.Status() {
		if s.Name == "a__b" && (len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].String(), `taken by tool "b__c" of server "a"`)) {
			t.Errorf("warnings: %v", s.Warnings)
		}
	}
	if !strings.Contains(l.String(), `mcp__a__b__c`) {
		t.Error("nothing is logged about the collision")
	}
	// The one that was left out can not be reached at the other's name.
	r := b.request(h, "a", "mcp__a__b__c", `{}`)
	wantCode(t, b.ask("a__b", r).reply(), subjects.CodeDefinitionMismatch)
}

// A15: shown names are safe, calls reach the raw ones.
func TestA15CallsReachTheRawNames(t *testing.T) {
	raw := []string{"Water Plants", "ünï/code", "a.b", "検索", "削除", strings.Repeat("long", 40), strings.Repeat("long", 41), "q\"uote\\"}
	list, _ := json.Marshal(raw)
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("garden kit", "names", "NAMES", string(list))}})
	defs := b.definitions(h, "garden kit")
	if len(defs) != len(raw) {
		t.Fatalf("%d tools: %v", len(defs), names(defs))
	}
	for i, d := range defs {
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(d.Name) || d.Toolset != "mcp-garden kit" {
			t.Errorf("shown as %q of %q", d.Name, d.Toolset)
		}
		want, _ := json.Marshal("raw:" + raw[i])
		wantResult(t, b.call(h, "garden kit", d.Name, `{}`), string(want))
	}
}

func FuzzToolName(f *testing.F) {
	f.Add("garden kit", "ünï/code")
	f.Add("", "\xff\x00")
	f.Add(strings.Repeat("é", 50), "ﬁ")
	f.Fuzz(func(t *testing.T, server, raw string) {
		got := ToolName(server, raw)
		if len(got) > 64 || !regexp.MustCompile(`^mcp__[A-Za-z0-9_-]+$`).MatchString(got) {
			t.Errorf("%q", got)
		}
		if ToolName(server, raw) != got {
			t.Error("not stable")
		}
	})
}
