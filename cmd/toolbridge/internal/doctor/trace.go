package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// probe is the only tool of the session that the searches are about.
const probe = `{"name":"doctor_probe","toolset":"doctor","description":"Answers nothing; it is only searched for.","parameters":{"type":"object"}}`

// search sends a tool_search with tools of its own as the patient's session.
func (p *Patient) search(ctx context.Context, header nats.Header, query, tools string) (*nats.Msg, error) {
	body, err := subjects.Encode(map[string]any{
		"id": "doctor-" + nuid.Next(), "name": subjects.ToolSearch, "arguments": map[string]any{"queries": []string{query}},
		"tools": json.RawMessage("[" + tools + "]"), "config": map[string]any{"enabled": true},
	})
	if err != nil {
		return nil, err
	}
	return p.Conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: p.Space.Session(p.Tenant, p.Session, subjects.VerbBridge), Data: body, Header: header})
}

// searches sends one search, and when that is answered looks whether trace context
// gets to a worker and back.
func (p *Patient) searches(ctx context.Context) []Finding {
	const check = "search"
	asking, cancel := p.within(ctx)
	defer cancel()
	p.forbade()
	sent := time.Now()
	m, err := p.search(asking, nil, "doctor probe", probe)
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrNoResponders):
		return []Finding{{check, Failed, "no worker takes the requests of sessions", "Start a worker; in a deployment with accounts, see \"toolbridge permissions accounts\"."}}
	case p.forbade():
		return []Finding{skipped(check, "ask as session "+p.Session+" of tenant "+p.Tenant)}
	default:
		return []Finding{{check, Failed, "no answer: " + err.Error(), "Look at the workers' log and load."}}
	}
	took := time.Since(sent)
	var r subjects.BridgeReply
	if err := subjects.Decode(m.Data, &r); err != nil || r.IsError || !strings.Contains(string(r.Result), "doctor_probe") {
		return []Finding{{check, Failed, "the search does not find what it was given: " + clip(m.Data), "The code and message say why."}}
	}
	return []Finding{ok(check, "answered in %s", took.Round(10*time.Microsecond)), p.trace(ctx)}
}

// trace sends searches with and without a trace of their own, and judges what comes
// back.
func (p *Patient) trace(ctx context.Context) Finding {
	const check = "trace propagation"
	var sent, back string
	err := tracing.SelfTest(ctx, func(ctx context.Context, header nats.Header) (nats.Header, error) {
		ctx, cancel := p.within(ctx)
		defer cancel()
		m, err := p.search(ctx, header, "doctor probe", probe)
		if err != nil {
			return nil, err
		}
		if len(header) > 0 {
			sent, back = tracing.Read(header)[0], tracing.Read(m.Header)[0]
		}
		return m.Header, nil
	}, false)
	switch {
	case errors.Is(err, tracing.ErrOtherTrace):
		return Finding{check, Warning, "the worker answers in a trace of its own", "That is so where telemetry.trace is link: the caller's trace is linked from it. Otherwise something replaces the headers."}
	case err != nil:
		return Finding{check, Failed, err.Error(), "A proxy or an older worker drops or changes the headers traceparent, tracestate and baggage; nothing can be followed across it."}
	case back == sent:
		return ok(check, "the caller's trace comes back as it was sent: workers have no tracing configured")
	}
	return ok(check, "the worker's span %s belongs to the caller's trace", strings.Split(back, "-")[2])
}

func clip(data []byte) string {
	const most = 300
	s := strings.ToValidUTF8(string(data), "?")
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
