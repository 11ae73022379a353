package worker_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"toolbridge/worker"
)

func session() string {
	return `{"tools":` + tools(
		tool("terminal", "", "Run a shell command.", "command"),
		tool("mcp__gh__create_issue", "mcp-gh", "Open an issue in a repository.", "repo", "title"),
		tool("mcp__gh__list_releases", "mcp-gh", "List releases.", "repo"),
		tool("mcp__mail__send", "mcp-mail", "Send an email.", "to", "subject"),
	) + `,"context_length":200000,"surface":"cli"}`
}

func TestEqualRequestsGiveEqualBytesAndTheSameCatalogOnEveryWorker(t *testing.T) {
	f := newFleet(t)
	a := f.start(worker.Config{Dev: true})
	first := f.send("toolbridge.v1.t.s1.assemble", session()).Data
	again := f.send("toolbridge.v1.t.s2.assemble", session()).Data
	stop(t, a)
	f.start(worker.Config{Dev: true})
	other := f.send("toolbridge.v1.t.s1.assemble", session()).Data
	if !bytes.Equal(first, again) || !bytes.Equal(first, other) {
		t.Errorf("replies differ:\n%s\n%s\n%s", first, again, other)
	}
	reply := decode(t, first)
	if got := at(t, reply, "deferred_count"); got != 3.0 {
		t.Errorf("deferred_count = %v", got)
	}
	var names []string
	for _, d := range reply["tools"].([]any) {
		names = append(names, at(t, d, "function", "name").(string))
	}
	if diff := cmp.Diff([]string{"terminal", "tool_search", "tool_describe", "tool_call"}, names); diff != "" {
		t.Error(diff)
	}
	if tenant := decode(t, f.send("toolbridge.v1.other.s1.assemble", session()).Data); tenant["catalog"] == reply["catalog"] {
		t.Error("two tenants share a catalog hash")
	}
}

func TestASessionReachesOnlyCatalogsThatItAssembled(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	if got := f.search("s1", ref, "create issue"); text(got) != `["mcp__gh__create_issue"]` {
		t.Errorf("own catalog: %v", got)
	}
	for _, other := range []string{ref, "sha256:" + strings.Repeat("0", 64), "sha256:zz", "nonsense", strings.ToUpper(ref)} {
		if got := code(f.bridge("s2", other, "tool_search", `{"queries":["issue"]}`)); got != "UNKNOWN_CATALOG" {
			t.Errorf("%s from another session: %q", other, got)
		}
		if got := code(f.ask("s2", "preflight", fmt.Sprintf(`{"names":["mcp__gh__create_issue"],"catalog":%q}`, other))); got != "UNKNOWN_CATALOG" {
			t.Errorf("preflight of %s from another session: %q", other, got)
		}
	}
	if got := code(decode(t, f.send("toolbridge.v1.u.s1.bridge", `{"id":"c","name":"tool_search","arguments":{},"catalog":"`+ref+`"}`).Data)); got != "UNKNOWN_CATALOG" {
		t.Errorf("same session name of another tenant: %q", got)
	}
}

func TestAWorkerThatStartsLaterAnswersForEarlierCatalogs(t *testing.T) {
	f := newFleet(t)
	a := f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	before := f.send("toolbridge.v1.t.s1.bridge", `{"id":"c1","name":"tool_describe","arguments":{"names":["mcp__mail__send"]},"catalog":"`+ref+`"}`).Data
	stop(t, a)
	f.start(worker.Config{Dev: true})
	after := f.send("toolbridge.v1.t.s1.bridge", `{"id":"c1","name":"tool_describe","arguments":{"names":["mcp__mail__send"]},"catalog":"`+ref+`"}`).Data
	if !bytes.Equal(before, after) {
		t.Errorf("answers differ:\n%s\n%s", before, after)
	}
	if got := f.search("s1", ref, "send email"); text(got) != `["mcp__mail__send"]` {
		t.Errorf("search = %v", got)
	}
}

func TestRequestsThatNameNothingAreRefusedWithWhatToSend(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	for _, c := range []struct{ verb, body, code, says string }{
		{"assemble", `{}`, "BAD_REQUEST", "tools"},
		{"assemble", `{"tools":{}}`, "BAD_REQUEST", "tools"},
		{"assemble", `not json`, "BAD_REQUEST", "readable"},
		{"assemble", `{"tools":[],"surface":"fridge"}`, "BAD_REQUEST", "desktop"},
		{"assemble", `{"tools":[],"dialect":"cobol"}`, "BAD_REQUEST", "anthropic"},
		{"bridge", `{"id":"c1","name":"tool_search","arguments":{"queries":["x"]}}`, "BAD_REQUEST", "catalog"},
		{"bridge", `{"name":"tool_search","arguments":{},"tools":[]}`, "BAD_REQUEST", "id"},
		{"bridge", `{"id":"a b","name":"tool_search","arguments":{},"tools":[]}`, "BAD_REQUEST", "id"},
		{"bridge", `{"id":"c1","arguments":{},"tools":[]}`, "BAD_REQUEST", "name"},
		{"preflight", `{"names":["x"]}`, "BAD_REQUEST", "catalog"},
		{"preflight", `{"names":[],"catalog":"sha256:0"}`, "BAD_REQUEST", "names"},
	} {
		reply := f.ask("s1", c.verb, c.body)
		if code(reply) != c.code || !strings.Contains(text(reply), c.says) {
			t.Errorf("%s %s = %s, want %s and %q", c.verb, c.body, text(reply), c.code, c.says)
		}
	}
}

func TestABridgeRequestMayCarryItsToolsInPlaceOfACatalog(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	body := `{"id":"c1","name":"tool_search","arguments":"{\"queries\":\"send email\"}",` + session()[1:]
	reply := f.ask("s1", "bridge", body)
	if got := at(t, reply, "result", "results", 0, "matches"); text(got) != `["mcp__mail__send"]` {
		t.Errorf("matches = %s in %s", text(got), text(reply))
	}
}

func TestOneBadDefinitionNeverCostsTheOthers(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	reply := f.assemble("s1", `{"tools":[null,{"name":""},`+tool("mcp__a__x", "mcp-a", "X.")+`,`+tool("mcp__a__x", "mcp-a", "Y.")+`,
		{"name":"tool_search","description":"mine","parameters":{}},{"name":"manage_connections","description":"c","parameters":{}},
		{"name":"mcp__a__bad","description":7,"parameters":"no","toolset":"mcp-a"}]}`)
	warned := map[string]bool{}
	for _, w := range reply["warnings"].([]any) {
		warned[at(t, w, "code").(string)] = true
	}
	for _, want := range []string{"NAME_DUPLICATE", "NAME_RESERVED", "CONNECTORS_UNAVAILABLE", "NAME_MISSING"} {
		if !warned[want] {
			t.Errorf("no warning %s in %s", want, text(reply["warnings"]))
		}
	}
	ref := reply["catalog"].(string)
	if got := f.search("s1", ref, "x"); text(got) != `["mcp__a__x"]` {
		t.Errorf("search = %v", got)
	}
}

func TestADefinitionOfEndlessDepthNeverCostsTheOthers(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	for name, deep := range map[string]string{
		"objects": strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000),
		"lists":   strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000),
		"both":    strings.Repeat(`[{"]}\"[":`, 20_000) + `"["` + strings.Repeat("}]", 20_000),
	} {
		body := `{"tools":[{"name":"mcp__k__a","description":"Tool a."},{"name":"mcp__k__deep","parameters":` + deep + `},{"name":"mcp__k__b","description":"Tool b."}]}`
		reply := f.assemble("s1", body)
		if reply["deferred_count"] != 2.0 || !strings.Contains(text(reply["warnings"]), "TOO_LARGE") {
			t.Errorf("%s: %v deferred, warnings %s", name, reply["deferred_count"], text(reply["warnings"]))
		}
	}
	for _, broken := range []string{`{"tools":` + strings.Repeat("[", 50_000), `{"tools":[],"x":` + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + `,}`} {
		if got := code(f.ask("s1", "assemble", broken)); got != "BAD_REQUEST" {
			t.Errorf("a request that is no JSON: %q", got)
		}
	}
}

func TestTenThousandToolsAreServed(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	list := make([]string, 10_000)
	for i := range list {
		list[i] = tool(fmt.Sprintf("mcp__srv%d__tool_%d", i%50, i), fmt.Sprintf("mcp-srv%d", i%50), fmt.Sprintf("Handle parcel number %d.", i), "parcel")
	}
	reply := f.assemble("s1", `{"tools":`+tools(list...)+`}`)
	if reply["deferred_count"] != 10_000.0 {
		t.Errorf("deferred_count = %v", reply["deferred_count"])
	}
	if got := f.search("s1", reply["catalog"].(string), "tool 7777"); len(got) == 0 || got[0] != "mcp__srv27__tool_7777" {
		t.Errorf("search = %v", got)
	}
}
