package index

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fieldCase is a fault that users of tool search reported, with the right
// outcome. must_include holds for the Standard ranking, plain_rule_gives for
// Reference, matches for both.
type fieldCase struct {
	ID, Symptom, Why string
	Input            struct {
		Tools      []vectorTool
		ToolSearch struct {
			Queries []string
			Limit   int
		} `json:"tool_search"`
		ThenTools      []vectorTool `json:"then_tools"`
		ThenToolSearch struct {
			Queries []string
		} `json:"then_tool_search"`
		Repeat, Parallel, Rounds int
	}
	Expect struct {
		Matches        [][]string
		MustInclude    []string   `json:"must_include"`
		PlainRuleGives [][]string `json:"plain_rule_gives"`
		ThenMatches    [][]string `json:"then_matches"`
	}
}

func readCases(t *testing.T) []fieldCase {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []fieldCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func matchedNames(x *Index, docs []Document, query string, limit int, r Ranking) []string {
	names := []string{}
	for _, hit := range x.Search(query, Options{Limit: limit, Ranking: r, NearMatches: true}).Matches {
		names = append(names, docs[hit.Doc].Name)
	}
	return names
}

func TestCasesFromTheField(t *testing.T) {
	for _, c := range readCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			limit := c.Input.ToolSearch.Limit
			if limit == 0 {
				limit = 5
			}
			docs := vectorDocuments(c.Input.Tools)
			x := Build(docs)
			for i, query := range c.Input.ToolSearch.Queries {
				for range max(1, c.Input.Repeat) {
					standard := matchedNames(x, docs, query, limit, Standard)
					reference := matchedNames(x, docs, query, limit, Reference)
					if c.Expect.Matches != nil {
						expect(t, query, Standard, c.Expect.Matches[i], standard)
						expect(t, query, Reference, c.Expect.Matches[i], reference)
					}
					if c.Expect.PlainRuleGives != nil {
						expect(t, query, Reference, c.Expect.PlainRuleGives[i], reference)
					}
					if c.Expect.MustInclude != nil && !slices.Contains(standard, c.Expect.MustInclude[i]) {
						t.Errorf("%q: standard gives %q, want %q in it", query, standard, c.Expect.MustInclude[i])
					}
				}
			}
			docs = vectorDocuments(c.Input.ThenTools)
			x = Build(docs)
			for i, query := range c.Input.ThenToolSearch.Queries {
				for _, r := range []Ranking{Standard, Reference} {
					expect(t, query, r, c.Expect.ThenMatches[i], matchedNames(x, docs, query, limit, r))
				}
			}
		})
	}
}

// TestSearchesSideBySideAgree is S25's promise: many searches at once, in both
// rankings and on an index whose Reference side is not prepared yet, answer as
// one after another.
func TestSearchesSideBySideAgree(t *testing.T) {
	cases := readCases(t)
	at := slices.IndexFunc(cases, func(c fieldCase) bool { return c.ID == "S25" })
	c := cases[at]
	docs := vectorDocuments(c.Input.Tools)
	for range c.Input.Rounds {
		x := Build(docs)
		var group sync.WaitGroup
		for range c.Input.Parallel {
			group.Go(func() {
				for i, query := range c.Input.ToolSearch.Queries {
					for _, r := range []Ranking{Standard, Reference} {
						expect(t, query, r, c.Expect.Matches[i], matchedNames(x, docs, query, 5, r))
					}
				}
			})
		}
		group.Wait()
	}
}

func expect(t *testing.T, query string, r Ranking, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q, %s (-want +got):\n%s", query, r, diff)
	}
}
