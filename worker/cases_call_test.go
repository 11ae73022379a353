package worker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/worker"
)

// The cases of this file are faults that users of tool search and of agents'
// buses have reported; each test has the case's id.

// open is a session with one worker and its own process, which answers {"result":1}.
func open(t *testing.T, cfg worker.Config, definitions string) (f *fleet, ref string, executed func() []map[string]any) {
	t.Helper()
	f = newFleet(t)
	cfg.Dev = true
	f.start(cfg)
	ref = f.assemble("s1", `{"tools":`+definitions+`}`)["catalog"].(string)
	return f, ref, f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":1}` })
}

// feed keeps what a session's activity feed says.
func (f *fleet) feed(session string) func() []map[string]any {
	f.t.Helper()
	var mu sync.Mutex
	var list []map[string]any
	sub, err := f.nc.Subscribe("toolbridge.v1.t."+session+".event", func(m *nats.Msg) {
		if m.Header.Get("Toolbridge-Kind") != "event" {
			f.t.Errorf("an event has Toolbridge-Kind %q", m.Header.Get("Toolbridge-Kind"))
		}
		mu.Lock()
		defer mu.Unlock()
		list = append(list, decode(f.t, m.Data))
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return func() []map[string]any {
		mu.Lock()
		defer mu.Unlock()
		return append([]map[string]any(nil), list...)
	}
}

// request is the body of a tool_call with an id of the test's own.
func request(id, arguments, ref string) string {
	return fmt.Sprintf(`{"id":%q,"name":"tool_call","arguments":%s,"catalog":%q}`, id, arguments, ref)
}

// dispatched is the exact argument text of an execution.
func dispatched(t *testing.T, execution map[string]any) string {
	t.Helper()
	var e struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal([]byte(execution["raw"].(string)), &e); err != nil {
		t.Fatal(err)
	}
	return string(e.Arguments)
}

func TestC01TheReplyNamesTheBridgeAndTheFeedTheTool(t *testing.T) {
	f, ref, _ := open(t, worker.Config{}, tools(tool("mcp__cal__list_events", "mcp-cal", "List events.", "day")))
	feed, results := f.feed("s1"), f.count("toolbridge.v1.t.s1.result.call_1")
	reply := f.ask("s1", "bridge", request("call_1", `{"calls":[{"name":"mcp__cal__list_events","arguments":{"day":"2030-01-02"}}]}`, ref))
	if reply["id"] != "call_1" || reply["name"] != "tool_call" {
		t.Errorf("reply = %s", text(reply))
	}
	eventually(t, "the feed says that the call has ended", func() bool {
		l := feed()
		return len(l) > 0 && l[len(l)-1]["type"] == "call.finished"
	})
	var got []string
	for _, e := range feed() {
		if _, err := time.Parse(time.RFC3339Nano, e["at"].(string)); err != nil || e["call_id"] != "call_1" {
			t.Errorf("event = %s", text(e))
		}
		got = append(got, fmt.Sprint(e["type"], " ", e["tool"]))
	}
	if want := "call.accepted <nil>, tool.started mcp__cal__list_events, tool.finished mcp__cal__list_events, call.finished <nil>"; strings.Join(got, ", ") != want {
		t.Errorf("feed = %s\nwant   %s", strings.Join(got, ", "), want)
	}
	eventually(t, "the result is published", func() bool { return results() == 1 })
	if fetched := f.ask("s1", "fetch", `{"call_id":"call_1"}`); text(fetched) != text(reply) {
		t.Errorf("fetched %s", text(fetched))
	}
}

func TestC04NoArgumentsInEverySpellingReachTheToolAsAnEmptyObject(t *testing.T) {
	f, ref, executed := open(t, worker.Config{}, tools(tool("mcp__sys__uptime", "mcp-sys", "Uptime.")))
	for i, entry := range []string{
		`{"name":"mcp__sys__uptime","arguments":""}`, `{"name":"mcp__sys__uptime","arguments":"  "}`,
		`{"name":"mcp__sys__uptime","arguments":null}`, `{"name":"mcp__sys__uptime"}`,
	} {
		if reply := f.call("s1", ref, `{"calls":[`+entry+`]}`); reply["is_error"] != false {
			t.Errorf("%s: %s", entry, text(reply))
		}
		if got := executed(); len(got) != i+1 || dispatched(t, got[i]) != `{}` {
			t.Errorf("%s: executed %v", entry, got)
		}
	}
}

func TestC05ParametersBesideTheNameReachTheTool(t *testing.T) {
	f, ref, executed := open(t, worker.Config{}, `[{"type":"function","toolset":"mcp-mail","function":{"name":"mcp__mail__archive","description":"Archive mail; default is the whole inbox.","parameters":{"type":"object","properties":{"folder":{"type":"string"},"older_than_days":{"type":"integer"}}}}}]`)
	f.call("s1", ref, `{"calls":[{"name":"mcp__mail__archive","folder":"Receipts","older_than_days":90}]}`)
	if got := executed(); len(got) != 1 || dispatched(t, got[0]) != `{"folder":"Receipts","older_than_days":90}` {
		t.Errorf("executed %v", got)
	}
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__mail__archive","folders":"Receipts"}]}`)
	if code(reply) != "INVALID_ARGUMENTS" || !strings.Contains(text(reply), "arguments") || len(executed()) != 1 {
		t.Errorf("a key that is no parameter: %s", text(reply))
	}
}

func TestC06ADoubledStreamRunsAtMostOnce(t *testing.T) {
	f, ref, executed := open(t, worker.Config{}, tools(tool("mcp__crm__add_note", "mcp-crm", "Add a note.", "text")))
	before := 0
	for _, c := range []struct {
		entry string
		runs  int
		says  string
	}{
		{`{"name":"mcp__crm__add_notemcp__crm__add_note","arguments":{"text":"hi"}}`, 0, "mcp__crm__add_note"},
		{`{"name":"mcp__crm__add_note","arguments":"{\"text\":\"hi\"}{\"text\":\"hi\"}"}`, 1, ""},
		{`{"name":"mcp__crm__add_note","arguments":"{\"text\":\"a\"}{\"text\":\"b\"}"}`, 0, "JSON"},
	} {
		reply := f.call("s1", ref, `{"calls":[`+c.entry+`]}`)
		if n := len(executed()); n-before != c.runs || reply["is_error"] != (c.runs == 0) || !strings.Contains(text(reply), c.says) {
			t.Errorf("%s: %d executions, %s", c.entry, n-before, text(reply))
		}
		before = len(executed())
	}
}

func TestC07ABridgeCallInsideABridgeCallRunsNothing(t *testing.T) {
	f, ref, executed := open(t, worker.Config{}, tools(tool("mcp__cal__list_events", "mcp-cal", "List events.")))
	reply := f.call("s1", ref, `{"calls":[{"name":"tool_call","arguments":{"calls":[{"name":"mcp__cal__list_events","arguments":{}}]}}]}`)
	if code(reply) != "INVALID_ARGUMENTS" || !strings.Contains(text(reply), "tool_call") || !strings.Contains(text(reply), "bridge") || len(executed()) != 0 {
		t.Errorf("reply = %s, %d executions", text(reply), len(executed()))
	}
}

func TestC09C10C11WrongDoorsRunNothingAndSayWhichIsRight(t *testing.T) {
	f, ref, executed := open(t, worker.Config{}, tools(tool("mcp__alpha__delete_record", "mcp-alpha", "Delete.", "id"), tool("mcp__mem__store", "mcp-mem", "Store.", "text")))
	core := f.call("s1", ref, `{"calls":[{"name":"browser_navigate","arguments":{}}]}`)
	if code(core) != "TOOL_NOT_FOUND" || !strings.Contains(text(core), "not available in this session") || strings.Contains(text(core), "directly") {
		t.Errorf("C09: %s", text(core))
	}
	other := f.call("s1", ref, `{"calls":[{"name":"mcp__beta__delete_record","arguments":{"id":"7"}}]}`)
	if code(other) != "TOOL_NOT_FOUND" || !strings.Contains(text(other), "mcp__beta__delete_record") {
		t.Errorf("C10: %s", text(other))
	}
	direct := f.bridge("s1", ref, "mcp__mem__store", `{"text":"x"}`)
	if !strings.Contains(text(direct), "tool_call") || !strings.Contains(text(direct), "mcp__mem__store") || strings.Contains(text(direct), "does not exist") {
		t.Errorf("C11: %s", text(direct))
	}
	if n := len(executed()); n != 0 {
		t.Errorf("%d executions", n)
	}
}

func TestC13TheSameMalformedCallEndsInAHaltWhicheverWorkerAnswers(t *testing.T) {
	f, ref, executed := open(t, worker.Config{}, tools(tool("mcp__plant__water", "mcp-plant", "Water.", "zone")))
	f.start(worker.Config{Dev: true})
	f.start(worker.Config{Dev: true})
	halted := 0
	for i := range 20 {
		reply := f.call("s1", ref, `{"name":"mcp__plant__water","input":"all"}`)
		e := slotError(t, reply)
		if e["halt"] == true && halted == 0 {
			halted = i + 1
		}
		if (e["halt"] == true) != (halted > 0) {
			t.Errorf("answer %d to the same input does not halt, answer %d did", i+1, halted)
		}
	}
	if halted == 0 || halted > 8 || len(executed()) != 0 {
		t.Errorf("halted at answer %d, %d executions", halted, len(executed()))
	}
	// The counter is no call: a stop of everything finds none.
	if reply := f.ask("s1", "stop", `{}`); text(reply) != `{"stopped":[]}` {
		t.Errorf("stop = %s", text(reply))
	}
}

func TestC21AfterAHardStopEveryCallHasATruthfulResult(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	started := make(chan struct{})
	f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		if strings.HasPrefix(r["execution_id"].(string), "b.") {
			close(started)
			return "" // the process is killed while it runs
		}
		return `{"result":"done"}`
	})
	entry := `{"calls":[{"name":"mcp__mail__send"}]}`
	f.ask("s1", "bridge", request("a", entry, ref))
	f.ask("s1", "call", request("b", entry, ref))
	<-started
	f.ask("s1", "stop", `{}`)
	f.ask("s1", "stop", `{"call_id":"c"}`) // not sent yet
	c := f.ask("s1", "bridge", request("c", entry, ref))
	if code(c) != "INTERRUPTED" {
		t.Errorf("c = %s", text(c))
	}
	var b map[string]any
	eventually(t, "b has its result", func() bool {
		b = f.ask("s1", "fetch", `{"call_id":"b"}`)
		return b["pending"] != true
	})
	if code(b) != "OUTCOME_UNKNOWN" || b["id"] != "b" || b["name"] != "tool_call" {
		t.Errorf("b = %s", text(b))
	}
	if a := f.ask("s1", "fetch", `{"call_id":"a"}`); a["result"] != "done" {
		t.Errorf("a = %s", text(a))
	}
}

func TestC25C26NumbersAreTheBytesThatWereSentBothWays(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", `{"tools":[{"type":"function","toolset":"mcp-chat","function":{"name":"mcp__chat__react","description":"React.","parameters":{"type":"object","properties":{"message_id":{"type":"integer"},"limit":{"type":"number"}},"required":["message_id"]}}}]}`)["catalog"].(string)
	executed := f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":{"next_id":9007199254740993,"at":12000000}}` })
	m := f.send("toolbridge.v1.t.s1.bridge", request("c1", `{"calls":[{"name":"mcp__chat__react","arguments":{"message_id":7310046220981450071,"limit":12000000}}]}`, ref))
	if got := executed(); len(got) != 1 || dispatched(t, got[0]) != `{"message_id":7310046220981450071,"limit":12000000}` {
		t.Errorf("executed %v", got)
	}
	if !strings.Contains(string(m.Data), `{"next_id":9007199254740993,"at":12000000}`) {
		t.Errorf("reply = %s", m.Data)
	}
	m = f.send("toolbridge.v1.t.s1.fetch", `{"call_id":"c1"}`)
	if !strings.Contains(string(m.Data), `9007199254740993`) {
		t.Errorf("fetched %s", m.Data)
	}
}

// The second result of the case says itself that its source left entries out. It
// arrives as it is, so that the model reads that; the worker can not know more.
func TestC27ALargeResultIsAPreviewAndTheWholeIsKept(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true, MaxResult: 30_000})
	ref := f.assemble("s1", session())["catalog"].(string)
	answer := ""
	f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":` + answer + `}` })
	for _, whole := range []string{strings.Repeat("x", 60_000), strings.Repeat("é", 40_000)} {
		answer = text(whole)
		reply := f.call("s1", ref, `{"calls":[{"name":"mcp__mail__send"}]}`)
		preview, _ := reply["preview"].(string)
		if reply["result"] != nil || preview == "" || !strings.HasPrefix(answer, preview) || strings.ContainsRune(preview, '\ufffd') {
			t.Errorf("preview of %d characters: %.60q in %.200s", len([]rune(preview)), preview, text(reply))
		}
		name, size := at(t, reply, "blob", "name").(string), int(at(t, reply, "blob", "size").(float64))
		var got []byte
		for len(got) < size {
			got = append(got, f.send("toolbridge.v1.t.s1.fetch", fmt.Sprintf(`{"blob":%q,"offset":%d}`, name, len(got))).Data...)
		}
		if string(got) != answer {
			t.Errorf("%d bytes were fetched, %d are the result", len(got), len(answer))
		}
		f.assemble("s2", session())
		if other := f.ask("s2", "fetch", fmt.Sprintf(`{"blob":%q,"offset":0}`, name)); code(other) != "UNKNOWN_CALL" {
			t.Errorf("another session got %.100s", text(other))
		}
	}
	answer = `{"crates":[1,2],"note":"(17 further entries not shown)"}`
	if m := f.call("s1", ref, `{"calls":[{"name":"mcp__mail__send"}]}`); text(m["result"]) != answer {
		t.Errorf("result = %s", text(m))
	}
	// é counts one: 20,000 characters in 40,000 bytes are below the limit.
	answer = text(strings.Repeat("é", 20_000))
	if m := f.call("s1", ref, `{"calls":[{"name":"mcp__mail__send"}]}`); m["blob"] != nil {
		t.Errorf("a result below the limit: %.100s", text(m))
	}
}

func TestC28LongArgumentsArriveWhole(t *testing.T) {
	f, ref, executed := open(t, worker.Config{}, tools(tool("mcp__mail__send", "mcp-mail", "Send.", "to", "body")))
	body := strings.Repeat("b", 5000)
	f.call("s1", ref, `{"calls":[{"name":"mcp__mail__send","arguments":{"to":"a@example.test","body":"`+body+`"}}]}`)
	if got := executed(); len(got) != 1 || at(t, got[0], "arguments", "body") != body {
		t.Errorf("%d executions", len(got))
	}
}

func TestC30ParallelSafeToolsOverlapBehindTheBridge(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	safe := func(name string) string {
		return strings.Replace(tool(name, "mcp-docs", "Docs."), `"toolset"`, `"parallel":true,"toolset"`, 1)
	}
	ref := f.assemble("s1", `{"tools":`+tools(safe("mcp__docs__a"), safe("mcp__docs__b"), tool("mcp__db__w", "mcp-db", "Write."))+`}`)["catalog"].(string)
	pre := f.ask("s1", "preflight", `{"names":["mcp__docs__a","mcp__docs__b","mcp__db__w"],"catalog":"`+ref+`"}`)
	for name, want := range map[string]bool{"mcp__docs__a": true, "mcp__docs__b": true, "mcp__db__w": false} {
		if at(t, pre, "tools", name, "parallel") != want {
			t.Errorf("preflight of %s = %s", name, text(at(t, pre, "tools", name)))
		}
	}
	var both sync.WaitGroup // a and b have started
	both.Add(2)
	f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		if r["tool"] != "mcp__db__w" {
			both.Done()
			both.Wait()
		}
		return text(map[string]any{"result": r["tool"]})
	})
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__docs__a"},{"name":"mcp__db__w"},{"name":"mcp__docs__b"}]}`)
	for i, want := range []string{"mcp__docs__a", "mcp__db__w", "mcp__docs__b"} {
		if got := at(t, reply, "result", "results", i, "response"); got != want {
			t.Errorf("slot %d = %v, want %s", i, got, want)
		}
	}
	// As calls of their own, as an agent sends those of one turn.
	both.Add(2)
	var turn sync.WaitGroup
	for _, name := range []string{"mcp__docs__a", "mcp__docs__b"} {
		body := request(name, `{"calls":[{"name":"`+name+`"}]}`, ref)
		turn.Go(func() {
			m, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(body), wait)
			if err != nil {
				t.Error(err)
			} else if got := decode(t, m.Data); got["result"] != name || got["id"] != name {
				t.Errorf("reply = %s", text(got))
			}
		})
	}
	turn.Wait()
}
