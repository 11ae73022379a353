package arguments

import (
	"encoding/json"
	"slices"
	"testing"
)

// outcome is what repair does with one pair of schema and arguments.
type outcome struct {
	args       string // the repaired arguments; "" when they are refused
	path       string
	constraint string
	why        string
}

// overruledArguments are the recorded pairs with another outcome here.
var overruledArguments = map[string]outcome{
	// An exact number in text keeps every digit.
	"v036": {args: `{"count":9007199254740993}`, why: "digits"},
	"v037": {args: `{"count":123456789012345678901234567890}`, why: "digits"},
	"v063": {args: `{"x":12345678901234567890.5}`, why: "digits"},
	// What is valid is never changed.
	"v152": {args: `{"v":"5"}`, why: "text is one of the types"},
	"v155": {args: `{"v":"5"}`, why: "text is one of the types"},
	// The schema true takes anything; a property may be called nullable or enum;
	// parameters that are no object are no schema.
	"v218": {args: `{"v":5}`, why: "schema true"},
	"v323": {args: `{"nullable":"x"}`, why: "schema true for a property called nullable"},
	"v321": {path: "arguments.nullable", constraint: "type", why: "a property called nullable"},
	"v324": {args: `{"enum":null}`, why: "a nullable property called enum"},
	"v357": {args: `{"a":1}`, why: "no schema"},
	"v353": {args: `{"a":5}`, why: "the dialect a tool was defined in does not matter"},
	// Coercion reaches elements, nested properties, references, allOf and anyOf.
	"v101": {args: `{"ids":[1,2]}`, why: "elements"},
	"v103": {args: `{"ids":[1]}`, why: "elements"},
	"v120": {args: `{"grid":[[1]]}`, why: "elements"},
	"v138": {args: `{"opt":{"deep":{"n":1}}}`, why: "nested properties"},
	"v184": {args: `{"v":1}`, why: "the one branch that takes it"},
	"v194": {args: `{"v":5}`, why: "the one branch that takes it"},
	"v281": {args: `{"a":7}`, why: "allOf"},
	"v300": {args: `{"rows":[{"cells":[1]}]}`, why: "elements"},
	"v303": {args: `{"a":1}`, why: "$ref"},
	"v326": {args: `{"tree":{"kids":[{"kids":[{"v":2}]}]}}`, why: "recursive $ref"},
	// null and "" for an optional property that can not take them mean that it
	// is left out.
	"v029": {args: `{}`, why: "blank"},
	"v042": {args: `{}`, why: "null"},
	"v062": {args: `{}`, why: "null"},
	"v073": {args: `{}`, why: "null"},
	"v074": {args: `{}`, why: "blank"},
	"v079": {args: `{}`, why: "null"},
	"v094": {args: `{}`, why: "null"},
	"v130": {args: `{}`, why: "null"},
	"v148": {args: `{}`, why: "blank"},
	"v185": {args: `{}`, why: "null, and nullable is no truth value"},
	"v214": {args: `{}`, why: "blank"},
	"v226": {args: `{}`, why: "null"},
}

func TestRepairAnswersTheRecordedArguments(t *testing.T) {
	var vectors struct {
		Cases []struct {
			ID    string
			Input struct {
				Parameters json.RawMessage
				Arguments  json.RawMessage
			}
			Expect struct {
				OK             bool
				Path           string
				Constraint     string
				Missing        []string
				DispatchedArgs json.RawMessage `json:"dispatched_args"`
			}
		}
	}
	readVectors(t, "args_validate.json", &vectors)
	met := 0
	for _, c := range vectors.Cases {
		t.Run(c.ID, func(t *testing.T) {
			want := outcome{string(c.Expect.DispatchedArgs), c.Expect.Path, c.Expect.Constraint, ""}
			if o, ok := overruledArguments[c.ID]; ok {
				met++
				want = o
			}
			repaired, err := Compile(c.Input.Parameters).Repair(c.Input.Arguments)
			switch {
			case want.args == "" && err == nil:
				t.Fatalf("taken as %s, want %s at %s", repaired, want.constraint, want.path)
			case want.args == "":
				if err.Path != want.path || err.Constraint != want.constraint {
					t.Errorf("%s at %s (%s), want %s at %s", err.Constraint, err.Path, err.Message, want.constraint, want.path)
				}
				if !slices.Equal(err.Missing, c.Expect.Missing) {
					t.Errorf("missing %v, want %v", err.Missing, c.Expect.Missing)
				}
			case err != nil:
				t.Fatalf("refused: %s at %s (%s), want %s", err.Constraint, err.Path, err.Message, want.args)
			case !sameJSON(t, repaired, []byte(want.args)):
				t.Errorf("dispatched %s, want %s", repaired, want.args)
			}
		})
	}
	if met != len(overruledArguments) {
		t.Errorf("%d of %d overruled pairs were met", met, len(overruledArguments))
	}
}
