package mcp

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
)

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"execution_id":"c.0","session":"s","tool":"t","arguments":{"a":9007199254740993},"start_by":1}`))
	f.Add([]byte(`{"execution_id":"c.0","tool":"t","arguments":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		req, refused := readRequest(data)
		if refused != nil {
			if refused.message == "" {
				t.Error("refused without a word")
			}
			return
		}
		if k := jsontext.Value(req.Arguments).Kind(); k != '{' || req.ExecutionID == "" || req.Tool == "" {
			t.Errorf("%s becomes %+v", data, req)
		}
	})
}

func FuzzToolsList(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{}}],"nextCursor":"x"}`))
	f.Add([]byte(`{"tools":[null,{"name":"\ud800","description":5,"inputSchema":[]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &listing{server: "s", cfg: ServerConfig{Name: "s"}.withDefaults()}
		if _, err := l.page(data); err != nil {
			return
		}
		shown, _ := compose(map[string][]listedTool{"s": l.tools})
		defs, _, err := define(l.cfg, shown["s"])
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if !jsontext.Value(defs.blob).IsValid(lenient()...) {
			t.Errorf("%s becomes %s", data, defs.blob)
		}
		for name, tool := range defs.tools {
			if tool.Name == "" || tool.sha256 == "" || len(name) > maxShownName {
				t.Errorf("%q: %+v", name, tool)
			}
		}
	})
}

func FuzzEventStream(f *testing.F) {
	f.Add([]byte("event: message\r\ndata: {\"id\":1,\r\ndata: \"result\":{}}\r\n\r\n"), true)
	f.Add([]byte("data:{\"id\":1,\"error\":{\"code\":-1,\"message\":\"x\"}}\n\n: c\n\ndata: x\n\n"), true)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`), false)
	f.Fuzz(func(t *testing.T, stream []byte, events bool) {
		read := func(r io.Reader) (jsontext.Value, bool, error) {
			waiting := newCapture()
			waiting.markSent("1")
			e := &httpEndpoint{max: 1 << 10}
			resp := &http.Response{Header: http.Header{}, Body: io.NopCloser(r)}
			if events {
				resp.Header.Set("Content-Type", "text/event-stream; charset=utf-8")
			}
			body := e.tap(resp, waiting, nil)
			_, _ = io.Copy(io.Discard, body)
			return waiting.answer()
		}
		// How the bytes are cut on their way must not matter.
		a, okA, errA := read(bytes.NewReader(stream))
		b, okB, errB := read(iotest.OneByteReader(bytes.NewReader(stream)))
		if okA != okB || !bytes.Equal(a, b) || (errA == nil) != (errB == nil) {
			t.Errorf("%q: %s %v %v, byte by byte %s %v %v", stream, a, errA, okA, b, errB, okB)
		}
		if okA && errA == nil && !a.IsValid(lenient()...) {
			t.Errorf("captured %s", a)
		}
	})
}

func FuzzExpand(f *testing.F) {
	f.Add("a${B}c$${D}${E:-f}")
	f.Fuzz(func(t *testing.T, s string) {
		out, err := expand(s, func(string) (string, bool) { return "", true })
		if err == nil && len(out) > len(s) {
			t.Errorf("%q becomes %q", s, out)
		}
	})
}
