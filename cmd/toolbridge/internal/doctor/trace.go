package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// probe is the only tool of the session that the traced search is about.
const probe = `[{"name":"doctor_probe","toolset":"doctor","description":"Answers nothing; it is only searched for.","parameters":{"type":"object"}}]`

// trace sends one search that belongs to a trace of its own, and looks for that
// trace in the answer.
func (p *Patient) trace(ctx context.Context) []Finding {
	const check = "search"
	var id [24]byte
	_, _ = rand.Read(id[:])
	trace, span := hex.EncodeToString(id[:16]), hex.EncodeToString(id[16:])
	parent := "00-" + trace + "-" + span + "-01"
	body, err := subjects.Encode(map[string]any{
		"id": "doctor-" + span, "name": "tool_search", "arguments": map[string]any{"queries": []string{"doctor probe"}},
		"tools": json.RawMessage(probe), "config": map[string]any{"enabled": true},
	})
	if err != nil {
		return []Finding{{check, Failed, err.Error(), ""}}
	}
	ctx, cancel := p.within(ctx)
	defer cancel()
	p.forbade()
	sent := time.Now()
	m, err := p.Conn.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: p.Space.Session(p.Tenant, p.Session, subjects.VerbBridge), Data: body, Header: nats.Header{subjects.HeaderTraceParent: {parent}},
	})
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
	return append([]Finding{ok(check, "answered in %s", took.Round(10*time.Microsecond))}, found(trace, parent, m.Header))
}

// found judges the trace context of an answer.
func found(trace, sent string, header nats.Header) Finding {
	const (
		check  = "trace propagation"
		advice = "A proxy or an older worker drops the headers traceparent, tracestate and baggage; nothing can be followed across it."
	)
	got := header.Get(subjects.HeaderTraceParent)
	parts := strings.Split(got, "-")
	switch {
	case got == "":
		for name := range header {
			if strings.EqualFold(name, subjects.HeaderTraceParent) {
				return Finding{check, Failed, "the trace comes back under the header " + name + ", which case-sensitive readers miss", advice}
			}
		}
		return Finding{check, Failed, "the answer carries no trace", advice}
	case len(parts) != 4 || len(parts[1]) != 32 || len(parts[2]) != 16:
		return Finding{check, Failed, fmt.Sprintf("the answer's trace %q is not one", got), advice}
	case parts[1] != trace:
		return Finding{check, Warning, "the worker answers in a trace of its own", "That is so where telemetry.trace is link: the caller's trace is linked from it. Otherwise something replaces the headers."}
	case got == sent:
		return ok(check, "the caller's trace comes back as it was sent: workers have no tracing configured")
	}
	return ok(check, "the worker's span %s belongs to the caller's trace", parts[2])
}

func clip(data []byte) string {
	const most = 300
	s := strings.ToValidUTF8(string(data), "?")
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
