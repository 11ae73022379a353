//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// agent is a session of a NATS client that knows only the contract.
type agent struct {
	t               *testing.T
	nc              *nats.Conn
	tenant, session string
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatalf("connecting to %s: %v", url, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func newAgent(t *testing.T, url, tenant string) *agent {
	t.Helper()
	return &agent{t, connect(t, url), tenant, "s-" + nuid.Next()}
}

func (a *agent) subject(verb string) string {
	return "toolbridge.v1." + a.tenant + "." + a.session + "." + verb
}

// raw sends a request and returns the reply's bytes.
func (a *agent) raw(verb, body string) []byte {
	a.t.Helper()
	m, err := a.nc.Request(a.subject(verb), []byte(body), patience)
	if err != nil {
		a.t.Fatalf("%s: %v", verb, err)
	}
	if kind := m.Header.Get("Toolbridge-Kind"); kind != "reply" {
		a.t.Errorf("%s: the reply has Toolbridge-Kind %q", verb, kind)
	}
	return m.Data
}

func (a *agent) ask(verb, body string) map[string]any {
	a.t.Helper()
	return decode(a.t, a.raw(verb, body))
}

// assemble returns the reply for registry toolsets; "" for all.
func (a *agent) assemble(toolsets ...string) map[string]any {
	a.t.Helper()
	if len(toolsets) == 0 {
		toolsets = []string{"*"}
	}
	v := a.ask("assemble", `{"toolsets":["`+strings.Join(toolsets, `","`)+`"],"context_length":200000,"surface":"cli","dialect":"openai","config":{"enabled":true}}`)
	if v["error"] != nil {
		a.t.Fatalf("assemble: %s", encode(v))
	}
	return v
}

func (a *agent) bridge(ref, name, arguments string) map[string]any {
	a.t.Helper()
	v := a.ask("bridge", fmt.Sprintf(`{"id":"c%s","name":%q,"arguments":%s,"catalog":%q}`, nuid.Next(), name, arguments, ref))
	if v["error"] != nil {
		a.t.Fatalf("%s %s: %s", name, arguments, encode(v))
	}
	return v
}

// call calls one tool and returns the whole reply.
func (a *agent) call(ref, tool, arguments string) map[string]any {
	a.t.Helper()
	return a.bridge(ref, "tool_call", fmt.Sprintf(`{"calls":[{"name":%q,"arguments":%s}]}`, tool, arguments))
}

// result calls one tool and expects that it succeeds.
func (a *agent) result(ref, tool, arguments string) any {
	a.t.Helper()
	v := a.call(ref, tool, arguments)
	if v["is_error"] != false {
		a.t.Fatalf("%s %s: %s", tool, arguments, encode(v))
	}
	return v["result"]
}

// describe returns the parameters of a tool.
func (a *agent) describe(ref, tool string) any {
	a.t.Helper()
	v := a.bridge(ref, "tool_describe", fmt.Sprintf(`{"names":[%q]}`, tool))
	return at(v, "result", "tools", tool, "parameters")
}

// decode reads JSON with numbers as they are written.
func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.500s", err, data)
	}
	return v
}

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return strings.TrimSpace(b.String())
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

// code is the code of a failed call, else "".
func code(v map[string]any) string {
	c, _ := at(v, "result", "error", "code").(string)
	return c
}
