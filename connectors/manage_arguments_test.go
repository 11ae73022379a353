package connectors

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// manageVectors are the golden cases of manage_connections.
type manageVectors struct {
	Cases []struct {
		ID     string          `json:"id"`
		Input  json.RawMessage `json:"input"`
		Expect struct {
			Error  string      `json:"error"`
			Action string      `json:"action"`
			Hosted [][]*string `json:"hosted"`
			MCP    []string    `json:"mcp"`
		} `json:"expect"`
	} `json:"cases"`
	Flows       []manageFlow        `json:"flows"`
	Transitions [][]json.RawMessage `json:"transitions"`
}

func readManageVectors(t *testing.T) manageVectors {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors/manage_connections.json")
	if err != nil {
		t.Fatal(err)
	}
	var v manageVectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// overruledManage are the cases where another answer is right.
var overruledManage = map[string]string{
	"m22": RefusedTarget, // a list in the list is no name: a language's own text form of a value is refused as a wrong type
}

func TestParseManageGivesTheGoldenOutcome(t *testing.T) {
	for _, c := range readManageVectors(t).Cases {
		t.Run(c.ID, func(t *testing.T) {
			got, err := ParseManage(c.Input)
			want := c.Expect.Error
			if kind, ok := overruledManage[c.ID]; ok {
				want = kind
			}
			var refused *Refusal
			if errors.As(err, &refused) {
				if refused.Kind != want {
					t.Fatalf("refused as %s (%s), want %q", refused.Kind, refused.Message, want)
				}
				return
			}
			if err != nil || want != "" {
				t.Fatalf("got %+v, %v; want the refusal %q", got, err, want)
			}
			text := func(s string) *string {
				if s == "" {
					return nil
				}
				return &s
			}
			hosted, servers := [][]*string{}, []string{}
			for _, h := range got.Hosted {
				hosted = append(hosted, []*string{&h.Name, text(h.Alias), text(h.To)})
			}
			servers = append(servers, got.MCP...)
			if d := cmp.Diff([]any{c.Expect.Action, c.Expect.Hosted, c.Expect.MCP}, []any{got.Action, hosted, servers}); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestParseManageRefusesWhatCouldBeMisread(t *testing.T) {
	for name, c := range map[string]struct{ input, kind string }{
		"a member twice":            {`{"action":"connect","action":"status"}`, RefusedShape},
		"a member twice in target":  {`{"action":"connect","connectors":[{"name":"a","name":"b"}]}`, RefusedShape},
		"a list for the whole":      {`["gmail"]`, RefusedShape},
		"a name beside the list":    {`{"action":"connect","name":"gmail"}`, RefusedField},
		"null in the list":          {`{"action":"connect","connectors":[null]}`, RefusedName},
		"true in the list":          {`{"action":"connect","connectors":[true]}`, RefusedTarget},
		"two accounts in one call":  {`{"action":"connect","connectors":[{"name":"gmail","alias":"a"},{"name":"gmail","alias":"b"}]}`, RefusedManyAliases},
		"an alias beside others":    {`{"action":"connect","connectors":[{"name":"gmail","alias":"a"},"notion"]}`, RefusedManyAliases},
		"mcp false for a server":    {`{"action":"install","connectors":[{"name":"linear","mcp":"no"}]}`, RefusedMCPHosted},
		"an alias that is a list":   {`{"action":"connect","connectors":[{"name":"gmail","alias":["a"]}]}`, RefusedAlias},
		"a line break in an alias":  {`{"action":"connect","connectors":[{"name":"gmail","alias":"a\nb"}]}`, RefusedAlias},
		"rename of nothing":         {`{"action":"rename"}`, RefusedRename},
		"reconnect of empty label":  {`{"action":"reconnect","connectors":[{"name":"gmail","alias":"  "}]}`, RefusedAlias},
		"the action with no object": {`{"action":{"a":1}}`, RefusedAction},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseManage([]byte(c.input))
			var refused *Refusal
			if !errors.As(err, &refused) || refused.Kind != c.kind || refused.Message == "" {
				t.Errorf("got %#v, want a refusal %s", err, c.kind)
			}
		})
	}
}

// FuzzParseManage holds that whatever comes gives either a refusal, or a request
// that keeps the rules.
func FuzzParseManage(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"action":"connect","connectors":["Gmail ",5,{"name":"x","alias":"a","to":"b"}]}`, `{"action":"install","connectors":{"name":"l","mcp":1}}`,
		`{"action":"rename","connectors":{"name":"gmail","alias":"w","to":"h"},"force":"yes"}`, `{"connectors":[[[["a"]]]]}`, `{"connectors":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := ParseManage(data)
		if err != nil {
			var refused *Refusal
			if !errors.As(err, &refused) || refused.Kind == "" || refused.Message == "" {
				t.Fatalf("an error that is no refusal: %v", err)
			}
			return
		}
		if len(q.Hosted) > 0 && len(q.MCP) > 0 {
			t.Fatal("hosted apps and MCP servers in one request")
		}
		if len(q.Hosted)+len(q.MCP) > maxTargets {
			t.Fatal("too many targets")
		}
		for _, target := range q.Hosted {
			if target.Name == "" || q.Action == ActionConnect && target.Alias != "" && !alias.MatchString(target.Alias) || target.To != "" && (q.Action != ActionRename || !alias.MatchString(target.To)) {
				t.Fatalf("a target that breaks the rules: %+v", target)
			}
		}
	})
}
