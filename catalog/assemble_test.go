package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type assemblyVectors struct {
	Sets  map[string][]vectorTool `json:"tool_sets"`
	Cases []struct {
		ID    string
		Input struct {
			Tools         string
			Config        json.RawMessage
			ContextLength *int64 `json:"context_length"`
		}
		Expect struct {
			Activated       bool
			Tier            int
			Form            string
			DeferredCount   int `json:"deferred_count"`
			DeferredTokens  int `json:"deferred_tokens"`
			ThresholdTokens int `json:"threshold_tokens"`
			Visible         json.RawMessage
			BridgeAtEnd     bool  `json:"bridge_at_end"`
			ConnectionsHint *bool `json:"connections_hint"`
			ListingEmbedded *bool `json:"listing_embedded"`
		}
	}
}

// toolNames are the names of an assembly's tools.
func toolNames(tb testing.TB, tools [][]byte) []string {
	tb.Helper()
	out := []string{}
	for _, raw := range tools {
		var d struct {
			Name     string
			Function struct{ Name string }
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			tb.Fatalf("%s: %v", raw, err)
		}
		out = append(out, d.Name+d.Function.Name)
	}
	return out
}

func TestAssembleFollowsTheVectors(t *testing.T) {
	// manage_connections is core and direct, never deferred, and so never counted.
	connections := map[string]bool{"a_mc_only_off_200000": true, "a_mc+eager_false_200000": true, "a_mc+small_off_200000": true, "a_mc+small_false_200000": true}
	const itsTokens = 41 // of manage_connections alone

	var v assemblyVectors
	readVectors(t, "assembly.json", &v)
	for _, c := range v.Cases {
		t.Run(c.ID, func(t *testing.T) {
			cfg, _ := ParseConfig(c.Input.Config)
			in := Input{Definitions: each(t, v.Sets[c.Input.Tools]), Config: cfg, Connectors: true}
			if c.Input.ContextLength != nil {
				in.ContextLength = *c.Input.ContextLength
			}
			a := Assemble(in)
			want := c.Expect
			if connections[c.ID] {
				want.DeferredCount--
				if want.DeferredCount == 0 {
					want.DeferredTokens, want.ThresholdTokens = 0, 0
				} else {
					want.DeferredTokens -= itsTokens - 1 // of rounding up the sum
				}
			}
			if a.Activated != want.Activated || a.Tier != want.Tier || a.ListingForm != want.Form {
				t.Errorf("activated %v, tier %d, form %s; want %v, %d, %s", a.Activated, a.Tier, a.ListingForm, want.Activated, want.Tier, want.Form)
			}
			if a.DeferredCount != want.DeferredCount || a.DeferredTokens != want.DeferredTokens || a.ThresholdTokens != want.ThresholdTokens {
				t.Errorf("deferred %d with %d tokens, threshold %d; want %d, %d, %d", a.DeferredCount, a.DeferredTokens, a.ThresholdTokens, want.DeferredCount, want.DeferredTokens, want.ThresholdTokens)
			}
			got := toolNames(t, a.Tools)
			if want.BridgeAtEnd {
				if n := len(got) - 3; n < 0 || !slices.Equal(got[n:], []string{ToolSearch, ToolDescribe, ToolCall}) {
					t.Fatalf("tools %v do not end with the bridges", got)
				} else {
					got = got[:n]
				}
			}
			var visible []string
			if json.Unmarshal(want.Visible, &visible) != nil {
				var count int
				if err := json.Unmarshal(want.Visible, &count); err != nil || count != len(got) {
					t.Errorf("%d visible tools, want %s", len(got), want.Visible)
				}
			} else {
				visible = slices.DeleteFunc(visible, func(n string) bool { return n == "" }) // nameless tools are left out
				if diff := cmp.Diff(visible, got, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
					t.Error(diff)
				}
			}
			if !want.BridgeAtEnd {
				return
			}
			description := searchDescription(t, a)
			if want.ListingEmbedded != nil && (a.Listing != "") != *want.ListingEmbedded {
				t.Errorf("listing %q, want one: %v", a.Listing, *want.ListingEmbedded)
			}
			if !strings.Contains(description, a.Listing) {
				t.Error("the listing does not stand in the description of tool_search")
			}
			if want.ConnectionsHint != nil && strings.Contains(description, ManageConnections) != *want.ConnectionsHint {
				t.Errorf("a sentence on connectors: want %v in %q", *want.ConnectionsHint, description)
			}
		})
	}
}

func searchDescription(tb testing.TB, a Assembly) string {
	tb.Helper()
	for _, raw := range a.Tools {
		var d struct {
			Name, Description string
			Function          struct{ Name, Description string }
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			tb.Fatal(err)
		}
		if d.Name == ToolSearch || d.Function.Name == ToolSearch {
			return d.Description + d.Function.Description
		}
	}
	tb.Fatal("no tool_search")
	return ""
}

// A02: equal definitions give equal bytes, whatever order their servers connected
// in.
func TestA02AssemblyBytesAreStable(t *testing.T) {
	server := func(name string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(`{"name":"mcp__%s__op_%d","description":"Does %d.","inputSchema":{"type":"object","properties":{"z":{},"y":{},"x":{},"b":{},"a":{}}},"toolset":"mcp-%s"}`, name, i, i, name))
		}
		return out
	}
	servers := [][]string{server("alpha", 8), server("beta", 7), server("gamma", 5)}
	direct := []string{`{"name":"terminal","inputSchema":{"b":1,"a":2}}`, `{"name":"memory"}`}
	seen := map[string]int{}
	for range 100 {
		rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
		tools := slices.Concat(direct, servers[0], servers[1], servers[2])
		a := Assemble(Input{Definitions: decode(t, []byte("["+strings.Join(tools, ",")+"]")), ContextLength: 200000})
		seen[string(bytes.Join(a.Tools, []byte("\n")))+a.Listing]++
	}
	if len(seen) != 1 {
		t.Errorf("%d different serialisations", len(seen))
	}
}

func TestBridgesAnswerInTheSessionsDialect(t *testing.T) {
	for first, want := range map[string]string{
		`{"type":"function","function":{"name":"mcp__a__b"}}`: `{"type":"function","function":{"name":"tool_search","description":`,
		`{"type":"function","name":"mcp__a__b"}`:              `{"type":"function","name":"tool_search","description":`,
		`{"name":"mcp__a__b","input_schema":{}}`:              `{"name":"tool_search","description":`,
		`{"name":"mcp__a__b","inputSchema":{}}`:               `{"name":"tool_search","description":`,
		`{"name":"mcp__a__b","parameters":{}}`:                `{"name":"tool_search","description":`,
	} {
		d := decode(t, []byte("["+first+"]"))
		a := Assemble(Input{Definitions: d})
		if len(a.Tools) != 3 || !strings.HasPrefix(string(a.Tools[0]), want) {
			t.Fatalf("%s gives %.100s", first, a.Tools[0])
		}
		var array []byte
		for _, tool := range a.Tools {
			array = append(append(array, ','), tool...)
		}
		array[0] = '['
		bridges, err := decodeBridges(append(array, ']'))
		if err != nil {
			t.Fatal(err)
		}
		required := [][]string{{"queries"}, {"names"}, {"calls"}}
		properties := [][]string{{"queries", "limit"}, {"names"}, {"calls"}}
		for i, b := range bridges {
			if b.Dialect != d[0].Dialect || !slices.Equal(b.Required, required[i]) || !slices.Equal(b.Properties, properties[i]) {
				t.Errorf("%s in %s: %+v", b.Name, d[0].Dialect, b)
			}
		}
	}
	a := Assemble(Input{Definitions: decode(t, []byte(`[{"name":"mcp__a__b","inputSchema":{}}]`)), Dialect: OpenAI})
	if !strings.HasPrefix(string(a.Tools[0]), `{"type":"function","function"`) {
		t.Errorf("the dialect that was asked for is not used: %.80s", a.Tools[0])
	}
}

// decodeBridges reads the bridge tools, whose names Decode refuses.
func decodeBridges(array []byte) ([]Definition, error) {
	for _, n := range []string{ToolSearch, ToolDescribe, ToolCall} {
		array = bytes.Replace(array, []byte(`"name":"`+n+`"`), []byte(`"name":"`+n+`_"`), 1)
	}
	d, _, err := Decode(array, Limits{})
	return d, err
}

func TestVisibleToolsComeBackByteForByteBesideBridges(t *testing.T) {
	const visible = "{ \"type\":\"function\", \"function\":{\"parameters\":{\"n\":9007199254740993,\"f\":1.50},\n\"name\":\"terminal\",\"description\":\"caf\\u00e9 é <&>\"} }"
	a := Assemble(Input{Definitions: decode(t, []byte("["+visible+`,{"name":"mcp__a__b"}]`))})
	if len(a.Tools) != 4 || string(a.Tools[0]) != visible {
		t.Errorf("%s", a.Tools[0])
	}
}

func TestRegistryToolsAreShownInTheSessionsDialect(t *testing.T) {
	d := append(decode(t, []byte(`[{"name":"terminal","input_schema":{}}]`)), decode(t, []byte(`[{"name":"setup_x","description":"d","inputSchema":{"a":1.0},"toolset":"setup"},{"name":"mcp__a__b","inputSchema":{}}]`))...)
	d[1].Registry, d[2].Registry = true, true
	a := Assemble(Input{Definitions: d})
	if got := string(a.Tools[1]); got != `{"name":"setup_x","description":"d","input_schema":{"a":1.0}}` {
		t.Errorf("%s", got)
	}
	if want := tokens(len(`{"name":"mcp__a__b","description":"","input_schema":{}}`)); a.DeferredTokens != want {
		t.Errorf("%d tokens, want %d", a.DeferredTokens, want)
	}
}

func TestConnectorsWithoutDeferredTools(t *testing.T) {
	d := decode(t, []byte(`[{"name":"terminal"},{"name":"manage_connections","toolset":"connections"}]`))
	a := Assemble(Input{Definitions: d, Connectors: true})
	if !a.Activated || a.Tier != TierSearch || a.ListingForm != FormNone || a.DeferredCount != 0 || a.ThresholdTokens != 0 || len(a.Tools) != 5 {
		t.Errorf("%+v", a)
	}
	if text := searchDescription(t, a); strings.Contains(text, "0 ") || !strings.Contains(text, ManageConnections) {
		t.Errorf("description %q", text)
	}
	// In a list that names it, it stays direct.
	a = Assemble(Input{Definitions: d, Connectors: true, Config: mustConfig(t, `{"defer":["manage_connections"]}`)})
	if a.DeferredCount != 0 || !slices.Contains(toolNames(t, a.Tools), ManageConnections) {
		t.Errorf("%+v", a)
	}
	// Where connectors are not available it goes, with a warning.
	a = Assemble(Input{Definitions: d})
	if a.Activated || len(a.Tools) != 1 || len(a.Warnings) != 1 || a.Warnings[0].Tool != ManageConnections {
		t.Errorf("%+v", a)
	}
	a = Assemble(Input{Definitions: d, Connectors: true, Config: mustConfig(t, `false`)})
	if a.Activated || len(a.Tools) != 2 {
		t.Errorf("%+v", a)
	}
}

// A21, the part that needs no server: a source that is still connecting is told,
// also when there is nothing else to defer.
func TestA21ConnectingSourcesAreListed(t *testing.T) {
	a := Assemble(Input{Definitions: decode(t, []byte(`[{"name":"terminal"}]`)), Unavailable: []Unavailable{{Label: "mcp-github", Reason: "connecting"}}})
	if !a.Activated || !strings.Contains(searchDescription(t, a), "github (not available now: connecting)") {
		t.Errorf("%+v", a)
	}
	c := New(Input{Unavailable: []Unavailable{{Label: "mcp-github", Reason: "connecting"}}})
	payload, _ := c.Search([]byte(`{"queries":["issue"]}`), SearchOptions{})
	if !strings.Contains(string(payload), `"available_sources":[{"name":"github","tool_count":0,"unavailable":"connecting"}]`) {
		t.Errorf("%s", payload)
	}
}

func TestSearchDescriptionCountsAndFrames(t *testing.T) {
	for _, c := range []struct {
		config string
		form   string
		says   []string
	}{
		{`{"listing_max_tokens":4000}`, FormFull, []string{"2 tools", "skip the search"}},
		{`{"listing":"off"}`, FormNone, []string{"2 tools", "Search before"}},
		{`{"threshold_pct":0}`, FormNone, []string{"2 tools", "Search before"}},
	} {
		a := Assemble(Input{Definitions: decode(t, []byte(`[{"name":"mcp__a__b","description":"Does."},{"name":"mcp__c__d"}]`)), Config: mustConfig(t, c.config), ContextLength: 100000})
		text := searchDescription(t, a)
		if a.ListingForm != c.form {
			t.Errorf("%s: form %s", c.config, a.ListingForm)
		}
		for _, s := range c.says {
			if !strings.Contains(text, s) {
				t.Errorf("%s: %q lacks %q", c.config, text, s)
			}
		}
	}
}

func TestASessionThatConnectsNothingIsNotToldOfManageConnections(t *testing.T) {
	defs, _, err := Decode([]byte(`[{"name":"manage_connections","description":"d","parameters":{}}]`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, enabled := range []Switch{Auto, Off} {
		in := Input{Definitions: defs, Config: Config{Enabled: enabled}, Connectors: true, ConnectOnly: true}
		for _, tool := range Assemble(in).Tools {
			if bytes.Contains(tool, []byte("manage_connections")) {
				t.Errorf("enabled %v: shown %s", enabled, tool)
			}
		}
		if c := New(in); !c.Connectors() || c.Resolve("manage_connections").Definition != nil {
			t.Errorf("enabled %v: it has no connectors, or resolves their tool", enabled)
		}
	}
}
