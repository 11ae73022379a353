package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

func TestDefinitionHashIsOverSortedCompactJSON(t *testing.T) {
	for _, c := range []struct{ name, tool, hashed string }{
		{
			"order of keys", `{"name":"a","description":"d","parameters":{"type":"object","properties":{"b":{"type":"string","x":1},"a":{}}}}`,
			`{"description":"d","name":"a","parameters":{"properties":{"a":{},"b":{"type":"string","x":1}},"type":"object"}}`,
		},
		{"nothing but a name", `{"name":"a"}`, `{"description":"","name":"a","parameters":{}}`},
		{
			"nested keys in arrays", `{"name":"a","parameters":{"anyOf":[{"z":1,"a":[{"y":2,"b":3}]}]}}`,
			`{"description":"","name":"a","parameters":{"anyOf":[{"a":[{"b":3,"y":2}],"z":1}]}}`,
		},
		{
			"numbers as written", `{"name":"a","parameters":{"n":9007199254740993,"f":1.50,"e":1E+2,"z":-0.0}}`,
			`{"description":"","name":"a","parameters":{"e":1E+2,"f":1.50,"n":9007199254740993,"z":-0.0}}`,
		},
		{
			"non-ASCII stays and sorts by code point", `{"name":"ä","description":"caf\u00e9 \ud83d\ude80","parameters":{"\ud83d\ude80":1,"\uffee":2,"é":3,"z":4}}`,
			"{\"description\":\"café 🚀\",\"name\":\"ä\",\"parameters\":{\"z\":4,\"é\":3,\"\uffee\":2,\"🚀\":1}}",
		},
		{
			"escapes are the shortest", `{"name":"a","description":"\u003c&\u003e \/ \u0022 \\ \u000a\t\u0001\u007f\u2028","parameters":{}}`,
			"{\"description\":\"<&> / \\\" \\\\ \\n\\t\\u0001\u007f\u2028\",\"name\":\"a\",\"parameters\":{}}",
		},
		{"white space does not count", "{ \"name\" : \"a\" ,\n \"parameters\" : { \"a\" : [ 1 , 2 ] } }", `{"description":"","name":"a","parameters":{"a":[1,2]}}`},
		{"own fields do not count", `{"name":"a","toolset":"x","parallel":true,"aliases":["b"],"annotations":{"readOnlyHint":true}}`, `{"description":"","name":"a","parameters":{}}`},
		{"every dialect alike", `{"type":"function","function":{"name":"a","description":"d","parameters":{"b":1,"a":2}}}`, `{"description":"d","name":"a","parameters":{"a":2,"b":1}}`},
		{"anthropic", `{"name":"a","description":"d","input_schema":{"b":1,"a":2}}`, `{"description":"d","name":"a","parameters":{"a":2,"b":1}}`},
		{"a schema that is none", `{"name":"a","parameters":[2,1]}`, `{"description":"","name":"a","parameters":[2,1]}`},
		{"a name with a line break", `{"name":"a\nb"}`, `{"description":"","name":"a\nb","parameters":{}}`},
		{"true", `{"name":"a","parameters":true}`, `{"description":"","name":"a","parameters":true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decode(t, []byte("["+c.tool+"]"))
			if len(d) != 1 {
				t.Fatalf("%d definitions", len(d))
			}
			sum := sha256.Sum256([]byte(c.hashed))
			if got := d[0].SHA256(); got != hex.EncodeToString(sum[:]) {
				t.Errorf("the hash is not that of %s", c.hashed)
			}
		})
	}
}

func TestDefinitionHashIsOfTheWholeDescription(t *testing.T) {
	tool := []byte(`[{"name":"a","description":"0123456789"}]`)
	short, _, err := Decode(tool, Limits{DescriptionChars: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := short[0].Description; got != "012…" {
		t.Errorf("description %q", got)
	}
	if whole := decode(t, tool); whole[0].SHA256() != short[0].SHA256() {
		t.Error("the hash depends on how much is shown")
	}
}
