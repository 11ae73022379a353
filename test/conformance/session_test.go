package conformance

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// session is one agent session of a name that nobody else uses.
type session struct {
	t    *testing.T
	nc   *nats.Conn
	name string
}

func newSession(t *testing.T) *session {
	t.Helper()
	return &session{t: t, nc: connect(t), name: "s-" + nuid.Next()}
}

func (s *session) subject(verb string) string {
	return *prefix + "." + *tenant + "." + s.name + "." + verb
}

// send sends a request to a subject, with headers in pairs, and checks what holds
// for every reply.
func (s *session) send(subject, body string, headers ...string) *nats.Msg {
	s.t.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	reply, err := s.nc.RequestMsg(m, wait)
	if err != nil {
		s.t.Fatalf("request on %s: %v", subject, err)
	}
	if kind := reply.Header["Toolbridge-Kind"]; len(kind) != 1 || kind[0] != "reply" {
		s.t.Errorf("a reply on %s has Toolbridge-Kind %q", subject, kind)
	}
	return reply
}

// ask sends a request of this session and holds the reply against the schema of
// the verb's replies.
func (s *session) ask(verb, body string, headers ...string) map[string]any {
	s.t.Helper()
	m := s.send(s.subject(verb), body, headers...)
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		s.t.Fatalf("%s %.200s: %s %s", verb, body, code, m.Data)
	}
	v := valid(s.t, verb+"-reply", m.Data)
	s.holdResult(verb, v)
	return v
}

// refused sends a request that can not be served and holds the reply against
// status, headers and schema of errors.
func (s *session) refused(subject, body, code string, headers ...string) map[string]any {
	s.t.Helper()
	return s.holdError(s.send(subject, body, headers...), code)
}

var statuses = map[string]string{
	"BAD_REQUEST": "400", "FORBIDDEN": "403", "UNKNOWN_CATALOG": "404", "UNKNOWN_CALL": "404", "ID_REUSED": "409",
	"TOO_LARGE": "413", "BUSY": "429", "INTERNAL": "500", "UNAVAILABLE": "503", "DEADLINE_EXCEEDED": "504",
}

func (s *session) holdError(m *nats.Msg, code string) map[string]any {
	s.t.Helper()
	v := valid(s.t, "error-reply", m.Data)
	if got := at(v, "error", "code"); got != code {
		s.t.Errorf("code %v, want %s: %s", got, code, m.Data)
	}
	if got := m.Header.Get("Nats-Service-Error-Code"); got != statuses[code] {
		s.t.Errorf("Nats-Service-Error-Code %q, want %s: %s", got, statuses[code], m.Data)
	}
	if m.Header.Get("Nats-Service-Error") == "" {
		s.t.Errorf("no Nats-Service-Error beside %s", m.Data)
	}
	return v
}

// holdResult holds what a bridge tool answered against the shape that it has.
func (s *session) holdResult(verb string, v map[string]any) {
	s.t.Helper()
	if verb != "bridge" || v["result"] == nil {
		return
	}
	schema := map[any]string{"tool_search": "search-result", "tool_describe": "describe-result"}[v["name"]]
	if at(v, "result", "error") != nil && v["is_error"] == true {
		schema = "call-failure"
	}
	if schema != "" {
		valid(s.t, schema, []byte(encode(v["result"])))
	}
}

// assemble returns the reply and the catalog's reference.
func (s *session) assemble(body string) (map[string]any, string) {
	s.t.Helper()
	v := s.ask("assemble", body)
	ref, _ := v["catalog"].(string)
	return v, ref
}

// bridge calls a bridge tool by catalog reference.
func (s *session) bridge(ref, name, arguments string, headers ...string) map[string]any {
	s.t.Helper()
	id := "c" + nuid.Next()
	v := s.ask("bridge", fmt.Sprintf(`{"id":%q,"name":%q,"arguments":%s,"catalog":%q}`, id, name, arguments, ref), headers...)
	if v["id"] != id || v["name"] != name {
		s.t.Errorf("a reply to %s %s says id %v, name %v", id, name, v["id"], v["name"])
	}
	return v
}

// execute answers the session's exec subject as its own process would.
func (s *session) execute(answer func(request map[string]any, m *nats.Msg)) {
	s.t.Helper()
	sub, err := s.nc.Subscribe(s.subject("exec"), func(m *nats.Msg) {
		if got := m.Header.Get("Toolbridge-Kind"); got != "exec" {
			s.t.Errorf("an execution has Toolbridge-Kind %q", got)
		}
		v := valid(s.t, "exec-request", m.Data)
		if v["session"] != s.name {
			s.t.Errorf("an execution of session %v arrived at %s", v["session"], s.name)
		}
		answer(v, m)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := s.nc.FlushTimeout(wait); err != nil {
		s.t.Fatal(err)
	}
}

// at walks into decoded JSON; nil where there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// code is the code of a result that is an error, else "".
func code(v map[string]any) string {
	c, _ := at(v, "result", "error", "code").(string)
	return c
}

func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return strings.TrimSpace(b.String())
}

// later is a time as a deadline header carries it.
func later(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10) }
