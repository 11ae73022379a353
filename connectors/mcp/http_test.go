package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"toolbridge/subjects"
)

// web is a streamable HTTP server at a fixed address that can go and come back.
type web struct {
	t    *testing.T
	addr string
	srv  *http.Server
	wrap func(http.Handler) http.Handler

	end func() // of the SDK's sessions

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func newWeb(t *testing.T, o *sdk.StreamableHTTPOptions, build func() *sdk.Server) *web {
	t.Helper()
	w := &web{t: t}
	w.start(o, build)
	t.Cleanup(w.stop)
	return w
}

func (w *web) start(o *sdk.StreamableHTTPOptions, build func() *sdk.Server) {
	w.t.Helper()
	server := build()
	w.end = func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
	}
	var handler http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, o)
	if w.wrap != nil {
		handler = w.wrap(handler)
	}
	w.serve(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		w.mu.Lock()
		w.requests, w.bodies = append(w.requests, r), append(w.bodies, string(body))
		w.mu.Unlock()
		handler.ServeHTTP(out, r)
	}))
}

func (w *web) serve(handler http.Handler) {
	w.t.Helper()
	addr := w.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.addr = l.Addr().String()
	srv := &http.Server{Handler: handler}
	w.srv = srv
	go func() { _ = srv.Serve(l) }()
}

func (w *web) stop() {
	_ = w.srv.Close()
	if w.end != nil {
		w.t.Cleanup(w.end) // it waits for the tools that run
	}
}

func (w *web) url() string { return "http://" + w.addr + "/mcp" }

func (w *web) config(name string) ServerConfig {
	return ServerConfig{Name: name, URL: w.url(), ConnectTimeout: 10 * time.Second, CancelGrace: time.Second, Ping: 50 * time.Millisecond}
}

func (w *web) count(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, b := range w.bodies {
		if strings.Contains(b, `"method":"`+method+`"`) {
			n++
		}
	}
	return n
}

func TestCallReachesAnHTTPServer(t *testing.T) {
	for name, o := range map[string]*sdk.StreamableHTTPOptions{
		"events": nil, "json": {JSONResponse: true}, "stateless": {Stateless: true}, "stateless json": {Stateless: true, JSONResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WEB_TOKEN", "hunter2-secret")
			w := newWeb(t, o, standard)
			cfg := w.config("web")
			cfg.Headers = map[string]string{"Authorization": "Bearer ${WEB_TOKEN}"}
			b := newBus(t)
			h, _ := b.host(Config{Servers: []ServerConfig{cfg}})
			b.awaitState(h, "web", subjects.StateReady)
			const exact = `{"id":7310046220981450071,"z":1.10,"a":"<&>"}`
			wantResult(t, b.call(h, "web", "mcp__web__echo", exact), exact)
			wantResult(t, b.call(h, "web", "mcp__web__structured", `{}`), `{"a":9007199254740993,"b":1}`)
			wantResult(t, b.call(h, "web", "mcp__web__image", `{}`), `{"content":[{"type":"image","mimeType":"image/png","data":"AQID"}]}`)
			wantCode(t, b.call(h, "web", "mcp__web__fail", `{}`), subjects.CodeToolError, "quota exceeded")
			wantCode(t, b.call(h, "web", "mcp__web__refuse", `{}`), CodeProtocolError, "database is on fire")
			if got := b.call(h, "web", "mcp__web__big", `{"bytes":3000000}`); len(got.Result) != 3000002 {
				t.Errorf("%d bytes, %+v", len(got.Result), got.Error)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for i, r := range w.requests {
				if r.Header.Get("Authorization") != "Bearer hunter2-secret" {
					t.Errorf("request %d (%s %s) lacks the header", i, r.Method, w.bodies[i])
				}
			}
		})
	}
}

func TestSchemasOverHTTPKeepTheServersBytes(t *testing.T) {
	const schema = `{"type":"object","properties":{"z":{"maximum":9007199254740993,"default":1.10},"a":{"const":"é"}},"x-order":[3,1,2]}`
	w := &web{t: t}
	w.serve(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		send := func(result string) {
			out.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(out, ": hello\r\nevent: message\r\nid: 7\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":%s,\"result\":%s}\r\n\r\n", m.ID, result)
		}
		switch m.Method {
		case "initialize":
			send(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
		case "tools/list":
			send(`{"tools":[{"name":"t","inputSchema":` + schema + `,"annotations":{"readOnlyHint":false}}, {"name":"u","inputSchema":{},"annotations":{"destructiveHint":"odd"}}]}`)
		case "tools/call":
			send(`{"content":[{"type":"hologram","n":9007199254740993}]}`)
		default:
			out.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(w.stop)
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{w.config("web")}})
	b.awaitState(h, "web", subjects.StateReady)
	defs := b.definitions(h, "web")
	if len(defs) != 2 || string(defs[0].Parameters) != schema || defs[0].Annotations.ReadOnlyHint == nil || defs[0].Annotations.DestructiveHint != nil {
		t.Errorf("%+v", defs)
	}
	wantResult(t, b.call(h, "web", "mcp__web__t", `{}`), `{"content":[{"type":"hologram","n":9007199254740993}]}`)
}

func TestListChangedArrivesOverHTTP(t *testing.T) {
	w := newWeb(t, nil, standard)
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{w.config("web")}})
	b.awaitState(h, "web", subjects.StateReady)
	wantResult(t, b.call(h, "web", "mcp__web__grow", `{}`), `"grown"`)
	b.await(h, "web", "the new tool", func(subjects.Registration) bool {
		return strings.Contains(strings.Join(names(b.definitions(h, "web")), " "), "mcp__web__grown")
	})
}

func TestAnHTTPServerThatGoesIsUnavailableAndComesBack(t *testing.T) {
	w := newWeb(t, nil, standard)
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{w.config("web"), stdio("other", "standard")}})
	b.awaitState(h, "web", subjects.StateReady)
	r := b.request(h, "web", "mcp__web__sleep", `{"ms":2000}`)
	in := b.ask("web", r)
	for w.count("tools/call") == 0 {
		<-time.After(time.Millisecond)
	}
	w.stop()
	wantCode(t, in.reply(), subjects.CodeOutcomeUnknown, "may have taken effect")
	if reg := b.awaitState(h, "web", subjects.StateUnavailable); !strings.Contains(reg.Reason, "connection refused") {
		t.Errorf("reason: %q", reg.Reason)
	}
	w.start(nil, standard)
	b.awaitState(h, "web", subjects.StateReady)
	wantResult(t, b.call(h, "web", "mcp__web__say", `{"text":"back"}`), `"back"`)
	b.awaitState(h, "other", subjects.StateReady)
}

// The server was restarted and knows no session any more: nothing ran, so the
// call is made again on a new one, and nobody notices.
func TestALostSessionIsDialledAnewForTheSameCall(t *testing.T) {
	w := newWeb(t, nil, standard)
	b := newBus(t)
	cfg := w.config("web")
	cfg.Ping = -1
	h, _ := b.host(Config{Servers: []ServerConfig{cfg}})
	r := b.request(h, "web", "mcp__web__say", `{"text":"again"}`)
	w.stop()
	w.start(nil, standard)
	// A kept-alive connection that just broke is another matter: the request may
	// have arrived.
	server := h.servers[0]
	server.mu.Lock()
	server.session.endpoint.transport.CloseIdleConnections()
	server.mu.Unlock()
	wantResult(t, b.ask("web", r).reply(), `"again"`)
	if n := w.count("tools/call"); n == 0 || n > 2 {
		t.Errorf("%d calls", n)
	}
}

// A connection of HTTP can be poisoned by one request that gets no answer.
func TestATimedOutRequestLeadsToANewSession(t *testing.T) {
	w := newWeb(t, nil, standard)
	b := newBus(t)
	cfg := w.config("web")
	cfg.Timeout, cfg.CancelGrace = 200*time.Millisecond, 50*time.Millisecond
	h, _ := b.host(Config{Servers: []ServerConfig{cfg}})
	if n := w.count("initialize"); n != 1 {
		t.Fatalf("%d sessions", n)
	}
	wantCode(t, b.call(h, "web", "mcp__web__sleep", `{"ms":1000,"ignores":true}`), subjects.CodeOutcomeUnknown, "200ms")
	wantResult(t, b.call(h, "web", "mcp__web__say", `{"text":"still here"}`), `"still here"`)
	if n := w.count("initialize"); n != 2 {
		t.Errorf("%d sessions", n)
	}
	if reg, _, _ := b.registration(h, "web"); reg.State != subjects.StateReady {
		t.Errorf("%+v", reg)
	}
}

func TestACancelOverHTTPIsConfirmedByTheServer(t *testing.T) {
	for name, o := range map[string]*sdk.StreamableHTTPOptions{"events": nil, "json": {JSONResponse: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t, o, standard)
			b := newBus(t)
			h, _ := b.host(Config{Servers: []ServerConfig{w.config("web")}})
			r := b.request(h, "web", "mcp__web__sleep", `{"ms":60000}`)
			in := b.ask("web", r)
			for w.count("tools/call") == 0 {
				<-time.After(time.Millisecond)
			}
			b.cancel("web", `{"execution_id":"`+r.ExecutionID+`","session":"s1"}`)
			wantCode(t, in.reply(), subjects.CodeCancelled)
			if n := w.count("notifications/cancelled"); n != 1 {
				t.Errorf("%d notifications", n)
			}
		})
	}
}

func TestHeadersAreNotSentToWhereTheServerRedirects(t *testing.T) {
	leaked := atomic.Bool{}
	thief := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "" {
			leaked.Store(true)
		}
		out.WriteHeader(http.StatusTeapot)
	}))
	defer thief.Close()
	front := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer front.Close()
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{{Name: "web", URL: front.URL, Headers: map[string]string{"X-Token": "secret"}, ConnectTimeout: 5 * time.Second}}})
	b.awaitState(h, "web", subjects.StateUnavailable)
	if leaked.Load() {
		t.Error("the header went to another host")
	}
}

func TestHostileHTTPServersAreBounded(t *testing.T) {
	kinds := map[string]http.HandlerFunc{
		"hangs":     func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"not found": func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusNotFound) },
		"unauthorized": func(out http.ResponseWriter, _ *http.Request) {
			http.Error(out, "token=hunter2-secret is wrong", http.StatusUnauthorized)
		},
		"html": func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, "<html>") },
		"endless": func(out http.ResponseWriter, r *http.Request) {
			out.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := out.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
		"garbage events": func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(out, "data: {\"jsonrpc\":\n\ndata: x\n\n")
		},
	}
	var servers []ServerConfig
	for name, handler := range kinds {
		srv := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
			handler(out, r)
		}))
		t.Cleanup(srv.Close)
		servers = append(servers, ServerConfig{Name: name, URL: srv.URL, ConnectTimeout: 500 * time.Millisecond, MaxMessage: 1 << 20})
	}
	b := newBus(t)
	h, _ := b.host(Config{Servers: servers})
	for name := range kinds {
		reg := b.awaitState(h, name, subjects.StateUnavailable)
		t.Logf("%s: %s", name, reg.Reason)
		if reg.Reason == "" || strings.Contains(reg.Reason, "hunter2") {
			t.Errorf("%s: reason %q", name, reg.Reason)
		}
	}
}

func TestAnHTTPServerWithoutAnEventStreamIsServed(t *testing.T) {
	w := &web{t: t, wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				http.Error(out, "no", http.StatusNotFound)
				return
			}
			next.ServeHTTP(out, r)
		})
	}}
	w.start(nil, standard)
	t.Cleanup(w.stop)
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{w.config("web")}})
	b.awaitState(h, "web", subjects.StateReady)
	wantResult(t, b.call(h, "web", "mcp__web__say", `{"text":"x"}`), `"x"`)
	<-time.After(150 * time.Millisecond) // pings go on
	if n := w.count("initialize"); n != 1 {
		t.Errorf("%d sessions", n)
	}
}
