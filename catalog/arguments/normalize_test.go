package arguments

import (
	"encoding/json"
	"strings"
	"testing"
)

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

func TestNormalizeRefusesWithCodePositionNameAndPath(t *testing.T) {
	eleven := `{"calls":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a","arguments":{"n":1}},`, 11), ",") + `]}`
	for name, c := range map[string]struct {
		input    string
		code     RefusalCode
		position int
		tool     string
		path     string
		says     string
	}{
		"no JSON at all":               {`hello`, RefusedInvalidEnvelope, -1, "", "", "JSON"},
		"truncated envelope":           {quoted(`{"calls":[{"name":"a","arguments":{"x":`), RefusedInvalidEnvelope, 0, "a", "", "ends too early"},
		"an array":                     {`[{"name":"a"}]`, RefusedEnvelopeType, -1, "", "", "object"},
		"duplicate member in the call": {`{"calls":[{"name":"a","arguments":{"x":1,"x":2}}]}`, RefusedDuplicate, 0, "a", "arguments.x", "twice"},
		"duplicate name":               {`{"calls":[{"name":"a","name":"b"}]}`, RefusedDuplicate, 0, "", "", "twice"},
		"duplicate member in text":     {`{"calls":[{"name":"a"},{"name":"b","arguments":` + quoted(`{"r":[{"y":1,"y":1}]}`) + `}]}`, RefusedDuplicate, 1, "b", "arguments.r[0].y", "twice"},
		"NaN deep inside":              {`{"name":"a","arguments":` + quoted(`{"r":[0,-Infinity]}`) + `}`, RefusedNumber, 0, "a", "arguments.r[1]", "NaN or Infinity"},
		"truncated arguments":          {`{"name":"a","arguments":` + quoted(`{"x":"y`) + `}`, RefusedInvalidArguments, 0, "a", "", "ends too early"},
		"text after the arguments":     {`{"name":"a","arguments":` + quoted(`{"x":1} and then`) + `}`, RefusedInvalidArguments, 0, "a", "", "JSON"},
		"three times the same":         {`{"name":"a","arguments":` + quoted(`{"x":1}{"x":1}{"x":1}`) + `}`, RefusedInvalidArguments, 0, "a", "", "JSON"},
		"name of a wrong type":         {`{"calls":[{"name":["a"]}]}`, RefusedNameType, 0, "", "", "text"},
		"eleven entries":               {eleven, RefusedTooManyEntries, -1, "a", "", "first 10"},
		"stray member, two entries":    {`{"calls":[{"name":"a"},{"name":"b"}],"limit":3}`, RefusedStray, -1, "a", "", "limit"},
		"arguments beside calls":       {`{"calls":[{"name":"a"}],"arguments":{"x":1}}`, RefusedStray, -1, "a", "", "own arguments"},
		"nested in text":               {`{"calls":` + quoted(`{"name":"tool_call","arguments":`+quoted(`{"calls":[{"name":"b","arguments":{"x":1}}]}`)+`}`) + `}`, RefusedBridgeName, 0, "tool_call", "", `{"name":"b","arguments":{"x":1}}`},
		"too deep":                     {`{"name":"a","arguments":` + strings.Repeat(`{"x":`, 200) + `1` + strings.Repeat(`}`, 200) + `}`, RefusedTooDeep, -1, "", "", "levels"},
		"too deep in text":             {`{"name":"a","arguments":` + quoted(strings.Repeat(`{"x":`, 200)+`1`+strings.Repeat(`}`, 200)) + `}`, RefusedTooDeep, 0, "a", "", "levels"},
		"not UTF-8":                    {"{\"name\":\"a\",\"arguments\":{\"x\":\"\xff\"}}", RefusedInvalidEnvelope, -1, "", "", "UTF-8"},
		"byte order mark":              {`{"name":"a","arguments":` + quoted("\ufeff{}") + `}`, RefusedInvalidArguments, 0, "a", "", "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			entries, r := Normalize([]byte(c.input), NormalizeOptions{})
			if r == nil {
				t.Fatalf("taken: %v", entries)
			}
			if r.Refused != c.code || r.Position != c.position || c.tool != "" && r.Name != c.tool || c.path != "" && r.Path != c.path {
				t.Errorf("got %s at %d, name %q, path %q: %s", r.Refused, r.Position, r.Name, r.Path, r.Problem)
			}
			if !strings.Contains(r.Message, c.says) || !strings.Contains(r.Message, `{"calls":[{"name":`) || !strings.Contains(r.Message, "Nothing was run") {
				t.Errorf("message: %s", r.Message)
			}
		})
	}
}

func TestNormalizeTakes(t *testing.T) {
	for name, c := range map[string]struct{ input, tool, args string }{
		"numbers and order as written": {`{"calls":[{"arguments":{ "z": 1.50, "a":1e2, "n":12345678901234567890 },"name":"t"}]}`, "t", `{ "z": 1.50, "a":1e2, "n":12345678901234567890 }`},
		"text inside text":             {quoted(`{"calls":` + quoted(`[{"name":"t","arguments":`+quoted(` {"a":1} `)+`}]`) + `}`), "t", `{"a":1}`},
		"doubled calls text":           {`{"calls":` + quoted(`[{"name":"t"}][{"name":"t"}]`) + `}`, "t", `{}`},
		"doubled, other white space":   {`{"name":"t","arguments":` + quoted(`{"a":1} { "a": 1 }`) + `}`, "t", `{"a":1}`},
		"a lone surrogate, escaped":    {`{"name":"t","arguments":` + quoted(`{"a":"\ud800"}`) + `}`, "t", `{"a":"\ud800"}`},
		"name beside calls":            {`{"name":"other","arguments":{},"calls":{"name":"t"}}`, "t", `{}`},
		"white space of other scripts": {`{"name":"\u00a0t\u2003"}`, "t", `{}`},
		"null beside calls":            {`{"calls":[{"name":"t"}],"limit":null}`, "t", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			entries, r := Normalize([]byte(c.input), NormalizeOptions{})
			if r != nil {
				t.Fatal(r.Message)
			}
			if len(entries) != 1 || entries[0].Name != c.tool || string(entries[0].Arguments) != c.args || len(entries[0].Extra) != 0 {
				t.Errorf("%+v", entries)
			}
		})
	}
}

func TestARefusalsShapeEchoesUpTo1500CharactersOfArguments(t *testing.T) {
	for n, whole := range map[int]bool{1500 - len(`{"a":""}`): true, 1501 - len(`{"a":""}`): false} {
		args := `{"a":"` + strings.Repeat("é", n) + `"}`
		_, r := Normalize([]byte(`{"calls":[{"name":"t","arguments":`+args+`},null]}`), NormalizeOptions{})
		if r == nil || strings.Contains(r.Message, args) != whole || !json.Valid([]byte(r.Shape)) {
			t.Errorf("%d characters: %v", n, r)
		}
	}
}

func TestARefusalsShapeIsTheCallersOwnFirstEntry(t *testing.T) {
	_, r := Normalize([]byte(`{"calls":[{"name":"t","arguments":{ "a": [1, 2] }},5]}`), NormalizeOptions{})
	if r == nil || r.Shape != `{"calls":[{"name":"t","arguments":{"a":[1,2]}}]}` {
		t.Errorf("%v", r)
	}
}

func TestEqualRefusedInputsHaveOneKeyAndOthersAnother(t *testing.T) {
	key := func(input string) string {
		_, r := Normalize([]byte(input), NormalizeOptions{})
		if r == nil {
			t.Fatalf("%s was taken", input)
		}
		return r.Key
	}
	a := key(`{"calls":[{"name":"t","arguments":5}]}`)
	if a != key(" {\"calls\": [\n{\"name\":\"t\", \"arguments\":5}]}") || a != key(quoted(`{"calls":[{"name":"t","arguments":5}]}`)) {
		t.Error("white space or the text form changes the key")
	}
	if a == key(`{"calls":[{"name":"t","arguments":6}]}`) {
		t.Error("another input has the same key")
	}
}

func TestWordingGetsFirmerAndShorterThenHalts(t *testing.T) {
	_, r := Normalize([]byte(`{"calls":[{"name":"t","arguments":{"text":"`+strings.Repeat("x", 400)+`"}},null]}`), NormalizeOptions{})
	for n := 1; n <= 6; n++ {
		message, halt := r.Wording(n)
		switch {
		case n < 3 && (message != r.Message || halt):
			t.Errorf("%d: %q %v", n, message, halt)
		case n >= 3 && (len(message) >= len(r.Message) || !strings.Contains(message, r.Problem)):
			t.Errorf("%d is not firmer and shorter: %q", n, message)
		case halt != (n >= 5):
			t.Errorf("%d: halt %v", n, halt)
		}
	}
}

func TestFoldName(t *testing.T) {
	for in, want := range map[string]string{
		"Read Window Below": "read_window_below", "read-window-below": "read_window_below",
		" TODO_LIST\n": "todo_list", "mcp__a__b": "mcp__a__b", "Größe": "größe",
	} {
		if got := FoldName(in); got != want {
			t.Errorf("%q folds to %q, want %q", in, got, want)
		}
	}
}
