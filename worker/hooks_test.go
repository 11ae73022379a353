package worker_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/approval"
	"toolbridge/subjects"
	"toolbridge/worker"
	"toolbridge/worker/call"
)

// hook answers one hook's subject and keeps what it was asked.
func (f *fleet) hook(name string, answer func(request map[string]any) string) (asked func() []map[string]any) {
	f.t.Helper()
	var mu sync.Mutex
	var list []map[string]any
	sub, err := f.nc.Subscribe("toolbridge.v1.t._hooks.run."+name, func(m *nats.Msg) {
		request := decode(f.t, m.Data)
		request["raw"], request["kind"], request["traceparent"] = string(m.Data), m.Header.Get("Toolbridge-Kind"), m.Header.Get("traceparent")
		mu.Lock()
		list = append(list, request)
		mu.Unlock()
		if body := answer(request); body != "" {
			_ = m.Respond([]byte(body))
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = sub.Unsubscribe() })
	f.flush()
	return func() []map[string]any {
		mu.Lock()
		defer mu.Unlock()
		return append([]map[string]any(nil), list...)
	}
}

// shop is a session whose tools take typed arguments.
const shop = `{"tools":[
 {"type":"function","toolset":"mcp-shop","function":{"name":"mcp__shop__buy","parameters":{"type":"object","properties":{"item":{"type":"string"},"count":{"type":"integer"}},"required":["item"]}}},
 {"type":"function","toolset":"mcp-shop","function":{"name":"mcp__shop__list","parameters":{"type":"object","properties":{}}}},
 {"type":"function","toolset":"mcp-shop","parallel":true,"function":{"name":"mcp__shop__look","parameters":{"type":"object","properties":{"item":{"type":"string"}}}}}]}`

// shopping starts workers and an executor that answers every call, and
// assembles.
func shopping(t *testing.T, workers int, cfg worker.Config) (f *fleet, ref string, executed func() []map[string]any) {
	t.Helper()
	return newFleet(t).shopping(workers, cfg)
}

func (f *fleet) shopping(workers int, cfg worker.Config) (_ *fleet, ref string, executed func() []map[string]any) {
	f.t.Helper()
	cfg.Dev = true
	for range workers {
		f.start(cfg)
	}
	ref = f.assemble("s1", shop)["catalog"].(string)
	executed = f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		return `{"result":{"ran":"` + r["tool"].(string) + `","secret":"s3cret"}}`
	})
	return f, ref, executed
}

func buy(item string, count any) string {
	return fmt.Sprintf(`{"calls":[{"name":"mcp__shop__buy","arguments":{"item":%q,"count":%v}}]}`, item, count)
}

// slotError is the error of a call with one entry.
func slotError(t *testing.T, reply map[string]any) map[string]any {
	t.Helper()
	e, ok := at(t, reply, "result").(map[string]any)["error"].(map[string]any)
	if !ok {
		t.Fatalf("no error in %s", text(reply))
	}
	return e
}

func TestAPreHookSeesTheUnderlyingToolAndItsFinalArguments(t *testing.T) {
	f, ref, _ := shopping(t, 1, worker.Config{Hooks: []call.Hook{{Name: "watch", Match: "mcp__shop__*"}}})
	asked := f.hook("watch", func(map[string]any) string { return `{"action":"allow"}` })
	f.send("toolbridge.v1.t.s1.bridge", `{"id":"c7","name":"tool_call","arguments":{"calls":[{"name":"mcp__shop__buy","arguments":{"item":"a<b","count":"9007199254740993"}}]},"catalog":"`+ref+`"}`,
		"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	got := asked()
	if len(got) != 1 {
		t.Fatalf("asked %d times", len(got))
	}
	if want := `{"phase":"pre","session":"s1","call_id":"c7","index":0,"tool":"mcp__shop__buy","arguments":{"item":"a<b","count":9007199254740993}}`; got[0]["raw"] != want {
		t.Errorf("question = %s\nwant       %s", got[0]["raw"], want)
	}
	if got[0]["kind"] != "hook" || !strings.HasPrefix(got[0]["traceparent"].(string), "00-4bf92f3577b34da6a3ce929d0e0e4736-") {
		t.Errorf("headers: kind %v, traceparent %v", got[0]["kind"], got[0]["traceparent"])
	}
}

func TestAPreHookDecides(t *testing.T) {
	for name, c := range map[string]struct {
		answer   string // "" is none
		failOpen bool
		ran      string // arguments of the execution, "" for none
		reason   string
		says     string
	}{
		"allow":                          {answer: `{"action":"allow"}`, ran: `{"item":"tea","count":1}`},
		"block with a reason":            {answer: `{"action":"block","reason":"budget\nis\u202e spent"}`, reason: "hook", says: "budget is spent"},
		"changed arguments":              {answer: `{"action":"allow","arguments":{"item":"milk","count":2}}`, ran: `{"item":"milk","count":2}`},
		"changed arguments are repaired": {answer: `{"action":"allow","arguments":{"item":"milk","count":"2"}}`, ran: `{"item":"milk","count":2}`},
		"null changes nothing":           {answer: `{"action":"allow","arguments":null}`, ran: `{"item":"tea","count":1}`},
		"arguments against the schema":   {answer: `{"action":"allow","arguments":{"count":2}}`, reason: "hook", says: "item"},
		"doubled members":                {answer: `{"action":"allow","arguments":{"item":"a","item":"b"}}`, reason: "hook", says: "twice"},
		"arguments that are no object":   {answer: `{"action":"allow","arguments":["item"]}`, reason: "hook", says: "object"},
		"arguments too deep":             {answer: `{"action":"allow","arguments":{"item":"a","x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}}`, reason: "hook"},
		"the same, fail open":            {answer: `{"action":"allow","arguments":{"count":2}}`, failOpen: true, reason: "hook", says: "item"},
		"an unknown action":              {answer: `{"action":"perhaps"}`, reason: "hook_failed", says: "perhaps"},
		"no action":                      {answer: `{}`, reason: "hook_failed"},
		"no JSON":                        {answer: `yes`, reason: "hook_failed"},
		"no answer":                      {answer: "", reason: "hook_failed", says: "within"},
		"an unknown action, fail open":   {answer: `{"action":"perhaps"}`, failOpen: true, ran: `{"item":"tea","count":1}`},
		"no answer, fail open":           {answer: "", failOpen: true, ran: `{"item":"tea","count":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			f, ref, executed := shopping(t, 1, worker.Config{Hooks: []call.Hook{{Name: "h", FailOpen: c.failOpen, Timeout: 300 * time.Millisecond}}})
			f.hook("h", func(map[string]any) string { return c.answer })
			reply := f.call("s1", ref, buy("tea", 1))
			got := executed()
			if c.ran != "" {
				if len(got) != 1 || !strings.Contains(got[0]["raw"].(string), `"arguments":`+c.ran) || reply["is_error"] != false {
					t.Errorf("executed %v, reply %s", got, text(reply))
				}
				return
			}
			e := slotError(t, reply)
			if len(got) != 0 || e["code"] != "BLOCKED" || e["reason"] != c.reason || !strings.Contains(e["message"].(string), c.says) {
				t.Errorf("executed %d, error %s", len(got), text(e))
			}
			if m := e["message"].(string); !strings.Contains(m, "mcp__shop__buy") || len([]rune(m)) > 1000 || strings.ContainsAny(m, "\n\u202e") {
				t.Errorf("message = %q", m)
			}
		})
	}
}

func TestAHookThatNobodyServesIsNotPassed(t *testing.T) {
	f, ref, executed := shopping(t, 1, worker.Config{Hooks: []call.Hook{
		{Name: "gone", Match: "mcp__shop__buy", Timeout: time.Minute}, {Name: "optional", Match: "mcp__shop__look", FailOpen: true, Timeout: time.Minute},
	}})
	start := time.Now()
	if e := slotError(t, f.call("s1", ref, buy("tea", 1))); e["code"] != "BLOCKED" || !strings.Contains(e["message"].(string), "nobody listens") {
		t.Errorf("error = %s", text(e))
	}
	for _, name := range []string{"mcp__shop__list", "mcp__shop__look"} {
		if reply := f.call("s1", ref, `{"calls":[{"name":"`+name+`"}]}`); reply["is_error"] != false {
			t.Errorf("%s: %s", name, text(reply))
		}
	}
	if n := len(executed()); n != 2 || time.Since(start) > 20*time.Second {
		t.Errorf("%d executions after %s", n, time.Since(start))
	}
}

func TestHooksAreAskedInOrderEachWithWhatTheOneBeforeLeft(t *testing.T) {
	f, ref, executed := shopping(t, 1, worker.Config{Hooks: []call.Hook{
		{Name: "z", Match: "*buy"},
		{Name: "other", Match: "mcp__bank__*"},
		{Name: "a", Match: "mcp__*"},
		{Name: "p", Phase: subjects.PhasePost},
		{Name: "q", Phase: subjects.PhasePost, Match: "*buy"},
	}})
	more := func(name string) func(map[string]any) string {
		return func(r map[string]any) string {
			return fmt.Sprintf(`{"action":"allow","arguments":{"item":"%s%s","count":1}}`, at(t, r, "arguments", "item"), name)
		}
	}
	f.hook("z", more("z"))
	f.hook("a", more("a"))
	other := f.hook("other", more("o"))
	f.hook("p", func(r map[string]any) string { return `{"action":"allow"}` })
	last := f.hook("q", func(r map[string]any) string {
		return `{"action":"allow","result":{"ran":"` + at(t, r, "result", "ran").(string) + `","secret":"***"},"arguments":{"item":"ignored"}}`
	})
	m := f.call("s1", ref, buy("_", 1))
	if got := executed(); len(got) != 1 || at(t, got[0], "arguments", "item") != "_za" || len(other()) != 0 {
		t.Errorf("executed %v; the hook of other tools was asked %d times", got, len(other()))
	}
	if want := `{"ran":"mcp__shop__buy","secret":"***"}`; text(m["result"]) != want {
		t.Errorf("result = %s, want %s", text(m["result"]), want)
	}
	if got := last(); len(got) != 1 || got[0]["phase"] != "post" || at(t, got[0], "arguments", "item") != "_za" || at(t, got[0], "result", "secret") != "s3cret" {
		t.Errorf("the post hook was asked %v", got)
	}
	f.call("s1", ref, `{"calls":[{"name":"mcp__shop__list"}]}`)
	if len(last()) != 1 {
		t.Error("a hook was asked about a tool that it does not match")
	}
}

func TestAPostHookThatFailsKeepsTheResultFromTheModelUnlessItMayFail(t *testing.T) {
	for answer, says := range map[string]string{"": "within", `{"action":"block","reason":"leaks a key"}`: "leaks a key", "[]": "answer", `{"action":"ask"}`: "ask"} {
		for _, open := range []bool{false, true} {
			f, ref, executed := shopping(t, 1, worker.Config{Hooks: []call.Hook{{Name: "redact", Phase: subjects.PhasePost, FailOpen: open, Timeout: 200 * time.Millisecond}}})
			f.hook("redact", func(map[string]any) string { return answer })
			reply := f.call("s1", ref, buy("tea", 1))
			if len(executed()) != 1 {
				t.Fatalf("%d executions", len(executed()))
			}
			if open {
				if at(t, reply, "result", "secret") != "s3cret" {
					t.Errorf("%s, fail open: %s", answer, text(reply))
				}
				continue
			}
			e := slotError(t, reply)
			if e["code"] != "BLOCKED" || !strings.Contains(e["message"].(string), "has run") || !strings.Contains(e["message"].(string), says) || strings.Contains(text(reply), "s3cret") {
				t.Errorf("%s: %s", answer, text(reply))
			}
		}
	}
}

func TestAHookThatAsksNeedsAPerson(t *testing.T) {
	f, ref, executed := shopping(t, 1, worker.Config{Hooks: []call.Hook{{Name: "careful"}}})
	f.hook("careful", func(map[string]any) string { return `{"action":"ask","reason":"over 100"}` })
	e := slotError(t, f.call("s1", ref, buy("tea", 1)))
	if e["code"] != "APPROVAL_DENIED" || e["reason"] != "no_approver" || !strings.Contains(e["message"].(string), "over 100") || len(executed()) != 0 {
		t.Errorf("error = %s", text(e))
	}
}

func TestWhatAHookLeftIsWhatThePersonApprovesAndWhatRuns(t *testing.T) {
	f, ref, executed := shopping(t, 2, worker.Config{Hooks: []call.Hook{{Name: "careful"}}})
	asked := f.hook("careful", func(map[string]any) string {
		return `{"action":"ask","reason":"over 100","arguments":{"item":"tea","count":200}}`
	})
	people := f.approvers()
	done := f.later("s1", ref, buy("tea", 300))
	question := people.asked()
	if question["arguments_json"] != `{"item":"tea","count":200}` || !strings.Contains(text(question["reason"]), "over 100") {
		t.Errorf("asked: %s", text(question))
	}
	if n := len(executed()); n != 0 {
		t.Errorf("%d executions before the decision", n)
	}
	f.choose("ann", question, "once")
	if reply := next(t, "result", done); reply["is_error"] != false {
		t.Errorf("result = %s", text(reply))
	}
	if got := executed(); len(got) != 1 || dispatched(t, got[0]) != `{"item":"tea","count":200}` || len(asked()) != 1 {
		t.Errorf("executed %v, hook asked %d times", got, len(asked()))
	}
}

func TestPolicySeesTheArgumentsThatAHookLeft(t *testing.T) {
	f, ref, executed := shopping(t, 1, worker.Config{
		Hooks:  []call.Hook{{Name: "h"}},
		Policy: approval.Policy{Rules: []approval.Rule{{Match: "*", Arguments: regexp.MustCompile("poison"), Action: approval.Deny}}},
	})
	f.hook("h", func(map[string]any) string { return `{"action":"allow","arguments":{"item":"poison"}}` })
	if e := slotError(t, f.call("s1", ref, buy("tea", 1))); e["code"] != "APPROVAL_DENIED" || len(executed()) != 0 {
		t.Errorf("error = %s", text(e))
	}
}

func TestOneBlockedEntryOfABatchCostsTheOthersNothing(t *testing.T) {
	f, ref, _ := shopping(t, 1, worker.Config{Hooks: []call.Hook{{Name: "h", Match: "*buy"}}})
	f.hook("h", func(r map[string]any) string {
		if at(t, r, "index") == 1.0 {
			return `{"action":"block"}`
		}
		return `{"action":"allow"}`
	})
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__shop__buy","arguments":{"item":"a"}},{"name":"mcp__shop__buy","arguments":{"item":"b"}},{"name":"mcp__shop__look"},{"name":"mcp__shop__buy","arguments":{"item":"c"}}]}`)
	if got := codes(t, reply); got != " BLOCKED  " {
		t.Errorf("slots %q in %s", got, text(reply))
	}
}

// codes are the codes of a batch's slots, one blank between two.
func codes(t *testing.T, reply map[string]any) string {
	t.Helper()
	var list []string
	for _, s := range at(t, reply, "result", "results").([]any) {
		list = append(list, code(s.(map[string]any)))
	}
	return strings.Join(list, " ")
}

func TestDeniedToolsAndArgumentsAreNeverRun(t *testing.T) {
	f, ref, executed := shopping(t, 1, worker.Config{
		Hooks: []call.Hook{{Name: "h", Match: "mcp__shop__look"}},
		Guardrails: call.Guardrails{
			Deny:      []string{"*__list"},
			Arguments: []call.Pattern{{Match: "mcp__shop__*", Pattern: regexp.MustCompile(`"item":"(?i:weapon)`)}},
		},
	})
	f.hook("h", func(map[string]any) string { return `{"action":"allow","arguments":{"item":"Weapon"}}` })
	for arguments, reason := range map[string]string{
		`{"calls":[{"name":"mcp__shop__list"}]}`:                                                "deny",
		`{"calls":[{"name":"mcp__shop__buy","arguments":{"item":"weapon x"}}]}`:                 "arguments",
		`{"calls":[{"name":"mcp__shop__buy","arguments":{"item" : "\u0077eapon"}}]}`:            "arguments", // escaped and spaced
		`{"calls":[{"name":"mcp__shop__buy","arguments":"{\"item\":\"\\u0057\\u0065apon\"}"}]}`: "arguments",
		`{"calls":[{"name":"mcp__shop__look","arguments":{"item":"tea"}}]}`:                     "arguments", // a hook makes it one
		`{"name":"mcp__shop__list","arguments":{}}`:                                             "deny",
	} {
		e := slotError(t, f.call("s1", ref, arguments))
		if e["code"] != "BLOCKED" || e["reason"] != reason {
			t.Errorf("%s: %s", arguments, text(e))
		}
	}
	if n := len(executed()); n != 0 {
		t.Errorf("%d executions", n)
	}
	if reply := f.call("s1", ref, buy("tea", 1)); reply["is_error"] != false {
		t.Errorf("a call that no rule is about: %s", text(reply))
	}
	pre := f.ask("s1", "preflight", `{"names":["mcp__shop__list","mcp__shop__buy"],"catalog":"`+ref+`"}`)
	if at(t, pre, "tools", "mcp__shop__list", "code") != "BLOCKED" || at(t, pre, "tools", "mcp__shop__list", "callable") != false || at(t, pre, "tools", "mcp__shop__buy", "callable") != true {
		t.Errorf("preflight = %s", text(pre))
	}
}

func TestARateHoldsAcrossWorkersPerSessionAndTool(t *testing.T) {
	f, ref, executed := shopping(t, 3, worker.Config{Guardrails: call.Guardrails{Rate: call.Rate{Calls: 5, Per: time.Hour}}})
	const callers = 12
	var done sync.WaitGroup
	replies := make([]map[string]any, callers)
	for i := range callers {
		body := fmt.Sprintf(`{"id":"r%d","name":"tool_call","arguments":%s,"catalog":%q}`, i, buy("tea", i), ref)
		done.Go(func() {
			m, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(body), wait)
			if err != nil {
				t.Error(err)
				return
			}
			replies[i] = decode(t, m.Data)
		})
	}
	done.Wait()
	blocked := 0
	for _, r := range replies {
		if r["is_error"] == true {
			blocked++
			if e := slotError(t, r); e["code"] != "BLOCKED" || e["reason"] != "rate" || e["retry_after_ms"].(float64) < 3500_000 || !strings.Contains(e["message"].(string), "5 times in 1h") {
				t.Errorf("error = %s", text(e))
			}
		}
	}
	if len(executed()) != 5 || blocked != callers-5 {
		t.Errorf("%d executions and %d blocked of %d calls, want 5", len(executed()), blocked, callers)
	}
	if reply := f.call("s1", ref, `{"calls":[{"name":"mcp__shop__list"}]}`); reply["is_error"] != false {
		t.Errorf("another tool: %s", text(reply))
	}
	other := f.assemble("s2", shop)["catalog"].(string)
	f.serve("toolbridge.v1.t.s2.exec", func(map[string]any) string { return `{"result":1}` })
	if reply := f.call("s2", other, buy("tea", 1)); reply["is_error"] != false {
		t.Errorf("another session: %s", text(reply))
	}
	// The counters are no calls.
	if reply := f.ask("s1", "stop", `{}`); text(reply) != `{"stopped":[]}` {
		t.Errorf("stop = %s", text(reply))
	}
}

func TestARateOpensAgainWhenItsCallsAreOldEnough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, ref, executed := fleetInBubble(t).shopping(2, worker.Config{Guardrails: call.Guardrails{Rate: call.Rate{Calls: 2, Per: time.Minute}}})
		run := func(after time.Duration, allowed bool) {
			t.Helper()
			time.Sleep(after)
			if reply := f.call("s1", ref, buy("tea", 1)); (reply["is_error"] == false) != allowed {
				t.Errorf("%s later: %s", after, text(reply))
			}
		}
		run(0, true)
		run(20*time.Second, true)
		run(20*time.Second, false)
		run(19*time.Second, false) // 59 s after the first
		run(time.Second, true)
		run(0, false)
		run(20*time.Second, true)
		if n := len(executed()); n != 4 {
			t.Errorf("%d executions", n)
		}
	})
}

func TestAHookIsWaitedForUntilItsTimeoutAndNoLonger(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"by default": 0, "as configured": 90 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				limit := timeout
				if limit == 0 {
					limit = 5 * time.Second
				}
				f, ref, executed := fleetInBubble(t).shopping(1, worker.Config{Hooks: []call.Hook{{Name: "slow", Timeout: timeout}}})
				answerAfter := limit - time.Second
				f.hook("slow", func(map[string]any) string { time.Sleep(answerAfter); return `{"action":"allow"}` })
				stored := func(id string) map[string]any {
					f.ask("s1", "call", request(id, buy("tea", 1), ref))
					time.Sleep(2 * limit)
					return f.ask("s1", "fetch", `{"call_id":"`+id+`"}`)
				}
				if reply := stored("a"); reply["is_error"] != false || len(executed()) != 1 {
					t.Errorf("an answer in time: %s", text(reply))
				}
				answerAfter = limit + time.Second
				reply := stored("b")
				if e := slotError(t, reply); e["code"] != "BLOCKED" || !strings.Contains(e["message"].(string), limit.String()) || len(executed()) != 1 {
					t.Errorf("an answer too late: %s", text(reply))
				}
			})
		})
	}
}

func TestAHookThatAWorkersEndCutsOffIsAskedByTheNextWorker(t *testing.T) {
	f := newFleet(t)
	cfg := worker.Config{Dev: true, CallLease: 500 * time.Millisecond, Hooks: []call.Hook{{Name: "h", Timeout: time.Minute}}, Guardrails: call.Guardrails{Rate: call.Rate{Calls: 1, Per: time.Hour}}}
	first := f.start(cfg)
	ref := f.assemble("s1", shop)["catalog"].(string)
	executed := f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":1}` })
	var mu sync.Mutex
	asked := 0
	f.hook("h", func(map[string]any) string {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked == 1 {
			return ""
		}
		return `{"action":"allow"}`
	})
	f.ask("s1", "call", request("c1", buy("tea", 1), ref))
	eventually(t, "the hook is asked", func() bool { mu.Lock(); defer mu.Unlock(); return asked == 1 })
	ended, cancel := context.WithCancel(t.Context())
	cancel() // no grace
	_ = first.Stop(ended)
	f.start(cfg)
	eventually(t, "the call has run", func() bool { return f.ask("s1", "fetch", `{"call_id":"c1"}`)["result"] == 1.0 })
	if n := len(executed()); n != 1 {
		t.Errorf("%d executions", n)
	}
}

func TestOfABatchBeyondTheRateTheLastEntriesAreBlocked(t *testing.T) {
	f, ref, executed := shopping(t, 2, worker.Config{
		Hooks:      []call.Hook{{Name: "h", Match: "*"}},
		Guardrails: call.Guardrails{Rate: call.Rate{Calls: 3, Per: time.Hour}},
	})
	f.hook("h", func(r map[string]any) string {
		if at(t, r, "index") == 1.0 { // blocked by the hook: it does not count
			return `{"action":"block"}`
		}
		return `{"action":"allow"}`
	})
	entry := `{"name":"mcp__shop__look","arguments":{"item":"x"}}`
	batch := `{"calls":[` + strings.Repeat(entry+",", 6) + entry + `]}`
	if got := codes(t, f.call("s1", ref, batch)); got != " BLOCKED   BLOCKED BLOCKED BLOCKED" {
		t.Errorf("slots %q", got)
	}
	if got := codes(t, f.call("s1", ref, batch)); got != "BLOCKED BLOCKED BLOCKED BLOCKED BLOCKED BLOCKED BLOCKED" {
		t.Errorf("slots of the same once more %q", got)
	}
	if n := len(executed()); n != 3 {
		t.Errorf("%d executions", n)
	}
}

func TestIdenticalCallsInARowAreBlockedUntilAnotherComes(t *testing.T) {
	f, ref, executed := shopping(t, 2, worker.Config{Guardrails: call.Guardrails{Repeat: 3}})
	run := func(what, arguments, reason string) {
		t.Helper()
		reply := f.call("s1", ref, arguments)
		got := ""
		if reply["is_error"] == true {
			got = slotError(t, reply)["reason"].(string)
		}
		if got != reason {
			t.Errorf("%s: %s", what, text(reply))
		}
	}
	for range 3 {
		run("up to the limit", buy("tea", 1), "")
	}
	run("the fourth", buy("tea", 1), "repeat")
	run("the same in another order", `{"calls":[{"name":"mcp__shop__buy","arguments":{"count":1, "item":"tea"}}]}`, "repeat")
	run("other arguments", buy("tea", 2), "")
	run("the first again", buy("tea", 1), "")
	if n := len(executed()); n != 5 {
		t.Errorf("%d executions", n)
	}
}

func TestACallThatNothingChecksTouchesNoCounter(t *testing.T) {
	f, ref, _ := shopping(t, 1, worker.Config{Hooks: []call.Hook{{Name: "h", Match: "mcp__bank__*"}}, Guardrails: call.Guardrails{Deny: []string{"mcp__bank__*"}}})
	asked := f.count("toolbridge.v1.t._hooks.>")
	f.call("s1", ref, buy("tea", 1))
	kv, err := f.js.KeyValue(t.Context(), "toolbridge_journal_0")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if strings.Contains(k, "=guardrails") {
			t.Errorf("key %s", k)
		}
	}
	if asked() != 0 {
		t.Error("a hook was asked")
	}
}

func TestAWorkerRefusesHooksAndGuardrailsThatAreNone(t *testing.T) {
	f := newFleet(t)
	for name, cfg := range map[string]worker.Config{
		"a name that breaks the subject": {Hooks: []call.Hook{{Name: "a.b"}}},
		"an unknown phase":               {Hooks: []call.Hook{{Name: "a", Phase: "during"}}},
		"a negative timeout":             {Hooks: []call.Hook{{Name: "a", Timeout: -1}}},
		"a pattern without one":          {Guardrails: call.Guardrails{Arguments: []call.Pattern{{Match: "x"}}}},
		"a rate without a time":          {Guardrails: call.Guardrails{Rate: call.Rate{Calls: 1}}},
		"a negative repeat":              {Guardrails: call.Guardrails{Repeat: -1}},
	} {
		if _, err := worker.New(cfg, f.nc); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
