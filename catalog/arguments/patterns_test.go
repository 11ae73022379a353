package arguments

import "testing"

func TestPatternsAreReadAsECMAScript(t *testing.T) {
	for _, c := range []struct {
		pattern    string
		yes, no    []string
		unenforced bool
	}{
		{pattern: `^[a-z]+$`, yes: []string{"ab"}, no: []string{"aB", "ab\n"}},
		{pattern: `\u00e9+`, yes: []string{"é"}, no: []string{"e"}},
		{pattern: `^\u{1F600}$`, yes: []string{"😀"}, no: []string{"x"}},
		{pattern: `^\d+$`, yes: []string{"12"}, no: []string{"١٢"}},
		{pattern: `^\s$`, yes: []string{" ", "\u00a0", "\u2028", "\v", "\ufeff"}, no: []string{"x"}},
		{pattern: `^\S+$`, yes: []string{"ab"}, no: []string{"a\u00a0b"}},
		{pattern: `^[\s\S]*$`, yes: []string{"", "a \n b"}},
		{pattern: `^[^\s/]+$`, yes: []string{"ab"}, no: []string{"a b", "a/b", "a\u00a0b"}},
		{pattern: `^a.b$`, yes: []string{"axb", "aéb"}, no: []string{"a\nb", "a\rb", "a\u2028b"}},
		{pattern: `^[a[b]+$`, yes: []string{"a[b"}, no: []string{"c"}},
		{pattern: `^[[:alpha:]]$`, yes: []string{"a]", "[]"}, no: []string{"z"}},
		{pattern: `^a\/b\-c$`, yes: []string{"a/b-c"}},
		{pattern: `^\cJ$`, yes: []string{"\n"}},
		{pattern: `^[\b]$`, yes: []string{"\b"}},
		{pattern: `^\0$`, yes: []string{"\x00"}},
		{pattern: `^(?<year>\d{4})$`, yes: []string{"2030"}},
		{pattern: `^\p{L}+$`, yes: []string{"é"}, no: []string{"1"}},
		{pattern: `^\é$`, yes: []string{"é"}},
		{pattern: `(?!a)`, unenforced: true},
		{pattern: `(?<=a)b`, unenforced: true},
		{pattern: `(a)\1`, unenforced: true},
		{pattern: `(?<n>a)\k<n>`, unenforced: true},
		{pattern: `(`, unenforced: true},
		{pattern: `a{2000}`, unenforced: true},
		{pattern: `[^\S]`, unenforced: true},
		{pattern: `[]`, unenforced: true},
		{pattern: `[^]`, unenforced: true},
		{pattern: `\ud83d\ude00`, unenforced: true},
		{pattern: `\u12`, unenforced: true},
		{pattern: `\u{12`, unenforced: true},
		{pattern: `\p{Script=Greek}`, unenforced: true},
		{pattern: `a\`, unenforced: true},
	} {
		s := Compile([]byte(`{"properties":{"v":{"type":"string","pattern":` + quoted(c.pattern) + `}},"patternProperties":{` + quoted(c.pattern) + `:{}}}`))
		if got := len(s.Notes()) > 0; got != c.unenforced || !s.Enforced() {
			t.Errorf("%s: notes %q, enforced %v", c.pattern, s.Notes(), s.Enforced())
		}
		if c.unenforced {
			c.yes = []string{"anything"}
		}
		for _, text := range c.yes {
			if _, invalid := s.Repair([]byte(`{"v":` + quoted(text) + `}`)); invalid != nil {
				t.Errorf("%s refuses %q: %s", c.pattern, text, invalid.Message)
			}
		}
		for _, text := range c.no {
			if _, invalid := s.Repair([]byte(`{"v":` + quoted(text) + `}`)); invalid == nil {
				t.Errorf("%s takes %q", c.pattern, text)
			}
		}
	}
}
