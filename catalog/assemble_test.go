package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type assemblyVectors struct {
	Sets  map[string][]vectorTool `json:"tool_sets"`
	Cases []struct {
		ID    string
		Input struct {
			Tools         string
			Config        json.RawMessage
			ContextLength *int64 `json:"context_length"`
		}
		Expect struct {
			Activated       bool
			Tier            int
			Form            string
			DeferredCount   int `json:"deferred_count"`
			DeferredTokens  int `json:"deferred_tokens"`
			ThresholdTokens int `json:"threshold_tokens"`
			Visible         json.RawMessage
			BridgeAtEnd     bool  `json:"bridge_at_end"`
			ConnectionsHint *bool `json:"connections_hint"`
			ListingEmbedded *bool `json:"listing_embedded"`
		}
	}
}

// toolNames are the names of an assembly's tools.
func toolNames(t testing.TB, tools [][]byte) []string {
	t.Helper()
	out := []string{}
	for _, raw := range tools {
		var d struct {
			Name     string
			Function struct{ Name string }
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		out = append(out, d.Name+d.Function.Name)
	}
	return out
}

func TestAssembleFollowsTheVectors(t *testing.T) {
	// manage_connections is core and direct, never deferred, and so never counted.
	connections := map[string]bool{"a_mc_only_off_200000": true, "a_mc+eager_false_200000": true, "a_mc+small_off_200000": true, "a_mc+small_false_200000": true}
	const itsTokens = 41 // of manage_connections alone

	var v assemblyVectors
	readVectors(t, "assembly.json", &v)
	for _, c := range v.Cases {
		t.Run(c.ID, func(t *testing.T) {
			cfg, _ := ParseConfig(c.Input.Config)
			in := Input{Definitions: each(t, v.Sets[c.Input.Tools]), Config: cfg, Connectors: true}
			if c.Input.ContextLength != nil {
				in.ContextLength = *c.Input.ContextLength
			}
			a := Assemble(in)
			want := c.Expect
			if connections[c.ID] {
				want.DeferredCount--
				if want.DeferredCount == 0 {
					want.DeferredTokens, want.ThresholdTokens = 0, 0
				} else {
					want.DeferredTokens -= itsTokens - 1 // of rounding up the sum
				}
			}
			if a.Activated != want.Activated || a.Tier != want.Tier || a.ListingForm != want.Form {
				t.Errorf("activated %v, tier %d, form %s; want %v, %d, %s", a.Activated, a.Tier, a.ListingForm, want.Activated, want.Tier, want.Form)
			}
			if a.DeferredCount != want.DeferredCount || a.DeferredTokens != want.DeferredTokens || a.ThresholdTokens != want.ThresholdTokens {
				t.Errorf("deferred %d with %d tokens, threshold %d; want %d, %d, %d", a.DeferredCount, a.DeferredTokens, a.ThresholdTokens, want.DeferredCount, want.DeferredTokens, want.ThresholdTokens)
			}
			got := toolNames(t, a.Tools)
			if want.BridgeAtEnd {
				if n := len(got) - 3; n < 0 || !slices.Equal(got[n:], []string{ToolSearch, ToolDescribe, ToolCall}) {
					t.Fatalf("tools %v do not end with the bridges", got)
				} else {
					got = got[:n]
				}
			}
			var visible []string
			if json.Unmarshal(want.Visible, &visible) != nil {
				var count int
				if err := json.Unmarshal(want.Visible, &count); err != nil || count != len(got) {
					t.Errorf("%d visible tools, want %s", len(got), want.Visible)
				}
			} else {
				visible = slices.DeleteFunc(visible, func(n string) bool { return n == "" }) // nameless tools are left out
				if diff := cmp.Diff(visible, got, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
					t.Error(diff)
				}
			}
			if !want.BridgeAtEnd {
				return
			}
			description := searchDescription(t, a)
			if want.ListingEmbedded != nil && (a.Listing != "") != *want.ListingEmbedded {
				t.Errorf("listing %q, want one: %v", a.Listing, *want.ListingEmbedded)
			}
			if !strings.Contains(description, a.Listing) {
				t.Error("the listing does not stand in the description of tool_search")
			}
			if want.ConnectionsHint != nil && strings.Contains(description, ManageConnections) != *want.ConnectionsHint {
				t.Errorf("a sentence on connectors: want %v in %q", *want.ConnectionsHint, description)
			}
		})
	}
}

func searchDescription(t testing.TB, a Assembly) string {
	t.Helper()
	for _, raw := range a.Tools {
		var d struct {
			Name, Description string
			Function          struct{ Name, Description string }
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		if d.Name == ToolSearch || d.Function.Name == ToolSearch {
			return d.Description + d.Function.Description
		}
	}
	t.Fatal("no tool_search")
	return ""
}
