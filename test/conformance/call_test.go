package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// permissive skips a check where the deployment asks a person for every call.
func (s *session) permissive(v map[string]any) {
	s.t.Helper()
	if code(v) == "APPROVAL_DENIED" {
		s.t.Skip("the deployment's policy lets this session call nothing unasked")
	}
}

func TestACallGoesToTheSessionsOwnProcessAndItsResultComesBackExactly(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	result := `{"id":9007199254740993,"text":"a<b & ü","list":[1.50,1e400]}`
	s.execute(func(r map[string]any, m *nats.Msg) {
		if got := encode(r["arguments"]); r["tool"] == "mcp__github__create_issue" && got != `{"count":9007199254740993,"repo":"a/b"}` {
			t.Errorf("arguments = %s", got)
		}
		_ = m.Respond([]byte(`{"result":` + result + `}`))
	})
	s.permissive(s.bridge(ref, "tool_call", call(entry("get_forecast", `{"city":"Ulm"}`))))
	m := s.send(s.subject("bridge"), fmt.Sprintf(`{"id":"c9","name":"tool_call","arguments":%s,"catalog":%q}`,
		call(entry("mcp__github__create_issue", `{"repo":"a/b","count":9007199254740993}`)), ref))
	if want := `{"id":"c9","name":"tool_call","is_error":false,"result":` + result + `}`; string(m.Data) != want {
		t.Errorf("reply = %s\nwant    %s", m.Data, want)
	}
}

func TestABatchAnswersInInputOrder(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	s.execute(func(r map[string]any, m *nats.Msg) {
		if r["tool"] == "mcp__mail__send_message" {
			_ = m.Respond([]byte(`{"error":{"code":"SMTP_DOWN","message":"no route"}}`))
			return
		}
		_ = m.Respond([]byte(`{"result":"` + r["tool"].(string) + `"}`))
	})
	v := s.bridge(ref, "tool_call", call(entry("get_forecast", `{}`), entry("mcp__mail__send_message", `{}`), entry("no_such_tool", `{}`), entry("mcp__github__list_releases", `{}`)))
	s.permissive(v)
	valid(t, "call-results", []byte(encode(v["result"])))
	var lines []string
	slots, _ := at(v, "result", "results").([]any)
	for _, slot := range slots {
		lines = append(lines, fmt.Sprint(at(slot, "index"), " ", at(slot, "response"), " ", at(slot, "error", "code"), " ", at(slot, "error", "executor_code")))
	}
	got := strings.Join(lines, "; ")
	want := "0 get_forecast <nil> <nil>; 1 <nil> TOOL_ERROR SMTP_DOWN; 2 <nil> TOOL_NOT_FOUND <nil>; 3 mcp__github__list_releases <nil> <nil>"
	if got != want || v["is_error"] != false {
		t.Errorf("slots = %s\nwant    %s", got, want)
	}
	if c := encode([]any{at(v, "result", "success_count"), at(v, "result", "error_count"), at(v, "result", "total_count")}); c != "[2,2,4]" {
		t.Errorf("counts = %s", c)
	}
}

func TestWhatAnExecutorAnswersBecomesTheContractsCode(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	answers := make(chan string, 1)
	s.execute(func(_ map[string]any, m *nats.Msg) { _ = m.Respond([]byte(<-answers)) })
	for _, c := range []struct{ answer, code string }{
		{`{"result":null}`, ""},
		{`{"error":{"code":"TOO_LATE","message":"x"}}`, "EXECUTOR_UNAVAILABLE"},
		{`{"error":{"code":"DEFINITION_MISMATCH","message":"x"}}`, "EXECUTOR_UNAVAILABLE"},
		{`{"error":{"code":"E42","message":"x"}}`, "TOOL_ERROR"},
		{`not json`, "OUTCOME_UNKNOWN"},
	} {
		answers <- c.answer
		v := s.bridge(ref, "tool_call", call(entry("get_forecast", `{}`)))
		s.permissive(v)
		if code(v) != c.code || v["is_error"] != (c.code != "") {
			t.Errorf("%s becomes %s", c.answer, encode(v))
		}
	}
}

func TestWithoutAProcessACallIsRefusedAtOnce(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	begin := time.Now()
	v := s.bridge(ref, "tool_call", call(entry("get_forecast", `{}`)))
	s.permissive(v)
	if code(v) != "EXECUTOR_UNAVAILABLE" || time.Since(begin) > 10*time.Second {
		t.Errorf("after %s: %s", time.Since(begin), encode(v))
	}
}

func TestADeadlineEndsTheWaitForACallNotTheCall(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	release, done := make(chan struct{}), make(chan struct{})
	s.execute(func(_ map[string]any, m *nats.Msg) { <-release; _ = m.Respond([]byte(`{"result":1}`)); close(done) })
	body := fmt.Sprintf(`{"id":"c1","name":"tool_call","arguments":%s,"catalog":%q}`, call(entry("get_forecast", `{}`)), ref)
	m := s.send(s.subject("bridge"), body, "Toolbridge-Deadline", later(400*time.Millisecond))
	if m.Header.Get("Nats-Service-Error-Code") == "" {
		close(release)
		s.permissive(valid(t, "bridge-reply", m.Data))
		t.Fatalf("reply = %s", m.Data)
	}
	s.holdError(m, "DEADLINE_EXCEEDED")
	close(release)
	<-done
}

func TestInterimMessagesAreNotTheAnswer(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	s.execute(func(_ map[string]any, m *nats.Msg) {
		for range 20 {
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Toolbridge-Status": {"working"}}, Data: []byte(`{"progress":1}`)})
		}
		_ = m.Respond([]byte(`{"result":"done"}`))
	})
	v := s.bridge(ref, "tool_call", call(entry("get_forecast", `{}`)))
	s.permissive(v)
	if v["result"] != "done" {
		t.Errorf("reply = %s", encode(v))
	}
}
