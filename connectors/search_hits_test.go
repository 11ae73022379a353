package connectors

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"toolbridge/catalog"
)

func schema(connector, description, input string) ToolSchema {
	return ToolSchema{Connector: connector, Description: description, InputSchema: json.RawMessage(input)}
}

func names(group []catalog.Remote) []string {
	out := []string{}
	for _, r := range group {
		out = append(out, r.Document.Name)
	}
	return out
}

func TestAnAnswersGroupsBecomeTools(t *testing.T) {
	gmail := map[string]ToolSchema{
		"GMAIL_SEND_EMAIL": schema("gmail", "Send", `{"required":["to",1,null,""]}`),
		"GMAIL_DELETE":     schema("gmail", "Delete", `{}`),
		"LITERAL":          schema("gmail", "Literal", ``),
		"BARE":             schema("", "No connector", `{}`),
		"CUSTOM_X_READ":    schema("CUSTOM_X", "Read", `[]`),
		"X_":               schema("x", "Nothing left of the name", `{}`),
		"a b":              schema("gmail", "A space", `{}`),
		"NEW\nLINE":        schema("gmail", "A line break", `{}`),
		"HIDDEN\u202e":     schema("gmail", "A mark", `{}`),
		"A__B_C":           schema("a__b", "Another connector's name", `{}`),
	}
	for _, c := range []struct {
		name    string
		queries []string
		results []SearchGroup
		want    [][]string
	}{
		{
			"by position, whatever the index says",
			[]string{"p", "q"},
			[]SearchGroup{{Index: 1, Tools: []string{"GMAIL_DELETE"}}, {Index: 0, Tools: []string{"GMAIL_SEND_EMAIL"}}},
			[][]string{{"connectors__gmail__DELETE"}, {"connectors__gmail__SEND_EMAIL"}},
		},
		{
			"a group that echoes another query is dropped",
			[]string{"p", "q"},
			[]SearchGroup{{UseCase: "q", Tools: []string{"GMAIL_DELETE"}}, {UseCase: "q", Tools: []string{"GMAIL_DELETE"}}},
			[][]string{{}, {"connectors__gmail__DELETE"}},
		},
		{
			"more groups than queries",
			[]string{"p"},
			[]SearchGroup{{Tools: []string{"GMAIL_DELETE"}}, {Tools: []string{"GMAIL_SEND_EMAIL"}}},
			[][]string{{"connectors__gmail__DELETE"}},
		},
		{
			"fewer groups than queries",
			[]string{"p", "q"},
			[]SearchGroup{{Tools: []string{"GMAIL_DELETE"}}},
			[][]string{{"connectors__gmail__DELETE"}},
		},
		{
			"a group's error is ignored",
			[]string{"p"},
			[]SearchGroup{{Error: json.RawMessage(`"down"`), Tools: []string{"GMAIL_DELETE"}}},
			[][]string{{"connectors__gmail__DELETE"}},
		},
		{
			"what has no schema, no connector or no name is dropped",
			[]string{"p"},
			[]SearchGroup{{Tools: []string{"NOPE", "BARE", "", "X_", "LITERAL"}}},
			[][]string{{"connectors__gmail__LITERAL"}},
		},
		{
			"what can not be shown is dropped",
			[]string{"p"},
			[]SearchGroup{{Tools: []string{"a b", "NEW\nLINE", "HIDDEN\u202e", "GMAIL_DELETE"}}},
			[][]string{{"connectors__gmail__DELETE"}},
		},
		{
			"a name that would run another connector's tool is dropped",
			[]string{"p"},
			[]SearchGroup{{Tools: []string{"A__B_C"}}},
			[][]string{{}},
		},
		{
			"a slug that stands twice is one tool",
			[]string{"p"},
			[]SearchGroup{{Tools: []string{"GMAIL_DELETE", "GMAIL_DELETE"}}},
			[][]string{{"connectors__gmail__DELETE"}},
		},
		{
			"connectors are lower-cased in names",
			[]string{"p"},
			[]SearchGroup{{Tools: []string{"CUSTOM_X_READ"}}},
			[][]string{{"connectors__custom_x__READ"}},
		},
		{"no groups", []string{"p"}, nil, [][]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			groups, twins := readGroups(&SearchReply{Results: c.results, Schemas: gmail}, c.queries)
			got := [][]string{}
			for _, g := range groups {
				got = append(got, names(g))
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(twins) > 0 {
				t.Errorf("twins %v, %s", twins, diff)
			}
		})
	}
	groups, _ := readGroups(&SearchReply{Results: []SearchGroup{{Tools: []string{"CUSTOM_X_READ", "GMAIL_SEND_EMAIL"}}}, Schemas: gmail}, []string{"p"})
	if r := groups[0][0]; r.SourceName != "CUSTOM_X" || r.Document.Text != "custom x CUSTOM X __READ" {
		t.Errorf("source %q, text %q", r.SourceName, r.Document.Text)
	}
	if r := groups[0][1]; !slices.Equal(r.Required, []string{"to"}) || r.Description != "Send" || r.Document.Properties != nil {
		t.Errorf("%+v", r)
	}
}

// K14, in search: of two slugs that compose to one name only the one that the name
// would run is shown, whichever group or place it stands in.
func TestK14TheShownNameRunsWhatIsShown(t *testing.T) {
	both := map[string]ToolSchema{
		"GMAIL_SEND_EMAIL": schema("gmail", "prefixed", `{}`),
		"SEND_EMAIL":       schema("gmail", "literal", `{}`),
	}
	for _, c := range []struct {
		name    string
		groups  []SearchGroup
		want    []string // descriptions of all groups
		dropped int
	}{
		{"prefixed first", []SearchGroup{{Tools: []string{"GMAIL_SEND_EMAIL", "SEND_EMAIL"}}}, []string{"prefixed"}, 1},
		{"literal first", []SearchGroup{{Tools: []string{"SEND_EMAIL", "GMAIL_SEND_EMAIL"}}}, []string{"prefixed"}, 1},
		{"in two groups", []SearchGroup{{Tools: []string{"SEND_EMAIL"}}, {Tools: []string{"GMAIL_SEND_EMAIL"}}}, []string{"prefixed"}, 1},
		{"only the literal one is found, but the other exists", []SearchGroup{{Tools: []string{"SEND_EMAIL"}}}, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			groups, twins := readGroups(&SearchReply{Results: c.groups, Schemas: both}, []string{"p", "q"})
			var got []string
			for _, g := range groups {
				for _, r := range g {
					got = append(got, r.Description)
				}
			}
			if !slices.Equal(got, c.want) || len(twins) != c.dropped {
				t.Errorf("shown %v, want %v; twins %v", got, c.want, twins)
			}
		})
	}
	alone := map[string]ToolSchema{"SEND_EMAIL": both["SEND_EMAIL"], "GMAIL_SEND_EMAIL": schema("outlook", "another's", `{}`)}
	if groups, twins := readGroups(&SearchReply{Results: []SearchGroup{{Tools: []string{"SEND_EMAIL"}}}, Schemas: alone}, []string{"p"}); len(groups[0]) != 1 || len(twins) != 0 {
		t.Errorf("a slug of another connector makes a twin: %v, %v", groups, twins)
	}
}

// The accounts to choose from stand at the end of what is shown, however long the
// description is, and take no part in the ranking.
func TestAccountsAreShownInDescriptions(t *testing.T) {
	input := `{"properties":{"connector_alias":{"type":"string","enum":["work","home",3,"line\nbreak"]}}}`
	groups, _ := readGroups(&SearchReply{Results: []SearchGroup{{Tools: []string{"A", "B"}}}, Schemas: map[string]ToolSchema{
		"A": schema("gmail", "Sends.", input), "B": schema("gmail", strings.Repeat("x", 5000), input),
	}}, []string{"p"})
	const accounts = "Accounts (connector_alias): work, home, line break."
	if d := groups[0][0].Description; d != "Sends. "+accounts {
		t.Errorf("description %q", d)
	}
	if d := groups[0][1].Description; !strings.HasSuffix(d, "… "+accounts) || utf8.RuneCountInString(d) > 500 {
		t.Errorf("description of %d characters: …%s", utf8.RuneCountInString(d), d[len(d)-60:])
	}
	if d := groups[0][0].Document.Description; d != "Sends." {
		t.Errorf("ranked by %q", d)
	}
	many := `{"properties":{"connector_alias":{"enum":[` + strings.Repeat(`"a",`, 5000) + `"b"]}}}`
	s := schema("gmail", "d", many)
	if d := described(&s); len(d.Description) > 200 || string(d.Parameters) != many {
		t.Errorf("description %q", d.Description)
	}
}

func TestADescribedToolKeepsItsSchema(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"object","properties":{"n":{"minimum":12345678901234567890.10}}}`: `{"type":"object","properties":{"n":{"minimum":12345678901234567890.10}}}`,
		`{"b":1,"a":2}`: `{"b":1,"a":2}`,
		``:              ``, `null`: ``, `[]`: ``, `"x"`: ``, `{`: ``, "{\"d\":\"\xff\"}": "{\"d\":\"\uFFFD\"}",
	} {
		s := schema("gmail", "two\nlines\x00", in)
		got := described(&s)
		if string(got.Parameters) != want || got.Description != "two lines" {
			t.Errorf("%s gives %q, %s", in, got.Description, got.Parameters)
		}
	}
}

// An answer of any size costs a bounded number of tools and bytes.
func TestAHugeAnswerIsBounded(t *testing.T) {
	reply := &SearchReply{Results: make([]SearchGroup, 7), Schemas: map[string]ToolSchema{}}
	huge := strings.Repeat("word\x07 \n", 20_000)
	var slugs []string
	for i := range 100_000 {
		slug := fmt.Sprintf("GMAIL_OP_%d", i)
		slugs = append(slugs, slug)
		reply.Schemas[slug] = schema("gmail", huge, `{"required":["a"]}`)
	}
	for i := range reply.Results {
		reply.Results[i].Tools = slugs
	}
	groups, _ := readGroups(reply, []string{"1", "2", "3", "4", "5", "6", "7"})
	found := Found{Groups: groups}
	for _, g := range groups {
		if len(g) != maxHits {
			t.Errorf("%d tools", len(g))
		}
		if d := g[0].Document.Description; utf8.RuneCountInString(d) > rankedChars+1 || strings.ContainsAny(d, "\n\x07") {
			t.Errorf("description of %d characters: %.40q", utf8.RuneCountInString(d), d)
		}
	}
	if w := found.weight(); w > 8<<20 {
		t.Errorf("weighs %d", w)
	}
}

// FuzzReadGroups holds for every answer: names are clean, run what is shown, and
// stand once in a group; texts are one line and bounded; the payload made of it is
// JSON.
func FuzzReadGroups(f *testing.F) {
	f.Add(`{"results":[{"index":0,"useCase":"q","tools":["GMAIL_SEND_EMAIL","SEND_EMAIL"]}],"schemas":{"GMAIL_SEND_EMAIL":{"connector":"gmail","description":"Send"},"SEND_EMAIL":{"connector":"gmail"}}}`)
	f.Add(`{"results":[{"tools":["A\n"]}],"schemas":{"A\n":{"connector":"G\u0130","inputSchema":{"required":["x"],"properties":{"connector_alias":{"enum":["w"]}}}}}}`)
	f.Add(`{"results":[{"tools":["ß_A","SS_A"]}],"schemas":{"ß_A":{"connector":"ß"},"SS_A":{"connector":"ß"}}}`)
	f.Add(`{"results":[{"tools":["x__y"]}],"schemas":{"x__y":{"connector":"a_","description":"\u202e\ud800"}}}`)
	empty := catalog.New(catalog.Input{Connectors: true})
	f.Fuzz(func(t *testing.T, body string) {
		var reply SearchReply
		if json.Unmarshal([]byte(body), &reply) != nil {
			return
		}
		queries := []string{"q", "send email"}
		groups, _ := readGroups(&reply, queries)
		for _, g := range groups {
			seen := map[string]bool{}
			for _, r := range g {
				name := r.Document.Name
				if seen[name] || !catalog.Shows(name) || len(name) > 3*maxSlugBytes {
					t.Fatalf("name %q", name)
				}
				seen[name] = true
				connector, tool, ok := Parse(name)
				if !ok || FoldName(name) != name {
					t.Fatalf("name %q: %q %q %v", name, connector, tool, ok)
				}
				runs := ""
				for _, slug := range Candidates(connector, tool) {
					if s, ok := reply.Schemas[slug]; ok && FoldConnector(s.Connector) == connector {
						runs = slug
						break
					}
				}
				if s := reply.Schemas[runs]; runs == "" || catalog.OneLine(s.Description, rankedChars) != r.Document.Description {
					t.Fatalf("%q runs %q", name, runs)
				}
				for _, text := range append([]string{r.Description, r.Document.Description, r.SourceName}, r.Required...) {
					if utf8.RuneCountInString(text) > rankedChars+1 || strings.ContainsAny(text, "\n\r\x00\u2028") {
						t.Fatalf("text %q", text)
					}
				}
			}
		}
		payload := empty.Find(catalog.SearchArguments{Queries: queries, Limit: 50}, catalog.SearchOptions{Remote: groups})
		if !json.Valid(payload) {
			t.Fatalf("payload %s", payload)
		}
		for _, s := range reply.Schemas {
			if d := described(&s); len(d.Parameters) > 0 && !json.Valid(d.Parameters) {
				t.Fatalf("schema %s", d.Parameters)
			}
		}
	})
}
