package subjects

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestEncodeKeepsRawPartsByteForByte(t *testing.T) {
	for name, raw := range map[string]string{
		"white space":    "{ \"b\" :\n 1 ,\t\"a\":2}",
		"html":           `{"q":"<b>&</b>"}`,
		"escapes":        `"\u003c\u00e9\/"`,
		"numbers":        `[1e2, 1.0, 12345678901234567890.10]`,
		"members twice":  `{"a":1,"a":2}`,
		"line separator": "\"\u2028\"",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Encode(BridgeReply{ID: "1", Name: "tool_call", Result: json.RawMessage(raw)})
			if err != nil {
				t.Fatal(err)
			}
			want := `{"id":"1","name":"tool_call","is_error":false,"result":` + raw + `}`
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEncodeAgreesWithEncodingJSONOnEverythingElse(t *testing.T) {
	type inner struct {
		A *int64 `json:"a,omitempty"`
		B uint8  `json:"b"`
	}
	type outer struct {
		inner
		Named   inner              `json:"named"`
		P       *inner             `json:"p,omitempty"`
		S       string             `json:"s,omitempty"`
		Bool    bool               `json:"bool,omitempty"`
		List    []string           `json:"list"`
		Empty   []string           `json:"empty,omitempty"`
		Map     map[string]inner   `json:"map,omitempty"`
		Any     any                `json:"any"`
		Number  json.Number        `json:"number"`
		Float   float64            `json:"float,omitempty"`
		Bytes   []byte             `json:"bytes,omitempty"`
		Pointer *[]string          `json:"pointer,omitempty"`
		Lists   [][]map[string]int `json:"lists,omitempty"`
		Zero    []int              `json:"zero,omitzero"`
		hidden  int
		Skipped int `json:"-"`
	}
	one := int64(-9007199254740993)
	values := []outer{
		{Number: "0", List: []string{}},
		{
			inner: inner{A: &one, B: 7}, P: &inner{}, S: "é\n\"\\\x01", Bool: true, List: []string{}, Empty: []string{},
			Map: map[string]inner{"b": {}, "a": {A: &one}}, Any: map[string]any{"x": []any{1, "y", nil, true}},
			Number: "12345678901234567890", Float: 1.5, Bytes: []byte("abc"), Pointer: &[]string{}, hidden: 1, Skipped: 1,
			Lists: [][]map[string]int{{{"z": 1}, {}}, {}}, Zero: []int{},
		},
	}
	for _, v := range values {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		got, err := Encode(&v)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimSpace(want.String()), string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEncodeWritesListsThatAreNilAsEmpty(t *testing.T) {
	got, err := Encode(StopReply{Stopped: []Stopped{{CallID: "c1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"stopped":[{"call_id":"c1","interrupted":[],"in_flight":[]}]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, err = Encode(PreflightReply{}); err != nil || string(got) != `{"tools":{}}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestNoToolsetsAtAllIsNotTheSameAsAllOfThem(t *testing.T) {
	for text, want := range map[string]string{
		`{"tools":[],"enabled_toolsets":[]}`:   `{"tools":[],"enabled_toolsets":[]}`,
		`{"tools":[],"enabled_toolsets":null}`: `{"tools":[]}`,
		`{"tools":[]}`:                         `{"tools":[]}`,
	} {
		var m AssembleRequest
		if err := Decode([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		got, err := Encode(&m)
		if err != nil || string(got) != want {
			t.Errorf("%s became %s (%v), want %s", text, got, err, want)
		}
	}
}

func TestEncodeLeavesHTMLAlone(t *testing.T) {
	got, err := Encode(NewError(CodeBadRequest, "a < b && c > d"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"message":"a < b && c > d"`; !bytes.Contains(got, []byte(want)) {
		t.Errorf("%s does not contain %s", got, want)
	}
}

func TestEncodeReplacesInvalidUTF8AndStaysValid(t *testing.T) {
	got, err := Encode(map[string]string{"a": "x\xff\xed\xa0\x80y"})
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(got) || !bytes.Contains(got, []byte("x\ufffd")) {
		t.Errorf("got %q", got)
	}
}

func TestEncodeSaysWhichMemberFails(t *testing.T) {
	_, err := Encode(map[string]any{"a": []any{make(chan int)}})
	if err == nil || !strings.Contains(err.Error(), `"a": [0]: `) {
		t.Errorf("got %v", err)
	}
}

func TestEncodeTakesJSONTextValuesAsRaw(t *testing.T) {
	got, err := Encode([]jsontext.Value{jsontext.Value(`{ }`), nil})
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != `[{ },null]` {
		t.Errorf("got %s", got)
	}
}

func BenchmarkEncodeBridgeReply(b *testing.B) {
	reply := BridgeReply{ID: "01JD3QH5W8Z7M2K4N6P8R0S2T4", Name: "tool_search", Result: json.RawMessage(benchResult)}
	b.ReportAllocs()
	b.SetBytes(int64(len(benchResult)))
	for b.Loop() {
		if _, err := Encode(&reply); err != nil {
			b.Fatal(err)
		}
	}
}

const benchResult = `{"queries":["create github issue"],"total_available":41,"results":[{"query":"create github issue","matches":["mcp__github__create_issue","mcp__github__update_issue","mcp__github__list_issues"]}],"tools":{"mcp__github__create_issue":{"source":"mcp","source_name":"github","description":"Create a new issue in a GitHub repository.","required":["owner","repo","title"]},"mcp__github__update_issue":{"source":"mcp","source_name":"github","description":"Update an existing issue.","required":["owner","repo","issue_number"]},"mcp__github__list_issues":{"source":"mcp","source_name":"github","description":"List issues.","required":["owner","repo"]}}}`
