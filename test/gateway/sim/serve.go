package sim

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"toolbridge/connectors"
)

// Names of the routes in faults and records. Other is what no route serves.
const (
	Search           = "search"
	Schemas          = "schemas"
	Execute          = "execute"
	Connections      = "connections"
	List             = "list"
	AccountRead      = "account"
	Guest            = "guest"
	PortalList       = "portal_list"
	PortalRename     = "portal_rename"
	PortalDisconnect = "portal_disconnect"
	Other            = "other"
)

var routeNames = []string{
	Search, Schemas, Execute, Connections, List, AccountRead, Guest, PortalList, PortalRename, PortalDisconnect, Other,
}

// maxBody is what a request may hold.
const maxBody = 8 << 20

func (s *Server) routes() *http.ServeMux {
	m := http.NewServeMux()
	const id = "/{id}"
	for _, r := range []struct {
		pattern, name string
		serve         func(*visit) answer
	}{
		{"POST /" + connectors.RouteSearch, Search, s.search},
		{"POST /" + connectors.RouteSchemas, Schemas, s.schemas},
		{"POST /" + connectors.RouteExecute, Execute, s.execute},
		{"POST /" + connectors.RouteConnections, Connections, s.mint},
		{"GET /" + connectors.RouteConnectors, List, s.list},
		{"GET /" + connectors.RouteAccounts + id, AccountRead, s.readAccount},
		{"POST /" + connectors.RouteGuest, Guest, s.createGuest},
		{"GET /" + connectors.RoutePortalAccounts, PortalList, s.portalList},
		{"PATCH /" + connectors.RoutePortalAccounts + id, PortalRename, s.portalRename},
		{"DELETE /" + connectors.RoutePortalAccounts + id, PortalDisconnect, s.portalDisconnect},
		{"/", Other, func(*visit) answer { return problem(http.StatusNotFound, "NOT_FOUND", "no such route") }},
	} {
		m.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { s.serve(r.name, r.serve, w, req) })
	}
	s.controlRoutes(m)
	return m
}

// visit is one request on its way. Handlers are called under the server's lock.
type visit struct {
	*http.Request
	user *user
	key  string
	body []byte
	note *Request
}

// answer is what goes out.
type answer struct {
	status int
	header map[string]string
	body   []byte
}

func ok(v any) answer { return answer{status: http.StatusOK, body: encode(v)} }

// problem is an error body in its full form.
func problem(status int, code, message string) answer {
	return answer{status: status, body: encode(map[string]any{"error": map[string]string{"code": code, "message": message}})}
}

func encode(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte(`{"error":{"code":"INTERNAL","message":"the answer could not be encoded"}}`)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// serve takes one request from its arrival to its answer, through the fault that
// hits it.
func (s *Server) serve(route string, handle func(*visit) answer, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return // the client went
	}
	v := &visit{Request: r, body: body, key: r.Header.Get(connectors.HeaderIdempotencyKey)}
	run := func() answer { // under the lock
		switch {
		case len(v.body) > maxBody:
			return problem(http.StatusRequestEntityTooLarge, "TOO_LARGE", "the body is too large")
		case v.user == nil && route != Guest && route != Other:
			return problem(http.StatusUnauthorized, "UNAUTHORIZED", "the token is missing or unknown")
		}
		return handle(v)
	}
	f := s.arrive(route, v)
	ended := false
	end := func(status int) {
		if !ended {
			ended = true
			s.mu.Lock()
			defer s.mu.Unlock()
			s.record.end(v.note, status, s.now())
		}
	}
	defer func() { end(0) }()
	if f == nil {
		a := s.locked(run)
		end(a.status)
		a.write(w)
		return
	}
	if f.DelayMS > 0 && f.Kind != Drip && !s.late(r, f.DelayMS) {
		return
	}
	var a answer
	switch {
	case f.Kind == UnknownCode && route == Execute:
		a = s.locked(func() answer { return unknownCodes(v, or(f.Code, "QUOTA_EXHAUSTED")) })
	case kinds[f.Kind] && !f.Effect: // nothing of it is done
	default:
		a = s.locked(run)
	}
	if f.Kind == Duplicate {
		a = s.locked(func() answer {
			again := *v.note
			again.Duplicate, again.At = true, s.now()
			first := v.note
			v.note = s.record.begin(again)
			defer func() { v.note = first }()
			second := run()
			s.record.end(v.note, second.status, s.now())
			return second
		})
	}
	s.send(w, r, f, a, end)
}

func (s *Server) locked(run func() answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return run()
}

// arrive notes a request and finds its user and its fault.
func (s *Server) arrive(route string, v *visit) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, bearer := strings.CutPrefix(v.Header.Get("Authorization"), "Bearer ")
	name := ""
	if bearer {
		if v.user = s.tokens[token]; v.user != nil {
			name = v.user.Name
		}
	}
	v.note = s.record.begin(Request{
		Route: route, Method: v.Method, Path: v.URL.RequestURI(), User: name, Key: v.key, Body: string(v.body), At: s.now(),
	})
	f := s.strike(route, name, toolsIn(v.body))
	if f != nil {
		v.note.Fault = f.Kind
	}
	return f
}

// late lets a request wait. It is carried out even when its client has gone; only
// the end of the simulator ends it.
func (s *Server) late(r *http.Request, ms int) bool {
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-quitOf(r):
		return false
	}
}

// toolsIn are the slugs that a body names.
func toolsIn(body []byte) []string {
	var b struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(body, &b) != nil {
		return nil
	}
	var slugs []string
	for _, raw := range b.Tools {
		var one struct {
			Tool string `json:"tool"`
		}
		var slug string
		if json.Unmarshal(raw, &slug) == nil || json.Unmarshal(raw, &one) == nil {
			slugs = append(slugs, slug+one.Tool)
		}
	}
	return slugs
}

// send lets an answer out in the way of a fault.
func (s *Server) send(w http.ResponseWriter, r *http.Request, f *Fault, a answer, end func(int)) {
	switch f.Kind {
	case Latency, Duplicate:
	case Status, RateLimited, HTML, Dark, Forbidden, Unauthorized:
		a = f.refusal()
	case WrongIndex, TooFew, TooMany, NonObject:
		if a.status == http.StatusOK {
			a.body = spoil(f.Kind, a.body)
		}
	case UnknownCode:
		if a.status == 0 { // not execute
			a = problem(http.StatusBadRequest, or(f.Code, "QUOTA_EXHAUSTED"), "a code that no page lists")
		}
	case Garbage:
		a.body = []byte("{\"results\":[{\"index\":0,,\x00\xff not json")
	case ContentType:
		a.header = map[string]string{"Content-Type": "text/html; charset=utf-8"}
	case Hang:
		hang(r)
		return
	case Reset:
		reset(w)
		return
	case Truncated:
		end(0)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body[:len(a.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case Huge:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		pour(w, or(f.Bytes, 64<<20))
		end(http.StatusOK)
		return
	case Drip:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		w.WriteHeader(a.status)
		out := http.NewResponseController(w)
		for i := range a.body {
			if _, err := w.Write(a.body[i : i+1]); err != nil || out.Flush() != nil || !wait(r, time.Duration(or(f.DelayMS, 100))*time.Millisecond) {
				return
			}
		}
		end(a.status)
		return
	}
	end(a.status)
	a.write(w)
}

// pour writes JSON of about so many bytes.
func pour(w io.Writer, n int) {
	const fill = `"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",`
	block := []byte(strings.Repeat(fill, 1024))
	if _, err := io.WriteString(w, `{"results":[`); err != nil {
		return
	}
	for ; n > 0; n -= len(block) {
		if _, err := w.Write(block[:min(n/len(fill)*len(fill), len(block))]); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, `"end"]}`)
}

// reset ends a connection in the rudest way there is.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (a answer) write(w http.ResponseWriter) {
	if a.status == http.StatusNoContent {
		w.WriteHeader(a.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}
