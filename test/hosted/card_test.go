//go:build unix

package hosted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
	"toolbridge/test/gateway/sim"
)

// desktop is a session whose surface has cards, and its feed.
func (d *deployment) desktop(tenant string) (*session, <-chan subjects.Event) {
	d.t.Helper()
	s := d.assemble(tenant, connect)
	var reply struct{ Catalog string }
	if err := json.Unmarshal(s.request("assemble", `{"tools":[`+connect+`],"surface":"desktop"}`), &reply); err != nil || reply.Catalog == "" {
		d.t.Fatalf("assembling for a desktop: %v", err)
	}
	s.catalog = reply.Catalog
	events := make(chan subjects.Event, 100)
	sub, err := d.nc.Subscribe(s.subject+string(subjects.VerbEvent), func(m *nats.Msg) {
		var e subjects.Event
		if subjects.Decode(m.Data, &e) == nil && e.Type == subjects.EventConnectionRequest {
			events <- e
		}
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := d.nc.Flush(); err != nil {
		d.t.Fatal(err)
	}
	return s, events
}

// outcome waits for the result of a stored call.
func (s *session) outcome(t *testing.T, id string) (result json.RawMessage) {
	t.Helper()
	until(t, "the result", func() bool {
		var reply struct {
			Pending bool
			Result  json.RawMessage
		}
		if err := json.Unmarshal(s.request("fetch", fmt.Sprintf(`{"call_id":%q}`, id)), &reply); err != nil {
			t.Fatal(err)
		}
		result = reply.Result
		return !reply.Pending
	})
	return result
}

// A worker is killed while its user looks at a card: another one shows it again,
// watches on, and starts nothing a second time.
func TestACardOutlivesItsKilledWorker(t *testing.T) {
	d := deploy(t)
	first := start(t, d.order("t"))
	s, cards := d.desktop("t")
	s.request("call", fmt.Sprintf(`{"id":"m1","name":"manage_connections","arguments":{"action":"connect","connectors":["notion"]},"catalog":%q}`, s.catalog))
	card := next(t, cards)
	first.kill()
	start(t, d.order("t"))
	if again := next(t, cards); again.Operation != card.Operation || again.DeadlineAt != card.DeadlineAt {
		t.Errorf("another card: %+v, before %+v", again, card)
	}
	resp, err := http.Get(card.Targets[0].ConnectURL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if result := s.outcome(t, "m1"); !strings.Contains(string(result), `"connected"`) || !strings.Contains(string(result), card.Operation) {
		t.Errorf("%s", result)
	}
	if n := len(d.gateway.Record().Of("connections")); n != 1 {
		t.Errorf("%d connections were started", n)
	}
}

// A worker is killed while the gateway starts a connection: nobody starts it again,
// and the result says that it is unknown.
func TestAConnectionWhoseWorkerIsKilledIsNotStartedAgain(t *testing.T) {
	for _, effect := range []bool{false, true} {
		t.Run(fmt.Sprintf("done %t", effect), func(t *testing.T) {
			d := deploy(t)
			first := start(t, d.order("t"))
			s, _ := d.desktop("t")
			d.inject(sim.Fault{Kind: sim.Hang, Route: "connections", Effect: effect})
			s.request("call", fmt.Sprintf(`{"id":"m1","name":"manage_connections","arguments":{"action":"connect","connectors":["notion"]},"catalog":%q}`, s.catalog))
			until(t, "the request that hangs", func() bool { return len(d.gateway.Record().Of("connections")) == 1 })
			first.kill()
			start(t, d.order("t"))
			if result := s.outcome(t, "m1"); !strings.Contains(string(result), "OUTCOME_UNKNOWN") || !strings.Contains(string(result), "check status before starting again") {
				t.Errorf("%s", result)
			}
			if n := len(d.gateway.Record().Of("connections")); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func next(t *testing.T, cards <-chan subjects.Event) subjects.Event {
	t.Helper()
	select {
	case e := <-cards:
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no card came")
		return subjects.Event{}
	}
}
