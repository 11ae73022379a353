package subjects

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

var plainTexts = []string{
	`{"id":"c1","name":"tool_search","arguments":{"queries":["a \"b\"\n"],"limit":5},"catalog":"sha256:00"}`,
	" {\t\"id\" : \"\" ,\r\n\"arguments\": [ ] , \"config\":{ } } \n", `{}`, ` { } `,
	`{"arguments":[-0,0.5e+7,1E9,true,false,null,"",{"a":[[{}]]}]}`, `{"arguments":null}`, "{\"arguments\":\"\xff\"}",
	`{"arguments":"\u00e9"}`, `{"arguments":"\ud800"}`, `{"arguments":01}`, `{"arguments":-}`, `{"arguments":1.}`, `{"arguments":1e}`,
	`{"arguments":[1,]}`, `{"arguments":{"a":1,}}`, `{"arguments":{"a"}}`, `{"arguments":{a:1}}`, `{"arguments":tru}`, `{"arguments":}`,
	`{"arguments":"\x"}`, "{\"arguments\":\"\n\"}", `{"arguments":[}`, `{"arguments":{]}`, `{"arguments":[1 2]}`, `{"arguments":truefalse}`,
	`{"id":"a","id":"b"}`, `{"id":null}`, `{"id":1}`, `{"x":1,"id":"a"}`, `{"id":"é"}`, `{"\u0069d":"a"}`, `{"id":"a"`, `{"id":"a"}}`, `{"id":"a"} x`,
	`{"id":"a",}`, `{,}`, `[]`, ``, `null`, `{"context_length":5,"toolsets":["a"]}`, `{"id":"\u007f"}`, "{\"id\":\"\x7f\"}", `{"Arguments":1}`,
}

// checkPlain compares Decode with the reader of every text, over a target that
// holds something already.
func checkPlain(t *testing.T, data []byte, fresh func() any) {
	t.Helper()
	got, want := fresh(), fresh()
	gotErr := Decode(data, got)
	wantErr := decodeAny(data, reflect.ValueOf(want).Elem())
	if diff := cmp.Diff(wantErr, gotErr); diff != "" {
		t.Fatalf("%q (-any +Decode): %s", data, diff)
	}
	if wantErr == nil {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-any +Decode): %s", data, diff)
		}
	}
}

func bridgeTarget() any {
	return &BridgeRequest{ID: "before", Arguments: json.RawMessage("1"), AssembleRequest: AssembleRequest{Surface: "s"}}
}

func replyTarget() any { return &BridgeReply{Preview: "before", IsError: true} }

func TestDecodeReadsPlainTextsAsAnyOthers(t *testing.T) {
	for _, text := range plainTexts {
		checkPlain(t, []byte(text), bridgeTarget)
	}
	for _, text := range []string{`{"is_error":true}`, `{"is_error":false,"result":{}}`, `{"is_error":"true"}`, `{"is_error":truex}`, `{"blob":null}`} {
		checkPlain(t, []byte(text), replyTarget)
	}
	deep := bytes.Repeat([]byte("["), 40)
	checkPlain(t, append(append([]byte(`{"arguments":`), deep...), append(bytes.Repeat([]byte("]"), 40), '}')...), bridgeTarget)
}

func TestMostRequestsAreReadThePlainWay(t *testing.T) {
	for _, text := range plainTexts[:5] {
		var m BridgeRequest
		if v := reflect.ValueOf(&m).Elem(); !planOf(v.Type()).readPlain([]byte(text), v) {
			t.Errorf("%s is not", text)
		}
	}
}

func FuzzDecodePlain(f *testing.F) {
	for _, text := range plainTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkPlain(t, data, bridgeTarget)
		checkPlain(t, data, replyTarget)
	})
}

func FuzzQuotedText(f *testing.F) {
	f.Add("plain")
	f.Add("\"\\\n\x7f<é\xff\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		want, _ := jsontext.AppendQuote(nil, text)
		if got := appendString(nil, text); string(got) != string(want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	})
}
