package arguments

import (
	"encoding/json"
	"strings"
	"testing"
)

// overruledEnvelopes are the recorded envelopes that Toolbridge answers
// otherwise, with what it does instead and why.
var overruledEnvelopes = map[string]struct {
	refused RefusalCode // "" means that it is taken
	why     string
}{
	"n044": {RefusedNameType, "true is no name: a language's own text form of a value (\"True\") is not invented"},
	"n069": {RefusedNumber, "JSON can not carry NaN; it is refused with its path"},
	"n100": {RefusedTooManyEntries, "more than ten entries are refused whole, before anything else is looked at"},
	"n123": {"", "a member beside arguments is not ignored: it is kept for Adopt, which refuses it"},
}

func TestNormalizeAnswersTheRecordedEnvelopes(t *testing.T) {
	var vectors struct {
		Cases []struct {
			ID     string
			Input  json.RawMessage
			Expect struct {
				Normalize struct {
					Error    string
					Position *int
					Name     string
					OK       bool
					Entries  []struct {
						Name      string
						Arguments json.RawMessage
					}
				}
			}
		}
	}
	readVectors(t, "call_normalize.json", &vectors)
	seen := 0
	for _, c := range vectors.Cases {
		t.Run(c.ID, func(t *testing.T) {
			entries, refusal := Normalize(c.Input, NormalizeOptions{})
			asText, _ := json.Marshal(string(c.Input))
			again, refusalOfText := Normalize(asText, NormalizeOptions{})
			if (refusal == nil) != (refusalOfText == nil) || len(entries) != len(again) {
				t.Errorf("the same envelope as text: %v, %v", again, refusalOfText)
			}
			if refusal != nil && refusal.Key != refusalOfText.Key {
				t.Error("the same refused envelope as text has another key")
			}
			want := c.Expect.Normalize
			if over, ok := overruledEnvelopes[c.ID]; ok {
				seen++
				if over.refused != "" {
					if refusal == nil || refusal.Refused != over.refused {
						t.Fatalf("want %s (%s), got %v, %v", over.refused, over.why, entries, refusal)
					}
					return
				}
			}
			if want.Error != "" {
				if refusal == nil {
					t.Fatalf("taken as %v, want %s", entries, want.Error)
				}
				if string(refusal.Refused) != want.Error {
					t.Errorf("refused as %s (%s), want %s", refusal.Refused, refusal.Problem, want.Error)
				}
				if want.Position != nil && refusal.Position != *want.Position {
					t.Errorf("position %d, want %d", refusal.Position, *want.Position)
				}
				if want.Name != "" && refusal.Name != want.Name {
					t.Errorf("name %q, want %q", refusal.Name, want.Name)
				}
				if !strings.Contains(refusal.Message, `"calls":[{"name":`) {
					t.Errorf("the message does not restate the valid shape: %s", refusal.Message)
				}
				return
			}
			if refusal != nil {
				t.Fatalf("refused: %s %s", refusal.Refused, refusal.Message)
			}
			if want.OK {
				return
			}
			if len(entries) != len(want.Entries) {
				t.Fatalf("%d entries, want %d", len(entries), len(want.Entries))
			}
			for i, e := range entries {
				if e.Name != want.Entries[i].Name || !sameJSON(t, e.Arguments, want.Entries[i].Arguments) {
					t.Errorf("entry %d is %s %s, want %s %s", i, e.Name, e.Arguments, want.Entries[i].Name, want.Entries[i].Arguments)
				}
			}
		})
	}
	if seen != len(overruledEnvelopes) {
		t.Errorf("%d of %d overruled envelopes were met", seen, len(overruledEnvelopes))
	}
}
