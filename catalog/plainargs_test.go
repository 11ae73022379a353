package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// checkPlainSearch compares ParseSearchArguments with the reader of every shape.
func checkPlainSearch(t *testing.T, args []byte) {
	t.Helper()
	c := Config{}.effective()
	want, wantRefusal := SearchArguments{Limit: c.SearchDefaultLimit}.read(args, c)
	got, refusal := ParseSearchArguments(args, Config{})
	if diff := cmp.Diff(wantRefusal, refusal); diff != "" {
		t.Fatalf("%q (-any +plain): %s", args, diff)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%q (-any +plain): %s", args, diff)
	}
}

var plainSearches = []string{
	`{"queries":["create issue"],"limit":5}`, `{"queries":["create issue"]}`, " {\n\"limit\" : 12 , \"queries\" : [ \" a \" , \"b\" ] }\t",
	`{"queries":"create issue"}`, `{"queries":["a"],"limit":0}`, `{"queries":["a"],"limit":999999999}`, `{"queries":[" ",""]}`,
	`{"queries":["` + strings.Repeat("a", 4001) + `"]}`,
	`{"queries":["a"],"limit":007}`, `{"queries":["a"],"limit":12345678901}`, `{"queries":["a"],"limit":-1}`, `{"queries":["a"],"limit":2.5}`,
	`{"queries":["a"],"limit":2e1}`, `{"queries":["a"],"limit":"5"}`, `{"queries":["a"],"limit":}`, `{"limit":5}`, `{}`, ``, `null`, `[]`,
	`{"queries":[]}`, `{"queries":["a",]}`, `{"queries":["a"],}`, `{"queries":["a"]} x`, `{"queries":["a"]`, `{"queries":["a" "b"]}`,
	`{"queries":["a"],"queries":["b"]}`, `{"queries":["a"],"limit":1,"limit":2}`, `{"queries":["a"],"other":1}`, `{"queries":["é \u00e9"]}`,
	`{"queries":["a","b","c","d","e","f","g"]}`, `{"queries":["a","b","c","d","e","f","g","h"]}`, `{"queries":[1,null,true]}`, "{\"queries\":[\"a\x1fb\x7f\"]}",
	`"{\"queries\":[\"a\"]}"`, `{"queries":["a"],"limit":5 5}`,
}

func TestPlainSearchArgumentsAreReadAsAnyOthers(t *testing.T) {
	for _, args := range plainSearches {
		checkPlainSearch(t, []byte(args))
	}
	for _, args := range plainSearches[:8] {
		if _, _, ok := plainSearch([]byte(args)); !ok {
			t.Errorf("%.60s is not read the plain way", args)
		}
	}
}

func FuzzPlainSearchArguments(f *testing.F) {
	for _, args := range plainSearches {
		f.Add([]byte(args))
	}
	f.Fuzz(func(t *testing.T, args []byte) { checkPlainSearch(t, args) })
}
