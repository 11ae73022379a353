package mcp

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

func TestParseServerTakesTheCommandLinesForm(t *testing.T) {
	tests := []struct {
		flag string
		want ServerConfig
	}{
		{`fs=npx -y @modelcontextprotocol/server-filesystem /tmp`, ServerConfig{Name: "fs", Command: CommandLine{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/tmp"}}},
		{`a b= x  'two words' "it's \"so\" \n" c\ d ''`, ServerConfig{Name: "a b", Command: CommandLine{"x", "two words", `it's "so" \n`, "c d", ""}}},
		{`x=TOKEN=${TOKEN} A='b c' cmd K=v`, ServerConfig{Name: "x", Env: map[string]string{"TOKEN": "${TOKEN}", "A": "b c"}, Command: CommandLine{"cmd", "K=v"}}},
		{`web=https://example.test/mcp?a=1&b=2`, ServerConfig{Name: "web", URL: "https://example.test/mcp?a=1&b=2"}},
		{`local=http://${HOST}/mcp`, ServerConfig{Name: "local", URL: "http://${HOST}/mcp"}},
		{`p=cmd a|b >c;d`, ServerConfig{Name: "p", Command: CommandLine{"cmd", "a|b", ">c;d"}}},
	}
	for _, tt := range tests {
		got, err := ParseServer(tt.flag)
		if err != nil {
			t.Errorf("%s: %v", tt.flag, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.flag, diff)
		}
	}
}

func TestParseServerSaysWhatIsWrong(t *testing.T) {
	for flag, want := range map[string]string{
		``:              "expected name='command args'",
		`npx`:           "expected name='command args'",
		`=npx`:          "expected name='command args'",
		`a=`:            "the command is empty",
		`a=  `:          "the command is empty",
		`a=K=v`:         "the command is empty",
		`a='x`:          "single quote at character 1 is not closed",
		`a=x "y`:        "double quote at character 3 is not closed",
		`a=x \`:         "backslash",
		`a=http://`:     "url must be",
		`a=http://h x`:  "contains a space",
		`a=''`:          "the command is empty",
		"a\x01b=cmd":    "control characters",
		"a=http://%zz/": "url:",
	} {
		if got, err := ParseServer(flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v; want %q", flag, got, err, want)
		}
	}
}

func TestServerConfigReadsYAML(t *testing.T) {
	const doc = `
- name: fs
  command: npx -y 'server fs'
  args: [/tmp]
  env: {TOKEN: "${TOKEN}"}
  env_from: [PROXY]
  trusted: true
  supports_parallel_tool_calls: true
  timeout: 2m
- {name: web, url: https://h/mcp, headers: {Authorization: "Bearer ${T}"}, connect_timeout: 5s}
- {name: list, command: [a, "b c"]}
`
	var got []ServerConfig
	if err := yaml.UnmarshalWithOptions([]byte(doc), &got, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Timeout.String() != "2m0s" || !got[0].Trusted || got[1].Headers["Authorization"] != "Bearer ${T}" {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"npx", "-y", "server fs", "/tmp"}, []string(got[0].withDefaults().Command)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(CommandLine{"a", "b c"}, got[2].Command); diff != "" {
		t.Error(diff)
	}
	for _, s := range got {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestEnvironmentHoldsOnlyWhatIsConfigured(t *testing.T) {
	host := map[string]string{"PATH": "/bin", "HOME": "/root", "AWS_SECRET": "s3cr3t!", "TOKEN": "abcdef", "EMPTY": ""}
	env := func(name string) (string, bool) { v, ok := host[name]; return v, ok }
	got, secrets, err := environment(ServerConfig{
		Env:     map[string]string{"A": "x${TOKEN}y$${TOKEN}", "B": "${NOPE:-fallback}", "C": "${EMPTY:-f}", "D": "$TOKEN ${EMPTY}"},
		EnvFrom: []string{"AWS_SECRET"},
	}, env)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"A=xabcdefy${TOKEN}", "AWS_SECRET=s3cr3t!", "B=fallback", "C=f", "D=$TOKEN ", "HOME=/root", "PATH=/bin"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := mask("it is s3cr3t! indeed", secrets); got != "it is *** indeed" {
		t.Errorf("masked: %q", got)
	}
	for value, want := range map[string]string{"${NOPE}": "NOPE is not set", "${": "not closed", "${A B}": "does not name", "${}": "does not name"} {
		if _, _, err := environment(ServerConfig{Env: map[string]string{"X": value}}, env); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "env X") {
			t.Errorf("%s: %v", value, err)
		}
	}
	if _, _, err := environment(ServerConfig{EnvFrom: []string{"NOPE"}}, env); err == nil {
		t.Error("a missing env_from is no error")
	}
}

func FuzzSplitCommand(f *testing.F) {
	for _, s := range []string{`a 'b c' "d\"e" f\ g`, `'`, `\`, "a\\\nb", `""''`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := SplitCommand(line)
		if err != nil {
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		again, err := SplitCommand(strings.Join(quoted, " "))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(words, again); diff != "" && len(words)+len(again) > 0 {
			t.Errorf("%q: %s", line, diff)
		}
	})
}
