package conformance

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// rawTools are the tools of an assemble reply, bytes as they came.
func rawTools(t *testing.T, reply []byte) []string {
	t.Helper()
	var v struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(reply, &v); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, raw := range v.Tools {
		out = append(out, string(raw))
	}
	return out
}

func TestEveryDialectIsAnsweredInKindAndVisibleToolsByteForByte(t *testing.T) {
	shape := map[string]string{"openai": "function", "responses": "parameters", "anthropic": "input_schema", "mcp": "inputSchema"}
	for dialect, d := range dialects {
		t.Run(dialect, func(t *testing.T) {
			s := newSession(t)
			m := s.send(s.subject("assemble"), request(d.visible, d.deferred))
			v := valid(t, "assemble-reply", m.Data)
			tools := rawTools(t, m.Data)
			if len(tools) != 4 || v["activated"] != true || v["deferred_count"] != json.Number("1") {
				t.Fatalf("%d tools: %s", len(tools), m.Data)
			}
			if tools[0] != d.visible {
				t.Errorf("the visible tool came back as\n%s\nnot\n%s", tools[0], d.visible)
			}
			for _, bridge := range tools[1:] {
				if !strings.Contains(bridge, `"`+shape[dialect]+`"`) {
					t.Errorf("a bridge tool is not in the dialect: %.200s", bridge)
				}
			}
		})
	}
}

func TestOwnFieldsAreTakenOffAndTheRestKeptAsItIs(t *testing.T) {
	s := newSession(t)
	sent := `{"type":"function", "annotations":{"readOnlyHint":true}, "function":{"name":"look","parameters":{"type":"object"},"toolset":"kept inside"} , "parallel":true,"aliases":["see"]}`
	m := s.send(s.subject("assemble"), request(sent, mail))
	got := rawTools(t, m.Data)[0]
	var want, have map[string]any
	if err := json.Unmarshal([]byte(`{"type":"function","function":{"name":"look","parameters":{"type":"object"},"toolset":"kept inside"}}`), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &have); err != nil {
		t.Fatal(err)
	}
	if encode(have) != encode(want) {
		t.Errorf("the model sees %s", got)
	}
}

func TestBridgeToolsFollowTheVisibleOnes(t *testing.T) {
	s := newSession(t)
	v, _ := s.assemble(usual())
	var names []string
	tools, _ := v["tools"].([]any)
	for _, d := range tools {
		n, _ := at(d, "function", "name").(string)
		names = append(names, n)
	}
	if got := strings.Join(names, " "); got != "terminal tool_search tool_describe tool_call" {
		t.Errorf("tools = %s", got)
	}
}

func TestNothingToDeferGivesBackTheArray(t *testing.T) {
	s := newSession(t)
	v, _ := s.assemble(request(terminal))
	if v["activated"] != false || v["tier"] != json.Number("0") || len(v["tools"].([]any)) != 1 {
		t.Errorf("reply = %s", encode(v))
	}
}

func TestEqualRequestsGiveEqualBytesInEverySession(t *testing.T) {
	a, b := newSession(t), newSession(t)
	first := a.send(a.subject("assemble"), usual()).Data
	for range 10 { // whichever worker answers
		if again := b.send(b.subject("assemble"), usual()).Data; !bytes.Equal(first, again) {
			t.Fatalf("replies differ:\n%s\n%s", first, again)
		}
	}
}

func TestOneBadDefinitionIsNamedAndCostsNothingElse(t *testing.T) {
	s := newSession(t)
	v, ref := s.assemble(request(terminal, `7`, `null`, `{}`, `{"type":"function","function":{"name":""}}`, mail, mail,
		`{"name":"tool_call","description":"mine","parameters":{}}`, `{"name":"mcp__z__odd","toolset":"mcp-z","description":7,"parameters":[1]}`))
	got := encode(v["warnings"])
	for _, want := range []string{"NOT_AN_OBJECT", "NAME_MISSING", "NAME_DUPLICATE", "NAME_RESERVED", "PARAMETERS_INVALID"} {
		if !strings.Contains(got, want) {
			t.Errorf("no warning %s in %s", want, got)
		}
	}
	found := s.bridge(ref, "tool_search", `{"queries":["send email"]}`)
	if m := encode(at(found, "result", "results", 0, "matches")); m != `["mcp__mail__send_message"]` {
		t.Errorf("matches = %s", m)
	}
}

func TestWrongSettingsBecomeWarnings(t *testing.T) {
	s := newSession(t)
	v, _ := s.assemble(`{"tools":[` + mail + `],"config":{"threshold_pct":"lots","search_default_limits":3}}`)
	got := encode(v["warnings"])
	for _, want := range []string{"CONFIG_INVALID", "threshold_pct", "CONFIG_UNKNOWN_KEY", "search_default_limit"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in the warnings %s", want, got)
		}
	}
}

func TestAToolsetThatNobodyOffersIsAWarning(t *testing.T) {
	s := newSession(t)
	v, _ := s.assemble(`{"tools":[` + mail + `],"toolsets":["mcp-nobody-has-this"]}`)
	if got := encode(v["warnings"]); !strings.Contains(got, "TOOLSET_UNAVAILABLE") || !strings.Contains(got, "mcp-nobody-has-this") {
		t.Errorf("warnings = %s", got)
	}
}
