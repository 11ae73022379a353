package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"toolbridge/catalog/index"
)

// searchReply is the payload of tool_search.
type searchReply struct {
	Queries        []string
	TotalAvailable int `json:"total_available"`
	Results        []searchResult
	Tools          map[string]searchRecord
	Connectors     json.RawMessage
	Error          *struct{ Code, Message string }
}

type searchResult struct {
	Query            string
	Matches          []string
	NearMatches      []string `json:"near_matches"`
	UnmatchedTerms   []string `json:"unmatched_terms"`
	AvailableSources []struct {
		Name        string
		ToolCount   int `json:"tool_count"`
		Unavailable string
	} `json:"available_sources"`
	Hint string
}

type searchRecord struct {
	Source      string
	SourceName  string `json:"source_name"`
	Description string
	Required    []string
}

func search(tb testing.TB, c *Catalog, args string, o SearchOptions) searchReply {
	tb.Helper()
	payload, isError := c.Search([]byte(args), o)
	var r searchReply
	if err := json.Unmarshal(payload, &r); err != nil {
		tb.Fatalf("%s: %v", payload, err)
	}
	if !jsontext.Value(payload).IsValid() {
		tb.Fatalf("%s is not strictly valid", payload)
	}
	if isError != (r.Error != nil) {
		tb.Fatalf("is_error %v with %s", isError, payload)
	}
	return r
}

func mustConfig(tb testing.TB, raw string) Config {
	tb.Helper()
	c, warnings := ParseConfig([]byte(raw))
	if len(warnings) > 0 {
		tb.Fatal(warnings)
	}
	return c
}

// caseTool is a tool of the search cases.
type caseTool struct {
	Name, Toolset, Description string
	Params                     []string
}

func caseTools(tools ...caseTool) []byte {
	var list []vectorTool
	for _, c := range tools {
		list = append(list, vectorTool{Name: &c.Name, Description: jsonText(c.Description), Params: c.Params, Toolset: c.Toolset})
	}
	return toolsArray(list)
}

// TestSearchFollowsTheVectors covers the local part of a search: the cases in
// which the gateway adds no tool.
func TestSearchFollowsTheVectors(t *testing.T) {
	var v struct {
		Local []vectorTool `json:"local_catalog"`
		Cases []struct {
			ID    string
			Input struct {
				Args    json.RawMessage
				Catalog string
			}
			Expect struct {
				Error          string
				Queries        []string
				TotalAvailable int `json:"total_available"`
				Results        []struct {
					Query            string
					Matches          []string
					AvailableSources json.RawMessage `json:"available_sources"`
					HasHint          bool            `json:"has_hint"`
				}
				Tools map[string]struct {
					Source           string
					SourceName       string `json:"source_name"`
					Required         []any
					DescriptionChars int `json:"description_chars"`
				}
				Keys []string
			}
		}
	}
	readVectors(t, "connector_search.json", &v)
	kept := map[string]string{"not_array": "queries", "empty": "queries", "too_many": "8"}
	tested := 0
	for _, c := range v.Cases {
		remote := false
		for name := range c.Expect.Tools {
			remote = remote || IsConnector(name)
		}
		if remote {
			continue
		}
		tested++
		t.Run(c.ID, func(t *testing.T) {
			tools := v.Local
			if c.Input.Catalog == "mc_only" {
				tools = tools[len(tools)-1:]
			}
			cat := New(Input{Definitions: decode(t, toolsArray(tools)), Config: mustConfig(t, `{"ranking":"reference"}`), Connectors: true})
			got := search(t, cat, string(c.Input.Args), SearchOptions{})
			if c.Expect.Error != "" {
				if got.Error == nil || got.Error.Code != "INVALID_ARGUMENTS" || !strings.Contains(got.Error.Message, kept[c.Expect.Error]) {
					t.Errorf("error %+v, want one about %q", got.Error, kept[c.Expect.Error])
				}
				return
			}
			if diff := cmp.Diff(c.Expect.Queries, got.Queries); diff != "" {
				t.Error(diff)
			}
			if got.TotalAvailable != c.Expect.TotalAvailable {
				t.Errorf("total_available %d, want %d", got.TotalAvailable, c.Expect.TotalAvailable)
			}
			if len(got.Results) != len(c.Expect.Results) {
				t.Fatalf("%d results, want %d", len(got.Results), len(c.Expect.Results))
			}
			for i, want := range c.Expect.Results {
				r := got.Results[i]
				if r.Query != want.Query || !slices.Equal(r.Matches, want.Matches) {
					t.Errorf("%q gives %v, want %q %v", r.Query, r.Matches, want.Query, want.Matches)
				}
				if (r.Hint != "") != want.HasHint {
					t.Errorf("hint %q, want one: %v", r.Hint, want.HasHint)
				}
				var sources []map[string]any
				if err := json.Unmarshal(want.AvailableSources, &sources); err != nil {
					t.Fatal(err)
				}
				if len(sources) != len(r.AvailableSources) {
					t.Errorf("sources %v, want %s", r.AvailableSources, want.AvailableSources)
				}
				for j, s := range r.AvailableSources {
					if s.Name != sources[j]["name"] || float64(s.ToolCount) != sources[j]["tool_count"] {
						t.Errorf("source %v, want %v", s, sources[j])
					}
				}
				if r.NearMatches != nil || r.UnmatchedTerms != nil {
					t.Errorf("near matches %v, unmatched terms %v under the reference ranking", r.NearMatches, r.UnmatchedTerms)
				}
			}
			if len(got.Tools) != len(c.Expect.Tools) {
				t.Errorf("tools %v, want %v", got.Tools, c.Expect.Tools)
			}
			for name, want := range c.Expect.Tools {
				r := got.Tools[name]
				if r.Source != want.Source || r.SourceName != want.SourceName || chars(r.Description) != want.DescriptionChars || fmt.Sprint(r.Required) != fmt.Sprint(want.Required) {
					t.Errorf("%s: %+v, want %+v", name, r, want)
				}
			}
		})
	}
	if tested < 20 {
		t.Errorf("only %d cases were tested", tested)
	}
}

var pagerTools = caseTools(
	caseTool{"mcp__pager__create_incident", "mcp-pager", "Open an incident and notify responders by email.", []string{"title", "service"}},
	caseTool{"mcp__pager__escalate_incident", "mcp-pager", "Escalate an incident; the next level gets an email.", []string{"incident_id"}},
	caseTool{"mcp__crm__team_members", "mcp-crm", "List team members with name and email address.", nil},
	caseTool{"mcp__crm__remove_team_member", "mcp-crm", "Remove a member from a team by email.", []string{"email"}},
	caseTool{"mcp__media__video_analyze", "mcp-media", "Analyze a video file and send back a summary.", []string{"path"}},
)

// S19: a batch beyond what the hosted route answers is refused at once, and the
// message says how many are allowed.
func TestS19TooManyQueriesAreRefused(t *testing.T) {
	c := New(Input{Definitions: decode(t, pagerTools)})
	got := search(t, c, `{"queries":["a1","a2","a3","a4","a5","a6","a7","a8"]}`, SearchOptions{})
	if got.Error == nil || !strings.Contains(got.Error.Message, "8") || !strings.Contains(got.Error.Message, "7") {
		t.Errorf("error %+v", got.Error)
	}
	if got := search(t, c, `{"queries":["a1","a2","a3","a4","a5","a6","a7"," ",null]}`, SearchOptions{}); got.Error != nil {
		t.Errorf("blank queries count: %+v", got.Error)
	}
}

// S20: limits arrive as text, null, fractions, zero and huge.
func TestS20LimitsAreReadAndClamped(t *testing.T) {
	var tools []caseTool
	for i := range 30 {
		tools = append(tools, caseTool{fmt.Sprintf("mcp__n__ping_%d", i), "mcp-n", "Ping host.", []string{"host"}})
	}
	c := New(Input{Definitions: decode(t, caseTools(tools...)), Config: mustConfig(t, `{"search_default_limit":5,"max_search_limit":25}`)})
	for limit, want := range map[string]int{
		`null`: 5, `"3"`: 3, `0`: 1, `-4`: 1, `999`: 25, `"many"`: 5, `2.9`: 2,
		`1e400`: 25, `true`: 1, `"2.9"`: 5, `[2]`: 5, `{}`: 5, `"-0"`: 1, `99999999999999999999`: 25, `"NaN"`: 5,
	} {
		for _, ranking := range []string{"standard", "reference"} {
			c := New(Input{Definitions: slices.Collect(values(c.Deferred())), Config: mustConfig(t, `{"search_default_limit":5,"max_search_limit":25,"ranking":"`+ranking+`"}`)})
			got := search(t, c, `{"queries":["ping host"],"limit":`+limit+`}`, SearchOptions{})
			if n := len(got.Results[0].Matches); n != want {
				t.Errorf("%s: limit %s gives %d matches, want %d", ranking, limit, n, want)
			}
		}
	}
	if got := search(t, c, `{"queries":["ping host"]}`, SearchOptions{}); len(got.Results[0].Matches) != 5 {
		t.Errorf("no limit gives %d matches", len(got.Results[0].Matches))
	}
}

func values(in func(func(*Definition) bool)) func(func(Definition) bool) {
	return func(yield func(Definition) bool) {
		in(func(d *Definition) bool { return yield(*d) })
	}
}

// S21: queries arrive as one string, with blanks, or not at all.
func TestS21QueriesInEveryShape(t *testing.T) {
	c := New(Input{Definitions: decode(t, pagerTools)})
	for _, x := range []struct {
		args   string
		groups int // 0: an error
	}{
		{`{"queries": "escalate incident"}`, 1},
		{`{"queries": ["", " ", "escalate incident"]}`, 1},
		{`{"queries": []}`, 0},
		{`{"queries": [" "]}`, 0},
		{`{"queries": {"q": "x"}}`, 0},
		{`{}`, 0},
		{``, 0},
		{`null`, 0},
		{`""`, 0},
		{`[]`, 0},
		{`"not json"`, 0},
		{`{"queries":["a"]} x`, 0},
		{`{"queries":`, 0},
		{`{"queries":["a"],"queries":["b"]}`, 0},
		{`{"queries":[true]}`, 0},
		{`{"queries":[["a"]]}`, 0},
		{`"{\"queries\": [\"escalate incident\"]}"`, 1},
		{` "{\"queries\": \"escalate\"}" `, 1},
		{`{"queries": [5, 0, false, null, {}, []]}`, 1},
		{`{"queries": ["` + strings.Repeat("x", 4001) + `"]}`, 0},
	} {
		got := search(t, c, x.args, SearchOptions{})
		if x.groups == 0 {
			if got.Error == nil || got.Error.Code != "INVALID_ARGUMENTS" || !strings.Contains(got.Error.Message, "queries") {
				t.Errorf("%s gives %+v, want an error about queries", x.args, got)
			}
			continue
		}
		if got.Error != nil || len(got.Results) != x.groups {
			t.Errorf("%s gives %+v, want %d groups", x.args, got, x.groups)
		}
	}
	// The tool that was meant is found through each of the shapes.
	for _, args := range []string{`{"queries": "escalate incident"}`, `"{\"queries\": [\"escalate incident\"]}"`} {
		if got := search(t, c, args, SearchOptions{}); got.Results[0].Matches[0] != "mcp__pager__escalate_incident" {
			t.Errorf("%s finds %v", args, got.Results[0].Matches)
		}
	}
}

// S22: equal scores keep the order of the catalog, every time.
func TestS22TiesKeepCatalogOrder(t *testing.T) {
	var tools []caseTool
	want := []string{}
	for i := range 30 {
		n := fmt.Sprintf("mcp__probe__t%02d", i)
		tools = append(tools, caseTool{n, "mcp-probe", "Ping host.", []string{"host"}})
		if i < 5 {
			want = append(want, n)
		}
	}
	d := decode(t, caseTools(tools...))
	var first []byte
	for range 50 {
		c := New(Input{Definitions: d})
		payload, _ := c.Search([]byte(`{"queries":["ping host"],"limit":5}`), SearchOptions{})
		if first == nil {
			first = payload
			if got := search(t, c, `{"queries":["ping host"],"limit":5}`, SearchOptions{}); !slices.Equal(got.Results[0].Matches, want) {
				t.Errorf("matches %v, want %v", got.Results[0].Matches, want)
			}
		}
		if string(payload) != string(first) {
			t.Fatalf("%s\nthen %s", first, payload)
		}
	}
}

// S25: searches side by side on one catalog agree.
func TestS25ParallelSearchesAgree(t *testing.T) {
	c := New(Input{Definitions: decode(t, pagerTools)})
	const args = `{"queries":["escalating incidents","members emails"]}`
	want, _ := New(Input{Definitions: decode(t, pagerTools)}).Search([]byte(args), SearchOptions{})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 20 {
				if got, _ := c.Search([]byte(args), SearchOptions{}); string(got) != string(want) {
					t.Errorf("%s, want %s", got, want)
					return
				}
			}
		})
	}
	wg.Wait()
	got := search(t, c, args, SearchOptions{})
	if !slices.Equal(got.Results[0].Matches, []string{"mcp__pager__escalate_incident"}) ||
		!slices.Equal(got.Results[1].Matches, []string{"mcp__crm__remove_team_member", "mcp__crm__team_members"}) {
		t.Errorf("results %+v", got.Results)
	}
}

func TestNearMatchesStandInToolsBesideSourcesAndHint(t *testing.T) {
	c := New(Input{Definitions: decode(t, pagerTools), Unavailable: []Unavailable{{Label: "mcp-jira", ToolCount: 4, Reason: "connecting"}, {Label: "crm", Reason: "x"}}})
	got := search(t, c, `{"queries":["zeppelin incident"],"limit":3}`, SearchOptions{})
	r := got.Results[0]
	if len(r.Matches) != 0 || len(r.NearMatches) == 0 || len(r.NearMatches) > 3 {
		t.Fatalf("matches %v, near matches %v", r.Matches, r.NearMatches)
	}
	for _, n := range r.NearMatches {
		if _, ok := got.Tools[n]; !ok {
			t.Errorf("%s does not stand in tools", n)
		}
	}
	if !slices.Equal(r.UnmatchedTerms, []string{"zeppelin"}) {
		t.Errorf("unmatched terms %v", r.UnmatchedTerms)
	}
	if r.Hint == "" {
		t.Error("no hint")
	}
	var sources []string
	for _, s := range r.AvailableSources {
		sources = append(sources, fmt.Sprintf("%s %d %s", s.Name, s.ToolCount, s.Unavailable))
	}
	if diff := cmp.Diff([]string{"crm 2 ", "jira 4 connecting", "media 1 ", "pager 2 "}, sources); diff != "" {
		t.Error(diff)
	}

	off := New(Input{Definitions: decode(t, pagerTools), Config: mustConfig(t, `{"near_matches":"off"}`)})
	if r := search(t, off, `{"queries":["zeppelin incident"]}`, SearchOptions{}).Results[0]; r.NearMatches != nil || r.UnmatchedTerms != nil || r.Hint == "" {
		t.Errorf("near_matches: off gives %+v", r)
	}
}

func TestRemoteToolsAreRankedCountedAndRecorded(t *testing.T) {
	c := New(Input{Definitions: decode(t, pagerTools), Connectors: true})
	long := strings.Repeat("é", 600)
	remote := []Remote{
		{Document: index.Document{Name: "connectors__gmail__SEND_EMAIL", SourceLabel: "gmail", Description: "Send an email from gmail"}, SourceName: "gmail", Description: long, Required: slices.Repeat([]string{strings.Repeat("r", 70)}, 40)},
		{Document: index.Document{Name: "connectors__gmail__DELETE", SourceLabel: "gmail", Description: "Delete a thread"}, SourceName: "gmail"},
	}
	got := search(t, c, `{"queries":["gmail send email","gmail email"]}`, SearchOptions{Remote: [][]Remote{remote, remote}, Connectors: jsontext.Value(`{"status":"ok"}`)})
	if m := got.Results[0].Matches; len(m) == 0 || m[0] != "connectors__gmail__SEND_EMAIL" {
		t.Errorf("matches %v", m)
	}
	r := got.Tools["connectors__gmail__SEND_EMAIL"]
	if r.Source != "connectors" || r.SourceName != "gmail" || chars(r.Description) != 501 || len(r.Required) != 32 || len(r.Required[0]) != 64 {
		t.Errorf("record %+v", r)
	}
	distinct := 0
	for n := range got.Tools {
		if IsConnector(n) {
			distinct++
		}
	}
	if got.TotalAvailable != 5+distinct || string(got.Connectors) != `{"status":"ok"}` {
		t.Errorf("total_available %d with %d connectors' tools, connectors %s", got.TotalAvailable, distinct, got.Connectors)
	}
}

// G05: hidden tools leak through no side door of a search.
func TestG05SearchKnowsOnlyItsCatalog(t *testing.T) {
	c := New(Input{Definitions: decode(t, []byte(`[{"name":"mcp__hr__list","description":"List people."}]`))})
	payload, _ := c.Search([]byte(`{"queries":["fire employee"]}`), SearchOptions{})
	if strings.Contains(string(payload), "fire_employee") || !strings.Contains(string(payload), `"total_available":1`) {
		t.Errorf("%s", payload)
	}
	for _, answer := range [][]byte{c.Answer("fire_employee"), []byte(c.Resolve("fire_employee").Refusal().Message)} {
		if strings.Contains(string(answer), "mcp__hr__fire_employee") {
			t.Errorf("%s", answer)
		}
	}
}

func FuzzSearchArguments(f *testing.F) {
	f.Add([]byte(`{"queries":["a"],"limit":"3"}`))
	f.Add([]byte(`"{\"queries\":\"a\"}"`))
	c := New(Input{Definitions: decode(f, pagerTools)})
	f.Fuzz(func(t *testing.T, args []byte) {
		a, refusal := ParseSearchArguments(args, c.Config())
		if refusal == nil && (len(a.Queries) == 0 || len(a.Queries) > MaxQueries || a.Limit < 1 || a.Limit > 25 || slices.Contains(a.Queries, "")) {
			t.Errorf("%q gives %+v", args, a)
		}
		payload, isError := c.Search(args, SearchOptions{})
		if isError != (refusal != nil) || !jsontext.Value(payload).IsValid() {
			t.Errorf("%q gives %s", args, payload)
		}
	})
}

func TestRecordsAreWrittenOnceAndCounted(t *testing.T) {
	d, _, err := Decode(benchTools(60), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c := New(Input{Definitions: d, ContextLength: 200_000})
	c.Prepare()
	before := c.Bytes()
	args := []byte(`{"queries":["create issue workspace","server03","create"],"limit":5}`)
	first, _ := c.Search(args, SearchOptions{})
	after := c.Bytes()
	again, _ := c.AppendSearch([]byte("x"), args, SearchOptions{})
	if "x"+string(first) != string(again) {
		t.Errorf("answers differ:\n%s\n%s", first, again)
	}
	if after <= before || c.Bytes() != after {
		t.Errorf("%d bytes, %d after a search, %d after another", before, after, c.Bytes())
	}
}
