//go:build unix

package hosted

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolbridge/test/bus"
	"toolbridge/test/gateway/sim"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		if err := runWorker(text); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, bus.Leaks()...)
}

// user is whose accounts every session uses, and token its token.
const (
	user  = "dev"
	token = "dev-token"
)

// deployment is a bus and a gateway, and what speaks to the workers.
type deployment struct {
	t       testing.TB
	url     string
	nc      *nats.Conn
	gateway *sim.Server
	origin  string
	next    int
}

func deploy(t testing.TB) *deployment {
	t.Helper()
	s := bus.Server(t)
	g, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	origin, err := g.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return &deployment{t: t, url: s.ClientURL(), nc: bus.Connect(t, s), gateway: g, origin: origin}
}

// order is a worker of this deployment, for the tenants.
func (d *deployment) order(tenants ...string) order {
	o := order{Bus: d.url, Gateway: d.origin, Users: map[string]string{}}
	for _, tenant := range tenants {
		o.Users[tenant] = token
	}
	return o
}

// inject adds faults.
func (d *deployment) inject(list ...sim.Fault) {
	d.t.Helper()
	if err := d.gateway.Inject(list...); err != nil {
		d.t.Fatal(err)
	}
}

// session is one session with an assembled catalog.
type session struct {
	*deployment
	subject string // before the verb
	catalog string
}

const connect = `{"type":"function","function":{"name":"manage_connections","description":"","parameters":{"type":"object"}}}`

// local are the definitions of the session's own tools.
func local(n int) []string {
	var list []string
	for i := range n {
		what := [...][2]string{
			{"mail", "Send an email message to a recipient of the mailbox"},
			{"issue", "Create an issue in the tracker"},
			{"event", "Create an event in the calendar"},
			{"note", "Write a note into the notebook"},
			{"message", "Post a message to a channel"},
			{"file", "Read a file from the disk"},
		}[i%6]
		list = append(list, fmt.Sprintf(`{"type":"function","toolset":"mcp-own","function":{"name":"mcp__own__%s_%d","description":"%s, variant %d.",
			"parameters":{"type":"object","properties":{"to":{"type":"string"},"n":{"type":"integer"}}}}}`, what[0], i, what[1], i))
	}
	return list
}

// assemble makes a session with these definitions.
func (d *deployment) assemble(tenant string, tools ...string) *session {
	d.t.Helper()
	d.next++
	s := &session{deployment: d, subject: fmt.Sprintf("toolbridge.v1.%s.s%d.", tenant, d.next)}
	reply := s.request("assemble", `{"tools":[`+strings.Join(tools, ",")+`],"surface":"cli","config":{"enabled":true}}`)
	var r struct{ Catalog string }
	if err := json.Unmarshal(reply, &r); err != nil || r.Catalog == "" {
		d.t.Fatalf("assemble: %s", reply)
	}
	s.catalog = r.Catalog
	return s
}

const patience = 60 * time.Second

// request is a request whose reply is no error of the request.
func (s *session) request(verb, body string) []byte {
	s.t.Helper()
	m, err := s.nc.Request(s.subject+verb, []byte(body), patience)
	if err != nil {
		s.t.Fatalf("%s: %v", verb, err)
	}
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		s.t.Fatalf("%s: %s", verb, m.Data)
	}
	return m.Data
}

// bridge is a bridge tool's result.
func (s *session) bridge(id, name, arguments string) json.RawMessage {
	s.t.Helper()
	var r struct{ Result json.RawMessage }
	reply := s.request("bridge", fmt.Sprintf(`{"id":%q,"name":%q,"arguments":%s,"catalog":%q}`, id, name, arguments, s.catalog))
	if err := json.Unmarshal(reply, &r); err != nil {
		s.t.Fatalf("%s: %s: %v", name, reply, err)
	}
	return r.Result
}

// batch is the result of a tool_call with connectors' tools.
type batch struct {
	Results []struct {
		Index    int
		Name     string
		Response json.RawMessage
		Error    *struct {
			Code         string
			RetryAfterMS *int64 `json:"retry_after_ms"`
			Message      string
		}
		Account string
	}
	SuccessCount int `json:"success_count"`
	ErrorCount   int `json:"error_count"`
	TotalCount   int `json:"total_count"`
	// Error is that of a batch that was refused whole.
	Error json.RawMessage
}

func decodeBatch(t testing.TB, result json.RawMessage) batch {
	t.Helper()
	var b batch
	if err := json.Unmarshal(result, &b); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	if len(b.Results) == 0 {
		t.Fatalf("no results: %s", result)
	}
	return b
}

// createIssue is one call of a hosted tool; its code, "" when it succeeded, and how
// long to wait before the next, -1 when that is not said.
func (s *session) createIssue(id string) (code string, after time.Duration) {
	s.t.Helper()
	b := decodeBatch(s.t, s.bridge(id, "tool_call", `{"calls":[`+issue(id)+`]}`))
	e := b.Results[0].Error
	switch {
	case e == nil:
		return "", -1
	case e.RetryAfterMS == nil:
		return e.Code, -1
	}
	return e.Code, time.Duration(*e.RetryAfterMS) * time.Millisecond
}

func issue(title string) string {
	return fmt.Sprintf(`{"name":"connectors__linear__CREATE_ISSUE","arguments":{"title":%q}}`, title)
}

// until waits until something is so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
