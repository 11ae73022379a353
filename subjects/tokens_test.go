package subjects

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTokenGrammar(t *testing.T) {
	for name, c := range map[string]struct {
		token           string
		valid, asTenant bool
	}{
		"empty":               {"", false, false},
		"one letter":          {"a", true, true},
		"all kinds":           {"aZ0_-", true, true},
		"digit first":         {"0a", true, true},
		"hyphen first":        {"-", true, true},
		"underscore first":    {"_a", true, false},
		"64 characters":       {strings.Repeat("x", 64), true, true},
		"65 characters":       {strings.Repeat("x", 65), false, false},
		"dot":                 {"a.b", false, false},
		"star":                {"*", false, false},
		"greater":             {">", false, false},
		"space":               {"a b", false, false},
		"tab":                 {"a\tb", false, false},
		"NUL":                 {"a\x00", false, false},
		"dollar":              {"$a", false, false},
		"equals":              {"a=20", false, false},
		"colon":               {"a:b", false, false},
		"slash":               {"a/b", false, false},
		"non-ASCII letter":    {"ä", false, false},
		"full-width digit":    {"１", false, false},
		"invalid UTF-8":       {"\xff", false, false},
		"before and after AZ": {"@[`{", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ValidToken(c.token); got != c.valid {
				t.Errorf("ValidToken = %v", got)
			}
			if err := CheckToken("user", c.token); (err == nil) != c.valid {
				t.Errorf("as user: %v", err)
			}
			for _, kind := range []string{"tenant", "session"} {
				err := CheckToken(kind, c.token)
				if (err == nil) != c.asTenant {
					t.Errorf("as %s: %v", kind, err)
				}
				if err != nil && (!strings.Contains(err.Error(), kind) || !utf8.ValidString(err.Error())) {
					t.Errorf("the error does not say which token: %q", err)
				}
			}
		})
	}
}

func TestErrorsAboutTokensAreBounded(t *testing.T) {
	huge := strings.Repeat("é\n", 1<<20)
	for _, err := range []error{CheckToken("session", huge), CheckToolset(huge)} {
		if err == nil || len(err.Error()) > 700 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
	}
	if _, err := DecodeToolset(huge); err == nil || len(err.Error()) > 700 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}

func TestToolsetNamesHaveOneSpelling(t *testing.T) {
	for name, token := range map[string]string{
		"mcp-github":   "mcp-github",
		"a_B-9":        "a_B-9",
		"my tools":     "my=20tools",
		"a.b":          "a=2Eb",
		"=":            "=3D",
		"*.>":          "=2A=2E=3E",
		"käse":         "k=C3=A4se",
		"\x00\xff":     "=00=FF",
		"=20":          "=3D20",
		"日本":           "=E6=97=A5=E6=9C=AC",
		"mcp-a/b:c@d ": "mcp-a=2Fb=3Ac=40d=20",
	} {
		if got := EncodeToolset(name); got != token {
			t.Errorf("EncodeToolset(%q) = %q, want %q", name, got, token)
		}
		if got, err := DecodeToolset(token); err != nil || got != name {
			t.Errorf("DecodeToolset(%q) = %q, %v; want %q", token, got, err, name)
		}
	}
	for _, token := range []string{
		"", "=", "=2", "a=2", "=2e", "=zz", "=41", "=5F", "=2D", "=30", "a b", "a.b", "ä", "*", "=2E=", "==20", "\xff", "=+1", "=0X",
		strings.Repeat("a", MaxToolset+1), strings.Repeat("=20", MaxToolset+1),
	} {
		got, err := DecodeToolset(token)
		var bad *ErrToken
		if !errors.As(err, &bad) || bad.Kind != "toolset" {
			t.Errorf("DecodeToolset(%q) = %q, %v; want an ErrToken", token, got, err)
		}
	}
}

func FuzzToolset(f *testing.F) {
	for _, s := range []string{"mcp-github", "my tools", "=2E", "=2e", "=41", "\xff", "a.b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token := EncodeToolset(s)
		back, err := DecodeToolset(token)
		switch {
		case CheckToolset(s) != nil:
			if err == nil {
				t.Fatalf("no error for the name %q", s)
			}
		case err != nil || back != s:
			t.Fatalf("%q became %q, then %q (%v)", s, token, back, err)
		}
		for i := range len(token) {
			if !safeByte(token[i]) && token[i] != '=' {
				t.Fatalf("%q can not be a token", token)
			}
		}
		if name, err := DecodeToolset(s); err == nil && EncodeToolset(name) != s {
			t.Fatalf("%q is a second spelling of %q", s, name)
		}
	})
}
