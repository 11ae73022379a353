package index

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func words(text string) []string {
	var found []string
	var s scanner
	s.reset(text)
	for s.next() {
		if s.gram != nil {
			found = append(found, "<"+string(s.gram)+">")
			continue
		}
		w := s.string()
		for i := len(s.cuts) - 1; i >= 0; i-- {
			w = w[:s.cuts[i]] + "|" + w[s.cuts[i]:]
		}
		found = append(found, w)
	}
	return found
}

func TestWordsAreFoldedAndSplitBesideTheWhole(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"getUserProfileById":           "get|user|profile|by|id",
		"XMLHttpRequest":               "xml|http|request",
		"HTTP2Server":                  "http|2|server",
		"stockItemBatch_find":          "stock|item|batch find",
		"userIDs URLs IDs":             "user|id url id",
		"iPhone eBay OAuth2":           "iphone ebay oauth|2",
		"s3 k8s p2p x509 v2 3d":        "s3 k8s p2p x509 v2 3d",
		"ipv6 sha256 int64 2fa":        "ipv|6 sha|256 int|64 2|fa",
		"getV2Users s3Bucket":          "get|v2|users s3|bucket",
		"don't the tide’s tide's":      "don t the tide tide",
		"it's a's s":                   "it a s",
		"café CAFE\u0301 ｃａｆｅ":         "cafe cafe cafe",
		"Straße ﬁne Ærø łódź İstanbul": "strasse fine aero lodz istanbul",
		"Ёлка ёлка Ελλάδα ελλαδας": "елка елка ελλαδα ελλαδασ",
		"étatCivil ÉtatCivil":      "etat|civil etat|civil",
		"日本語_検索":                   "<日本語> <検索>",
		"新幹線の時刻表を調べます。":            "<新幹線> <の> <時刻表> <を> <調> <べます>",
		"サーバー 2024年 HTTP服务器":       "<サーバー> 2024 <年> http <服务器>",
		"ｶﾞｿﾘﾝ ガソリン":               "<ガソリン> <ガソリン>",
		"날씨를 알려줘":                  "<날씨를> <알려줘>",
		"สภาพอากาศ":                "<สภาพอากาศ>",
		"🚀️ emoji_🚀_launch ½ ③":    "emoji launch",
		"a\xffb \xf0\x9f":          "a b",
		"שָׁלוֹם سَلَام":           "שלום سلام",
		"हिन्दी":                   "हिन्दी",
	} {
		if diff := cmp.Diff(strings.Fields(want), words(text), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func tool(name, description string, properties ...string) Document {
	return Document{Name: name, Description: description, Properties: properties}
}

// names renders hits.
func names(docs []Document, hits []Hit) string {
	var all []string
	for _, hit := range hits {
		all = append(all, docs[hit.Doc].Name)
	}
	return strings.Join(all, " ")
}

func TestStandardRankingFindsWhatUsersMean(t *testing.T) {
	docs := []Document{
		tool("mcp__linear__createIssue", "Opens a ticket.", "title"),
		tool("mcp__github__create_issue", "Create a new issue in a repository.", "repo", "title"),
		tool("café_search", "Sucht Cafés in der Straße."),
		tool("train_times", "新幹線の時刻表を調べます。"),
		tool("天气预报查询", "查询城市的天气预报"),
		tool("weather_kr", "날씨 조회"),
		tool("http2_push", "Push over HTTP2.", "ipv4Address"),
		tool("get_about", "Describes the company."),
		tool("fetch_notes", "Get help with the notes of a meeting."),
		{Name: "vm_stop", Description: "Halts a machine.", Aliases: []string{"shutdown server", "powerOff"}},
	}
	x := Build(docs)
	for query, want := range map[string]string{
		"createIssue":                           "mcp__linear__createIssue mcp__github__create_issue",
		"create issue":                          "mcp__linear__createIssue mcp__github__create_issue",
		"issue":                                 "mcp__linear__createIssue mcp__github__create_issue",
		"createissue":                           "mcp__linear__createIssue",
		"createIssueTitles":                     "mcp__linear__createIssue mcp__github__create_issue",
		"mcp__github__create_issues":            "mcp__github__create_issue",
		"please use mcp__github__create_issues": "mcp__github__create_issue",
		"the mcp tool for github issues":        "mcp__github__create_issue",
		"cafe":                                  "café_search",
		"cafés":                                 "café_search",
		"ＣＡＦＥ":                                  "café_search",
		"strasse":                               "café_search",
		"時刻表":                                   "train_times",
		"時刻表を調べて":                               "train_times",
		"刻":                                     "train_times",
		"東京の時刻表":                                "",
		"查询天气":                                  "天气预报查询",
		"天气的预报":                                 "天气预报查询",
		"气":                                     "天气预报查询",
		"날씨를":                                   "weather_kr",
		"http2":                                 "http2_push",
		"http 2":                                "http2_push",
		"ipv4":                                  "http2_push",
		"ipv6":                                  "",
		"about":                                 "get_about",
		"help":                                  "fetch_notes",
		"weather in tokyo":                      "",
		"how do I stop a vm":                    "vm_stop",
		"shutdown":                              "vm_stop",
		"power off":                             "vm_stop",
		"quantum teleport":                      "",
		"":                                      "",
		"___":                                   "",
	} {
		got := x.Search(query, Options{Limit: 5})
		if names(docs, got.Matches) != want {
			t.Errorf("%q finds %q, want %q", query, names(docs, got.Matches), want)
		}
		if got.Near != nil || got.UnmatchedTerms != nil {
			t.Errorf("%q gives near matches that nobody asked for: %+v", query, got)
		}
	}
}

func TestAliasesAreOfTheStandardRankingOnly(t *testing.T) {
	x := Build([]Document{{Name: "vm_stop", Aliases: []string{"shutdown"}}})
	if got := x.Search("shutdown", Options{Limit: 5}); len(got.Matches) != 1 {
		t.Errorf("standard: %+v", got)
	}
	if got := x.Search("shutdown", Options{Limit: 5, Ranking: Reference}); len(got.Matches) != 0 {
		t.Errorf("reference: %+v", got)
	}
}

func TestExactNameComesFirstInAnyCase(t *testing.T) {
	docs := []Document{tool("get_user_profile", "user user user"), tool("get_user", "x"), tool("GET_USER", "y"), tool("日本語", "z")}
	x := Build(docs)
	for _, r := range []Ranking{Standard, Reference} {
		got := x.Search("\tGet_User \x1f", Options{Limit: 5, Ranking: r})
		if names(docs, got.Matches) != "get_user GET_USER get_user_profile" || !math.IsInf(got.Matches[1].Score, 1) || math.IsInf(got.Matches[2].Score, 1) {
			t.Errorf("%s: %+v", r, got)
		}
		if got := x.Search("get_user", Options{Limit: 1, Ranking: r}); names(docs, got.Matches) != "get_user" {
			t.Errorf("%s: %+v", r, got)
		}
	}
	if got := x.Search("日本語", Options{Limit: 5}); len(got.Matches) != 1 || !math.IsInf(got.Matches[0].Score, 1) {
		t.Errorf("%+v", got)
	}
}

func TestNearMatchesAreMarkedOrderedAndWithinTheLimit(t *testing.T) {
	docs := []Document{
		tool("list_orders", "List orders."),
		tool("cancel_order", "Cancel an order of a customer."),
		tool("customer_mail", "Mail a customer."),
		tool("weather", "Forecast of a city."),
	}
	x := Build(docs)
	for _, c := range []struct {
		query         string
		limit         int
		matches, near string
		unmatched     []string
	}{
		{"refund customer order", 5, "", "cancel_order list_orders customer_mail", []string{"refund"}},
		{"refund customer order", 2, "", "cancel_order list_orders", []string{"refund"}},
		{"cancel order", 5, "cancel_order", "list_orders", nil},
		{"cancel order", 1, "cancel_order", "", nil},
		{"Weather Tokyo, please!", 5, "", "weather", []string{"Tokyo"}},
		{"createInvoice for 東京天气", 5, "", "", []string{"createInvoice", "東京天气"}},
		{"the", 5, "", "", []string{"the"}},
		{"weather", 5, "weather", "", nil},
	} {
		got := x.Search(c.query, Options{Limit: c.limit, NearMatches: true})
		if names(docs, got.Matches) != c.matches || names(docs, got.Near) != c.near {
			t.Errorf("%q: matches %q near %q, want %q and %q", c.query, names(docs, got.Matches), names(docs, got.Near), c.matches, c.near)
		}
		if diff := cmp.Diff(c.unmatched, got.UnmatchedTerms); diff != "" {
			t.Errorf("%q unmatched (-want +got):\n%s", c.query, diff)
		}
		for _, hit := range got.Near {
			if hit.Score <= 0 || hit.Score > 1 {
				t.Errorf("%q: share %v", c.query, hit.Score)
			}
		}
	}
}

func TestExtraDocumentsAreRankedAsIfTheyWereInTheIndex(t *testing.T) {
	local := []Document{tool("mail_send", "Send a mail."), tool("mail_list", "List mails."), tool("file_read", "Read a file.")}
	extra := []Document{tool("connectors__gmail__send_email", "Sends an email by Gmail."), tool("connectors__gmail__mail_send", "Send mail, send it."), tool("MAIL_SEND", "")}
	together := Build(append(append([]Document{}, local...), extra...))
	x := Build(local)
	for _, r := range []Ranking{Standard, Reference} {
		for _, query := range []string{"send mail", "sending emails", "gmail", "mail_send", "read gmail file", "nothing"} {
			want := together.Search(query, Options{Limit: 10, Ranking: r, NearMatches: true})
			got := x.Search(query, Options{Limit: 10, Ranking: r, NearMatches: true, Extra: extra})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %q (-together +extra):\n%s", r, query, diff)
			}
			if diff := cmp.Diff(want, Build(nil).Search(query, Options{Limit: 10, Ranking: r, NearMatches: true, Extra: append(append([]Document{}, local...), extra...)})); diff != "" {
				t.Errorf("%s %q over an empty index (-together +extra):\n%s", r, query, diff)
			}
		}
	}
}

func TestHostileTextIsBounded(t *testing.T) {
	long := strings.Repeat("a1B2 ", 300000)
	docs := []Document{
		{Name: "n" + strings.Repeat("_x", 50000) + "_behind", Description: long + "behind", SourceLabel: long, Properties: strings.Fields(long), Aliases: []string{long}},
		tool("behind", "within", long, "behind"),
		{Name: strings.Repeat("日", 3000), Description: strings.Repeat("日本", 50000), Properties: []string{strings.Repeat("\xff", 9000)}},
	}
	for i := range 3000 { // names that differ only in case
		docs = append(docs, tool(fmt.Sprintf("%sbc", map[bool]string{true: "a", false: "A"}[i%2 == 0]), ""))
	}
	x := Build(docs)
	for _, r := range []Ranking{Standard, Reference} {
		got := x.Search("behind", Options{Limit: 10, Ranking: r})
		if names(docs, got.Matches) != "behind" {
			t.Errorf("%s: %d matches", r, len(got.Matches))
		}
		x.Search(long, Options{Limit: 10, Ranking: r, NearMatches: true})
		x.Search(strings.Repeat("日本", 5000), Options{Limit: 10, Ranking: r, NearMatches: true})
		if got := x.Search("ABC", Options{Limit: 10, Ranking: r}); len(got.Matches) != 10 || got.Matches[9].Doc != 12 {
			t.Errorf("%s: %+v", r, got.Matches)
		}
		if got := x.Search(strings.Repeat("é", MaxQueryCharacters)+" behind", Options{Limit: 10, Ranking: r}); len(got.Matches) != 0 {
			t.Errorf("%s reads beyond the query's bound: %+v", r, got)
		}
	}
}

func TestAnswersDoNotDependOnWhatWasAskedBefore(t *testing.T) {
	docs, _ := generated(100)
	queries := append(fiveWordQueries(docs)[:30], "", "___", "createIssue 日本 café", docs[7].Name)
	x := Build(docs)
	want := map[string]Result{}
	for _, q := range queries {
		want[q] = Build(docs).Search(q, Options{Limit: 5, NearMatches: true})
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for _, q := range queries {
				if diff := cmp.Diff(want[q], x.Search(q, Options{Limit: 5, NearMatches: true})); diff != "" {
					t.Errorf("%q (-fresh +used):\n%s", q, diff)
				}
			}
		})
	}
	group.Wait()
}

func TestBytesGrowsWithWhatIsPrepared(t *testing.T) {
	docs, _ := generated(200)
	x := Build(docs)
	before := x.Bytes()
	x.Search("create", Options{Limit: 1, Ranking: Reference})
	if before <= 0 || x.Bytes() <= before || x.Len() != 200 {
		t.Errorf("%d bytes, then %d, of %d documents", before, x.Bytes(), x.Len())
	}
}

func TestPluralsOfCapitalsAreFoundBySingularsAndBack(t *testing.T) {
	docs := []Document{
		tool("merge_pr", "Merges a PR."),
		tool("vm_list", "Lists your VMs."),
		tool("getDBs", "Backs up databases."),
		tool("resolve_dns", "Asks a DNS server."),
		tool("écrirePDFs", ""),
	}
	x := Build(docs)
	for query, want := range map[string]string{
		"merge PRs":    "merge_pr",
		"openPRs":      "",
		"VM":           "vm_list",
		"VMs":          "vm_list",
		"db":           "getDBs",
		"get DB":       "getDBs",
		"getDBs":       "getDBs",
		"dns":          "resolve_dns",
		"DNS":          "resolve_dns",
		"dn":           "",
		"écrirePDF":    "écrirePDFs",
		"pdf":          "écrirePDFs",
		"écrire PDFs":  "écrirePDFs",
		"the VMs' DNS": "vm_list",
	} {
		if got := x.Search(query, Options{Limit: 5}); names(docs, got.Matches) != want {
			t.Errorf("%q finds %q, want %q", query, names(docs, got.Matches), want)
		}
	}
	if got := x.Search("list GPUs", Options{Limit: 5, NearMatches: true}); !slices.Equal(got.UnmatchedTerms, []string{"GPUs"}) {
		t.Errorf("unmatched %q, want the word as it was written", got.UnmatchedTerms)
	}
}
