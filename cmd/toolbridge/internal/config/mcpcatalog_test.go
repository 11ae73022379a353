package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"toolbridge/connectors/mcp"
)

func TestParseCatalogReadsServersWithDescriptions(t *testing.T) {
	got, problems := ParseCatalog([]byte(`
servers:
  linear:
    description: Issues and projects
    command: npx -y linear-mcp
    env: {LINEAR_TOKEN: "${LINEAR_TOKEN}"}
  docs:
    url: https://docs.example/mcp
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []mcp.Offer{
		{Server: mcp.ServerConfig{Name: "linear", Command: mcp.CommandLine{"npx", "-y", "linear-mcp"}, Env: map[string]string{"LINEAR_TOKEN": "${LINEAR_TOKEN}"}}, Description: "Issues and projects"},
		{Server: mcp.ServerConfig{Name: "docs", URL: "https://docs.example/mcp"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestParseCatalogSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"an unknown key":      {"servers:\n  a: {comand: x}", "comand"},
		"no command":          {"servers:\n  a: {description: x}", "neither command nor url"},
		"a list":              {"servers: [a]", "a mapping of names"},
		"another top level":   {"server: {}", "server"},
		"twice in two cases":  {"servers:\n  A: {url: 'https://a'}\n  a: {url: 'https://b'}", "second time"},
		"a name without body": {"servers:\n  a:", "needs command or url"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := ParseCatalog([]byte(c.text))
			if len(problems) == 0 || !strings.Contains(problems[0].Message, c.want) {
				t.Errorf("got %v, want a problem with %q", problems, c.want)
			}
		})
	}
}
