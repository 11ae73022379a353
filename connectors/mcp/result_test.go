package mcp

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

func TestMapResultIsWhatTheContractSays(t *testing.T) {
	const image = `{"type":"image","data":"AQID","mimeType":"image/png","_meta":{"n":9007199254740993}}`
	words := func(s string) string { return `{"type":"text","text":` + string(quote(s)) + `}` }
	tests := []struct{ name, raw, want string }{
		{"text", `{"content":[` + words("done") + `]}`, `"done"`},
		{"nothing", `{"content":[]}`, `""`},
		{"several texts", `{"content":[` + words("a") + `,` + words("b") + `]}`, `"a\nb"`},
		{"text that is an object", `{"content":[` + words(" {\"z\":9007199254740993, \"a\":[1.0]}\n") + `]}`, `{"z":9007199254740993, "a":[1.0]}`},
		{"text that is an array", `{"content":[` + words(`[1,2]`) + `]}`, `[1,2]`},
		{"text that is a number", `{"content":[` + words(`12`) + `]}`, `"12"`},
		{"text that is a JSON string", `{"content":[` + words(`"x"`) + `]}`, `"\"x\""`},
		{"text that only begins as an object", `{"content":[` + words(`{"a":1} and more`) + `]}`, `"{\"a\":1} and more"`},
		{"C25: number in a text", `{"content":[` + words(`{"next_id":9007199254740993}`) + `]}`, `{"next_id":9007199254740993}`},
		{"C22: image", `{"content":[` + image + `]}`, `{"content":[` + image + `]}`},
		{"image and text", `{"content":[` + words("see") + `,` + image + `]}`, `{"content":[` + words("see") + `,` + image + `]}`},
		{"resource link", `{"content":[{"type":"resource_link","uri":"file:///x","name":"x"}]}`, `{"content":[{"type":"resource_link","uri":"file:///x","name":"x"}]}`},
		{"unknown block", `{"content":[{"type":"hologram","x":1}, null, 5]}`, `{"content":[{"type":"hologram","x":1}, null, 5]}`},
		{"C23: structured alone", `{"content":[],"structuredContent":{"rows":[1,2]}}`, `{"rows":[1,2]}`},
		{"structured without content", `{"structuredContent":{"rows":[1,2]}}`, `{"rows":[1,2]}`},
		{"structured, text says the same", `{"content":[` + words(`{"b":2e0,"a":"\u0041"}`) + `],"structuredContent":{"a":"A","b":2}}`, `{"a":"A","b":2}`},
		{"C23: structured, text differs", `{"content":[` + words("done") + `],"structuredContent":{"rows":[1,2]}}`, `{"structuredContent":{"rows":[1,2]},"content":[` + words("done") + `]}`},
		{"structured, number differs beyond float64", `{"content":[` + words(`{"a":9007199254740993}`) + `],"structuredContent":{"a":9007199254740992}}`, `{"structuredContent":{"a":9007199254740992},"content":[` + words(`{"a":9007199254740993}`) + `]}`},
		{"structured and image", `{"content":[` + image + `],"structuredContent":{"a":1}}`, `{"structuredContent":{"a":1},"content":[` + image + `]}`},
		{"wrapped string", `{"content":[` + words("hi") + `],"structuredContent":{"result":"hi"}}`, `{"result":"hi"}`},
		{"wrapped number", `{"content":[` + words("5") + `],"structuredContent":{"result":5}}`, `{"result":5}`},
		{"wrapped text of another name", `{"content":[` + words("[FILE] a") + `],"structuredContent":{"content":"[FILE] a"}}`, `{"content":"[FILE] a"}`},
		{"two members are no wrapping", `{"content":[` + words("hi") + `],"structuredContent":{"result":"hi","n":1}}`, `{"structuredContent":{"result":"hi","n":1},"content":[` + words("hi") + `]}`},
		{"wrapped list", `{"content":[` + words("a") + `,` + words(`{"b":1}`) + `],"structuredContent":{"result":["a",{"b":1}]}}`, `{"result":["a",{"b":1}]}`},
		{"wrapped list that differs", `{"content":[` + words("a") + `],"structuredContent":{"result":["a","b"]}}`, `{"structuredContent":{"result":["a","b"]},"content":[` + words("a") + `]}`},
		{"structured null", `{"content":[` + words("x") + `],"structuredContent":null}`, `"x"`},
		{"structured array", `{"content":[],"structuredContent":[1]}`, `[1]`},
		{"not an error", `{"content":[` + words("x") + `],"isError":false}`, `"x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failed := MapResult([]byte(tt.raw))
			if failed != nil {
				t.Fatalf("failed: %+v", failed)
			}
			if string(got) != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestMapResultTellsErrors(t *testing.T) {
	tests := []struct {
		name, raw string
		code      subjects.Code
		says      []string
		lacks     string
	}{
		{"C24", `{"isError":true,"content":[{"type":"text","text":"quota exceeded"}]}`, subjects.CodeToolError, []string{"quota exceeded"}, "outputSchema"},
		{"C23", `{"isError":true,"content":[],"structuredContent":{"code":"BUSY_TRY_LATER","wait":45}}`, subjects.CodeToolError, []string{"BUSY_TRY_LATER", "45"}, ""},
		{"both", `{"isError":true,"content":[{"type":"text","text":"no"}],"structuredContent":{"wait":45}}`, subjects.CodeToolError, []string{"no", `{"wait":45}`}, ""},
		{"silent", `{"isError":true}`, subjects.CodeToolError, []string{"said nothing"}, ""},
		{"image", `{"isError":true,"content":[{"type":"image"}]}`, subjects.CodeToolError, []string{"1 of the content blocks"}, ""},
		{"long", `{"isError":true,"content":[{"type":"text","text":"` + strings.Repeat("é", 5000) + `"}]}`, subjects.CodeToolError, []string{"é…"}, ""},
		{"empty object", `{}`, CodeInvalidResult, nil, ""},
		{"not an object", `[]`, CodeInvalidResult, nil, ""},
		{"null", `null`, CodeInvalidResult, nil, ""},
		{"content is text", `{"content":"x"}`, CodeInvalidResult, []string{"not an array"}, ""},
		{"asks", `{"resultType":"input_required","inputRequests":{}}`, CodeInputRequired, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failed := MapResult([]byte(tt.raw))
			if failed == nil {
				t.Fatalf("got %s", got)
			}
			if failed.Code != tt.code || len(failed.Message) > maxErrorText {
				t.Errorf("%s, %d bytes", failed.Code, len(failed.Message))
			}
			for _, s := range tt.says {
				if !strings.Contains(failed.Message, s) {
					t.Errorf("%q lacks %q", failed.Message, s)
				}
			}
			if tt.lacks != "" && strings.Contains(failed.Message, tt.lacks) {
				t.Errorf("%q has %q", failed.Message, tt.lacks)
			}
		})
	}
}

func TestSameJSONConvertsNoNumber(t *testing.T) {
	tests := []struct {
		a, b string
		same bool
	}{
		{`1`, `1.0`, true},
		{`1`, `10e-1`, true},
		{`-0`, `0.0e5`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`1e400`, `1e401`, false},
		{`1e99999999999`, `1e99999999999`, true},
		{`{"a":1,"b":[true,null]}`, ` { "b" : [ true , null ] , "a" : 1e0 } `, true},
		{`{"a":1}`, `{"a":1,"a":1}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`"A"`, `"\u0041"`, true},
		{`"1"`, `1`, false},
		{`[]`, `{}`, false},
		{`1`, `x`, false},
		{`1`, ``, false},
	}
	for _, tt := range tests {
		if got := sameJSON(jsontext.Value(tt.a), jsontext.Value(tt.b)); got != tt.same {
			t.Errorf("%s and %s: %v", tt.a, tt.b, got)
		}
		if got := sameJSON(jsontext.Value(tt.b), jsontext.Value(tt.a)); got != tt.same {
			t.Errorf("%s and %s: %v", tt.b, tt.a, got)
		}
	}
}

func FuzzMapResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1.0}}`))
	f.Add([]byte(`{"isError":true,"content":[{"type":"text","text":"\ud800"}]}`))
	f.Add([]byte(`{"structuredContent":{"result":[1,"x"]},"content":[null]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, failed := MapResult(raw)
		if (got == nil) == (failed == nil) {
			t.Fatalf("%s: neither or both", raw)
		}
		if got != nil && !got.IsValid(lenient()...) {
			t.Errorf("%s becomes %s", raw, got)
		}
	})
}
