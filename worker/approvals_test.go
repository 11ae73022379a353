package worker_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/approval"
	"toolbridge/test/bus"
	"toolbridge/worker"
)

// approvers is a tenant's approver on the bus: it keeps what it is asked and
// what is settled.
type approvers struct {
	f         *fleet
	requested chan map[string]any
	settled   chan map[string]any
}

func (f *fleet) approvers() *approvers {
	f.t.Helper()
	a := &approvers{f: f, requested: make(chan map[string]any, 1000), settled: make(chan map[string]any, 1000)}
	for subject, to := range map[string]chan map[string]any{"requested": a.requested, "settled": a.settled} {
		sub, err := f.nc.Subscribe("toolbridge.v1.t._approvals."+subject, func(m *nats.Msg) {
			if m.Header.Get("Toolbridge-Kind") != "approval" {
				f.t.Errorf("%s has Toolbridge-Kind %q", m.Subject, m.Header.Get("Toolbridge-Kind"))
			}
			to <- decode(f.t, m.Data)
		})
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	f.flush()
	return a
}

func next(t testing.TB, what string, from <-chan map[string]any) map[string]any {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(wait):
		t.Fatalf("no %s within %s", what, wait)
		return nil
	}
}

func (a *approvers) asked() map[string]any {
	a.f.t.Helper()
	return next(a.f.t, "approval", a.requested)
}

func (f *fleet) decide(approver, body string) map[string]any {
	f.t.Helper()
	return decode(f.t, f.send("toolbridge.v1.t._approvals.decide."+approver, body).Data)
}

func (f *fleet) choose(approver string, asked map[string]any, choice string) map[string]any {
	f.t.Helper()
	return f.decide(approver, fmt.Sprintf(`{"id":%q,"choice":%q}`, asked["id"], choice))
}

func (f *fleet) pending(approver string) map[string]any {
	f.t.Helper()
	return decode(f.t, f.send("toolbridge.v1.t._approvals.list."+approver, "").Data)
}

// start a call without waiting for its result.
func (f *fleet) later(session, catalog, arguments string) <-chan map[string]any {
	f.t.Helper()
	id := f.id()
	done := make(chan map[string]any, 1)
	sub, err := f.nc.Subscribe("toolbridge.v1.t."+session+".result."+id, func(m *nats.Msg) { done <- decode(f.t, m.Data) })
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = sub.Unsubscribe() })
	stored := f.ask(session, "call", fmt.Sprintf(`{"id":%q,"name":"tool_call","arguments":%s,"catalog":%q}`, id, arguments, catalog))
	if stored["stored"] != true {
		f.t.Fatalf("the call was not stored: %s", text(stored))
	}
	return done
}

// audited are the records of the audit stream of one type.
func (f *fleet) audited(kind string) []map[string]any {
	f.t.Helper()
	stream, err := f.js.Stream(f.t.Context(), "TOOLBRIDGE_AUDIT")
	if err != nil {
		f.t.Fatal(err)
	}
	var list []map[string]any
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(f.t.Context(), seq)
		if err != nil {
			f.t.Fatal(err)
		}
		if r := decode(f.t, m.Data); r["type"] == kind {
			list = append(list, r)
		}
	}
	return list
}

var asks = approval.Policy{Default: approval.Ask}

// bank are two tools of one session's own.
func bank() string {
	return `{"tools":` + tools(tool("mcp__bank__pay", "mcp-bank", "Pay money.", "to"), tool("mcp__fs__write", "mcp-fs", "Write a file.", "path")) + `}`
}

func one(name, arguments string) string {
	return `{"calls":[{"name":"` + name + `","arguments":` + arguments + `}]}`
}

func (f *fleet) echo(session string) (received func() []map[string]any) {
	f.t.Helper()
	return f.serve("toolbridge.v1.t."+session+".exec", func(r map[string]any) string { return `{"result":"ran ` + r["tool"].(string) + `"}` })
}

func TestAnApprovalShowsWhatWillBeSentAndItsDecisionRunsIt(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: approval.Policy{Rules: []approval.Rule{{Match: "mcp__bank__*", Action: approval.Ask}}, Default: approval.Allow}})
	f.grant("s1", `{"user":"ann"}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ran := f.echo("s1")
	people := f.approvers()
	events := f.events("s1")
	done := f.later("s1", ref, one("mcp__bank__pay", `{"to":"b<o>b"}`))
	q := people.asked()
	for name, want := range map[string]any{
		"session": "s1", "call_id": "c1", "index": 0.0, "tool": "mcp__bank__pay", "arguments_json": `{"to":"b<o>b"}`, "user": "ann", "executor": "session",
		"choices": []any{"once", "session", "always", "deny"}, "arguments": map[string]any{"to": "b<o>b"},
	} {
		if text(q[name]) != text(want) {
			t.Errorf("%s = %s, want %s", name, text(q[name]), text(want))
		}
	}
	if q["arguments_sha256"] != sha(`{"to":"b<o>b"}`) || len(q["definition_sha256"].(string)) != 64 || !strings.Contains(q["rule"].(string), "mcp__bank__*") || q["reason"] == "" {
		t.Errorf("asked = %s", text(q))
	}
	list := f.pending("ann")
	if text(list["approvals"]) != text([]any{q}) || text(list["remembered"]) != "[]" {
		t.Errorf("list = %s", text(list))
	}
	if len(ran()) != 0 {
		t.Fatal("it ran before anybody decided")
	}
	d := f.decide("bob", fmt.Sprintf(`{"id":%q,"choice":"once","arguments_sha256":%q,"reason":"fine"}`, q["id"], q["arguments_sha256"]))
	if d["id"] != q["id"] || d["state"] != "approved" || d["choice"] != "once" || d["by"] != "bob" || d["reason"] != "fine" || d["at"] == "" {
		t.Errorf("decision = %s", text(d))
	}
	if got := next(t, "result", done); got["result"] != "ran mcp__bank__pay" {
		t.Errorf("result = %s", text(got))
	}
	if got := next(t, "settled", people.settled); text(got) != text(d) {
		t.Errorf("settled = %s, want %s", text(got), text(d))
	}
	if list := f.pending("ann"); text(list["approvals"]) != "[]" {
		t.Errorf("list = %s", text(list))
	}
	if n := len(ran()); n != 1 {
		t.Errorf("%d executions", n)
	}
	eventually(t, "the audit record", func() bool { return len(f.audited("approval.settled")) == 1 })
	if r := f.audited("approval.settled")[0]; r["by"] != "bob" || r["tool"] != "mcp__bank__pay" || r["session"] != "s1" || r["user"] != "ann" ||
		r["arguments_sha256"] != q["arguments_sha256"] || !strings.Contains(r["rule"].(string), "rule 1") || at(t, r, "decision", "choice") != "once" {
		t.Errorf("audit = %s", text(r))
	}
	eventually(t, "the audit of the run", func() bool {
		r := f.audited("tool.finished")
		return len(r) == 1 && strings.HasPrefix(r[0]["rule"].(string), "rule 1")
	})
	eventually(t, "the events", func() bool {
		got := strings.Join(events(), " ")
		return strings.Contains(got, "approval.requested") && strings.Contains(got, "approval.settled tool.started")
	})
}

func TestP01EveryApprovalOfATurnReachesItsCall(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ran := f.echo("s1")
	people := f.approvers()
	for _, name := range []string{"mcp__bank__pay", "mcp__fs__write"} {
		done := f.later("s1", ref, one(name, `{}`))
		q := people.asked()
		start := time.Now()
		f.choose("ann", q, "once")
		if got := next(t, "result", done); got["result"] != "ran "+name {
			t.Errorf("%s: %s", name, text(got))
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%s came %s after the decision", name, d)
		}
	}
	if got := ran(); len(got) != 2 || got[0]["tool"] != "mcp__bank__pay" || got[1]["tool"] != "mcp__fs__write" {
		t.Errorf("executions = %v", got)
	}
}

func TestP03EveryQuestionHasAnIDAndOnlyThatAnswersIt(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	f.echo("s1")
	people := f.approvers()
	f.later("s1", ref, `{"calls":[{"name":"mcp__bank__pay","arguments":{}},{"name":"mcp__fs__write","arguments":{}}]}`)
	first, second := people.asked(), people.asked() // both at once, although they run in order
	if first["id"] == "" || second["id"] == "" || first["id"] == second["id"] {
		t.Errorf("ids %v and %v", first["id"], second["id"])
	}
	for _, c := range []struct{ what, body, code, status string }{
		{"an empty id", `{"id":"","choice":"once"}`, "BAD_REQUEST", "400"},
		{"no id", `{"choice":"once"}`, "BAD_REQUEST", "400"},
		{"an id that breaks the grammar", `{"id":"a.b","choice":"once"}`, "BAD_REQUEST", "400"},
		{"an unknown id", `{"id":"nope","choice":"once"}`, "UNKNOWN_APPROVAL", "404"},
		{"no choice", fmt.Sprintf(`{"id":%q}`, first["id"]), "BAD_REQUEST", "400"},
		{"another choice", fmt.Sprintf(`{"id":%q,"choice":"yes"}`, first["id"]), "BAD_REQUEST", "400"},
		{"other arguments", fmt.Sprintf(`{"id":%q,"choice":"once","arguments_sha256":%q}`, first["id"], sha("{}x")), "ARGUMENTS_CHANGED", "409"},
		{"forget with an id", fmt.Sprintf(`{"id":%q,"forget":"x"}`, first["id"]), "BAD_REQUEST", "400"},
		{"forget of an unknown choice", `{"forget":"x"}`, "UNKNOWN_APPROVAL", "404"},
		{"no body", ``, "BAD_REQUEST", "400"},
	} {
		m := f.send("toolbridge.v1.t._approvals.decide.ann", c.body)
		if got := decode(t, m.Data); code(got) != c.code || m.Header.Get("Nats-Service-Error-Code") != c.status || at(t, got, "error", "message") == "" {
			t.Errorf("%s: %s %v", c.what, m.Data, m.Header)
		}
	}
	m := f.send("toolbridge.v1.t._approvals.decide.a!b", `{"id":"x","choice":"once"}`)
	if got := decode(t, m.Data); code(got) != "BAD_REQUEST" {
		t.Errorf("an approver that breaks the grammar: %s", m.Data)
	}
	if got := f.pending("ann")["approvals"].([]any); len(got) != 2 {
		t.Errorf("after all that %d are pending", len(got))
	}
}

func TestP08RulesLookAtTheToolBehindTheBridge(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: approval.Policy{Rules: []approval.Rule{{Match: "mcp__bank__pay", Action: approval.Deny}, {Match: "tool_call", Action: approval.Allow}}}})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ran := f.echo("s1")
	reply := f.call("s1", ref, one("mcp__bank__pay", `{}`))
	if code(reply) != "APPROVAL_DENIED" || at(t, reply, "result", "error", "reason") != "rule" || !strings.Contains(text(reply), "mcp__bank__pay") {
		t.Errorf("reply = %s", text(reply))
	}
	if n := len(ran()); n != 0 {
		t.Errorf("%d executions", n)
	}
	eventually(t, "the audit record", func() bool {
		r := f.audited("approval.denied")
		return len(r) == 1 && r[0]["tool"] == "mcp__bank__pay" && strings.HasPrefix(r[0]["rule"].(string), "rule 1") && r[0]["reason"] == "rule"
	})
}

func TestP09AlwaysHoldsForThisUserAndThisToolOnly(t *testing.T) {
	f := newFleet(t)
	stop := f.startStoppable(worker.Config{Policy: asks})
	for session, user := range map[string]string{"s1": "ann", "s2": "bob", "s3": "ann", "s4": "", "s5": ""} {
		if user == "" {
			f.grant(session, `{}`)
		} else {
			f.grant(session, `{"user":"`+user+`"}`)
		}
		f.echo(session)
	}
	refs := map[string]string{}
	for _, s := range []string{"s1", "s2", "s3", "s4", "s5"} {
		refs[s] = f.assemble(s, bank())["catalog"].(string)
	}
	people := f.approvers()
	asksFor := func(session, tool, choice string) {
		t.Helper()
		done := f.later(session, refs[session], one(tool, `{}`))
		f.choose("ann", people.asked(), choice)
		next(t, "result", done)
	}
	runs := func(session, tool string) {
		t.Helper()
		if got := next(t, "result", f.later(session, refs[session], one(tool, `{}`))); got["result"] != "ran "+tool {
			t.Errorf("%s of %s: %s", tool, session, text(got))
		}
		select {
		case q := <-people.requested:
			t.Errorf("asked for %s", text(q))
		default:
		}
	}
	asksFor("s1", "mcp__fs__write", "always")
	runs("s1", "mcp__fs__write")
	asksFor("s1", "mcp__bank__pay", "once")
	asksFor("s1", "mcp__bank__pay", "once")   // once is once
	asksFor("s2", "mcp__fs__write", "deny")   // another user
	asksFor("s2", "mcp__fs__write", "once")   // a deny is not remembered
	runs("s3", "mcp__fs__write")              // the same user elsewhere
	asksFor("s4", "mcp__fs__write", "always") // nobody is known to be its user
	runs("s4", "mcp__fs__write")
	asksFor("s5", "mcp__fs__write", "once")

	// Another definition of the same name is another tool.
	refs["s1"] = f.assemble("s1", `{"tools":`+tools(tool("mcp__fs__write", "mcp-fs", "Write a file, or a folder.", "path"))+`}`)["catalog"].(string)
	asksFor("s1", "mcp__fs__write", "once")
	refs["s1"] = f.assemble("s1", bank())["catalog"].(string)

	stop()
	f.start(worker.Config{Policy: asks})
	runs("s1", "mcp__fs__write")
	if n := len(f.audited("approval.remembered")); n < 4 {
		t.Errorf("%d audit records of remembered choices", n)
	}

	// A rule that denies is stronger than what anybody has chosen.
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{"user":"ann","approval":"deny"}`)
	if got := f.call("s1", refs["s1"], one("mcp__fs__write", `{}`)); code(got) != "APPROVAL_DENIED" {
		t.Errorf("with a grant that denies: %s", text(got))
	}

	// The session belongs to another user now.
	f.grant("s4", `{"user":"eve"}`)
	asksFor("s4", "mcp__fs__write", "once")
}

func TestASessionsChoiceHoldsForThatSessionUntilItIsForgotten(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{"user":"ann"}`)
	f.grant("s2", `{"user":"ann"}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ref2 := f.assemble("s2", bank())["catalog"].(string)
	f.echo("s1")
	f.echo("s2")
	people := f.approvers()
	approve := func(session, ref, choice string) {
		t.Helper()
		done := f.later(session, ref, one("mcp__fs__write", `{}`))
		f.choose("ann", people.asked(), choice)
		next(t, "result", done)
	}
	approve("s1", ref, "session")
	next(t, "result", f.later("s1", ref, one("mcp__fs__write", `{"path":"x"}`))) // other arguments, not asked for
	approve("s2", ref2, "once")
	remembered := f.pending("ann")["remembered"].([]any)
	if len(remembered) != 1 {
		t.Fatalf("remembered = %s", text(remembered))
	}
	r := remembered[0].(map[string]any)
	if r["choice"] != "session" || r["session"] != "s1" || r["tool"] != "mcp__fs__write" || r["executor"] != "session" || r["by"] != "ann" || r["user"] != nil {
		t.Errorf("remembered = %s", text(r))
	}
	asksAbout := func(session, ref string) any {
		return at(t, f.ask(session, "preflight", `{"names":["mcp__fs__write"],"catalog":"`+ref+`"}`), "tools", "mcp__fs__write", "needs_approval")
	}
	if mine, others := asksAbout("s1", ref), asksAbout("s2", ref2); mine != false || others != true {
		t.Errorf("preflight says that approval is needed: %v, and to another session: %v", mine, others)
	}
	for range 2 { // the same again
		d := f.decide("bob", fmt.Sprintf(`{"forget":%q,"reason":"enough"}`, r["id"]))
		if d["state"] != "forgotten" || d["id"] != r["id"] || d["by"] != "bob" {
			t.Errorf("forgotten = %s", text(d))
		}
	}
	if got := f.pending("ann")["remembered"].([]any); len(got) != 0 {
		t.Errorf("remembered = %s", text(got))
	}
	if asksAbout("s1", ref) != true {
		t.Error("preflight still goes by the choice that was withdrawn")
	}
	if got := f.audited("approval.forgotten"); len(got) == 0 || got[0]["by"] != "bob" || got[0]["tool"] != "mcp__fs__write" || got[0]["session"] != "s1" {
		t.Errorf("audit = %s", text(got))
	}
	approve("s1", ref, "session") // asked again, and remembered again
	next(t, "result", f.later("s1", ref, one("mcp__fs__write", `{}`)))
}

func TestAChoiceForAToolOfThePoolDoesNotHoldForASessionsOwn(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{"user":"ann"}`)
	definition := `{"name":"mcp__fs__write","description":"Write.","parameters":{"type":"object","properties":{}}}`
	f.register("mcp-fs", "e1", `[`+definition+`]`)
	f.serve("toolbridge.v1.t._exec.run.mcp-fs", func(map[string]any) string { return `{"result":"pool"}` })
	f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":"own"}` })
	people := f.approvers()
	pool := f.settled("s1", `{"toolsets":["mcp-fs"],"config":{"enabled":true}}`, "the tool is there", count(1))["catalog"].(string)
	own := f.assemble("s1", `{"tools":[{"type":"function","toolset":"mcp-fs","function":`+definition+`}]}`)["catalog"].(string)
	var hashes []any
	for _, c := range []struct{ ref, want string }{{pool, "pool"}, {own, "own"}} {
		done := f.later("s1", c.ref, one("mcp__fs__write", `{}`))
		q := people.asked()
		hashes = append(hashes, q["definition_sha256"])
		f.choose("ann", q, "always")
		if got := next(t, "result", done); got["result"] != c.want {
			t.Errorf("result = %s", text(got))
		}
	}
	if hashes[0] != hashes[1] {
		t.Errorf("the definitions differ: %v", hashes)
	}
}

func TestP14WithoutAnApproverTheAnswerComesAtOnce(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ran := f.echo("s1")
	start := time.Now()
	reply := f.call("s1", ref, one("mcp__bank__pay", `{}`))
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("it took %s", d)
	}
	if code(reply) != "APPROVAL_DENIED" || at(t, reply, "result", "error", "reason") != "no_approver" || !strings.Contains(text(reply), "no approver available") {
		t.Errorf("reply = %s", text(reply))
	}
	if len(ran()) != 0 {
		t.Error("it was executed")
	}
	if got := f.pending("ann")["approvals"].([]any); len(got) != 0 {
		t.Errorf("pending = %s", text(got))
	}
	eventually(t, "the audit record", func() bool {
		got := f.audited("approval.settled")
		return len(got) == 1 && got[0]["reason"] == "no_approver" && at(t, got[0], "decision", "state") == "denied"
	})
}

func TestApprovalsThatMayWaitAreFoundByWhoComesLater(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks, ApprovalWait: true})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	f.echo("s1")
	done := f.later("s1", ref, `{"calls":[{"name":"mcp__bank__pay","arguments":{}},{"name":"mcp__fs__write","arguments":{}}]}`)
	var list []any
	eventually(t, "two are pending", func() bool {
		list = f.pending("ann")["approvals"].([]any)
		return len(list) == 2
	})
	for _, q := range list {
		f.choose("ann", q.(map[string]any), "once")
	}
	if got := next(t, "result", done); at(t, got, "result", "success_count") != 2.0 {
		t.Errorf("result = %s", text(got))
	}
}

func TestP17ADecisionRunsACallOnceHoweverOftenItComes(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ran := f.echo("s1")
	people := f.approvers()
	done := f.later("s1", ref, one("mcp__bank__pay", `{}`))
	q := people.asked()
	first := f.choose("ann", q, "once")
	if again := f.choose("ann", q, "once"); text(again) != text(first) || again["state"] != "approved" {
		t.Errorf("the same again: %s, first %s", text(again), text(first))
	}
	for _, c := range [][2]string{{"ann", "deny"}, {"bob", "once"}, {"bob", "deny"}} {
		got := f.choose(c[0], q, c[1])
		if code(got) != "ALREADY_DECIDED" || text(at(t, got, "error", "decision")) != text(first) {
			t.Errorf("%v: %s", c, text(got))
		}
	}
	next(t, "result", done)
	body := fmt.Sprintf(`{"id":%q,"name":"tool_call","arguments":%s,"catalog":%q}`, q["call_id"], one("mcp__bank__pay", `{}`), ref)
	if got := f.ask("s1", "bridge", body); got["result"] != "ran mcp__bank__pay" { // the same request again
		t.Errorf("redelivered: %s", text(got))
	}
	if again := f.choose("ann", q, "once"); text(again) != text(first) {
		t.Errorf("long after: %s", text(again))
	}
	if n := len(ran()); n != 1 {
		t.Errorf("%d executions", n)
	}
}

func TestP18WhatCanNeverRunIsNotAskedFor(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", `{"tools":[{"type":"function","toolset":"mcp-bank","function":{"name":"mcp__bank__pay","parameters":{"type":"object","properties":{"amount":{"type":"number"}}}}}]}`)["catalog"].(string)
	people := f.approvers()
	if got := f.call("s1", ref, one("mcp__bank__pay", `{"amount":"lots"}`)); code(got) != "INVALID_ARGUMENTS" {
		t.Errorf("reply = %s", text(got))
	}
	if n := len(people.requested); n != 0 {
		t.Errorf("%d prompts", n)
	}
}

func TestP20AStopWithdrawsWhatIsPending(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: approval.Policy{Default: approval.Allow, Rules: []approval.Rule{{Match: "mcp__bank__pay", Action: approval.Ask}}}})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ran := f.echo("s1")
	people := f.approvers()
	done := f.later("s1", ref, `{"calls":[{"name":"mcp__bank__pay","arguments":{}},{"name":"mcp__fs__write","arguments":{}},{"name":"mcp__fs__write","arguments":{}}]}`)
	q := people.asked()
	eventually(t, "the call is parked", func() bool { return len(f.pending("ann")["approvals"].([]any)) == 1 })
	stopped := f.ask("s1", "stop", fmt.Sprintf(`{"call_id":%q}`, q["call_id"]))
	if text(at(t, stopped, "stopped", 0, "interrupted")) != "[0,1,2]" {
		t.Errorf("stopped = %s", text(stopped))
	}
	got := next(t, "result", done)
	for i := range 3 {
		if c := at(t, got, "result", "results", i, "error", "code"); c != "INTERRUPTED" {
			t.Errorf("slot %d = %v", i, c)
		}
	}
	if m := at(t, got, "result", "results", 0, "error", "message").(string); !strings.Contains(m, "approval") || !strings.Contains(m, "withdrawn") {
		t.Errorf("slot 0 says %q", m)
	}
	if s := next(t, "settled", people.settled); s["id"] != q["id"] || s["state"] != "withdrawn" || s["by"] != "" {
		t.Errorf("settled = %s", text(s))
	}
	late := f.choose("ann", q, "once")
	if code(late) != "WITHDRAWN" || at(t, late, "error", "decision", "state") != "withdrawn" {
		t.Errorf("late decision = %s", text(late))
	}
	if n := len(f.pending("ann")["approvals"].([]any)); n != 0 || len(ran()) != 0 {
		t.Errorf("%d pending, %d executions", n, len(ran()))
	}
	eventually(t, "the audit record", func() bool {
		r := f.audited("approval.settled")
		return len(r) == 1 && at(t, r[0], "decision", "state") == "withdrawn"
	})
}

func TestOfTwoApproversThroughTwoWorkersOneDecides(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ran := f.echo("s1")
	people := f.approvers()
	approved := 0
	for range 20 {
		done := f.later("s1", ref, one("mcp__bank__pay", `{}`))
		q := people.asked()
		var both sync.WaitGroup
		answers := make([]map[string]any, 2)
		for i, c := range [][2]string{{"ann", "once"}, {"bob", "deny"}} {
			both.Go(func() {
				m, err := f.nc.Request("toolbridge.v1.t._approvals.decide."+c[0], []byte(fmt.Sprintf(`{"id":%q,"choice":%q}`, q["id"], c[1])), wait)
				if err == nil {
					err = json.Unmarshal(m.Data, &answers[i])
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		won, lost := answers[0], answers[1]
		if won["state"] == nil {
			won, lost = lost, won
		}
		if won["state"] == nil || code(lost) != "ALREADY_DECIDED" || text(at(t, lost, "error", "decision")) != text(won) {
			t.Fatalf("answers %s and %s", text(answers[0]), text(answers[1]))
		}
		result := next(t, "result", done)
		if ok := result["is_error"] != true; ok != (won["state"] == "approved") {
			t.Errorf("%s stands, the result is %s", text(won), text(result))
		} else if ok {
			approved++
		}
		if s := next(t, "settled", people.settled); text(s) != text(won) {
			t.Errorf("settled = %s, want %s", text(s), text(won))
		}
	}
	if n := len(ran()); n != approved {
		t.Errorf("%d executions of %d approved", n, approved)
	}
}

func TestAnApprovalSurvivesItsWorker(t *testing.T) {
	f := newFleet(t)
	stop := f.startStoppable(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	f.echo("s1")
	people := f.approvers()
	done := f.later("s1", ref, one("mcp__bank__pay", `{}`))
	q := people.asked()
	stop()
	f.start(worker.Config{Policy: asks})
	if got := f.pending("ann")["approvals"].([]any); len(got) != 1 || at(t, got, 0, "id") != q["id"] {
		t.Fatalf("pending = %s", text(got))
	}
	f.choose("ann", q, "once")
	if got := next(t, "result", done); got["result"] != "ran mcp__bank__pay" {
		t.Errorf("result = %s", text(got))
	}
}

// A decision is taken although no worker is there to apply it: whoever comes
// next does.
func TestADecisionSurvivesTheWorkerThatTookIt(t *testing.T) {
	f := newFleet(t)
	stop := f.startStoppable(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	f.echo("s1")
	people := f.approvers()
	done := f.later("s1", ref, one("mcp__bank__pay", `{}`))
	q := people.asked()
	eventually(t, "the call is parked", func() bool { return f.parked("s1", q["call_id"].(string)) })
	stop()
	body, _ := json.Marshal(map[string]any{"id": q["id"], "state": "approved", "choice": "session", "by": "ann", "at": "2026-01-01T00:00:00Z", "tenant": "t", "approval": q})
	if _, err := f.js.PublishMsg(t.Context(), &nats.Msg{Subject: "toolbridge.v1._decisions.t." + q["id"].(string), Data: body}, jetstream.WithExpectLastSequencePerSubject(0)); err != nil {
		t.Fatal(err)
	}
	f.start(worker.Config{Policy: asks})
	if got := next(t, "result", done); got["result"] != "ran mcp__bank__pay" {
		t.Errorf("result = %s", text(got))
	}
	if got := f.pending("ann"); len(got["approvals"].([]any)) != 0 || len(got["remembered"].([]any)) != 1 {
		t.Errorf("list = %s", text(got))
	}
	if again := f.choose("ann", q, "session"); again["state"] != "approved" {
		t.Errorf("the approver asks again: %s", text(again))
	}
}

func TestACallThatWaitsForAPersonHoldsNoSlot(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: approval.Policy{Default: approval.Allow, Rules: []approval.Rule{{Match: "mcp__bank__pay", Action: approval.Ask}}}, CallSlots: 1})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	f.echo("s1")
	people := f.approvers()
	waiting := []<-chan map[string]any{f.later("s1", ref, one("mcp__bank__pay", `{}`)), f.later("s1", ref, one("mcp__bank__pay", `{}`))}
	first, second := people.asked(), people.asked()
	if got := f.call("s1", ref, one("mcp__fs__write", `{}`)); got["result"] != "ran mcp__fs__write" {
		t.Errorf("result = %s", text(got))
	}
	f.choose("ann", first, "once")
	f.choose("ann", second, "once")
	for _, done := range waiting {
		if got := next(t, "result", done); got["result"] != "ran mcp__bank__pay" {
			t.Errorf("result = %s", text(got))
		}
	}
}

// The worker that stopped the call was lost before it could withdraw the
// approval.
func TestADecisionOnACallThatWasStoppedIsWithdrawnAlthoughNobodySaidSo(t *testing.T) {
	f := newFleet(t)
	stop := f.startStoppable(worker.Config{Policy: asks})
	_, ran, people, q, done := f.gated()
	eventually(t, "the call is parked", func() bool { return f.parked("s1", "c1") })
	stop()
	kv, err := f.js.KeyValue(t.Context(), "toolbridge_journal_0")
	if err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(t.Context(), "t.s1.c1")
	if err != nil {
		t.Fatal(err)
	}
	stopped := strings.Replace(string(e.Value()), `"state":"awaiting"`, `"state":"done","error":{"code":"INTERRUPTED","message":"stopped"}`, 1)
	if _, err := kv.Update(t.Context(), "t.s1.c1", []byte(strings.Replace(stopped, `"v":`, `"stopped":true,"v":`, 1)), e.Revision()); err != nil {
		t.Fatal(err)
	}
	f.start(worker.Config{Policy: asks})
	if got := f.choose("ann", q, "once"); code(got) != "WITHDRAWN" {
		t.Errorf("decision = %s", text(got))
	}
	if s := next(t, "settled", people.settled); s["state"] != "withdrawn" {
		t.Errorf("settled = %s", text(s))
	}
	if got := next(t, "result", done); code(got) != "INTERRUPTED" || len(ran()) != 0 {
		t.Errorf("result = %s, %d executions", text(got), len(ran()))
	}
}

func TestWhatIsTooLargeToBeShownIsNotAskedFor(t *testing.T) {
	f := fleetOn(t, bus.Server(t, func(o *server.Options) { o.MaxPayload = 1 << 20 }))
	f.start(worker.Config{Policy: asks})
	f.grant("s1", `{}`)
	ref := f.assemble("s1", bank())["catalog"].(string)
	ran := f.echo("s1")
	people := f.approvers()
	reply := f.call("s1", ref, one("mcp__bank__pay", `{"to":"`+strings.Repeat("x", 640<<10)+`"}`))
	if code(reply) != "APPROVAL_DENIED" || at(t, reply, "result", "error", "reason") != "too_large" {
		t.Errorf("reply = %.400s", text(reply))
	}
	if len(ran()) != 0 || len(people.requested) != 0 {
		t.Errorf("%d executions, %d asked", len(ran()), len(people.requested))
	}
}

func TestApproversRequestsAnswerNoForeignReply(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: asks})
	got := f.count("toolbridge.v1.t.s9.event")
	for _, subject := range []string{"list", "decide"} {
		if err := f.nc.PublishRequest("toolbridge.v1.t._approvals."+subject+".ann", "toolbridge.v1.t.s9.event", []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	f.pending("ann") // the worker has seen them before
	f.flush()
	if n := got(); n != 0 {
		t.Errorf("%d answers to a foreign subject", n)
	}
}

// startStoppable is start for a worker that the test stops itself.
func (f *fleet) startStoppable(cfg worker.Config) (stop func()) {
	f.t.Helper()
	w := f.start(cfg)
	return func() {
		f.t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			f.t.Errorf("Stop: %v", err)
		}
	}
}

// events are the types of what a session's feed says.
func (f *fleet) events(session string) func() []string {
	f.t.Helper()
	var mu sync.Mutex
	var list []string
	sub, err := f.nc.Subscribe("toolbridge.v1.t."+session+".event", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, decode(f.t, m.Data)["type"].(string))
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), list...)
	}
}

// parked reports whether a call waits for people and no worker holds it.
func (f *fleet) parked(session, id string) bool {
	f.t.Helper()
	kv, err := f.js.KeyValue(f.t.Context(), "toolbridge_journal_0")
	if err != nil {
		f.t.Fatal(err)
	}
	e, err := kv.Get(f.t.Context(), "t."+session+"."+id)
	if err != nil {
		return false
	}
	r := decode(f.t, e.Value())
	return r["lease"] == nil && strings.Contains(text(r["entries"]), `"state":"awaiting"`)
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
