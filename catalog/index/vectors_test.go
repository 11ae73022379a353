package index

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readVectors reads one of the golden files, which were made by running the
// reference implementation.
func readVectors(t testing.TB, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestStemsEqualSnowballEnglish311(t *testing.T) {
	var vectors struct {
		Cases []struct{ ID, Input, Expect string }
	}
	readVectors(t, "stemming.json", &vectors)
	if len(vectors.Cases) < 3000 {
		t.Fatalf("only %d cases", len(vectors.Cases))
	}
	for _, c := range vectors.Cases {
		if got := Stem(c.Input); got != c.Expect {
			t.Errorf("%s: Stem(%q) = %q, want %q", c.ID, c.Input, got, c.Expect)
		}
	}
}

func TestReferenceTokensEqualVectors(t *testing.T) {
	var vectors struct {
		Cases []struct {
			ID, Input string
			Expect    []string
		}
	}
	readVectors(t, "tokenize.json", &vectors)
	for _, c := range vectors.Cases {
		got := Tokens(c.Input)
		if len(got) == 0 {
			got = []string{}
		}
		if diff := cmp.Diff(c.Expect, got); diff != "" {
			t.Errorf("%s: Tokens(%q) (-want +got):\n%s", c.ID, c.Input, diff)
		}
	}
}

// vectorTool is a tool as the vectors and the cases from the field write it.
type vectorTool struct {
	Name        string
	Description string
	Toolset     string
	Owner       string // of a tool that has no toolset
	Params      []string
	Parameters  struct {
		Properties map[string]json.RawMessage
	}
}

func (v vectorTool) document() Document {
	label := strings.TrimPrefix(v.Toolset, "mcp-")
	if label == "" {
		label = v.Owner
	}
	d := Document{Name: v.Name, SourceLabel: label, Description: v.Description, Properties: v.Params}
	for p := range v.Parameters.Properties {
		d.Properties = append(d.Properties, p)
	}
	return d
}

func vectorDocuments(tools []vectorTool) []Document {
	var docs []Document
	for _, tool := range tools {
		if tool.Name != "" {
			docs = append(docs, tool.document())
		}
	}
	return docs
}

// collectingSink keeps the terms of a document.
type collectingSink struct{ terms []string }

func (c *collectingSink) add(w *word, _ uint16, _ bool) { c.terms = append(c.terms, Stem(w.string())) }

// All ranking vectors hold here. Names given twice and control characters in
// names, which some of them have, are for the caller to refuse.
func TestReferenceRankingEqualsVectors(t *testing.T) {
	var vectors struct {
		Catalogs    map[string][]vectorTool
		IndexTokens map[string][]struct {
			Name   string
			Tokens []string // the first of them
			Count  int      `json:"n_tokens"`
		} `json:"index_tokens"`
		Cases []struct {
			ID    string
			Input struct {
				Catalog, Query string
				Limit          int
			}
			Expect struct {
				Names  []string
				Index  []int
				Scores []any
			}
		}
	}
	readVectors(t, "search_ranking.json", &vectors)
	indexes := map[string]*Index{}
	documents := map[string][]Document{}
	for name, tools := range vectors.Catalogs {
		docs := vectorDocuments(tools)
		documents[name] = docs
		indexes[name] = BuildFor(Reference, docs)
		for i, want := range vectors.IndexTokens[name] {
			var got collectingSink
			referenceDocument(&docs[i], &asciiScanner{}, &got)
			if len(got.terms) != want.Count {
				t.Errorf("%s[%d] %s: %d terms, want %d", name, i, want.Name, len(got.terms), want.Count)
			}
			if diff := cmp.Diff(want.Tokens, got.terms[:min(len(got.terms), len(want.Tokens))]); docs[i].Name != want.Name || diff != "" {
				t.Errorf("%s[%d] %s (-want +got):\n%s", name, i, want.Name, diff)
			}
		}
	}
	for _, c := range vectors.Cases {
		x, docs := indexes[c.Input.Catalog], documents[c.Input.Catalog]
		got := x.Search(c.Input.Query, Options{Limit: c.Input.Limit, Ranking: Reference})
		names, places, scores := []string{}, []int{}, []any{}
		for _, hit := range got.Matches {
			names, places = append(names, docs[hit.Doc].Name), append(places, hit.Doc)
			if math.IsInf(hit.Score, 1) {
				scores = append(scores, "inf")
			} else {
				scores = append(scores, math.Round(hit.Score*1e9)/1e9)
			}
		}
		if diff := cmp.Diff(c.Expect.Names, names); diff != "" {
			t.Errorf("%s %+v: names (-want +got):\n%s", c.ID, c.Input, diff)
		}
		if diff := cmp.Diff(c.Expect.Index, places); diff != "" {
			t.Errorf("%s %+v: index (-want +got):\n%s", c.ID, c.Input, diff)
		}
		if diff := cmp.Diff(c.Expect.Scores, scores); diff != "" {
			t.Errorf("%s %+v: scores (-want +got):\n%s", c.ID, c.Input, diff)
		}
	}
}
