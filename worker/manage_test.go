package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/approval"
	"toolbridge/client"
	"toolbridge/connectors"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/test/gateway/sim"
	"toolbridge/worker"
)

// cards is a fleet before the simulator, with a session whose surface has cards.
type cards struct {
	*fleet
	sim    *sim.Server
	origin string
	ref    string
	events chan subjects.Event
}

func newCards(t *testing.T, cfg worker.Config, more ...func(*connectors.Config)) *cards {
	t.Helper()
	c := newBareCards(t)
	cfg.Dev = true
	cfg.Gateway = c.side(more...)
	c.start(cfg)
	c.ref = c.catalogFor("s1", "desktop")
	return c
}

// newBareCards is newCards without a worker.
func newBareCards(t *testing.T) *cards {
	t.Helper()
	s, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	origin, err := s.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := &cards{fleet: newFleet(t), sim: s, origin: origin, events: make(chan subjects.Event, 1000)}
	sub, err := c.nc.Subscribe("toolbridge.v1.t.s1.event", func(m *nats.Msg) {
		var e subjects.Event
		if subjects.Decode(m.Data, &e) == nil {
			c.events <- e
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	c.flush()
	return c
}

func (c *cards) side(more ...func(*connectors.Config)) *connectors.Gateway {
	c.t.Helper()
	return gatewayOf(c.t, c.fleet, c.origin, append([]func(*connectors.Config){func(g *connectors.Config) {
		g.Client.Credentials = connectors.Fixed{{Tenant: "t", User: "dev"}: "grace-token", {Tenant: "t", User: "ada"}: "ada-token"}
	}}, more...)...)
}

func (c *cards) catalogFor(session, surface string) string {
	c.t.Helper()
	return c.assemble(session, fmt.Sprintf(`{"tools":%s,"surface":%q}`, tools(manageConnections), surface))["catalog"].(string)
}

// begin calls manage_connections over the bridge and returns what receives the reply.
func (c *cards) begin(id, arguments string) <-chan map[string]any {
	c.t.Helper()
	done := make(chan map[string]any, 1)
	body := fmt.Sprintf(`{"id":%q,"name":"manage_connections","arguments":%s,"catalog":%q}`, id, arguments, c.ref)
	go func() {
		ctx, cancel := context.WithTimeout(c.t.Context(), 60*time.Second)
		defer cancel()
		var reply map[string]any
		m, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: "toolbridge.v1.t.s1.bridge", Data: []byte(body)})
		if err == nil {
			err = json.Unmarshal(m.Data, &reply)
		}
		if err != nil {
			reply = map[string]any{"failed": err.Error()}
		}
		done <- reply
	}()
	return done
}

// card waits for the next card.
func (c *cards) card() subjects.Event {
	c.t.Helper()
	for {
		select {
		case e := <-c.events:
			if e.Type == subjects.EventConnectionRequest {
				return e
			}
		case <-time.After(wait):
			c.t.Fatal("no card came")
		}
	}
}

func (c *cards) open(link string) {
	c.t.Helper()
	resp, err := http.Get(link)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s", link, resp.Status)
	}
}

func (c *cards) reply(done <-chan map[string]any) map[string]any {
	c.t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(50 * time.Second):
		c.t.Fatal("the call does not end")
		return nil
	}
}

func (c *cards) mints() int { return len(c.sim.Record().Of("connections")) }

func TestACardIsShownAndItsCallReturnsWhenTheUserIsDone(t *testing.T) {
	c := newCards(t, worker.Config{CallSlots: 1})
	done := c.begin("m1", `{"action":"connect","connectors":["gmail","notion"]}`)
	card := c.card()
	if card.CallID != "m1" || card.Tool != "manage_connections" || len(card.Targets) != 2 || card.DeadlineAt == "" || card.TimeoutSeconds != 300 {
		t.Errorf("the card is %+v", card)
	}
	// The one slot of this worker is free for others while the user decides.
	if r := c.bridge("s1", c.ref, "manage_connections", `{}`); r["is_error"] == true {
		t.Errorf("status while the card is open: %v", r)
	}
	if r := c.bridge("s1", c.ref, "manage_connections", `{"action":"connect","connectors":["slack"]}`); !strings.Contains(text(r), "already_open") {
		t.Errorf("a second card: %v", r)
	}
	answer := c.ask("s1", "connection.answer", fmt.Sprintf(`{"operation":%q,"target":"notion","action":"skip"}`, card.Operation))
	if answer["accepted"] != true {
		t.Errorf("the answer to the skip is %v", answer)
	}
	c.open(card.Targets[0].ConnectURL)
	reply := c.reply(done)
	if reply["is_error"] == true {
		t.Fatalf("the call failed: %v", reply)
	}
	result := at(t, reply, "result").(map[string]any)
	if result["status"] != "settled" || result["settled_by"] != "all_resolved" || at(t, result, "targets", 0, "state") != "connected" || at(t, result, "targets", 1, "state") != "skipped" || strings.Contains(text(result), "http") {
		t.Errorf("the result is %v", result)
	}
	if n := c.mints(); n != 1 {
		t.Errorf("%d connections were started", n)
	}
	for _, q := range c.sim.Record().Requests {
		if q.User != "grace" {
			t.Errorf("request %d of %s went out for %q", q.Seq, q.Route, q.User)
		}
	}
}

func TestAStopEndsACard(t *testing.T) {
	c := newCards(t, worker.Config{})
	done := c.begin("m1", `{"action":"connect","connectors":["gmail"]}`)
	c.card()
	c.ask("s1", "stop", `{"call_id":"m1"}`)
	result := at(t, c.reply(done), "result").(map[string]any)
	if result["settled_by"] != "interrupt" || at(t, result, "targets", 0, "state") != "not_connected" {
		t.Errorf("the result is %v", result)
	}
	if again := c.begin("m2", `{"action":"connect","connectors":["gmail"]}`); true {
		card := c.card()
		c.ask("s1", "connection.answer", fmt.Sprintf(`{"operation":%q,"action":"continue"}`, card.Operation))
		if r := at(t, c.reply(again), "result").(map[string]any); r["settled_by"] != "continue" {
			t.Errorf("the card after it: %v", r)
		}
	}
}

func TestACardOutlivesTheWorkerThatShowedIt(t *testing.T) {
	for how, lose := range map[string]func(w *worker.Worker, nc *nats.Conn){
		"stopped": func(w *worker.Worker, _ *nats.Conn) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_ = w.Stop(ctx) // it was cut off
		},
		"lost": func(_ *worker.Worker, nc *nats.Conn) { nc.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			c := newBareCards(t)
			cfg := worker.Config{Dev: true, Gateway: c.side(), CallLease: time.Second, Logger: slog.New(slog.DiscardHandler)}
			nc := bus.Connect(t, c.server)
			first, err := worker.New(cfg, nc)
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = first.Stop(ctx) // lost already
			})
			c.ref = c.catalogFor("s1", "desktop")
			c.ask("s1", "call", fmt.Sprintf(`{"id":"m1","name":"manage_connections","arguments":{"action":"connect","connectors":["gmail"]},"catalog":%q}`, c.ref))
			card := c.card()
			cfg.Gateway = c.side()
			c.start(cfg)
			lose(first, nc)
			if again := c.card(); again.Operation != card.Operation {
				t.Errorf("another card: %+v", again)
			}
			c.open(card.Targets[0].ConnectURL)
			var result map[string]any
			eventually(t, "the call has its result", func() bool {
				r := c.ask("s1", "fetch", `{"call_id":"m1"}`)
				result, _ = r["result"].(map[string]any)
				return result != nil
			})
			if at(t, result, "targets", 0, "state") != "connected" || result["op_id"] != card.Operation {
				t.Errorf("the result is %v", result)
			}
			if n := c.mints(); n != 1 {
				t.Errorf("%d connections were started", n)
			}
		})
	}
}

func TestCardsAreAnsweredOnlyInTheirOwnWay(t *testing.T) {
	c := newCards(t, worker.Config{})
	for name, body := range map[string]string{
		"no operation": `{"action":"skip","target":"gmail"}`, "no action": `{"operation":"op_1"}`, "another action": `{"operation":"op_1","target":"a","action":"connect"}`,
		"a skip of nothing": `{"operation":"op_1","action":"skip"}`, "no JSON": `{"operation":`, "a list": `[]`,
	} {
		if r := c.ask("s1", "connection.answer", body); code(r) != "BAD_REQUEST" {
			t.Errorf("%s: %v", name, r)
		}
	}
	for _, operation := range []string{"op_1", "", "x.y", "open"} {
		if operation == "" {
			continue
		}
		if r := c.ask("s1", "connection.answer", fmt.Sprintf(`{"operation":%q,"action":"continue"}`, operation)); r["accepted"] != false || r["reason"] == "" {
			t.Errorf("operation %q: %v", operation, r)
		}
	}
}

// K03: search, describe, connect, execute and status of a session go out under the
// user of its grant, whichever worker sends them.
func TestK03OneIdentityOnEveryRequestOfASession(t *testing.T) {
	c := newBareCards(t)
	if err := c.sim.AddUser(sim.User{Name: "u-17", Token: "token-of-u-17"}); err != nil {
		t.Fatal(err)
	}
	users := func(g *connectors.Config) {
		g.DevUser = ""
		g.Client.Credentials = connectors.Fixed{{Tenant: "t", User: "u-17"}: "token-of-u-17", {Tenant: "t", User: "dev"}: "dev-token", {Tenant: "t", User: "ada"}: "ada-token"}
	}
	c.start(worker.Config{Gateway: c.side(users), Policy: approval.Policy{Default: approval.Allow}})
	c.start(worker.Config{Gateway: c.side(users), Policy: approval.Policy{Default: approval.Allow}})
	c.grant("s1", `{"user":"u-17"}`)
	c.ref = c.catalogFor("s1", "desktop")
	done := c.begin("m1", `{"action":"connect","connectors":["slack"]}`)
	c.open(c.card().Targets[0].ConnectURL)
	if r := c.reply(done); at(t, r, "result", "targets", 0, "state") != "connected" {
		t.Fatalf("connect: %v", r)
	}
	for range 4 { // of both workers
		found := c.bridge("s1", c.ref, "tool_search", `{"queries":["post a message to a slack channel"]}`)
		names := at(t, found, "result", "results", 0, "matches").([]any)
		if len(names) == 0 {
			t.Fatalf("search: %v", found)
		}
		c.bridge("s1", c.ref, "tool_describe", fmt.Sprintf(`{"names":[%q]}`, names[0]))
		if r := c.bridge("s1", c.ref, "tool_call", fmt.Sprintf(`{"calls":[{"name":%q,"arguments":{"channel":"general","text":"hi"}}]}`, names[0])); strings.Contains(text(r), "CONNECTION_REQUIRED") {
			t.Errorf("call: %v", r)
		}
		if r := c.bridge("s1", c.ref, "manage_connections", `{"connectors":["slack"]}`); at(t, r, "result", "connectors", 0, "connected") != true {
			t.Errorf("status: %v", r)
		}
	}
	routes := map[string]bool{}
	for _, q := range c.sim.Record().Requests {
		routes[q.Route] = true
		if q.User != "u-17" {
			t.Errorf("%s went out for %q", q.Route, q.User)
		}
	}
	for _, route := range []string{"search", "schemas", "connections", "execute", "list", "portal_list"} {
		if !routes[route] {
			t.Errorf("no %s was sent", route)
		}
	}
}

func TestTheGoClientAnswersCardsAndManagesAccounts(t *testing.T) {
	c := newCards(t, worker.Config{})
	cl, err := client.New(c.nc, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := cl.Session("t", "s1")
	if err != nil {
		t.Fatal(err)
	}
	done := c.begin("m1", `{"action":"connect","connectors":["gmail"]}`)
	reply, err := s.AnswerConnection(t.Context(), subjects.ConnectionAnswer{Operation: c.card().Operation, Action: subjects.ConnectionContinue})
	if err != nil || !reply.Accepted || len(reply.Targets) != 1 || reply.Targets[0].State != subjects.ConnectionNotConnected {
		t.Errorf("%+v, %v", reply, err)
	}
	c.reply(done)
	if _, err := s.AnswerConnection(t.Context(), subjects.ConnectionAnswer{Operation: "op_1", Action: "wait"}); !errors.Is(err, &subjects.Error{Code: subjects.CodeBadRequest}) {
		t.Errorf("an action that is none: %v", err)
	}
	p, err := cl.Portal("t", "ada")
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Open(t.Context())
	if err != nil || list.Identity != "user" || len(list.Accounts) < 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	account := list.Accounts[0].ID
	if r, err := p.Rename(t.Context(), account, "first"); err != nil || r.Accounts[0].Alias != "first" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := p.Disconnect(t.Context(), account); err != nil || len(r.Accounts) != len(list.Accounts)-1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := p.List(t.Context()); err != nil || len(r.Accounts) != len(list.Accounts)-1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := cl.Portal("t", "a.b"); err == nil {
		t.Error("a user that is no token was taken")
	}
}
