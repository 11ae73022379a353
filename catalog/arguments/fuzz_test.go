package arguments

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// seed adds one field of every recorded case to a fuzz target's corpus.
func seed(f *testing.F, file string, add func(input map[string]json.RawMessage)) {
	f.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vectors", file))
	if err != nil {
		f.Fatal(err)
	}
	var vectors struct {
		Cases []struct{ Input map[string]json.RawMessage }
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		f.Fatal(err)
	}
	for _, c := range vectors.Cases {
		add(c.Input)
	}
}

func isObject(text []byte) bool {
	v := jsontext.Value(text)
	return v.Kind() == '{' && v.IsValid(jsontext.AllowInvalidUTF8(true))
}

func FuzzNormalize(f *testing.F) {
	seed(f, "call_normalize.json", func(input map[string]json.RawMessage) {
		if text, err := json.Marshal(input); err == nil && len(text) < 500 {
			f.Add(text)
		}
	})
	f.Add([]byte(`{"calls":[{"name":"x","arguments":"{\"a\":1}{\"a\":1}"}]}`))
	f.Add([]byte(`"{\"calls\":[{\"name\":\"x\",\"arguments\":{\"a\":NaN}}]}"`))
	f.Fuzz(func(t *testing.T, input []byte) {
		before := bytes.Clone(input)
		entries, refusal := Normalize(input, NormalizeOptions{})
		if !bytes.Equal(before, input) {
			t.Fatal("the input was changed")
		}
		if (refusal == nil) == (len(entries) == 0) {
			t.Fatalf("%d entries and refusal %v", len(entries), refusal)
		}
		if refusal != nil {
			if !isObject([]byte(refusal.Shape)) || refusal.Key == "" || refusal.Problem == "" {
				t.Fatalf("unusable refusal %+v", refusal)
			}
			return
		}
		for _, e := range entries {
			if e.Name == "" || IsBridge(e.Name) || !isObject(e.Arguments) {
				t.Fatalf("entry %q %s", e.Name, e.Arguments)
			}
			shape := Shape(e.Name, e.Arguments)
			if len(shape) < 1000 && len(e.Name) < 100 {
				again, refusal := Normalize([]byte(shape), NormalizeOptions{})
				if refusal != nil || len(again) != 1 || again[0].Name != e.Name {
					t.Fatalf("the shape %s of a good entry is refused: %v", shape, refusal)
				}
			}
		}
	})
}

func FuzzCompile(f *testing.F) {
	seed(f, "args_validate.json", func(input map[string]json.RawMessage) { f.Add([]byte(input["parameters"])) })
	f.Add([]byte(`{"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`))
	f.Add([]byte(`{"properties":{"a":{"maximum":1e999999999,"pattern":"(?!x)"}}}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		before := bytes.Clone(schema)
		s := Compile(schema)
		if !bytes.Equal(before, schema) {
			t.Fatal("the schema was changed")
		}
		for _, arguments := range []string{`{}`, `{"a":1,"b":"x","v":[null,{"k":"1"}]}`} {
			_, _ = s.Repair([]byte(arguments))
		}
	})
}

func FuzzRepair(f *testing.F) {
	seed(f, "args_validate.json", func(input map[string]json.RawMessage) {
		f.Add([]byte(input["parameters"]), []byte(input["arguments"]))
	})
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		s := Compile(schema)
		before := bytes.Clone(arguments)
		repaired, invalid := s.Repair(arguments)
		if !bytes.Equal(before, arguments) {
			t.Fatal("the arguments were changed")
		}
		if invalid != nil {
			if repaired != nil || invalid.Path == "" || invalid.Constraint == "" || len([]rune(invalid.Message)) > maxMessage {
				t.Fatalf("unusable error %+v", invalid)
			}
			if again, other := s.Repair(arguments); again != nil || other.Path != invalid.Path || other.Message != invalid.Message {
				t.Fatalf("two answers to one question: %q and %q", invalid.Message, other.Message)
			}
			return
		}
		if !isObject(repaired) {
			t.Fatalf("no object: %s", repaired)
		}
		again, invalid := s.Repair(repaired)
		if invalid != nil || !bytes.Equal(again, repaired) {
			t.Fatalf("%s was repaired to %s and then to %s, %v", arguments, repaired, again, invalid)
		}
	})
}
