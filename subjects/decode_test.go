package subjects

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeKeepsRawMembersAsPartsOfTheText(t *testing.T) {
	text := []byte(`{"id":"c1","name":"tool_call","arguments": { "calls" : [{"name":"x","arguments":{"n":1e2,"n":2}}] } ,"catalog":"sha256:00"}`)
	var m BridgeRequest
	if err := Decode(text, &m); err != nil {
		t.Fatal(err)
	}
	if want := `{ "calls" : [{"name":"x","arguments":{"n":1e2,"n":2}}] }`; string(m.Arguments) != want {
		t.Errorf("arguments are %s, want %s", m.Arguments, want)
	}
	at := strings.Index(string(text), "{ \"calls\"")
	if unsafe.SliceData(m.Arguments) != &text[at] {
		t.Error("arguments were copied")
	}
	if cap(m.Arguments) != len(m.Arguments) {
		t.Error("appending to arguments would write into the text")
	}
}

func TestDecodeReadsEveryPartOfABridgeRequest(t *testing.T) {
	length := int64(200000)
	pin := uint64(17)
	for name, c := range map[string]struct {
		text string
		want BridgeRequest
	}{
		"by catalog": {
			`{"id":"c1","name":"tool_search","arguments":"{\"queries\":[\"x\"]}","catalog":"sha256:ab"}`,
			BridgeRequest{ID: "c1", Name: "tool_search", Arguments: json.RawMessage(`"{\"queries\":[\"x\"]}"`), Catalog: "sha256:ab"},
		},
		"by definitions": {
			`{"tools":[1],"toolsets":["mcp-a","b"],"enabled_toolsets":null,"disabled_toolsets":[],"context_length":2e5,"surface":"cli","config":{"a":1},"registry_revision":17.0,"id":"é\u00e9"}`,
			BridgeRequest{ID: "éé", AssembleRequest: AssembleRequest{
				Tools: json.RawMessage(`[1]`), Toolsets: []string{"mcp-a", "b"}, DisabledToolsets: []string{},
				ContextLength: &length, Surface: "cli", Config: json.RawMessage(`{"a":1}`), RegistryRevision: &pin,
			}},
		},
		"unknown members, deep and many": {
			`{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `,"ID":"other","id":"c1","Name":1}`,
			BridgeRequest{ID: "c1"},
		},
		"escaped name": {`{"\u0069d":"c1"}`, BridgeRequest{ID: "c1"}},
		"null members": {`{"id":null,"catalog":null,"context_length":null,"toolsets":null,"tools":null}`, BridgeRequest{AssembleRequest: AssembleRequest{Tools: json.RawMessage("null")}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got BridgeRequest
			if err := Decode([]byte(c.text), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeRefusesWhatCouldBeMisread(t *testing.T) {
	many := &strings.Builder{}
	for i := range 40 {
		fmt.Fprintf(many, `"u%d":0,`, i)
	}
	for name, c := range map[string]struct{ text, path, problem string }{
		"empty":                      {"", "", "empty"},
		"white space only":           {" \n", "", "empty"},
		"null":                       {"null", "", "an object is expected, not null"},
		"list":                       {"[]", "", "an object is expected, not a list"},
		"cut off":                    {`{"id":"c1"`, "", "not valid JSON at byte 10"},
		"two values":                 {`{} {}`, "", "not valid JSON"},
		"byte order mark":            {"\ufeff{}", "", "not valid JSON at byte 0"},
		"trailing comma":             {`{"id":"c1",}`, "", "not valid JSON"},
		"not a number":               {`{"id":NaN}`, "id", "not valid JSON"},
		"same member twice":          {`{"id":"a","id":"b"}`, "id", "twice"},
		"same member twice, escaped": {`{"id":"a","\u0069d":"b"}`, "id", "twice"},
		"unknown member twice":       {`{"x":1,"y":2,"x":3}`, "x", "twice"},
		"one of many unknown twice":  {`{` + many.String() + `"u7":1}`, "u7", "twice"},
		"number for a string":        {`{"id":7}`, "id", "a string is expected, not a number"},
		"string for a list":          {`{"toolsets":"mcp-a"}`, "toolsets", "a list is expected, not a string"},
		"number in a list":           {`{"toolsets":["a",{"b":1}]}`, "toolsets[1]", "a string is expected, not an object"},
		"null in a list":             {`{"toolsets":[null]}`, "toolsets[0]", "null"},
		"string for a number":        {`{"context_length":"9"}`, "context_length", "an integer is expected, not a string"},
		"fraction":                   {`{"context_length":1.5}`, "context_length", "1.5"},
		"number too large":           {`{"context_length":9223372036854775808}`, "context_length", "9223372036854775808"},
		"huge exponent":              {`{"context_length":1e999999999999}`, "context_length", "1e999999999999"},
		"negative revision":          {`{"registry_revision":-1}`, "registry_revision", "-1"},
		"invalid UTF-8":              {"{\"id\":\"\xff\"}", "id", "UTF-8"},
		"lone surrogate":             {`{"id":"\ud800"}`, "id", "UTF-8"},
		"deeper than 10,000":         {`{"x":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}`, "x", "depth"},
		"arguments cut off":          {`{"arguments":{"a":}}`, "arguments", "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			var m BridgeRequest
			err := Decode([]byte(c.text), &m)
			var got *ErrMessage
			if !errors.As(err, &got) {
				t.Fatalf("error is %v (%T)", err, err)
			}
			if got.Path != c.path || !strings.Contains(got.Problem, c.problem) {
				t.Errorf("path %q, problem %q; want path %q and %q in the problem", got.Path, got.Problem, c.path, c.problem)
			}
		})
	}
}

func TestDecodeRefusesATwiceGivenKeyOfAMap(t *testing.T) {
	var m PreflightReply
	err := Decode([]byte(`{"tools":{"a":{"callable":true},"a":{"callable":false}}}`), &m)
	if err == nil || !strings.Contains(err.Error(), "tools.a") {
		t.Errorf("got %v", err)
	}
}

func TestAnEmptyBodyIsAnEmptyRequestWhereThatMakesSense(t *testing.T) {
	for text, want := range map[string]string{"": "", " \r\n": "", "{}": "", `{"call_id":"c1"}`: "c1"} {
		var m StopRequest
		if err := DecodeOptional([]byte(text), &m); err != nil || m.CallID != want {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
	if err := DecodeOptional([]byte("null"), new(StopRequest)); err == nil {
		t.Error("null is no object")
	}
}

func TestPresentTellsNullFromAValue(t *testing.T) {
	for raw, want := range map[string]bool{"": false, "null": false, "{}": true, "0": true, `"null"`: true} {
		if got := Present(json.RawMessage(raw)); got != want {
			t.Errorf("Present(%s) = %v", raw, got)
		}
	}
}

func TestDecodeNeedsAPointer(t *testing.T) {
	if err := Decode([]byte(`{}`), BridgeRequest{}); err == nil {
		t.Error("no error")
	}
	if err := Decode([]byte(`{}`), (*BridgeRequest)(nil)); err == nil {
		t.Error("no error")
	}
}

func TestIntegersMayBeWrittenWithExponentOrFraction(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-7": "-7", "2e5": "200000", "5.0": "5", "1.25e2": "125", "0.5e1": "05", "1200e-2": "12", "-0.0": "-0",
		"0e9": "0000000000", "0e-9": "0", "1.5": "1.5", "1e-1": "1e-1", "15e-1": "15e-1", "1e41": "1e41", "1.05E+1": "1.05E+1", "10.50e1": "105",
	} {
		if got := integral([]byte(text)); got != want {
			t.Errorf("integral(%s) = %s, want %s", text, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"c1","name":"tool_call","arguments":{"calls":[]},"toolsets":["a"],"context_length":2e5}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Add([]byte(`{"id":"\ud83d\ude00","x":[[],{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m BridgeRequest
		if err := Decode(data, &m); err != nil {
			var e *ErrMessage
			if !errors.As(err, &e) || e.Problem == "" {
				t.Fatalf("error without a problem: %v", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("accepted what is not JSON")
		}
		text, err := Encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		var again BridgeRequest
		if err := Decode(text, &again); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		second, err := Encode(&again)
		if err != nil || string(second) != string(text) {
			t.Fatalf("not stable: %s, then %s (%v)", text, second, err)
		}
	})
}

func FuzzDecodeEveryMessage(f *testing.F) {
	var names []string
	for name := range messages {
		names = append(names, name)
	}
	slices.Sort(names)
	entries, err := fs.ReadDir(Examples(), ".")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		text, err := fs.ReadFile(Examples(), e.Name())
		if err != nil {
			f.Fatal(err)
		}
		if i := slices.Index(names, name); i >= 0 {
			f.Add(uint8(i), text)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		m := reflect.New(reflect.TypeOf(messages[names[int(which)%len(names)]])).Interface()
		if Decode(data, m) != nil {
			return
		}
		text, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		again := reflect.New(reflect.TypeOf(m).Elem()).Interface()
		if err := Decode(text, again); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if second, err := Encode(again); err != nil || string(second) != string(text) {
			t.Fatalf("not stable: %s, then %s (%v)", text, second, err)
		}
	})
}

func BenchmarkDecodeBridgeRequest(b *testing.B) {
	text := []byte(`{"id":"01JD3QH5W8Z7M2K4N6P8R0S2T4","name":"tool_search","arguments":{"queries":["create github issue"],"limit":5},"catalog":"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var m BridgeRequest
		if err := Decode(text, &m); err != nil {
			b.Fatal(err)
		}
	}
}

// The large member of an assembly costs little more than finding its end.
func BenchmarkDecodeAssembleRequest(b *testing.B) {
	tool := `{"type":"function","function":{"name":"mcp__github__create_issue","description":"` + strings.Repeat("Create a new issue. ", 30) + `","parameters":{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"}},"required":["owner"]}}}`
	text := []byte(`{"tools":[` + strings.Repeat(tool+",", 499) + tool + `],"context_length":200000}`)
	b.Run("Decode", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			var m AssembleRequest
			if err := Decode(text, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			json.Valid(text)
		}
	})
}
