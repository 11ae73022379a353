package arguments

import (
	"encoding/json"
	"strings"
	"testing"
)

// Faults that users of tool gateways reported, under the ids they are kept by.

// verdict is what one set of arguments comes to.
type verdict struct {
	args, repaired   string // repaired is "" when the arguments are refused
	path, constraint string
}

func checkVerdicts(t *testing.T, schema string, verdicts []verdict) {
	t.Helper()
	s := Compile([]byte(schema))
	for _, v := range verdicts {
		repaired, invalid := s.Repair([]byte(v.args))
		switch {
		case invalid == nil && v.repaired == "":
			t.Errorf("%s was taken as %s, want %s at %s", v.args, repaired, v.constraint, v.path)
		case invalid == nil:
			if string(repaired) != v.repaired {
				t.Errorf("%s became %s, want %s", v.args, repaired, v.repaired)
			}
		case v.repaired != "":
			t.Errorf("%s was refused: %s", v.args, invalid.Message)
		case invalid.Path != v.path || invalid.Constraint != v.constraint:
			t.Errorf("%s: %s at %s (%s), want %s at %s", v.args, invalid.Constraint, invalid.Path, invalid.Message, v.constraint, v.path)
		}
	}
}

func TestC04EmptyBlankNullAndMissingArgumentsAreAnEmptyObject(t *testing.T) {
	for _, entry := range []string{
		`{"name":"mcp__sys__uptime","arguments":""}`, `{"name":"mcp__sys__uptime","arguments":"  "}`,
		`{"name":"mcp__sys__uptime","arguments":null}`, `{"name":"mcp__sys__uptime"}`,
	} {
		entries, refusal := Normalize([]byte(`{"calls":[`+entry+`]}`), NormalizeOptions{})
		if refusal != nil || string(entries[0].Arguments) != "{}" {
			t.Errorf("%s: %v, %v", entry, entries, refusal)
		}
	}
}

const archive = `{"type":"object","properties":{"folder":{"type":"string"},"older_than_days":{"type":"integer"}}}`

func TestC05ParametersBesideTheNameAreNeverDropped(t *testing.T) {
	s := Compile([]byte(archive))
	for name, c := range map[string]struct{ call, args string }{
		"in the entry":       {`{"calls":[{"name":"mcp__mail__archive","folder":"Receipts","older_than_days":90}]}`, `{"folder":"Receipts","older_than_days":90}`},
		"beside calls":       {`{"calls":[{"name":"mcp__mail__archive"}],"folder":"Receipts"}`, `{"folder":"Receipts"}`},
		"older form":         {`{"name":"mcp__mail__archive","folder":"Receipts","arguments":{}}`, `{"folder":"Receipts"}`},
		"unknown":            {`{"calls":[{"name":"mcp__mail__archive","fodler":"Receipts"}]}`, ""},
		"one of two unknown": {`{"calls":[{"name":"mcp__mail__archive","folder":"Receipts","input":1}]}`, ""},
		"beside arguments":   {`{"calls":[{"name":"mcp__mail__archive","arguments":{"folder":"a"},"older_than_days":90}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			entries, refusal := Normalize([]byte(c.call), NormalizeOptions{})
			if refusal != nil {
				t.Fatal(refusal)
			}
			adopted, invalid := s.Adopt(entries[0])
			if string(adopted) != c.args || (invalid == nil) != (c.args != "") {
				t.Fatalf("got %s, %v", adopted, invalid)
			}
			if invalid != nil && (!strings.Contains(invalid.Message, `"arguments"`) || !strings.Contains(invalid.Hint, "mcp__mail__archive")) {
				t.Errorf("%s %s", invalid.Message, invalid.Hint)
			}
		})
	}
}

func TestC06ADoubledArgumentObjectIsTakenOnceAndTwoDifferentOnesNever(t *testing.T) {
	text := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	one, refusal := Normalize([]byte(`{"calls":[{"name":"mcp__crm__add_note","arguments":`+text(`{"text":"hi"}{"text":"hi"}`)+`}]}`), NormalizeOptions{})
	if refusal != nil || len(one) != 1 || string(one[0].Arguments) != `{"text":"hi"}` {
		t.Errorf("doubled: %v, %v", one, refusal)
	}
	_, refusal = Normalize([]byte(`{"calls":[{"name":"mcp__crm__add_note","arguments":`+text(`{"text":"a"}{"text":"b"}`)+`}]}`), NormalizeOptions{})
	if refusal == nil || !strings.Contains(refusal.Message, "JSON") {
		t.Errorf("two different objects: %v", refusal)
	}
}

func TestC07ABridgeCallInsideABridgeCallIsRefusedWithWhatToSend(t *testing.T) {
	_, refusal := Normalize([]byte(`{"calls":[{"name":"tool_call","arguments":{"calls":[{"name":"mcp__cal__list_events","arguments":{"day":1}}]}}]}`), NormalizeOptions{})
	if refusal == nil || refusal.Refused != RefusedBridgeName {
		t.Fatal(refusal)
	}
	for _, part := range []string{"tool_call", "bridge", `{"calls":[{"name":"mcp__cal__list_events","arguments":{"day":1}}]}`} {
		if !strings.Contains(refusal.Message, part) {
			t.Errorf("the message lacks %s: %s", part, refusal.Message)
		}
	}
}

func TestC13TheSameMalformedCallIsAnsweredFirmerThenHalted(t *testing.T) {
	s := Compile([]byte(`{"type":"object","properties":{"bed":{"type":"string"}},"required":["bed"]}`))
	entries, refusal := Normalize([]byte(`{"name":"mcp__plant__water","input":"all"}`), NormalizeOptions{})
	if refusal != nil {
		t.Fatal(refusal)
	}
	_, invalid := s.Adopt(entries[0])
	if invalid == nil {
		t.Fatal("taken")
	}
	again, _ := Normalize([]byte(`{"calls": [{"name": "mcp__plant__water", "input": "all"}]}`), NormalizeOptions{})
	if again[0].Key() != entries[0].Key() {
		t.Error("the same underlying call has two keys")
	}
	first, halt := invalid.Wording(1)
	third, thirdHalt := invalid.Wording(3)
	fifth, fifthHalt := invalid.Wording(5)
	if halt || thirdHalt || !fifthHalt || first == third || third == fifth || len(fifth) > 2*len(first) {
		t.Errorf("wording: %q, %q, %q; halt at 5: %v", first, third, fifth, fifthHalt)
	}
}

func TestC14ABatchErrorCanEchoTheCallersFirstEntry(t *testing.T) {
	if got := Shape("mcp__cal__list_events", []byte(`{"day": "a"}`)); got != `{"calls":[{"name":"mcp__cal__list_events","arguments":{"day":"a"}}]}` {
		t.Error(got)
	}
}

func TestC25ANineteenDigitNumberArrivesDigitForDigit(t *testing.T) {
	entries, refusal := Normalize([]byte(`{"calls":[{"name":"mcp__chat__react","arguments":{"message_id":7310046220981450071}}]}`), NormalizeOptions{})
	if refusal != nil {
		t.Fatal(refusal)
	}
	checkVerdicts(t, `{"type":"object","properties":{"message_id":{"type":"integer"}},"required":["message_id"]}`,
		[]verdict{{args: string(entries[0].Arguments), repaired: `{"message_id":7310046220981450071}`}})
}

func TestC28LongTextIsNotCut(t *testing.T) {
	args := `{"to":"a@example.test","body":"` + strings.Repeat("b", 5000) + `"}`
	entries, refusal := Normalize([]byte(`{"calls":[{"name":"mcp__mail__send","arguments":`+args+`}]}`), NormalizeOptions{})
	if refusal != nil || string(entries[0].Arguments) != args {
		t.Errorf("%v", refusal)
	}
}

func TestV01DeferredCallsAreHeldAgainstTheirSchema(t *testing.T) {
	schema := `{"type":"object","properties":{"id":{"type":"integer"},"state":{"enum":["open","closed"]},"labels":{"type":"array","items":{"type":"string"}},"meta":{"type":"object","properties":{"owner":{"type":"string"}},"required":["owner"]}},"required":["id"],"additionalProperties":false}`
	checkVerdicts(t, schema, []verdict{
		{args: `{"state":"open"}`, path: "arguments", constraint: "required"},
		{args: `{"id":5,"state":"done"}`, path: "arguments.state", constraint: "enum"},
		{args: `{"id":5,"meta":{}}`, path: "arguments.meta", constraint: "required"},
		{args: `{"id":5,"labels":[1]}`, path: "arguments.labels[0]", constraint: "type"},
		{args: `{"id":5,"colour":"red"}`, path: "arguments", constraint: "additionalProperties"},
		{args: `{"id":5,"state":"open"}`, repaired: `{"id":5,"state":"open"}`},
	})
	_, invalid := Compile([]byte(schema)).Repair([]byte(`{"id":5,"state":"done"}`))
	if !strings.Contains(invalid.Message, "NOT invoked") || string(invalid.Parameters) != schema || invalid.Hint == "" {
		t.Errorf("%+v", invalid)
	}
}

func TestV03TheInnerArgumentsAreValidatedNotTheEnvelope(t *testing.T) {
	checkVerdicts(t, `{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}`,
		[]verdict{{args: `{"url":"https://example.test/"}`, repaired: `{"url":"https://example.test/"}`}})
}

func TestV05AnIntegerInTextIsReadWithoutLossOrRefused(t *testing.T) {
	checkVerdicts(t, `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`, []verdict{
		{args: `{"id":"8123456789012345679"}`, repaired: `{"id":8123456789012345679}`},
		{args: `{"id":"9007199254740993"}`, repaired: `{"id":9007199254740993}`},
		{args: `{"id":"42"}`, repaired: `{"id":42}`},
		{args: `{"id":"3.14"}`, path: "arguments.id", constraint: "type"},
		{args: `{"id":"1e400"}`, path: "arguments.id", constraint: "type"},
		{args: `{"id":"NaN"}`, path: "arguments.id", constraint: "type"},
	})
}

func TestV08ABareValueForAListIsWrapped(t *testing.T) {
	checkVerdicts(t, `{"type":"object","properties":{"globs":{"type":"array","items":{"type":"string"}},"opt":{"type":["array","null"],"items":{"type":"string"}}},"required":["globs"]}`, []verdict{
		{args: `{"globs":"*.md"}`, repaired: `{"globs":["*.md"]}`},
		{args: `{"globs":"[\"a\""}`, repaired: `{"globs":["[\"a\""]}`},
		{args: `{"globs":["x"],"opt":"null"}`, repaired: `{"globs":["x"],"opt":null}`},
		{args: `{"globs":7}`, path: "arguments.globs[0]", constraint: "type"},
	})
}

func TestV09OnlyTrueAndFalseAreTruthValues(t *testing.T) {
	checkVerdicts(t, `{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}`, []verdict{
		{args: `{"on":"true"}`, repaired: `{"on":true}`},
		{args: `{"on":"False"}`, repaired: `{"on":false}`},
		{args: `{"on":"yes"}`, path: "arguments.on", constraint: "type"},
		{args: `{"on":1}`, path: "arguments.on", constraint: "type"},
		{args: `{"on":"1"}`, path: "arguments.on", constraint: "type"},
	})
}

func TestV12NullableIsHonouredInSchemasAndNotInData(t *testing.T) {
	checkVerdicts(t, `{"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"$ref":"#/$defs/B","nullable":true},"e":{"enum":["x","nullable"]}},"$defs":{"B":{"type":"object"}}}`, []verdict{
		{args: `{"a":null,"b":null}`, repaired: `{"a":null,"b":null}`},
		{args: `{"e":"nullable"}`, repaired: `{"e":"nullable"}`},
	})
}

func TestV14ABrokenOrRecursiveReferenceCostsAtMostItsOwnValidation(t *testing.T) {
	checkVerdicts(t, `{"type":"object","properties":{"root":{"$ref":"#/$defs/N"}},"required":["root"],"$defs":{"N":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/N"}},"v":{"type":"integer"}},"required":["v"]}}}`, []verdict{
		{args: `{"root":{"v":1,"kids":[{"v":2}]}}`, repaired: `{"root":{"v":1,"kids":[{"v":2}]}}`},
		{args: `{"root":{"v":1,"kids":[{}]}}`, path: "arguments.root.kids[0]", constraint: "required"},
	})
	checkVerdicts(t, `{"type":"object","properties":{"z":{"$ref":"#/$defs/Gone"}}}`, []verdict{{args: `{"z":1}`, repaired: `{"z":1}`}})
	checkVerdicts(t, `{"type":"object","properties":{}}`, []verdict{{args: `{}`, repaired: `{}`}})
}

func TestV15APatternThatCanNotBeMatchedCostsOnlyItself(t *testing.T) {
	schema := `{"type":"object","properties":{"name":{"type":"string","pattern":"^(?!tmp_)[a-z_]+$"},"n":{"type":"integer"}},"required":["name"]}`
	checkVerdicts(t, schema, []verdict{
		{args: `{"name":"prod_a"}`, repaired: `{"name":"prod_a"}`},
		{args: `{"name":"tmp_x"}`, repaired: `{"name":"tmp_x"}`}, // documented: not enforced
		{args: `{"name":"prod_a","n":"x"}`, path: "arguments.n", constraint: "type"},
	})
	if notes := Compile([]byte(schema)).Notes(); len(notes) != 1 || !strings.Contains(notes[0], "pattern") {
		t.Errorf("notes: %q", notes)
	}
}

func TestV16TextThatIsNotJSONNeverBecomesAnEmptyObject(t *testing.T) {
	for raw, want := range map[string]string{
		`{"path":"C:\pics\d1"}`: "",
		`{"path":"C:\new"}`:     `{"path":"C:\new"}`,
		`{"path":"a`:            "",
	} {
		text, _ := json.Marshal(raw)
		entries, refusal := Normalize([]byte(`{"calls":[{"name":"mcp__fs__scan","arguments":`+string(text)+`}]}`), NormalizeOptions{})
		if want == "" {
			if refusal == nil || refusal.Refused != RefusedInvalidArguments {
				t.Errorf("%s: %v, %v", raw, entries, refusal)
			}
			continue
		}
		if refusal != nil || string(entries[0].Arguments) != want {
			t.Errorf("%s: %v, %v", raw, entries, refusal)
		}
	}
}

func TestV17WhatJSONCanNotCarryIsRefusedWithItsPath(t *testing.T) {
	s := Compile([]byte(`{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}`))
	for raw, want := range map[string]string{
		`{"x":NaN}`: "arguments.x", `{"x":1e999}`: "arguments.x", `{"x":1,"x":2}`: "arguments.x", `{"x":-0}`: "",
	} {
		text, _ := json.Marshal(raw)
		path := ""
		entries, refusal := Normalize([]byte(`{"calls":[{"name":"mcp__m__calc","arguments":`+string(text)+`}]}`), NormalizeOptions{})
		if refusal != nil {
			path = refusal.Path
		} else if repaired, invalid := s.Repair(entries[0].Arguments); invalid != nil {
			path = invalid.Path
		} else if string(repaired) != raw {
			t.Errorf("%s was dispatched as %s", raw, repaired)
		}
		if path != want {
			t.Errorf("%s: refused at %q, want %q", raw, path, want)
		}
	}
}

func TestV18NamesOfPropertiesAreNoKeywords(t *testing.T) {
	schema := `{"type":"object","properties":{"definitions":{"type":"array","items":{"type":"integer"}},"a":{"type":"string"},"b":{"type":"string"}},"dependentRequired":{"a":["b"]}}`
	checkVerdicts(t, schema, []verdict{
		{args: `{"definitions":[3]}`, repaired: `{"definitions":[3]}`},
		{args: `{"a":"1"}`, path: "arguments", constraint: "dependentRequired"},
	})
	_, invalid := Compile([]byte(schema)).Repair([]byte(`{"a":"1"}`))
	if string(invalid.Parameters) != schema || !strings.Contains(invalid.Reason, `"b"`) {
		t.Errorf("%+v", invalid)
	}
}

func TestV19ATopLevelAnyOfIsEnforced(t *testing.T) {
	checkVerdicts(t, `{"type":"object","properties":{"region":{"type":"string"},"hosts":{"type":"array"},"tags":{"type":"array"}},"required":["region"],"anyOf":[{"required":["hosts"]},{"required":["tags"]}]}`, []verdict{
		{args: `{"region":"r"}`, path: "arguments", constraint: "anyOf"},
		{args: `{"region":"r","hosts":["a"]}`, repaired: `{"region":"r","hosts":["a"]}`},
	})
}
