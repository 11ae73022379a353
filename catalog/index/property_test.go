package index

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// checkAgainstNaive compares a search with the naive one, and holds what must
// be true of any answer.
func checkAgainstNaive(t interface {
	Helper()
	Errorf(string, ...any)
}, docs []Document, query string, o Options,
) {
	t.Helper()
	got := Build(docs).Search(query, o)
	want := naiveSearch(docs, query, o)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Search(%q, %+v) over %q (-naive +got):\n%s", query, o, docs, diff)
	}
	if n := len(got.Matches) + len(got.Near); n > max(0, o.Limit) {
		t.Errorf("%d hits, the limit is %d", n, o.Limit)
	}
	seen := map[int]bool{}
	for _, hit := range append(append([]Hit{}, got.Matches...), got.Near...) {
		if hit.Doc < 0 || hit.Doc >= len(docs)+len(o.Extra) || seen[hit.Doc] {
			t.Errorf("hit %d is out of bounds or twice there", hit.Doc)
		}
		seen[hit.Doc] = true
		if !(hit.Score > 0) || math.IsNaN(hit.Score) {
			t.Errorf("score %v of hit %d", hit.Score, hit.Doc)
		}
	}
}

// testWords are few, so that catalogs of them are full of ties, rare words,
// compounds and forms of one word.
var testWords = []string{
	"issue", "Issues", "issuing", "create", "created", "repo", "createIssue", "createRepoIssue", "XMLHttpRequest",
	"http", "request", "ipv6", "ipv4", "6", "v2", "the", "all", "to", "mcp", "mcp__gh__create", "gh", "café", "CAFE",
	"cafe\u0301s", "Straße", "strasse", "日本", "日本語", "時刻表を調べる", "時刻", "本", "りんご", "날씨를", "날씨", "อากาศ", "weather",
	"tokyo", "organ", "organize", "n", "don't", "tide's", "_", "-", "🚀️", "ＡＢＣ", "abc", "ﬁne",
}

func drawText(t *rapid.T, label string, most int) string {
	separators := []string{" ", " ", "_", "__", "", ", ", "-"}
	var text strings.Builder
	for range rapid.IntRange(0, most).Draw(t, label+" words") {
		text.WriteString(rapid.SampledFrom(testWords).Draw(t, label))
		text.WriteString(rapid.SampledFrom(separators).Draw(t, "separator"))
	}
	return text.String()
}

func drawDocuments(t *rapid.T, label string, most int) []Document {
	var docs []Document
	for range rapid.IntRange(0, most).Draw(t, label) {
		d := Document{
			Name:        rapid.SampledFrom([]string{"", "mcp__", "mcp__gh__"}).Draw(t, "prefix") + drawText(t, "name", 3),
			SourceLabel: rapid.SampledFrom([]string{"", "other", "gh", "日本"}).Draw(t, "label"),
			Description: drawText(t, "description", 10),
		}
		for range rapid.IntRange(0, 2).Draw(t, "properties") {
			d.Properties = append(d.Properties, drawText(t, "property", 2))
		}
		if rapid.Bool().Draw(t, "alias") {
			d.Aliases = []string{drawText(t, "alias", 2)}
		}
		docs = append(docs, d)
	}
	return docs
}

func TestSearchEqualsRatingEveryDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := drawDocuments(t, "documents", 12)
		query := drawText(t, "query", 8)
		if len(docs) > 0 && rapid.Bool().Draw(t, "exact") {
			query = " " + strings.ToUpper(docs[0].Name)
		}
		checkAgainstNaive(t, docs, query, Options{
			Limit:       rapid.IntRange(-1, 15).Draw(t, "limit"),
			Ranking:     rapid.SampledFrom([]Ranking{Standard, Reference}).Draw(t, "ranking"),
			NearMatches: rapid.Bool().Draw(t, "near"),
			Extra:       drawDocuments(t, "extra", 3),
		})
	})
}

// FuzzSearch takes any text: the first line is the query, the others are
// documents of name, label, description, property and alias between tabs.
func FuzzSearch(f *testing.F) {
	f.Add("create issue\nmcp__gh__create_issue\tgh\tOpen an issue.\trepo\tfile a bug\nlist_repos\tgh\tList.", 5, true, false, 1)
	f.Add("時刻表 find\nfind_trains\trail\t新幹線の時刻表を調べます。\nlist\trail\t駅の名前", 3, true, false, 0)
	f.Add("GET_USER\nget_user\nGet_User\nget user", 1, false, true, 2)
	f.Add("IDs k8s iPhone HTTP2Server\nhttp2_server\tx\tİstanbul ŉ ﷺ ½ ① \xff\xfe", 50, true, false, 0)
	f.Fuzz(func(t *testing.T, text string, limit int, near, reference bool, extra int) {
		lines := strings.Split(text, "\n")
		if len(text) > 4<<10 || len(lines) > 40 {
			t.Skip("the naive search is slow")
		}
		var docs []Document
		for _, line := range lines[1:] {
			fields := append(strings.Split(line, "\t"), "", "", "", "")
			docs = append(docs, Document{
				Name: fields[0], SourceLabel: fields[1], Description: fields[2],
				Properties: fields[3:4], Aliases: fields[4:5],
			})
		}
		o := Options{Limit: min(limit, 100), NearMatches: near}
		if reference {
			o.Ranking = Reference
		}
		if extra > 0 && extra < len(docs) {
			docs, o.Extra = docs[:len(docs)-extra], docs[len(docs)-extra:]
		}
		checkAgainstNaive(t, docs, lines[0], o)
	})
}

// FuzzWords holds what the Standard analysis promises of any text.
func FuzzWords(f *testing.F) {
	for _, w := range testWords {
		f.Add(w + " " + w)
	}
	f.Add("a\u0301\u0301\u0301 \u0301x \xf0\x9f ’s o’clock's")
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range Tokens(text) {
			if w == "" || strings.ToLower(w) != w || !plainWord(w) {
				t.Errorf("token %q of %q", w, text)
			}
		}
		var s scanner
		s.reset(text)
		for s.next() {
			if s.gram != nil {
				continue
			}
			w := s.string()
			if w == "" || s.start < 0 || s.end > len(text) || s.start > s.end {
				t.Fatalf("word %q at %d to %d of %q", w, s.start, s.end, text)
			}
			joined := ""
			for i := 0; i <= len(s.cuts); i++ {
				part := s.part(i).string()
				if part == "" {
					t.Fatalf("an empty part of %q", w)
				}
				joined += part
			}
			if joined != w {
				t.Errorf("the parts of %q make %q", w, joined)
			}
		}
	})
}
