package output

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParametersKeepTheirOrder(t *testing.T) {
	got := Parameters([]byte(`{"type":"object","required":["b"],"properties":{"b":{"type":"string","description":"B"},"a":{"type":["integer","null"]},"c":{"enum":["x","y"]},"d":true,"e":{}}}`))
	want := []Parameter{
		{Name: "b", Type: "string", Description: "B", Required: true},
		{Name: "a", Type: "integer|null"},
		{Name: "c", Type: `"x"|"y"`},
		{Name: "d"},
		{Name: "e", Type: "any"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, odd := range []string{``, `true`, `{}`, `{"properties":5}`, `{"properties":{"a":`, `[1]`} {
		if got := Parameters([]byte(odd)); len(got) != 0 {
			t.Errorf("%s: %v", odd, got)
		}
	}
}

func TestIndentedKeepsNumbersAndText(t *testing.T) {
	if got := Indented([]byte(`{"n":1.00,"s":"<é>","u":"\u003c"}`)); got != "{\n  \"n\": 1.00,\n  \"s\": \"<é>\",\n  \"u\": \"\\u003c\"\n}" {
		t.Error(got)
	}
	if got := Indented([]byte(`{"a`)); got != `{"a` {
		t.Error(got)
	}
}
