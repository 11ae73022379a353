package subjects

import (
	"regexp"
	"strings"
	"testing"
)

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "anything", true},
		{"**", "x", true},
		{"?", "", false},
		{"?", "a", true},
		{"?", "é", true},
		{"?", "ab", false},
		{"??", "é", false},
		{"mcp-*", "mcp-github", true},
		{"mcp-*", "mcp-", true},
		{"mcp-*", "Mcp-x", false},
		{"mcp-*", "a-mcp-x", false},
		{"mcp__bank__pay*", "mcp__bank__payout", true},
		{"mcp__bank__pay*", "mcp__bank__balance", false},
		{"*delete*", "mcp__a__delete_x", true},
		{"*_a_*_b", "x_a_b_a_b_b", true},
		{"*ab", "aab", true},
		{"a*b*c", "abcbc", true},
		{"a*b*c", "abcb", false},
		{"[a]", "a", false},
		{"[a]", "[a]", true},
		{`\*`, `\x`, true},
		{"日?語", "日本語", true},
		{"*語", "日本語", true},
	} {
		if got := MatchGlob(c.glob, c.name); got != c.want {
			t.Errorf("MatchGlob(%q, %q) = %v", c.glob, c.name, got)
		}
	}
}

func TestAHostileGlobTakesBoundedTime(t *testing.T) {
	if MatchGlob(strings.Repeat("*a", 500)+"b", strings.Repeat("a", 5000)) {
		t.Error("it matches")
	}
}

func FuzzMatchGlob(f *testing.F) {
	f.Add("mcp-*", "mcp-github")
	f.Add("*a?b*", "xaxbx")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 30 || len(name) > 60 {
			return
		}
		glob, name = strings.ToValidUTF8(glob, "_"), strings.ToValidUTF8(name, "_")
		pattern := regexp.QuoteMeta(glob)
		pattern = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(pattern)
		want, err := regexp.MatchString(`(?s)\A`+pattern+`\z`, name)
		if err != nil || strings.Contains(glob, `\`) { // an escaped backslash confuses the replacer above
			return
		}
		if got := MatchGlob(glob, name); got != want {
			t.Fatalf("MatchGlob(%q, %q) = %v", glob, name, got)
		}
	})
}

// A gateway may fold the case of a slug, so no spelling of a connector's tool gets
// past what names it.
func TestAGuardCoversEverySpellingOfAConnectorsTool(t *testing.T) {
	const send = "connectors__gmail__SEND_EMAIL"
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{send, send, true},
		{send, "connectors__gmail__send_email", true},
		{send, "connectors__GMAIL__Send_Email", true},
		{send, "connectors__gmail__gmail_send_email", true},
		{send, "connectors__gmail__GMAIL_SEND_EMAIL", true},
		{"connectors__github__issues_create", "connectors__github__ISSUES_CREATE", true},
		{"connectors__Gmail__*", "connectors__gmail__READ", true},
		{"*__DELETE_*", "connectors__gmail__delete_message", true},
		{"*SEND*", "connectors__gmail__\u017fend", true}, // a long s is an S in upper case
		{send, "connectors__gmail__SEND_EMAILS", false},
		{send, "connectors__slack__gmail_SEND_EMAIL", false},
		{send, "Connectors__gmail__SEND_EMAIL", false}, // no connector's tool
		{"connectors__gmail__", "connectors__gmail", false},
		{"mcp__bank__PAY", "mcp__bank__pay", false}, // these names are exact
		{"connectors__gmail__x", "connectors__gmail__gmail_", false},
	} {
		if got := MatchGuard(c.glob, c.name); got != c.want {
			t.Errorf("MatchGuard(%q, %q) = %v", c.glob, c.name, got)
		}
	}
}
