package worker_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/approval"
	"toolbridge/worker"
)

// serve answers what is executed on a subject and keeps what came.
func (f *fleet) serve(subject string, answer func(request map[string]any) string) (received func() []map[string]any) {
	f.t.Helper()
	var mu sync.Mutex
	var list []map[string]any
	sub, err := f.nc.Subscribe(subject, func(m *nats.Msg) {
		if m.Header.Get("Toolbridge-Kind") != "exec" {
			f.t.Errorf("an execution has Toolbridge-Kind %q", m.Header.Get("Toolbridge-Kind"))
		}
		request := decode(f.t, m.Data)
		request["raw"] = string(m.Data)
		mu.Lock()
		list = append(list, request)
		mu.Unlock()
		go func() {
			if body := answer(request); body != "" {
				_ = m.Respond([]byte(body))
			}
		}()
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

func (f *fleet) call(session, catalog, arguments string) map[string]any {
	f.t.Helper()
	return f.bridge(session, catalog, "tool_call", arguments)
}

func TestACallIsExecutedByTheSessionsOwnProcess(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	received := f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":{"id":9007199254740993,"ok":true}}` })
	m := f.send("toolbridge.v1.t.s1.bridge", `{"id":"c7","name":"tool_call","arguments":{"calls":[{"name":"mcp__gh__create_issue","arguments":{"repo":"a<b","title":"x"}}]},"catalog":"`+ref+`"}`,
		"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if want := `{"id":"c7","name":"tool_call","is_error":false,"result":{"id":9007199254740993,"ok":true}}`; string(m.Data) != want {
		t.Errorf("reply = %s\nwant    %s", m.Data, want)
	}
	got := received()
	if len(got) != 1 {
		t.Fatalf("%d executions", len(got))
	}
	e := got[0]
	if e["execution_id"] != "c7.0" || e["session"] != "s1" || e["tool"] != "mcp__gh__create_issue" || !strings.Contains(e["raw"].(string), `"arguments":{"repo":"a<b","title":"x"}`) {
		t.Errorf("execution = %s", e["raw"])
	}
	if len(e["definition_sha256"].(string)) != 64 || e["idempotency_key"] == "" || e["deadline"].(float64) < e["start_by"].(float64) {
		t.Errorf("execution = %s", e["raw"])
	}
}

func TestWithoutAProcessTheAnswerComesAtOnce(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	start := time.Now()
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__gh__list_releases","arguments":{}}]}`)
	if code(reply) != "EXECUTOR_UNAVAILABLE" || reply["is_error"] != true {
		t.Errorf("reply = %s", text(reply))
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestThreeWrongNamesGetThreeDifferentAnswers(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	sent := f.count("toolbridge.v1.t.s1.exec")
	for _, c := range []struct{ what, name, arguments, code, says string }{
		{"a visible tool through the bridge", "tool_call", `{"calls":[{"name":"terminal","arguments":{}}]}`, "TOOL_NOT_ALLOWED", "directly"},
		{"an unknown tool", "tool_call", `{"calls":[{"name":"mcp__gh__nope","arguments":{}}]}`, "TOOL_NOT_FOUND", ""},
		{"a core tool that the session lacks", "tool_call", `{"calls":[{"name":"write_file","arguments":{}}]}`, "TOOL_NOT_FOUND", "not available in this session"},
		{"a deferred tool called directly", "mcp__gh__create_issue", `{}`, "", "tool_call"},
		{"a bridge tool inside the bridge", "tool_call", `{"calls":[{"name":"tool_search","arguments":{}}]}`, "INVALID_ARGUMENTS", ""},
		{"no calls", "tool_call", `{}`, "INVALID_ARGUMENTS", "calls"},
	} {
		reply := f.bridge("s1", ref, c.name, c.arguments)
		if reply["is_error"] != true || c.code != "" && code(reply) != c.code || !strings.Contains(text(reply), c.says) {
			t.Errorf("%s: %s", c.what, text(reply))
		}
	}
	if n := sent(); n != 0 {
		t.Errorf("%d executions were sent", n)
	}
}

func TestA23ACallNeedsNoSearchBeforeIt(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	reply := f.assemble("s1", session())
	f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":"dispatched"}` })
	if got := f.call("s1", reply["catalog"].(string), `{"calls":[{"name":"mcp__mail__send","arguments":{"to":"a"}}]}`); got["result"] != "dispatched" {
		t.Errorf("reply = %s", text(got))
	}
	if again := f.assemble("s1", session()); text(again) != text(reply) {
		t.Error("the bridge tools are gone from the array")
	}
}

func TestD08SearchAndDescribeExecuteNothing(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", `{"tools":`+tools(tool("mcp__ops__purge_cache", "mcp-ops", "Purge the cache.", "region"))+`}`)["catalog"].(string)
	sent := f.count("toolbridge.v1.t.s1.>")
	before := sent()
	f.search("s1", ref, "purge cache")
	described := f.bridge("s1", ref, "tool_describe", `{"names":["mcp__ops__purge_cache"]}`)
	if at(t, described, "result", "tools", "mcp__ops__purge_cache", "parameters") == nil {
		t.Errorf("described = %s", text(described))
	}
	if n := sent() - before; n != 2 { // the two requests themselves
		t.Errorf("%d messages on the session's subjects, want its own 2", n)
	}
}

func TestWrongArgumentsAreRefusedBeforeAnythingRuns(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", `{"tools":[{"type":"function","toolset":"mcp-a","function":{"name":"mcp__a__set","parameters":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n"]}}}]}`)["catalog"].(string)
	received := f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":1}` })
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__a__set","arguments":{"s":"x"}}]}`)
	if code(reply) != "INVALID_ARGUMENTS" || at(t, reply, "result", "error", "constraint") != "required" || at(t, reply, "result", "error", "parameters") == nil {
		t.Errorf("reply = %s", text(reply))
	}
	if got := f.call("s1", ref, `{"calls":[{"name":"mcp__a__set","arguments":{"n":"9007199254740993"}}]}`); got["is_error"] == true {
		t.Errorf("a repairable call: %s", text(got))
	}
	got := received()
	if len(got) != 1 || !strings.Contains(got[0]["raw"].(string), `"arguments":{"n":9007199254740993}`) {
		t.Errorf("dispatched %v", got)
	}
}

func TestABatchAnswersInOrderAndOneFailureCostsNothingElse(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		if r["tool"] == "mcp__mail__send" {
			return `{"error":{"code":"SMTP_DOWN","message":"no route"}}`
		}
		return `{"result":"` + r["execution_id"].(string) + `"}`
	})
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__gh__list_releases","arguments":{}},{"name":"mcp__mail__send","arguments":{}},{"name":"mcp__nope__x","arguments":{}},{"name":"mcp__gh__create_issue","arguments":{}}]}`)
	want := `[0,"mcp__gh__list_releases","c1.0",""] [1,"mcp__mail__send",null,"TOOL_ERROR"] [2,"mcp__nope__x",null,"TOOL_NOT_FOUND"] [3,"mcp__gh__create_issue","c1.3",""]`
	var got []string
	for _, s := range at(t, reply, "result", "results").([]any) {
		m := s.(map[string]any)
		got = append(got, text([]any{m["index"], m["name"], m["response"], code(m)}))
	}
	if strings.Join(got, " ") != want || reply["is_error"] != false {
		t.Errorf("slots = %s\nwant    %s", strings.Join(got, " "), want)
	}
	if c := at(t, reply, "result"); at(t, c, "success_count") != 2.0 || at(t, c, "error_count") != 2.0 || at(t, c, "total_count") != 4.0 {
		t.Errorf("counts = %s", text(c))
	}
	if got := at(t, reply, "result", "results", 1, "error", "executor_code"); got != "SMTP_DOWN" {
		t.Errorf("executor_code = %v", got)
	}
}

func TestOrderedEntriesRunOneAfterAnotherAndParallelOnesAtOnce(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	var own []string
	for i := range 4 {
		own = append(own, strings.Replace(tool(fmt.Sprintf("mcp__a__p%d", i), "mcp-a", "Parallel."), `"toolset"`, `"parallel":true,"toolset"`, 1), tool(fmt.Sprintf("mcp__a__o%d", i), "mcp-a", "Ordered."))
	}
	ref := f.assemble("s1", `{"tools":`+tools(own...)+`}`)["catalog"].(string)
	var mu sync.Mutex
	running, mostParallel, mostOrdered := map[string]bool{}, 0, 0
	var order []string
	all := make(chan struct{}) // closed when all four parallel ones run at once
	f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		name := r["tool"].(string)
		mu.Lock()
		running[name] = true
		p, o := 0, 0
		for n := range running {
			if strings.Contains(n, "__p") {
				p++
			} else {
				o++
			}
		}
		if p == 4 && mostParallel < 4 {
			close(all)
		}
		mostParallel, mostOrdered = max(mostParallel, p), max(mostOrdered, o)
		if strings.Contains(name, "__o") {
			order = append(order, name)
		}
		mu.Unlock()
		if strings.Contains(name, "__p") {
			select {
			case <-all:
			case <-time.After(wait):
			}
		}
		mu.Lock()
		delete(running, name)
		mu.Unlock()
		return `{"result":1}`
	})
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__a__o0"},{"name":"mcp__a__p0"},{"name":"mcp__a__o1"},{"name":"mcp__a__p1"},{"name":"mcp__a__p2"},{"name":"mcp__a__o2"},{"name":"mcp__a__p3"},{"name":"mcp__a__o3"}]}`)
	if at(t, reply, "result", "success_count") != 8.0 {
		t.Fatalf("reply = %s", text(reply))
	}
	mu.Lock()
	defer mu.Unlock()
	if mostParallel != 4 || mostOrdered != 1 || strings.Join(order, " ") != "mcp__a__o0 mcp__a__o1 mcp__a__o2 mcp__a__o3" {
		t.Errorf("%d parallel, %d ordered at once, in order %v", mostParallel, mostOrdered, order)
	}
}

func TestTheTimeLimitIsOnlyATimeoutWhenTheCancelIsConfirmed(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true, ToolTimeout: 200 * time.Millisecond})
	ref := f.assemble("s1", session())["catalog"].(string)
	cancelled := make(chan string, 4)
	sub, err := f.nc.Subscribe("toolbridge.v1.t.s1.exec.cancel", func(m *nats.Msg) { cancelled <- at(t, decode(t, m.Data), "execution_id").(string) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		switch r["tool"] {
		case "mcp__gh__list_releases": // confirms the cancel
			<-cancelled
			return `{"error":{"code":"CANCELLED","message":"stopped"}}`
		case "mcp__mail__send": // ends although it was cancelled
			<-cancelled
			return `{"result":"sent after all"}`
		}
		return "" // never answers
	})
	for name, want := range map[string]string{"mcp__gh__list_releases": "TIMEOUT", "mcp__gh__create_issue": "OUTCOME_UNKNOWN", "mcp__mail__send": ""} {
		reply := f.call("s1", ref, `{"calls":[{"name":"`+name+`","arguments":{}}]}`)
		if code(reply) != want {
			t.Errorf("%s: %s, want %q", name, text(reply), want)
		}
		if name == "mcp__mail__send" && reply["result"] != "sent after all" {
			t.Errorf("what really happened is lost: %s", text(reply))
		}
	}
}

func TestWorkingMessagesAreNotTheAnswer(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	sub, err := f.nc.Subscribe("toolbridge.v1.t.s1.exec", func(m *nats.Msg) {
		for range 40 {
			_ = f.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{"Toolbridge-Status": {"working"}}})
		}
		_ = m.Respond([]byte(`{"result":{"structuredContent":{"n":1e400}}}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	m := f.send("toolbridge.v1.t.s1.bridge", `{"id":"`+f.id()+`","name":"tool_call","arguments":{"calls":[{"name":"mcp__mail__send"}]},"catalog":"`+ref+`"}`)
	if !strings.Contains(string(m.Data), `"result":{"structuredContent":{"n":1e400}}`) {
		t.Errorf("reply = %s", m.Data)
	}
}

func TestADeadlineEndsTheReplyNotTheCall(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	release, finished := make(chan struct{}), make(chan struct{})
	f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { <-release; close(finished); return `{"result":1}` })
	reply := f.ask("s1", "bridge", `{"id":"`+f.id()+`","name":"tool_call","arguments":{"calls":[{"name":"mcp__mail__send"}]},"catalog":"`+ref+`"}`,
		"Toolbridge-Deadline", strconv.FormatInt(time.Now().Add(300*time.Millisecond).UnixMilli(), 10))
	if code(reply) != "DEADLINE_EXCEEDED" {
		t.Errorf("reply = %s", text(reply))
	}
	close(release)
	<-finished
}

func TestRegistryToolsGoToTheirExecutorsAndOwnOnesNever(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.register("mcp-r", "e1", tools(plain("mcp__r__go", "Go."), plain("mcp__r__own", "Own.")))
	pool := f.serve("toolbridge.v1.t._exec.run.mcp-r", func(r map[string]any) string { return `{"result":"pool"}` })
	own := f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string { return `{"result":"own"}` })
	var ref string
	eventually(t, "the toolset is known to the worker", func() bool {
		reply := f.assemble("s1", `{"tools":`+tools(tool("mcp__r__own", "mcp-r", "Mine."))+`,"toolsets":["mcp-r"]}`)
		ref = reply["catalog"].(string)
		return reply["deferred_count"] == 2.0
	})
	if got := f.call("s1", ref, `{"calls":[{"name":"mcp__r__go"}]}`); got["result"] != "pool" {
		t.Errorf("registry tool: %s", text(got))
	}
	if got := f.call("s1", ref, `{"calls":[{"name":"mcp__r__own"}]}`); got["result"] != "own" {
		t.Errorf("own definition of a registry name: %s", text(got))
	}
	if len(pool()) != 1 || len(own()) != 1 {
		t.Errorf("%d to the pool, %d to the session", len(pool()), len(own()))
	}
}

func TestAnExecutorsRefusalsStartNothing(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	answer := ""
	f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return answer })
	for body, want := range map[string]string{
		`{"error":{"code":"TOO_LATE","message":"late"}}`:               "EXECUTOR_UNAVAILABLE",
		`{"error":{"code":"DEFINITION_MISMATCH","message":"other"}}`:   "EXECUTOR_UNAVAILABLE",
		`{"error":{"code":"TOOL_ERROR","message":"bad day"}}`:          "TOOL_ERROR",
		`{"error":{"code":"OUTCOME_UNKNOWN","message":"server died"}}`: "OUTCOME_UNKNOWN",
		`{"error":{"code":"RESULT_TOO_LARGE","message":"9 MB"}}`:       "RESULT_TOO_LARGE",
		`{"neither":1}`: "OUTCOME_UNKNOWN",
		`garbage`:       "OUTCOME_UNKNOWN",
	} {
		answer = body
		if got := code(f.call("s1", ref, `{"calls":[{"name":"mcp__mail__send"}]}`)); got != want {
			t.Errorf("%s becomes %q, want %s", body, got, want)
		}
	}
}

func TestWithNobodyToAskACallThatNeedsApprovalIsDeniedAtOnce(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Policy: approval.Policy{Rules: []approval.Rule{{Match: "mcp__mail__*", Action: approval.Deny}, {Match: "mcp__gh__list*", Action: approval.Allow}}}})
	ref := f.assemble("s1", session())["catalog"].(string)
	received := f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":1}` })
	for name, want := range map[string][2]string{
		"mcp__gh__create_issue":  {"APPROVAL_DENIED", "no_approver"},
		"mcp__mail__send":        {"APPROVAL_DENIED", "rule"},
		"mcp__gh__list_releases": {"", ""},
	} {
		reply := f.call("s1", ref, `{"calls":[{"name":"`+name+`"}]}`)
		if code(reply) != want[0] || want[1] != "" && at(t, reply, "result", "error", "reason") != want[1] {
			t.Errorf("%s: %s", name, text(reply))
		}
	}
	if len(received()) != 1 {
		t.Errorf("%d executions", len(received()))
	}
	pre := f.ask("s1", "preflight", `{"names":["mcp__gh__create_issue","mcp__mail__send","mcp__gh__list_releases","terminal","nope"],"catalog":"`+ref+`"}`)
	for name, want := range map[string]string{
		"mcp__gh__create_issue": "true true ", "mcp__mail__send": "false false APPROVAL_DENIED",
		"mcp__gh__list_releases": "true false ", "terminal": "true false ", "nope": "false false TOOL_NOT_FOUND",
	} {
		p := at(t, pre, "tools", name).(map[string]any)
		c, _ := p["code"].(string)
		if got := fmt.Sprintf("%v %v %s", p["callable"], p["needs_approval"], c); got != want {
			t.Errorf("preflight of %s = %q, want %q", name, got, want)
		}
	}
}
