package subjects

import (
	"strings"
	"testing"
)

func TestRepliesGoOnlyWhereRepliesBelong(t *testing.T) {
	for reply, want := range map[string]bool{
		"_INBOX.abc":                       true,
		"_INBOX.abc.1":                     true,
		"_INBOX.$KV.x":                     true, // below _INBOX it is only a name
		"_R_.acc.XYZ":                      true,
		"":                                 false,
		"_INBOX":                           false,
		"_INBOX.":                          false,
		"_INBOX.a.":                        false,
		"_INBOX..a":                        false,
		"_INBOX.>":                         false,
		"_INBOX.*":                         false,
		"_INBOX.a>":                        false,
		"_INBOX.a b":                       false,
		"_INBOX.a\tb":                      false,
		"_INBOX.a\r\nPUB x 0":              false,
		"_INBOX.a\x00":                     false,
		"_INBOXES.a":                       false,
		"_inbox.a":                         false,
		" _INBOX.a":                        false,
		"x._INBOX.a":                       false,
		"_R_":                              false,
		"_R_a":                             false,
		"$KV.toolbridge_grants.acme.s1":    false,
		"$JS.API.STREAM.PURGE.X":           false,
		"$O.toolbridge_blobs.C.x":          false,
		"$SYS.REQ":                         false,
		"toolbridge.v1.acme.s2.bridge":     false,
		"toolbridge.v1.acme.s2.result.c1":  false,
		"toolbridge.v1._calls.0.acme.s1.c": false,
	} {
		if got := ReplyAllowed(reply, ReplyPrefixes()); got != want {
			t.Errorf("ReplyAllowed(%q) = %v", reply, got)
		}
	}
	if ReplyAllowed("_INBOX.a", nil) || ReplyAllowed("_INBOX.a", []string{""}) {
		t.Error("without a prefix nothing is allowed")
	}
	if !ReplyAllowed("replies.acme.1", []string{"_INBOX.", "replies.acme."}) {
		t.Error("a configured prefix is not allowed")
	}
}

func FuzzReplyAllowed(f *testing.F) {
	for _, s := range []string{"_INBOX.a", "_R_.b", "_INBOX.>", "$KV.x", "_INBOX.a b", "_INBOX.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		if !ReplyAllowed(reply, ReplyPrefixes()) {
			return
		}
		if !covers("_INBOX.>", reply) && !covers("_R_.>", reply) {
			t.Fatalf("%q is allowed", reply)
		}
		for _, token := range strings.Split(reply, ".") {
			if token == "" || strings.ContainsAny(token, "*> \t\r\n\x00") {
				t.Fatalf("%q has the token %q", reply, token)
			}
		}
	})
}
