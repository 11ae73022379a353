package index

import (
	"slices"
	"testing"
)

// A document's Text is what is searched in place of its name; the name itself is
// still an exact query.
func TestTextIsSearchedInPlaceOfTheName(t *testing.T) {
	x := Build([]Document{{Name: "mcp__postbox__list_mail", Description: "List mail"}})
	extra := []Document{{Name: "connectors__gmail__SEND_EMAIL", Text: "gmail GMAIL__SEND EMAIL", Description: "Sends"}}
	for _, r := range []Ranking{Standard, Reference} {
		for query, want := range map[string]int{
			"gmail": 1, "send email": 1, "connectors": 0, "connectors__gmail__SEND_EMAIL": 1, " Connectors__Gmail__send_email ": 1,
		} {
			got := x.Search(query, Options{Limit: 5, Ranking: r, Extra: extra})
			if len(got.Matches) != want {
				t.Errorf("%v: %q gives %v, want %d", r, query, got.Matches, want)
			}
		}
	}
	indexed := Build(extra)
	if got := indexed.Search("connectors", Options{Limit: 5}); len(got.Matches) != 0 {
		t.Errorf("an indexed document is found by a word of its name: %v", got.Matches)
	}
}

// What follows the last "__" of a Text is the tool's own name: its words weigh
// as much as those of a local tool's name.
func TestTextHasAnOwnName(t *testing.T) {
	x := Build([]Document{{Name: "mcp__postbox__fetch_bulk", Description: "send email"}})
	got := x.Search("send email", Options{Limit: 5, Extra: []Document{{Name: "connectors__gmail__SEND_EMAIL", Text: "gmail GMAIL__SEND EMAIL"}}})
	if docs := []int{got.Matches[0].Doc, got.Matches[1].Doc}; !slices.Equal(docs, []int{1, 0}) {
		t.Errorf("order %v", docs)
	}
}

func TestNamedKnowsNamesInAnyCase(t *testing.T) {
	x := Build([]Document{{Name: "mcp__postbox__list_mail"}})
	for query, want := range map[string]bool{
		"mcp__postbox__list_mail": true, " MCP__postbox__LIST_mail\n": true, "list_mail": false, "": false,
	} {
		if got := x.Named(query); got != want {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}
