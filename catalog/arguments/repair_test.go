package arguments

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestRepairKeepsEveryByteThatItDoesNotRepair(t *testing.T) {
	schema := `{"type":"object","properties":{"n":{"type":"integer"},"o":{"type":"object","properties":{"l":{"type":"array","items":{"type":"integer"}},"s":{"type":"string"}}},"d":{"type":"string"}}}`
	checkVerdicts(t, schema, []verdict{
		{args: "{ \"z\" : 1.50 ,\n \"n\":\"7\" , \"a\":\"\\u00e9<&>\" }", repaired: "{ \"z\" : 1.50 ,\n \"n\":7 , \"a\":\"\\u00e9<&>\" }"},
		{args: `{"o": {"x":1e5, "l":[ 1, "2" ,3 ]}, "b":0.10}`, repaired: `{"o": {"x":1e5, "l":[ 1, 2 ,3 ]}, "b":0.10}`},
		{args: `{ "d": null, "x":1.0 }`, repaired: `{ "x":1.0 }`},
		{args: `{ "x":1.0 , "d": null }`, repaired: `{ "x":1.0 }`},
		{args: `{"x":1,"d":null,"y":2,"n":""}`, repaired: `{"x":1,"y":2}`},
		{args: `{"o":"{\"s\": \"a\", \"l\":\"[1, \\\"2\\\"]\"}"}`, repaired: `{"o":{"s": "a", "l":[1, 2]}}`},
	})
}

func TestRepairReadsNumbersInText(t *testing.T) {
	row := func(in, want string) verdict {
		if want == "" {
			return verdict{args: `{"v":` + quoted(in) + `}`, path: "arguments.v", constraint: "type"}
		}
		return verdict{args: `{"v":` + quoted(in) + `}`, repaired: `{"v":` + want + `}`}
	}
	checkVerdicts(t, `{"properties":{"v":{"type":"integer"}},"required":["v"]}`, []verdict{
		row("007", "7"), row("-0", "0"), row("3.0", "3"), row("1e3", "1000"), row("1_000", "1000"), row("+5", "5"), row("5.", "5"),
		row("١٢", "12"), row("\u2003-3\n", "-3"), row("1e22", "10000000000000000000000"), row("123456789012345678901234567890", "123456789012345678901234567890"),
		row("0x10", ""), row("1__0", ""), row("_1", ""), row("1_", ""), row("--1", ""), row("1e", ""), row("e5", ""), row("Infinity", ""), row("1 2", ""), row(".", ""), row("1.5", ""), row("1e-1", ""),
		row(strings.Repeat("9", 5000), ""),
	})
	checkVerdicts(t, `{"properties":{"v":{"type":"number"}},"required":["v"]}`, []verdict{
		row("12345678901234567890.5", "12345678901234567890.5"), row("3.50", "3.50"), row(".5", "0.5"), row("1e-3", "1e-3"),
		row("1e300", "1e300"), row("1e3", "1000"), row("-.5E+2", "-50"), row("1e400", ""), row("1e-400", ""), row("0e999999999", "0"),
	})
}

func TestRepairFollowsReferencesAndBranches(t *testing.T) {
	checkVerdicts(t, `{"properties":{
		"r":{"$ref":"#/$defs/n"},"all":{"allOf":[{"type":"integer"},{"minimum":2}]},
		"any":{"anyOf":[{"type":"integer"},{"type":"null"}]},"two":{"anyOf":[{"type":"integer"},{"type":"number"}]},
		"kinds":{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"n":{"type":"integer"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"},"n":{"type":"boolean"}},"required":["k"]}]},
		"tuple":{"type":"array","prefixItems":[{"type":"string"},{"type":"boolean"}],"items":{"type":"integer"}}
	},"$defs":{"n":{"type":"integer"}}}`, []verdict{
		{args: `{"r":"5"}`, repaired: `{"r":5}`},
		{args: `{"all":"5"}`, repaired: `{"all":5}`},
		{args: `{"all":"1"}`, path: "arguments.all", constraint: "minimum"},
		{args: `{"any":"5"}`, repaired: `{"any":5}`},
		{args: `{"any":"null"}`, repaired: `{"any":null}`},
		{args: `{"two":"5"}`, path: "arguments.two", constraint: "anyOf"}, // two branches would take it
		{args: `{"kinds":{"k":"a","n":"5"}}`, repaired: `{"kinds":{"k":"a","n":5}}`},
		{args: `{"kinds":{"k":"b","n":"TRUE"}}`, repaired: `{"kinds":{"k":"b","n":true}}`},
		{args: `{"kinds":{"k":"a","n":null}}`, repaired: `{"kinds":{"k":"a"}}`},
		{args: `{"tuple":["x","true","3"]}`, repaired: `{"tuple":["x",true,3]}`},
	})
}

func TestRepairNeverChangesWhatIsValidOrGuesses(t *testing.T) {
	checkVerdicts(t, `{"properties":{"s":{"type":["string","integer"]},"any":{},"t":{"type":"string"},"e":{"enum":[1,2]},"ap":{"type":"object","additionalProperties":{"type":"integer"}}},"additionalProperties":{"type":"boolean"}}`, []verdict{
		{args: `{"s":"007","t":"null","any":"[1]"}`, repaired: `{"s":"007","t":"null","any":"[1]"}`},
		{args: `{"t":5}`, path: "arguments.t", constraint: "type"},
		{args: `{"e":"1"}`, path: "arguments.e", constraint: "enum"},
		{args: `{"ap":{"x":"1"}}`, path: "arguments.ap.x", constraint: "type"},
		{args: `{"other":"true"}`, path: "arguments.other", constraint: "type"},
		{args: `{"other":null}`, path: "arguments.other", constraint: "type"}, // no property of its own: not dropped
	})
}

func TestNullAndBlankAreDroppedOnlyWhereTheyCanMeanNothing(t *testing.T) {
	checkVerdicts(t, `{"properties":{
		"req":{"type":"string","minLength":1},"opt":{"type":"string","minLength":1},"nul":{"type":["string","null"]},"fmt":{"type":"string"},
		"o":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"allOf":[{"required":["b"]}]}
	},"required":["req"]}`, []verdict{
		{args: `{"req":"x","opt":""}`, repaired: `{"req":"x"}`},
		{args: `{"req":"x","opt":null,"nul":null,"fmt":""}`, repaired: `{"req":"x","nul":null,"fmt":""}`},
		{args: `{"req":""}`, path: "arguments.req", constraint: "minLength"},
		{args: `{"req":null}`, path: "arguments.req", constraint: "type"},
		{args: `{"req":"x","o":{"a":null,"b":1}}`, repaired: `{"req":"x","o":{"b":1}}`},
		{args: `{"req":"x","o":{"b":null}}`, path: "arguments.o.b", constraint: "type"},
		{args: `{"req":"x","opt":" "}`, repaired: `{"req":"x","opt":" "}`},
	})
}

func TestTheReportedErrorIsTheShallowestThenTheGreatestPath(t *testing.T) {
	checkVerdicts(t, `{"properties":{"b":{"type":"object","properties":{"x":{"type":"integer"}}},"a":{"type":"integer"},"c":{"type":"array","items":{"type":"integer"}},"e":{"type":"string","enum":["x"],"maxLength":1}},"propertyNames":{"maxLength":3}}`, []verdict{
		{args: `{"b":{"x":"?"},"a":"?"}`, path: "arguments.a", constraint: "type"},
		{args: `{"a":"?","e":7}`, path: "arguments.e", constraint: "type"},
		{args: `{"c":["?",1,"?"]}`, path: "arguments.c[2]", constraint: "type"},
		{args: `{"e":"yy"}`, path: "arguments.e", constraint: "enum"}, // both keywords fail: the schema's order
		{args: `{"long":1,"a":"?"}`, path: "arguments", constraint: "maxLength"},
	})
}

func TestPathsAreWrittenAsCode(t *testing.T) {
	name := func(s string) string { return `{"properties":{` + quoted(s) + `:{"type":"integer"}}}` }
	for in, want := range map[string]string{
		"ok_1": "arguments.ok_1", "1st": `arguments["1st"]`, "a-b": `arguments["a-b"]`, "naïve": `arguments["naïve"]`,
		`q"uote`: `arguments["q\"uote"]`, "a/b~c%20": `arguments["a/b~c%20"]`, "$ref": `arguments["$ref"]`, "<b>": `arguments["<b>"]`,
		"properties": "arguments.properties", "propertyNames": "arguments.propertyNames", "anyOf": "arguments.anyOf", "minContains": "arguments.minContains",
	} {
		checkVerdicts(t, name(in), []verdict{{args: `{` + quoted(in) + `:"x"}`, path: want, constraint: "type"}})
	}
}

func TestReasonsSayWhatIsWanted(t *testing.T) {
	schema := `{"properties":{"a":{"type":["integer","null"]},"e":{"enum":["x",1]},"c":{"const":"k"},"p":{"type":"string","pattern":"^\\u0041+$"},"l":{"type":"string","minLength":2},
		"m":{"type":"number","minimum":1,"exclusiveMaximum":9},"u":{"type":"array","uniqueItems":true,"contains":{"const":1},"maxItems":3},"o":{"type":"object","properties":{"x":{}},"required":["y","z"],"additionalProperties":false},
		"f":false,"n":{"not":{"type":"string"}},"any":{"anyOf":[{"type":"integer"},{"type":"string","minLength":3}]},"q":{"type":"object","propertyNames":{"enum":["k"]}},"two":{"oneOf":[{"type":"integer"},{"minimum":1}]}},"additionalProperties":false,"minProperties":1}`
	s := Compile([]byte(schema))
	for args, want := range map[string]string{
		`{"a":[]}`: "must be integer or null, not an array", `{"e":2}`: `must be one of "x", 1`, `{"c":"j"}`: `must be "k"`,
		`{"p":"b"}`: `must match the pattern ^\u0041+$`, `{"l":"a"}`: "must have at least 2 characters", `{"m":0}`: "must be at least 1", `{"m":9}`: "must be less than 9",
		`{"u":[1,2,2]}`: "must not hold the same element twice", `{"u":[2]}`: "holds no element that matches what it must contain", `{"u":[1,2,3,4]}`: "must have at most 3 elements",
		`{"o":{"y":1,"z":1}}`: `does not take "y", "z"`, `{"o":{"x":1}}`: `missing "y", "z"`, `{"f":1}`: `does not take "f"`, `{"n":"s"}`: "is what the schema rules out",
		`{"any":true}`: "matches none of the forms it may have: must be integer, not true; must be string, not true", `{"q":{"z":1}}`: `the name "z" must be one of "k"`,
		`{"two":3}`: "matches more than one of the forms that exclude each other", `{"zz":1,"zy":2}`: `does not take "zz", "zy"`, `{}`: "must have at least 1 properties",
	} {
		_, invalid := s.Repair([]byte(args))
		if invalid == nil || invalid.Reason != want {
			t.Errorf("%s: %+v, want %s", args, invalid, want)
		}
	}
}

func TestAMessageHasAtMost600Characters(t *testing.T) {
	name := strings.Repeat("é", 700)
	_, invalid := Compile([]byte(`{"additionalProperties":{"type":"string"}}`)).Repair([]byte(`{"` + name + `":1}`))
	if n := len([]rune(invalid.Message)); n != 600 || !strings.HasSuffix(invalid.Message, "...") || !strings.HasPrefix(invalid.Message, "The tool was NOT invoked") {
		t.Errorf("%d characters: %s", n, invalid.Message)
	}
}

func TestTheRequiredProbeListsAllThatIsMissingAndRunsFirst(t *testing.T) {
	for _, schema := range []string{
		`{"properties":{"x":{"type":"integer"}},"required":["a","x",5,"b","a"]}`,
		`{"properties":{"x":{"$ref":"https://x.invalid/s"}},"required":["a","x","b"]}`,
		`{"type":"wrong","required":["a","x","b"]}`,
		`{"required":["a","x","b"],"d":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
	} {
		_, invalid := Compile([]byte(schema)).Repair([]byte(`{"x":"?"}`))
		if invalid == nil || fmt.Sprint(invalid.Missing) != "[a b]" || invalid.Path != "arguments" || invalid.Constraint != "required" {
			t.Errorf("%.60s: %+v", schema, invalid)
		}
	}
}

func TestArgumentsThatAreNoSendableObjectAreRefused(t *testing.T) {
	s := Compile(nil)
	for args, constraint := range map[string]string{
		`[]`: "type", `5`: "type", `"{}"`: "type", ``: "json", `{"a":1`: "json", `{"a":1,"a":1}`: "json", `{"a":NaN}`: "type", `{"a":[1e400]}`: "type", `{"a":1e-400}`: "type",
		`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: "maximum",
		`{"a":[` + strings.Repeat("0,", 300_000) + `0]}`:                    "maximum",
	} {
		if _, invalid := s.Repair([]byte(args)); invalid == nil || invalid.Constraint != constraint {
			t.Errorf("%.40s: %+v", args, invalid)
		}
	}
	if repaired, invalid := s.Repair([]byte(` {"a":1e300,"b":1e-300,"c":` + strings.Repeat("7", 400) + `} `)); invalid != nil {
		t.Errorf("%s, %v", repaired, invalid)
	}
}

func TestASchemaIsSafeForConcurrentUse(t *testing.T) {
	s := Compile(benchSchema)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				repaired, invalid := s.Repair([]byte(`{"owner":"o","repo":"r","title":"t","labels":"[\"bug\"]","milestone":"7"}`))
				if invalid != nil || string(repaired) != `{"owner":"o","repo":"r","title":"t","labels":["bug"],"milestone":7}` {
					t.Errorf("%s, %v", repaired, invalid)
					return
				}
				if _, invalid := s.Repair([]byte(`{"owner":1,"repo":"r","title":"t"}`)); invalid == nil || invalid.Path != "arguments.owner" {
					t.Error(invalid)
					return
				}
			}
		})
	}
	wg.Wait()
}
