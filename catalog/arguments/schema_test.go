package arguments

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEveryDraftIsRead(t *testing.T) {
	for schema, rows := range map[string][]verdict{
		`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"type":"integer","minimum":5,"exclusiveMinimum":true}},"id":"http://x/y"}`: {
			{args: `{"a":5}`, path: "arguments.a", constraint: "minimum"}, {args: `{"a":6}`, repaired: `{"a":6}`},
		},
		`{"$schema":"http://json-schema.org/draft-06/schema#","properties":{"a":{"const":1},"b":{"contains":{"const":1}}}}`: {
			{args: `{"a":2}`, path: "arguments.a", constraint: "const"}, {args: `{"b":[2]}`, path: "arguments.b", constraint: "contains"},
		},
		`{"$schema":"http://json-schema.org/draft-07/schema","properties":{"a":{"type":"array","items":[{"type":"string"}],"additionalItems":{"type":"integer"}},"d":{"format":"email","contentEncoding":"base64"}},"dependencies":{"x":["y"]}}`: {
			{args: `{"a":["s","5"]}`, repaired: `{"a":["s",5]}`}, {args: `{"d":"no mail"}`, repaired: `{"d":"no mail"}`}, {args: `{"x":1}`, path: "arguments", constraint: "dependencies"},
		},
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"$ref":"#/$defs/n","maximum":3},"t":{"$recursiveRef":"#"}},"$defs":{"n":{"type":"integer"}},"dependentRequired":{"a":["t"]}}`: {
			{args: `{"a":4,"t":{}}`, path: "arguments.a", constraint: "maximum"}, {args: `{"a":"2"}`, path: "arguments", constraint: "dependentRequired"}, {args: `{"t":{"a":9,"t":{}}}`, path: "arguments.t.a", constraint: "maximum"},
		},
		`{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":false},"t":{"$dynamicRef":"#n"}},"$defs":{"n":{"$dynamicAnchor":"n","type":"integer"}},"dependencies":{"a":["t"]},"unevaluatedProperties":false}`: {
			{args: `{"a":["s",1]}`, path: "arguments.a", constraint: "items"}, {args: `{"t":"x"}`, path: "arguments.t", constraint: "type"}, {args: `{"a":["s"],"t":"4"}`, repaired: `{"a":["s"],"t":4}`}, {args: `{"z":1}`, path: "arguments", constraint: "unevaluatedProperties"},
		},
	} {
		if s := Compile([]byte(schema)); !s.Enforced() || len(s.Notes()) > 0 {
			t.Errorf("%s: enforced %v, %q", schema, s.Enforced(), s.Notes())
		}
		checkVerdicts(t, schema, rows)
	}
}

func TestNothingIsEverFetched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":"integer"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
			t.Error("a connection was made")
		}
	}()
	for _, url := range []string{"file://" + file, "http://" + listener.Addr().String() + "/x", "other.json", "urn:tool:other#/a", "urn:tool:parameters"} {
		for _, form := range []string{
			`{"properties":{"a":{"$ref":%s},"n":{"type":"integer"}}}`, `{"$schema":%s,"properties":{"b":{"type":"string"}}}`,
			`{"properties":{"a":{"$dynamicRef":%s}}}`, `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"$recursiveRef":%s}}}`,
			`{"$id":%s,"properties":{"a":{"$ref":"x.json"}}}`, `{"$id":%s,"$vocabulary":{"https://x.invalid/v":true},"properties":{"a":{"$id":"y","$ref":"#/definitions/z"}}}`,
		} {
			s := Compile([]byte(strings.ReplaceAll(form, "%s", quoted(url))))
			if repaired, invalid := s.Repair([]byte(`{"a":"x"}`)); invalid != nil || string(repaired) != `{"a":"x"}` {
				t.Errorf("%s with %s: %s, %v", form, url, repaired, invalid)
			}
		}
	}
	_ = listener.Close()
	<-asked
}

func TestASchemaThatCanNotBeEnforcedTakesAnythingAndSaysSo(t *testing.T) {
	for schema, note := range map[string]string{
		`{"properties":{"a":{"$ref":"https://x.invalid/s"}}}`:                                   "nothing is fetched",
		`{"properties":{"a":{"$ref":"#/$defs/gone"}}}`:                                          "leads nowhere",
		`{"properties":{"a":{"type":"integr"}}}`:                                                "no valid JSON Schema at #/properties/a/type",
		`{"properties":{"a":{"type":"integer","description":5}}}`:                               "description is a number",
		`{"$schema":["x"],"properties":{"a":{"type":"integer"}}}`:                               "$schema is an array",
		`{"properties":{"a":{"$ref":5}}}`:                                                       "no valid JSON Schema",
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`:      "infinite loop",
		`{"properties":{"a":`:                                                                   "not enforced",
		`{"properties":` + strings.Repeat(`{"a":`, 300) + `{}` + strings.Repeat(`}`, 300) + `}`: "nested too deeply",
	} {
		s := Compile([]byte(schema))
		if s.Enforced() || len(s.Notes()) != 1 || !strings.Contains(s.Notes()[0], note) {
			t.Errorf("%.60s: enforced %v, notes %q", schema, s.Enforced(), s.Notes())
		}
		if repaired, invalid := s.Repair([]byte(`{ "a":"x","b":[null] }`)); invalid != nil || string(repaired) != `{ "a":"x","b":[null] }` {
			t.Errorf("%.60s: %s, %v", schema, repaired, invalid)
		}
	}
	for _, schema := range []string{"", "null", "true", "false", `"str"`, "[]", "{}", " {} "} {
		s := Compile([]byte(schema))
		if len(s.Notes()) > 0 {
			t.Errorf("%q: %q", schema, s.Notes())
		}
		if repaired, invalid := s.Repair([]byte(`{"a":"x"}`)); invalid != nil || string(repaired) != `{"a":"x"}` {
			t.Errorf("%q: %s, %v", schema, repaired, invalid)
		}
	}
}

func TestTypesAreStillCoercedWhereTheSchemaCanNotBeEnforced(t *testing.T) {
	checkVerdicts(t, `{"properties":{"a":{"$ref":"https://x.invalid/s"},"n":{"type":"integer"},"l":{"type":"array"}}}`, []verdict{
		{args: `{"a":"1","n":"5","l":"x","z":null}`, repaired: `{"a":"1","n":5,"l":["x"],"z":null}`},
		{args: `{"n":"x"}`, repaired: `{"n":"x"}`},
	})
}

func TestLeavingOutAKeywordNeverRefusesMore(t *testing.T) {
	const lookahead = `{"pattern":"^(?!x)"}`
	for _, schema := range []string{
		`{"properties":{"a":{"not":` + lookahead + `}}}`,
		`{"properties":{"a":{"if":` + lookahead + `,"then":{"type":"integer"},"else":{"type":"boolean"}}}}`,
		`{"properties":{"a":{"oneOf":[` + lookahead + `,{"type":"string"}]}}}`,
		`{"properties":{"a":{"oneOf":[{"$ref":"#/$defs/p"},{"type":"string"}]}},"$defs":{"p":{"allOf":[` + lookahead + `]}}}`,
		`{"properties":{"a":{"not":{"not":{"not":` + lookahead + `}}}}}`,
		`{"patternProperties":{"^(?!b)":{}},"additionalProperties":false}`,
		`{"anyOf":[{"patternProperties":{"^(?!b)":{}}}],"unevaluatedProperties":false}`,
		`{"properties":{"a":{"maxLength":18446744073709551616}}}`,
		`{"properties":{"a":{"not":{"enum":[1e999]}}}}`,
	} {
		s := Compile([]byte(schema))
		if _, invalid := s.Repair([]byte(`{"a":"yes"}`)); invalid != nil || !s.Enforced() {
			t.Errorf("%s: %v, enforced %v, %q", schema, invalid, s.Enforced(), s.Notes())
		}
	}
	checkVerdicts(t, `{"properties":{"a":{"type":"array","contains":{"pattern":"^(?!x)"},"maxContains":1,"minContains":1}}}`,
		[]verdict{{args: `{"a":["x","y"]}`, repaired: `{"a":["x","y"]}`}})
}

func TestReferencesAreFollowedWhereverTheyLead(t *testing.T) {
	checkVerdicts(t, `{"properties":{
		"a":{"$ref":"#/components/schemas/N"},"b":{"$ref":"#anchor"},"c":{"$ref":"#/$defs/with%20space~1and~0tilde"},"d":{"$ref":"#/properties/e/properties/in"},
		"e":{"nullable":true,"properties":{"in":{"type":"integer"}}},"f":{"$id":"sub","$ref":"#/$defs/own","$defs":{"own":{"type":"boolean"}}},"g":{"$ref":"#/x-common/0"}
	},"components":{"schemas":{"N":{"type":"integer","nullable":true,"pattern":"(?!z)"}}},"x-common":[{"type":"integer"}],
	"$defs":{"x":{"$anchor":"anchor","type":"integer"},"with space/and~tilde":{"type":"integer"}}}`, []verdict{
		{args: `{"a":null}`, repaired: `{"a":null}`},
		{args: `{"a":"x"}`, path: "arguments.a", constraint: "type"},
		{args: `{"b":"x"}`, path: "arguments.b", constraint: "type"},
		{args: `{"c":"x"}`, path: "arguments.c", constraint: "type"},
		{args: `{"d":"x"}`, path: "arguments.d", constraint: "type"},
		{args: `{"e":null}`, repaired: `{"e":null}`},
		{args: `{"f":"true"}`, repaired: `{"f":true}`},
		{args: `{"g":"7"}`, repaired: `{"g":7}`},
	})
}

func TestDuplicateMembersOfASchemaKeepTheLast(t *testing.T) {
	checkVerdicts(t, `{"properties":{"a":{"type":"string"},"a":{"type":"integer"}},"required":["x"],"required":[]}`, []verdict{{args: `{"a":"5"}`, repaired: `{"a":5}`}})
}

func TestHostileSchemasAndArgumentsAreAnsweredInTime(t *testing.T) {
	repeat := strings.Repeat
	doubling := `{"$ref":"#/$defs/a0","$defs":{`
	for i := range 40 {
		doubling += fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling += `"a40":{"properties":{"x":{"type":"integer"}}}}}`
	byLevel := `{"$ref":"#/$defs/n","$defs":{"n":{"allOf":[{"properties":{"c":{"$ref":"#/$defs/n"}}},{"properties":{"c":{"$ref":"#/$defs/n"},"z":{"type":"integer"}}}]}}}`
	branching := `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"required":["q"],"properties":{"c":{"$ref":"#/$defs/n"}}},{"properties":{"c":{"$ref":"#/$defs/n"},"z":{"type":"integer"}}},{"properties":{"z":{"type":"integer"},"c":{"$ref":"#/$defs/n"}}}]}}}`
	nested := func(n int) string { return repeat(`{"c":`, n) + `{"z":"x"}` + repeat(`}`, n) }
	for name, c := range map[string]struct{ schema, args string }{
		"allOf that doubles":            {doubling, `{"x":"1"}`},
		"recursion that doubles":        {byLevel, nested(100)},
		"recursion that doubles, short": {byLevel, nested(14)},
		"branches in branches":          {branching, nested(30)},
		"a slow pattern, a long text":   {`{"properties":{"x":{"pattern":"^((a{0,9}){0,9}){0,9}$"}}}`, `{"x":"` + repeat("a", 1_000_000) + `"}`},
		"many names, many patterns":     {`{"patternProperties":{` + repeat(`"a+":{"type":"integer"},`, 1) + `"b+":{}}}`, `{` + repeat(`"a":1,`, 1) + `"b":1}`},
		"unique among many":             {`{"properties":{"x":{"uniqueItems":true}}}`, `{"x":[` + repeat(`{"a":1.5},`, 50_000) + `1]}`},
		"many wrong elements":           {`{"properties":{"x":{"items":{"type":"integer"}}}}`, `{"x":[` + repeat(`true,`, 60_000) + `1]}`},
		"many elements to repair":       {`{"properties":{"x":{"items":{"type":"integer"}}}}`, `{"x":[` + repeat(`"1",`, 60_000) + `1]}`},
		"a huge exponent":               {`{"properties":{"x":{"type":"integer","multipleOf":1e-999999999,"maximum":1e999999999,"maxLength":1e999999999,"enum":[1e999999999]}}}`, `{"x":"1e999999999"}`},
		"a huge exponent, bare":         {`{"properties":{"x":{"type":"integer"}}}`, `{"x":1e999999999}`},
		"a schema in a circle":          {`{"allOf":[{"$ref":"#"}],"properties":{"x":{"$ref":"#"}}}`, `{"x":{"x":{}}}`},
		"a wide schema":                 {`{"allOf":[` + repeat(`{"anyOf":[{},{},{}]},`, 5000) + `{}]}`, `{}`},
		"a deep schema":                 {repeat(`{"not":`, 50_000) + `{}` + repeat(`}`, 50_000), `{}`},
		"deep text inside text":         {`{"properties":{"x":{"type":"object"}}}`, `{"x":` + quoted(repeat(`{"x":`, 5000)+`1`+repeat(`}`, 5000)) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			s := Compile([]byte(c.schema))
			compiled := time.Since(start)
			_, _ = s.Repair([]byte(c.args))
			if took := time.Since(start); took > 20*time.Second { // most take milliseconds; without a bound some would never end
				t.Errorf("took %v, %v of it to compile", took, compiled)
			}
		})
	}
}
