package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// describeReply is the payload of tool_describe.
type describeReply struct {
	Tools map[string]struct {
		Description string
		Parameters  json.RawMessage
	}
	NotFound   []string `json:"not_found"`
	Hint       string
	Errors     map[string]string
	Connectors json.RawMessage
	Error      *struct{ Code, Message string }
}

func describe(tb testing.TB, c *Catalog, args string) describeReply {
	tb.Helper()
	payload, isError := c.Describe([]byte(args))
	if !jsontext.Value(payload).IsValid() {
		tb.Fatalf("%s is not strictly valid", payload)
	}
	var r describeReply
	if err := json.Unmarshal(payload, &r); err != nil {
		tb.Fatal(err)
	}
	if isError != (r.Error != nil) {
		tb.Fatalf("is_error %v with %s", isError, payload)
	}
	return r
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func TestDescribeFollowsTheVectors(t *testing.T) {
	var v struct {
		Local []vectorTool `json:"local_catalog"`
		Cases []struct {
			ID    string
			Input struct {
				Args     json.RawMessage
				WithMC   bool `json:"with_manage_connections"`
				Gateway  []json.RawMessage
				Options  json.RawMessage
				Requests []json.RawMessage
			}
			Expect struct {
				Error string
				Tools map[string]struct {
					Description string
					Parameters  json.RawMessage
				}
				NotFound   []string `json:"not_found"`
				Errors     []string
				Connectors json.RawMessage
				Keys       []string
			}
		}
	}
	readVectors(t, "describe.json", &v)
	// The session has two further tools, a core one and a deferred one.
	further := []vectorTool{
		{Name: ptr("terminal"), Description: []byte(`"T"`), Params: []string{"x"}, Toolset: "terminal"},
		{Name: ptr("read_window_below"), Description: []byte(`"G"`), Params: []string{"x"}, Toolset: "desktop_ui"},
	}
	tested := 0
	for _, c := range v.Cases {
		if len(c.Input.Gateway) > 0 || string(c.Expect.Connectors) != "null" && c.Expect.Connectors != nil {
			continue // what the gateway says is not decided here
		}
		tested++
		t.Run(c.ID, func(t *testing.T) {
			tools := append(slices.Clone(v.Local), further...)
			cat := New(Input{Definitions: decode(t, toolsArray(tools)), Connectors: c.Input.WithMC})
			got := describe(t, cat, string(c.Input.Args))
			switch c.Expect.Error {
			case "":
			case "too_many":
				if got.Error == nil || !strings.Contains(got.Error.Message, "11") || !strings.Contains(got.Error.Message, "10") {
					t.Errorf("error %+v", got.Error)
				}
				return
			default:
				if got.Error == nil || got.Error.Code != "INVALID_ARGUMENTS" || !strings.Contains(got.Error.Message, "names") {
					t.Errorf("error %+v, want one about names", got.Error)
				}
				return
			}
			want := c.Expect
			if c.ID == "case_wrong" {
				// A name that differs only in case is the tool it stands for.
				want.NotFound, want.Keys = nil, []string{"tools"}
				want.Tools = v.Cases[0].Expect.Tools
			}
			if diff := cmp.Diff(keys(want.Tools), keys(got.Tools)); diff != "" {
				t.Error(diff)
			}
			for n, w := range want.Tools {
				var p bytes.Buffer
				if err := json.Compact(&p, w.Parameters); err != nil {
					t.Fatal(err)
				}
				if g := got.Tools[n]; g.Description != w.Description || string(g.Parameters) != p.String() {
					t.Errorf("%s: %s %s, want %s %s", n, g.Description, g.Parameters, w.Description, p.String())
				}
			}
			if diff := cmp.Diff(want.NotFound, got.NotFound); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(want.Errors, keys(got.Errors)) {
				t.Errorf("errors %v, want %v", got.Errors, want.Errors)
			}
			payload, _ := cat.Describe(c.Input.Args)
			var all map[string]json.RawMessage
			if err := json.Unmarshal(payload, &all); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(want.Keys)), keys(all)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if tested < 18 {
		t.Errorf("only %d cases were tested", tested)
	}
}

func ptr[T any](v T) *T { return &v }

const calendarTools = `[
 {"type":"function","function":{"name":"mcp__cal__create_event","description":"Create an event.","parameters":{"type":"object","properties":{"title":{"type":"string"},"start":{"type":"string"},"attendees":{"type":"array","items":{"type":"string"}}},"required":["title","start"]}}},
 {"type":"function","function":{"name":"mcp__cal__list_events","description":"List events.","parameters":{"type":"object","properties":{"day":{"type":"string"}}}}},
 {"type":"function","function":{"name":"terminal","description":"Run shell","parameters":{"type":"object"}}}]`

func calendar(tb testing.TB) *Catalog {
	tb.Helper()
	return New(Input{Definitions: decode(tb, []byte(calendarTools))})
}

// D01: one unknown name does not cost the others, and repeats collapse.
func TestD01UnknownNamesDoNotCostTheOthers(t *testing.T) {
	got := describe(t, calendar(t), `{"names":["mcp__cal__list_events","mcp__cal__delete_event","mcp__cal__list_events"]}`)
	if !slices.Equal(keys(got.Tools), []string{"mcp__cal__list_events"}) || !slices.Equal(got.NotFound, []string{"mcp__cal__delete_event"}) || got.Hint == "" {
		t.Errorf("%+v", got)
	}
}

// D02: a directly listed tool is told so, and the rest is described.
func TestD02DirectToolsAreNamedAsSuch(t *testing.T) {
	got := describe(t, calendar(t), `{"names":["terminal","mcp__cal__list_events"]}`)
	if !slices.Equal(keys(got.Tools), []string{"mcp__cal__list_events"}) || len(got.NotFound) > 0 || !strings.Contains(got.Errors["terminal"], "call it directly") {
		t.Errorf("%+v", got)
	}
	lacking := describe(t, calendar(t), `{"names":["web_search"]}`)
	if len(lacking.NotFound) > 0 || !strings.Contains(lacking.Errors["web_search"], "not available in this session") {
		t.Errorf("%+v", lacking)
	}
}

// D03: names have the tolerance and the bounds of queries.
func TestD03NamesInEveryShape(t *testing.T) {
	c := calendar(t)
	if got := describe(t, c, `{"names":"mcp__cal__list_events"}`); len(got.Tools) != 1 {
		t.Errorf("%+v", got)
	}
	got := describe(t, c, `{"names":["n0","n1","n2","n3","n4","n5","n6","n7","n8","n9","n10"]}`)
	if got.Error == nil || !strings.Contains(got.Error.Message, "11") || !strings.Contains(got.Error.Message, "10") {
		t.Errorf("%+v", got.Error)
	}
	for _, args := range []string{`{"names":[]}`, ``, `null`, `{}`, `{"names":{}}`, `{"names":["a"],"names":["b"]}`, `[`, `"x"`} {
		if got := describe(t, c, args); got.Error == nil || got.Error.Code != "INVALID_ARGUMENTS" {
			t.Errorf("%s gives %+v", args, got)
		}
	}
	got = describe(t, c, `"{\"names\":[\"mcp__cal__list_events\",{\"name\":\"x\"},true,7]}"`)
	if len(got.Tools) != 1 || !slices.Equal(keys(got.Errors), []string{"true", `{"name":"x"}`}) || !slices.Equal(got.NotFound, []string{"7"}) {
		t.Errorf("%+v", got)
	}
}

// D04 and D06: the schema comes back whole, byte for byte.
func TestD04D06SchemasComeBackByteForByte(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"filter":{"$ref":"#/$defs/Shaft"}},"required":["filter"],"$defs":{"Shaft":{"type":"object","properties":{"depth":{"type":"integer"},"crate":{"type":"string"}},"required":["depth"]}}}`,
		`{"type":"object","properties":{"id":{"type":"integer","default":9007199254740993,"enum":[9007199254740993, 9007199254740995]}}}`,
		"{ \"b\" : 1.50 ,\n\t\"a\": [1e5, -0.0, \"caf\\u00e9 \\/ <&>\", \"é\"] }",
		`{}`,
		`true`,
	} {
		for _, tool := range []string{
			`{"type":"function","function":{"name":"mcp__mine__survey","description":"Survey a shaft.","parameters":` + schema + `}}`,
			`{"name":"mcp__mine__survey","input_schema":` + schema + `}`,
			`{"name":"mcp__mine__survey","inputSchema":` + schema + `}`,
			`{"type":"function","name":"mcp__mine__survey","parameters":` + schema + `}`,
		} {
			c := New(Input{Definitions: decode(t, []byte("["+tool+"]"))})
			payload, _ := c.Describe([]byte(`{"names":["mcp__mine__survey"]}`))
			if !bytes.Contains(payload, []byte(`"parameters":`+schema+`}`)) {
				t.Errorf("%s\nlacks %s", payload, schema)
			}
		}
	}
}

// D08: searching and describing run nothing: the catalog has no way to.
func TestD08SchemasNeedNoCall(t *testing.T) {
	c := New(Input{Definitions: decode(t, []byte(`[{"type":"function","function":{"name":"mcp__ops__purge_cache","description":"Purge the cache.","parameters":{"type":"object","properties":{"region":{"type":"string"}}}}}]`))})
	found := search(t, c, `{"queries":["purge cache"]}`, SearchOptions{})
	if !slices.Equal(found.Results[0].Matches, []string{"mcp__ops__purge_cache"}) {
		t.Errorf("%+v", found)
	}
	if got := describe(t, c, `{"names":["mcp__ops__purge_cache"]}`); !bytes.Contains(got.Tools["mcp__ops__purge_cache"].Parameters, []byte("region")) {
		t.Errorf("%+v", got)
	}
}

// D09, the part that needs no gateway: names that the gateway could not be asked
// about are not called unknown, and local answers come.
func TestD09NamesOfAnOutageAreNotUnknown(t *testing.T) {
	a, refusal := ParseDescribeArguments([]byte(`{"names":["connectors__gmail__SEND_EMAIL","mcp__cal__list_events","connectors__x__Y"]}`))
	if refusal != nil {
		t.Fatal(refusal)
	}
	payload := calendar(t).Tell(a, DescribeOptions{
		Connectors:     jsontext.Value(`{"status":"unavailable","names":["connectors__gmail__SEND_EMAIL"]}`),
		ConnectorNames: []string{"connectors__gmail__SEND_EMAIL"},
		Remote:         map[string]Described{"connectors__x__Y": {Description: "d"}},
	})
	var got describeReply
	if err := json.Unmarshal(payload, &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(keys(got.Tools), []string{"connectors__x__Y", "mcp__cal__list_events"}) || len(got.NotFound) > 0 || !bytes.Contains(got.Connectors, []byte("unavailable")) {
		t.Errorf("%s", payload)
	}
}

func TestUnusableSchemasAreDescribedAsAnyObject(t *testing.T) {
	c := New(Input{Definitions: decode(t, []byte(`[{"name":"mcp__a__b","inputSchema":"string"},{"name":"mcp__a__c","inputSchema":null}]`))})
	got := describe(t, c, `{"names":["mcp__a__b","mcp__a__c"]}`)
	if p := string(got.Tools["mcp__a__b"].Parameters); p != `{"type":"object"}` {
		t.Errorf("parameters %s", p)
	}
	if p := string(got.Tools["mcp__a__c"].Parameters); p != `{}` {
		t.Errorf("parameters %s", p)
	}
}

func TestNamesThatAreNotExact(t *testing.T) {
	c := New(Input{Definitions: decode(t, []byte(`[{"name":"mcp__a__read-file","description":"1"},{"name":"mcp__b__Go","description":"2"},{"name":"mcp__b__go","description":"3"},{"name":"mcp__c__line\nbreak"}]`))})
	got := describe(t, c, `{"names":["MCP__A__read file","mcp__a__read-file","mcp__b__GO","mcp__b__go","mcp__c__line_break","mcp__x__go"]}`)
	if diff := cmp.Diff([]string{"mcp__a__read-file", "mcp__b__go", "mcp__c__line_break"}, keys(got.Tools)); diff != "" {
		t.Error(diff)
	}
	if e := got.Errors["mcp__b__GO"]; !strings.Contains(e, "mcp__b__Go") || !strings.Contains(e, "mcp__b__go") {
		t.Errorf("errors %v", got.Errors)
	}
	if !slices.Equal(got.NotFound, []string{"mcp__x__go"}) || !strings.Contains(got.Hint, "mcp__b__go") {
		t.Errorf("not found %v, hint %q", got.NotFound, got.Hint)
	}
}

func FuzzDescribeArguments(f *testing.F) {
	f.Add([]byte(`{"names":["mcp__cal__list_events","x"]}`))
	f.Add([]byte(`"{\"names\":\"a\"}"`))
	c := calendar(f)
	f.Fuzz(func(t *testing.T, args []byte) {
		a, refusal := ParseDescribeArguments(args)
		if n := len(a.Names) + len(a.Unreadable); refusal == nil && (n == 0 || n > MaxDescribed) {
			t.Errorf("%q gives %+v", args, a)
		}
		payload, isError := c.Describe(args)
		if isError != (refusal != nil) || !jsontext.Value(payload).IsValid() {
			t.Errorf("%q gives %s", args, payload)
		}
	})
}
