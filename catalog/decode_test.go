package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"toolbridge/subjects"
)

func TestDecodeReadsEveryDialect(t *testing.T) {
	const schema = `{"type":"object","properties":{"b":{"type":"string"},"a":{}},"required":["b",1,"a"]}`
	for dialect, tool := range map[Dialect]string{
		OpenAI:    `{"type":"function","function":{"name":"n","description":"d","parameters":` + schema + `}}`,
		Responses: `{"type":"function","name":"n","description":"d","parameters":` + schema + `}`,
		Anthropic: `{"name":"n","description":"d","input_schema":` + schema + `}`,
		MCP:       `{"name":"n","description":"d","inputSchema":` + schema + `}`,
		Plain:     `{"name":"n","description":"d","parameters":` + schema + `}`,
	} {
		t.Run(string(dialect), func(t *testing.T) {
			got := decode(t, []byte("["+tool+"]"))
			if len(got) != 1 {
				t.Fatalf("%d definitions", len(got))
			}
			d := got[0]
			if d.Dialect != dialect || d.Name != "n" || d.Description != "d" || string(d.Parameters) != schema {
				t.Errorf("%+v", d)
			}
			if !slices.Equal(d.Properties, []string{"b", "a"}) || !slices.Equal(d.Required, []string{"b", "a"}) {
				t.Errorf("properties %v, required %v", d.Properties, d.Required)
			}
			for _, to := range []Dialect{OpenAI, Responses, Anthropic, MCP, Plain} {
				back := decode(t, append(append([]byte{'['}, d.Render(to)...), ']'))
				if len(back) != 1 || back[0].Dialect != to || back[0].SHA256() != d.SHA256() {
					t.Errorf("rendered as %s: %s", to, d.Render(to))
				}
			}
		})
	}
}

func TestVisibleIsEverythingButOurOwnFields(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"nothing to take out", `{ "name": "a", "x": 1.0 }`, `{ "name": "a", "x": 1.0 }`},
		{"at the end", `{"name":"a","toolset":"t"}`, `{"name":"a"}`},
		{"at the start", `{"toolset":"t","name":"a"}`, `{"name":"a"}`},
		{"in the middle", `{"name":"a","toolset":"t","x":[1,2]}`, `{"name":"a","x":[1,2]}`},
		{"several in a row", `{"toolset":"t","parallel":true,"name":"a","aliases":["b"],"annotations":{"toolset":1},"x":{}}`, `{"name":"a","x":{}}`},
		{"with white space", "{\n  \"toolset\": \"t\",\n  \"name\": \"a\",\n  \"parallel\": true\n}", "{\n  \"name\": \"a\"\n}"},
		{"alternating", `{"toolset":"t","name":"a","parallel":false,"x":1,"aliases":[]}`, `{"name":"a","x":1}`},
		{
			"only on the top level", `{"type":"function","function":{"name":"a","toolset":"mine","parameters":{"properties":{"toolset":{},"aliases":{}}}},"toolset":"t"}`,
			`{"type":"function","function":{"name":"a","toolset":"mine","parameters":{"properties":{"toolset":{},"aliases":{}}}}}`,
		},
		{"the owner at both places", `{"_hermes_source_name":"o","type":"function","function":{"_hermes_source_name":"o","name":"a","x":1}}`, `{"type":"function","function":{"name":"a","x":1}}`},
		{"an escaped key", `{"name":"a","t\u006folset":"t","y":"\/é\u00e9"}`, `{"name":"a","y":"\/é\u00e9"}`},
		{"numbers and escapes stay", `{"name":"a","n":[1e5,1.50,9007199254740993,-0.0],"parallel":true,"s":"<&>\u003c"}`, `{"name":"a","n":[1e5,1.50,9007199254740993,-0.0],"s":"<&>\u003c"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decode(t, []byte(" [ "+c.in+" ] "))
			if len(d) != 1 {
				t.Fatalf("%d definitions", len(d))
			}
			if got := string(d[0].Visible()); got != c.out {
				t.Errorf("visible %s, want %s", got, c.out)
			}
			if string(d[0].Raw) != c.in {
				t.Errorf("raw %s", d[0].Raw)
			}
			if want, _ := measure([]byte(c.out)); d[0].chars != want {
				t.Errorf("%d characters, want %d", d[0].chars, want)
			}
		})
	}
}

func TestOwnFieldsAreRead(t *testing.T) {
	d, warnings, err := Decode([]byte(`[
		{"name":"a","toolset":"mcp-x","annotations":{"title":"T","readOnlyHint":true,"destructiveHint":false,"idempotentHint":"yes","openWorldHint":null},"parallel":true,"aliases":["b"," c\n","b",5]},
		{"name":"mcp__git hub__pull","toolset":null},
		{"name":"mcp__x__y","toolset":7,"annotations":[],"parallel":"yes","aliases":"z"},
		{"name":"mcp__"},{"name":"mcp____x"},{"name":"mcp__x__"},
		{"name":"k","toolset":"kan\nban","_hermes_source_name":"o"}]`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	a := d[0]
	yes, no := true, false
	if diff := cmp.Diff(Annotations{ReadOnlyHint: &yes, DestructiveHint: &no}, a.Annotations); diff != "" {
		t.Error(diff)
	}
	if a.Toolset != "mcp-x" || !a.Parallel || !slices.Equal(a.Aliases, []string{"b", "c"}) {
		t.Errorf("%+v", a)
	}
	var toolsets []string
	for _, x := range d[1:] {
		toolsets = append(toolsets, x.Toolset)
	}
	if diff := cmp.Diff([]string{"mcp-git hub", "mcp-x", "", "", "", "kan ban"}, toolsets); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, fmt.Sprint(w.Code, " ", w.Tool))
	}
	want := []string{"FIELD_INVALID a", "FIELD_INVALID a", "FIELD_INVALID mcp__x__y", "FIELD_INVALID mcp__x__y", "FIELD_INVALID mcp__x__y", "FIELD_INVALID mcp__x__y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// good are definitions around a bad one; they must stand whatever it is.
const goodBefore, goodAfter = `{"name":"mcp__ok__before","description":"Good."}`, `{"name":"mcp__ok__after","description":"Good."}`

func TestOneBadDefinitionNeverCostsTheOthers(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, c := range []struct {
		name, bad string
		code      subjects.WarningCode
		about     string // the warning's tool
		stands    string // the name that it keeps, "" when it is left out
	}{
		{"no object", `5`, subjects.WarnNotAnObject, "tools[1]", ""},
		{"null", `null`, subjects.WarnNotAnObject, "tools[1]", ""},
		{"a list", `[{"name":"x"}]`, subjects.WarnNotAnObject, "tools[1]", ""},
		{"no name", `{"description":"d"}`, subjects.WarnNameMissing, "tools[1]", ""},
		{"null as name", `{"name":null}`, subjects.WarnNameMissing, "tools[1]", ""},
		{"empty name", `{"type":"function","function":{"name":""}}`, subjects.WarnNameMissing, "tools[1]", ""},
		{"blank name", `{"name":" \n\t "}`, subjects.WarnNameMissing, "tools[1]", ""},
		{"number as name", `{"name":7}`, subjects.WarnNameInvalid, "tools[1]", ""},
		{"endless name", `{"name":"` + strings.Repeat("n", 257) + `"}`, subjects.WarnNameInvalid, "tools[1]", ""},
		{"control characters in the name", `{"name":"a\u0000\u001b[31m\r\nb"}`, subjects.WarnNameInvalid, "a_[31m_b", "a_[31m_b"},
		{"white space around the name", `{"name":" padded "}`, subjects.WarnNameInvalid, "padded", "padded"},
		{"text direction in the name", `{"name":"a\u202eb"}`, subjects.WarnNameInvalid, "a_b", "a_b"},
		{"a character without width in the name", `{"name":"pay\u200bments"}`, subjects.WarnNameInvalid, "pay_ments", "pay_ments"},
		{"a joiner in the name", `{"name":"pay\u200dments"}`, subjects.WarnNameInvalid, "pay_ments", "pay_ments"},
		{"an Arabic letter mark in the name", `{"name":"a\u061cb"}`, subjects.WarnNameInvalid, "a_b", "a_b"},
		{"a duplicate", goodBefore, subjects.WarnNameDuplicate, "mcp__ok__before", ""},
		{"a duplicate in another dialect", `{"type":"function","function":{"name":"mcp__ok__before"}}`, subjects.WarnNameDuplicate, "mcp__ok__before", ""},
		{"a case twin", `{"name":"MCP__OK__Before"}`, subjects.WarnNamesAlike, "MCP__OK__Before", "MCP__OK__Before"},
		{"a bridge's name", `{"name":"tool_search"}`, subjects.WarnNameReserved, "tool_search", ""},
		{"a bridge's name, padded", `{"name":"tool_call\n"}`, subjects.WarnNameReserved, "tool_call", ""},
		{"a bridge's name in another case", `{"name":"Tool_Search"}`, subjects.WarnNameReserved, "Tool_Search", ""},
		{"a bridge's name with a hyphen", `{"type":"function","function":{"name":"tool-describe"}}`, subjects.WarnNameReserved, "tool-describe", ""},
		{"a bridge's name with a space", `{"name":"tool call"}`, subjects.WarnNameReserved, "tool call", ""},
		{"a connector's name", `{"name":"connectors__gmail__SEND"}`, subjects.WarnNameReserved, "connectors__gmail__SEND", ""},
		{"a schema that is a string", `{"name":"x","inputSchema":"object"}`, subjects.WarnParametersInvalid, "x", "x"},
		{"a schema that is a list", `{"name":"x","parameters":[]}`, subjects.WarnParametersInvalid, "x", "x"},
		{"a schema that is false", `{"name":"x","parameters":false}`, subjects.WarnParametersInvalid, "x", "x"},
		{"a description that is a number", `{"name":"x","description":7}`, subjects.WarnDescriptionInvalid, "x", "x"},
		{"a description that is an object", `{"name":"x","description":{"text":"y"}}`, subjects.WarnDescriptionInvalid, "x", "x"},
		{"a description of a megabyte", `{"name":"x","description":"` + strings.Repeat("word ", 200_000) + `"}`, subjects.WarnDescriptionTooLong, "x", "x"},
		{"a name twice", `{"name":"x","name":"y"}`, subjects.WarnNotAnObject, "y", ""},
		{"a schema twice", `{"type":"function","function":{"name":"x","parameters":{},"parameters":{}}}`, subjects.WarnNotAnObject, "x", ""},
		{"nested too deeply", `{"name":"x","parameters":` + deep(150) + `}`, subjects.WarnTooLarge, "tools[1]", ""},
		{"nested beyond the tokenizer", `{"name":"x","parameters":` + deep(50_000) + `}`, subjects.WarnTooLarge, "tools[1]", ""},
		{"nested lists beyond the tokenizer", `{"name":"x","parameters":` + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + `}`, subjects.WarnTooLarge, "tools[1]", ""},
		{"five megabytes", `{"name":"x","description":"` + strings.Repeat("x", 5<<20) + `"}`, subjects.WarnTooLarge, "tools[1]", ""},
		{"five megabytes that are not valid", `{"name":"x","description":"` + strings.Repeat("\xff", 5<<20) + `"}`, subjects.WarnTooLarge, "tools[1]", ""},
		{"broken UTF-8", "{\"name\":\"x\",\"description\":\"a\xff\xfeb\"}", subjects.WarnDescriptionInvalid, "x", "x"},
		{"half a surrogate pair", `{"name":"x","description":"a\ud83d b"}`, subjects.WarnDescriptionInvalid, "x", "x"},
		{"the other half", `{"name":"x","parameters":{"properties":{"\ude80":{}}}}`, subjects.WarnDescriptionInvalid, "x", "x"},
		{"not JSON inside", `{"name":"x","n":NaN}`, subjects.WarnNotAnObject, "tools[1]", ""},
		{"a control character in a string", "{\"name\":\"x\",\"description\":\"a\nb\"}", subjects.WarnNotAnObject, "tools[1]", ""},
		{"a trailing comma", `{"name":"x",}`, subjects.WarnNotAnObject, "tools[1]", ""},
		{"no value", `{"name":}`, subjects.WarnNotAnObject, "tools[1]", ""},
		{"nothing between commas", ``, subjects.WarnNotAnObject, "tools[1]", ""},
		{"two values", `{"name":"x"} {"name":"y"}`, subjects.WarnNotAnObject, "tools[1]", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, warnings, err := Decode([]byte("["+goodBefore+","+c.bad+","+goodAfter+"]"), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"mcp__ok__before", c.stands, "mcp__ok__after"}
			want = slices.DeleteFunc(want, func(n string) bool { return n == "" })
			if diff := cmp.Diff(want, names(got)); diff != "" {
				t.Error(diff)
			}
			if len(warnings) != 1 || warnings[0].Code != c.code || warnings[0].Tool != c.about {
				t.Fatalf("warnings %+v, want one %s about %s", warnings, c.code, c.about)
			}
			if m := warnings[0].Message; len(m) > 400 || !strings.Contains(m, "tools[") && !strings.Contains(m, c.about) {
				t.Errorf("the message %q does not name it", m)
			}
			for _, d := range got {
				if !d.Visible().IsValid(jsontext.AllowDuplicateNames(true)) || !json.Valid(d.Parameters) {
					t.Errorf("%s is not strictly valid", d.Name)
				}
			}
			// Whatever came in, an assembly and its catalog come out whole.
			a := Assemble(Input{Definitions: got})
			for _, tool := range a.Tools {
				if !jsontext.Value(tool).IsValid(jsontext.AllowDuplicateNames(true)) {
					t.Errorf("%.200s is not valid", tool)
				}
			}
			cat := New(Input{Definitions: got})
			if found := search(t, cat, `{"queries":["good"]}`, SearchOptions{}); !slices.Equal(found.Results[0].Matches, []string{"mcp__ok__before", "mcp__ok__after"}) {
				t.Errorf("matches %v", found.Results[0].Matches)
			}
		})
	}
}

func TestAnArrayThatIsNoneIsTheOnlyError(t *testing.T) {
	for _, in := range []string{``, ` `, `null`, `{}`, `"x"`, `[`, `[{"name":"a"}`, `[{"name":"a"}}`, `[{"name":"a]`, `[] []`, `[{"name":"a"}]x`, `[[]`, `tools`} {
		if d, _, err := Decode([]byte(in), Limits{}); err == nil {
			t.Errorf("%q gives %v", in, names(d))
		}
	}
	for _, in := range []string{`[]`, " [ \n ] ", `[{"name":"a"}]`} {
		if _, w, err := Decode([]byte(in), Limits{}); err != nil || len(w) > 0 {
			t.Errorf("%q: %v %v", in, err, w)
		}
	}
}

func TestRepairedTextIsValidEverywhere(t *testing.T) {
	d := decode(t, []byte("[{\"name\":\"mcp__a__x\\ud800\",\"description\":\"caf\\u00e9 \\ud83d\\ude80 \\udc00 \xc3\x28\",\"inputSchema\":{\"properties\":{\"p\xff\":{}}}}]"))
	if len(d) != 1 {
		t.Fatal(names(d))
	}
	if d[0].Name != "mcp__a__x\ufffd" || d[0].Description != "café 🚀 \ufffd \ufffd(" || !slices.Equal(d[0].Properties, []string{"p\ufffd"}) {
		t.Errorf("%+v", d[0])
	}
	if !d[0].Visible().IsValid() {
		t.Errorf("%s", d[0].Visible())
	}
}

func TestLongDescriptionsAreBoundedWhereTheyAreShown(t *testing.T) {
	tool := `[{"name":"mcp__a__x","description":"` + strings.Repeat("schön ", 180_000) + `needle"}]`
	d := decode(t, []byte(tool))
	if n := chars(d[0].Description); n != 100_001 {
		t.Errorf("tool_describe would give %d characters", n)
	}
	c := New(Input{Definitions: d})
	if got := search(t, c, `{"queries":["schön"]}`, SearchOptions{}); chars(got.Tools["mcp__a__x"].Description) != 501 {
		t.Errorf("a record has %d characters", chars(got.Tools["mcp__a__x"].Description))
	}
	if text, _ := Listing(pointers(d), nil, 4000); chars(text) > 300 {
		t.Errorf("the listing has %d characters", chars(text))
	}
}

func TestTenThousandToolsAndMore(t *testing.T) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range 10_000 {
		fmt.Fprintf(&b, `{"name":"mcp__s%d__t%d","description":"Does thing %d."},`, i%50, i, i)
	}
	b.WriteString(`{"name":"last"}]`)
	d, warnings, err := Decode(b.Bytes(), Limits{})
	if err != nil || len(d) != 10_001 || len(warnings) > 0 {
		t.Fatalf("%d definitions, %v, %v", len(d), warnings, err)
	}
	a := Assemble(Input{Definitions: d})
	if a.DeferredCount != 10_000 || a.ListingForm != FormMixed || a.ListingTokens > a.ListingBudgetTokens {
		t.Errorf("%d deferred, form %s with %d tokens", a.DeferredCount, a.ListingForm, a.ListingTokens)
	}
	d, warnings, _ = Decode(b.Bytes(), Limits{Tools: 100})
	if len(d) != 100 || len(warnings) != 1 || warnings[0].Code != subjects.WarnTooManyTools || !strings.Contains(warnings[0].Message, "9901") {
		t.Errorf("%d definitions, %v", len(d), warnings)
	}
	d, warnings, _ = Decode(append(bytes.Repeat([]byte("5,"), 0), []byte("["+strings.Repeat("5,", 5000)+goodAfter+"]")...), Limits{})
	if len(d) != 1 || len(warnings) != 201 || !strings.Contains(warnings[200].Message, "4800") {
		t.Errorf("%d definitions, %d warnings, the last %v", len(d), len(warnings), warnings[len(warnings)-1])
	}
}

func TestDeduplicateKeepsTheFirstAcrossArrays(t *testing.T) {
	own := decode(t, []byte(`[{"name":"mcp__a__x","description":"own"},{"name":"mcp__a__y"}]`))
	registry := decode(t, []byte(`[{"name":"mcp__a__x","description":"registry"},{"name":"mcp__a__Y"},{"name":"mcp__a__z"}]`))
	got, warnings := Deduplicate(append(own, registry...))
	if diff := cmp.Diff([]string{"mcp__a__x", "mcp__a__y", "mcp__a__Y", "mcp__a__z"}, names(got)); diff != "" {
		t.Error(diff)
	}
	if got[0].Description != "own" || len(warnings) != 2 || warnings[0].Code != subjects.WarnNameDuplicate || warnings[1].Code != subjects.WarnNamesAlike {
		t.Errorf("%s, %v", got[0].Description, warnings)
	}
}

func TestEstimateCountsCharactersOfCompactJSON(t *testing.T) {
	for in, want := range map[string]int{
		`{ "a" : [ 1 , 2 ] }`:   11,
		`"é\u00e9\ud83d\ude80"`: 5,
		`"\/\u002f\"\u0022"`:    8,
		`"\n\u000a\u0001\\"`:    14,
		`"\ud800x"`:             4,
		"\"🚀\"":                 3,
	} {
		if got, _ := measure([]byte(in)); got != want {
			t.Errorf("%s measures %d, want %d", in, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`[{"type":"function","function":{"name":"a","parameters":{"properties":{"x":{}},"required":["x"]}},"toolset":"mcp-x","aliases":["y"]}]`))
	f.Add([]byte(`[{"toolset":"t","name":"a\u0000","input_schema":5},null,{"name":"\ud800"}]`))
	f.Add([]byte("[{\"name\":\"a\xff\",\"annotations\":{\"readOnlyHint\":true}}, {]"))
	f.Fuzz(func(t *testing.T, tools []byte) {
		before := bytes.Clone(tools)
		definitions, warnings, err := Decode(tools, Limits{Tools: 50, DefinitionBytes: 1 << 16})
		if !bytes.Equal(before, tools) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if json.Valid(tools) && jsontext.Value(tools).Kind() == '[' {
				t.Fatalf("a valid array is refused: %v", err)
			}
			return
		}
		seen := map[string]bool{}
		for i := range definitions {
			d := &definitions[i]
			switch {
			case d.Name == "" || IsBridge(d.Name) || IsConnector(d.Name) || seen[d.Name]:
				t.Errorf("%q stands", d.Name)
			case d.Name != cleanName(d.Name):
				t.Errorf("%q is not clean", d.Name)
			case !d.Visible().IsValid(jsontext.AllowDuplicateNames(true)):
				t.Errorf("%s is not valid", d.Visible())
			case len(d.SHA256()) != 64:
				t.Errorf("%s has no hash", d.Name)
			}
			seen[d.Name] = true
			var members map[string]json.RawMessage
			if err := json.Unmarshal(d.Visible(), &members); err != nil {
				t.Error(err)
			}
			for _, own := range []string{"toolset", "annotations", "parallel", "aliases", "_hermes_source_name"} {
				if _, ok := members[own]; ok {
					t.Errorf("%s shows %s", d.Visible(), own)
				}
			}
			if want, _ := measure(d.Visible()); want != d.chars {
				t.Errorf("%s has %d characters, counted %d", d.Visible(), want, d.chars)
			}
		}
		for _, w := range warnings {
			if w.Code == "" || w.Message == "" {
				t.Errorf("warning %+v", w)
			}
		}
		Assemble(Input{Definitions: definitions})

		// What stands, written as an array again, reads as the same.
		array := []byte{'['}
		for i := range definitions {
			if i > 0 {
				array = append(array, ',')
			}
			array = append(array, definitions[i].Raw...)
		}
		again, _, err := Decode(append(array, ']'), Limits{})
		if err != nil || !slices.Equal(names(again), names(definitions)) {
			t.Errorf("%s reads as %v, %v; want %v", array, names(again), err, names(definitions))
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"enabled":"on","threshold_pct":"7.5","defer":["a"],"ranking":"reference"}`))
	f.Add([]byte(`{"search_default_limit":1e400,"max_search_limit":"1_0"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, _ := ParseConfig(raw)
		if c.MaxSearchLimit < 1 || c.MaxSearchLimit > 50 || c.SearchDefaultLimit < 1 || c.SearchDefaultLimit > c.MaxSearchLimit ||
			c.ListingMaxTokens < 200 || c.ListingMaxTokens > 60000 || !(c.ThresholdPct >= 0 && c.ThresholdPct <= 100) {
			t.Errorf("%q gives %+v", raw, c)
		}
		written, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if back, warnings := ParseConfig(written); !cmp.Equal(back, c) || len(warnings) > 0 {
			t.Errorf("%s reads as %+v, %v", written, back, warnings)
		}
		ParseConnectors(raw)
	})
}
