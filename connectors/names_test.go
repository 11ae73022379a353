package connectors

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

type nameVector struct {
	ID    string `json:"id"`
	Input struct {
		Op        string          `json:"op"`
		Connector string          `json:"connector"`
		Slug      string          `json:"slug"`
		Name      json.RawMessage `json:"name"`
	} `json:"input"`
	Expect struct {
		Name        string   `json:"name"`
		IsConnector bool     `json:"is_connector_name"`
		Parsed      []string `json:"parsed"`
		Candidates  []string `json:"slug_candidates"`
		First       bool     `json:"first_candidate_is_original"`
	} `json:"expect"`
}

func nameVectors(t testing.TB) []nameVector {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors/connector_names.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []nameVector `json:"cases"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 46 {
		t.Fatalf("%d vectors, want 46", len(file.Cases))
	}
	return file.Cases
}

func TestNamesComposeAndParseAsTheVectorsSay(t *testing.T) {
	for _, v := range nameVectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			name := ""
			if v.Input.Op == "compose" {
				name = Compose(v.Input.Connector, v.Input.Slug)
				if name != v.Expect.Name {
					t.Fatalf("composed %q, want %q", name, v.Expect.Name)
				}
			} else {
				_ = json.Unmarshal(v.Input.Name, &name) // what is no text is no name
				if got := IsConnector(name); got != v.Expect.IsConnector {
					t.Errorf("IsConnector(%q) is %v", name, got)
				}
			}
			var parsed, candidates []string
			if connector, tool, ok := Parse(name); ok {
				parsed, candidates = []string{connector, tool}, Candidates(connector, tool)
			}
			if diff := cmp.Diff(v.Expect.Parsed, parsed); diff != "" {
				t.Errorf("parsed %q (-want +got):\n%s", name, diff)
			}
			if diff := cmp.Diff(v.Expect.Candidates, candidates); diff != "" {
				t.Errorf("candidates of %q (-want +got):\n%s", name, diff)
			}
			if v.Input.Op == "compose" && v.Expect.First != (len(candidates) > 0 && candidates[0] == v.Input.Slug) {
				t.Errorf("the first candidate is %v, the slug %q", candidates, v.Input.Slug)
			}
		})
	}
}

func TestOnlyTheConnectorsPartOfANameIsFolded(t *testing.T) {
	for name, want := range map[string]string{
		"connectors__GMAIL__SEND_Email":   "connectors__gmail__SEND_Email",
		"connectors__Hub.Spot__List__Now": "connectors__hub.spot__List__Now",
		"connectors__ÉCLAIR__Go":          "connectors__éclair__Go",
		"connectors__gmail__SEND":         "connectors__gmail__SEND",
		"connectors__GMAIL__":             "connectors__GMAIL__", // no name of a tool
		"Connectors__GMAIL__SEND":         "Connectors__GMAIL__SEND",
		"mcp__GitHub__Create":             "mcp__GitHub__Create",
		"":                                "",
	} {
		if got := FoldName(name); got != want {
			t.Errorf("FoldName(%q) is %q, want %q", name, got, want)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, v := range nameVectors(f) {
		var name string
		if json.Unmarshal(v.Input.Name, &name) == nil {
			f.Add(name)
		}
		f.Add(v.Expect.Name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		connector, tool, ok := Parse(name)
		if !ok {
			if FoldName(name) != name {
				t.Fatalf("%q is no name of a tool, and was folded", name)
			}
			return
		}
		if connector == "" || tool == "" || !IsConnector(name) {
			t.Fatalf("%q was parsed to %q and %q", name, connector, tool)
		}
		if namePrefix+connector+nameBreak+tool != name {
			t.Fatalf("%q was parsed to %q and %q, which lose something", name, connector, tool)
		}
		c := Candidates(connector, tool)
		if len(c) != 2 || c[1] != tool || !strings.HasSuffix(c[0], "_"+tool) {
			t.Fatalf("candidates of %q: %q", name, c)
		}
		if got := Compose(connector, c[0]); utf8.ValidString(name) && got != name {
			t.Fatalf("the first candidate of %q composes to %q", name, got)
		}
	})
}
