package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/connectors"
	"toolbridge/subjects"
	"toolbridge/test/gateway/sim"
	"toolbridge/worker"
)

func TestThePortalServesTheUsersOfATenant(t *testing.T) {
	c := newBareCards(t)
	down := func(kind string) {
		if err := c.sim.Inject(sim.Fault{Kind: kind, Route: "portal_list", Count: -1}); err != nil {
			t.Fatal(err)
		}
	}
	c.start(worker.Config{Gateway: c.side()})
	portal := func(user, body string) map[string]any {
		return decode(t, c.send("toolbridge.v1.t._portal."+user, body).Data)
	}
	if r := portal("ada", `{"action":"list"}`); code(r) != "FORBIDDEN" {
		t.Errorf("a user whom no grant names: %v", r)
	}
	c.grant("s9", `{"user":"ada"}`)
	list := portal("ada", `{"action":"list"}`)
	if list["error"] != nil || len(at(t, list, "accounts").([]any)) == 0 {
		t.Fatalf("list: %v", list)
	}
	if r := decode(t, c.send("toolbridge.v1.other._portal.ada", `{"action":"list"}`).Data); code(r) != "FORBIDDEN" {
		t.Errorf("the same user of another tenant: %v", r)
	}
	account := at(t, list, "accounts", 0, "id").(string)
	for name, body := range map[string]string{
		"no action": `{}`, "another": `{"action":"connect"}`, "no account": `{"action":"disconnect"}`, "a foreign account": `{"action":"disconnect","account":"ac_of_somebody"}`,
		"a bad alias": fmt.Sprintf(`{"action":"rename","account":%q,"alias":"Work Mail"}`, account), "a taken alias": fmt.Sprintf(`{"action":"rename","account":%q,"alias":"home"}`, account),
	} {
		if r := portal("ada", body); code(r) != "BAD_REQUEST" {
			t.Errorf("%s: %v", name, r)
		}
	}
	if r := portal("ada", fmt.Sprintf(`{"action":"rename","account":%q,"alias":"office"}`, account)); at(t, r, "accounts", 0, "alias") != "office" {
		t.Errorf("rename: %v", r)
	}
	if r := portal("ada", fmt.Sprintf(`{"action":"disconnect","account":%q}`, account)); r["error"] != nil || strings.Contains(text(r), account) {
		t.Errorf("disconnect: %v", r)
	}
	if r := portal("ada", `{"action":"open"}`); r["identity"] != "user" {
		t.Errorf("open: %v", r)
	}
	var types []string
	for _, a := range c.audit(t, "toolbridge.v1._audit.t._portal") {
		types = append(types, fmt.Sprintf("%s %s %s", a.Type, a.Account, a.User))
	}
	want(t, "audit", []string{"account.renamed " + account + " ada", "account.disconnected " + account + " ada"}, types)
	before := len(c.sim.Record().Of("list"))
	down(sim.Reset)
	if r := portal("ada", `{"action":"list"}`); code(r) != "UNAVAILABLE" {
		t.Errorf("with the portal down: %v", r)
	}
	if after := len(c.sim.Record().Of("list")); after != before {
		t.Error("the gateway was asked in place of the portal")
	}
}

func TestOpeningThePortalCreatesTheGuestIdentity(t *testing.T) {
	c := newBareCards(t)
	guests := func(g *connectors.Config) { g.Client.Credentials = nil }
	c.start(worker.Config{Dev: true, Gateway: c.side(guests)})
	c.start(worker.Config{Dev: true, Gateway: c.side(guests)})
	portal := func(body string) map[string]any {
		return decode(t, c.send("toolbridge.v1.t._portal.bob", body).Data)
	}
	if r := portal(`{"action":"list"}`); r["error"] != nil || len(at(t, r, "accounts").([]any)) != 0 {
		t.Errorf("list: %v", r)
	}
	if n := len(c.sim.Record().Requests); n != 0 {
		t.Errorf("%d requests left before anything was opened", n)
	}
	for range 4 {
		if r := portal(`{"action":"open"}`); r["identity"] != "guest" {
			t.Errorf("open: %v", r)
		}
	}
	if n := len(c.sim.Record().EffectsOf(sim.EffectGuest)); n != 1 {
		t.Errorf("%d guests were created", n)
	}
	audit := c.audit(t, "toolbridge.v1._audit.t._portal")
	if len(audit) != 1 || audit[0].Type != "identity.created" || audit[0].User != "bob" {
		t.Errorf("the audit says %+v", audit)
	}
}

func TestSwitchedOffConnectorsAreNotThere(t *testing.T) {
	c := newBareCards(t)
	c.start(worker.Config{Dev: true, Gateway: c.side(func(g *connectors.Config) { g.Disabled = true })})
	if r := c.assemble("s1", `{"tools":`+tools(manageConnections)+`}`); strings.Contains(text(r["tools"]), "manage_connections") {
		t.Errorf("manage_connections is offered: %v", r)
	}
	if r := decode(t, c.send("toolbridge.v1.t._portal.bob", `{"action":"open"}`).Data); code(r) != "FORBIDDEN" {
		t.Errorf("the portal: %v", r)
	}
	if n := len(c.sim.Record().Requests); n != 0 {
		t.Errorf("%d requests left", n)
	}
}

// audit reads the records of one subject.
func (c *cards) audit(t *testing.T, subject string) []subjects.AuditRecord {
	t.Helper()
	stream, err := c.js.Stream(t.Context(), subjects.StreamAudit)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.FetchNoWait(100)
	if err != nil {
		t.Fatal(err)
	}
	var list []subjects.AuditRecord
	for m := range batch.Messages() {
		var a subjects.AuditRecord
		if err := subjects.Decode(m.Data(), &a); err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}
