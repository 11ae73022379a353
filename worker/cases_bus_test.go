package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/client"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/worker"
)

// queued is how many messages of calls no worker has acknowledged.
func (f *fleet) queued() uint64 {
	f.t.Helper()
	s, err := f.js.Stream(f.t.Context(), "TOOLBRIDGE_CALLS_0")
	if err != nil {
		f.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestB01WorkThatOutlastsTheAckWaitRunsOnce(t *testing.T) {
	f := newFleet(t)
	const lease = 400 * time.Millisecond // and the queue's ack wait
	for range 3 {
		f.start(worker.Config{Dev: true, CallLease: lease})
	}
	ref := f.assemble("s1", session())["catalog"].(string)
	executed := f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string {
		<-time.After(7 * lease / 2) // the tool's own time
		return `{"result":"once"}`
	})
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__mail__send"}]}`)
	if reply["result"] != "once" || len(executed()) != 1 {
		t.Errorf("%d executions, %s", len(executed()), text(reply))
	}
	eventually(t, "the message is acknowledged after the result", func() bool { return f.queued() == 0 })
	if n := len(executed()); n != 1 {
		t.Errorf("%d executions", n)
	}
}

func TestB02ARedeliveredFinishedCallIsAcknowledgedAndRunsNotAgain(t *testing.T) {
	f, ref, executed := open(t, worker.Config{}, tools(tool("mcp__mail__send", "mcp-mail", "Send.")))
	body := request("c1", `{"calls":[{"name":"mcp__mail__send"}]}`, ref)
	first := f.ask("s1", "bridge", body)
	eventually(t, "the message is acknowledged", func() bool { return f.queued() == 0 })
	results, err := f.js.Stream(t.Context(), "TOOLBRIDGE_RESULTS")
	if err != nil {
		t.Fatal(err)
	}
	var before *jetstream.RawStreamMsg
	eventually(t, "the result is published", func() bool { // whoever waits in the worker has it before
		before, err = results.GetLastMsgForSubject(t.Context(), "toolbridge.v1.t.s1.result.c1")
		return err == nil
	})
	// The acknowledgement was lost: the server delivers the same once more.
	for _, subject := range []string{subjects.Space{}.WakeSubject(0, "t", "s1", "c1"), subjects.Space{}.CallSubject(0, "t", "s1", "c1")} {
		if _, err := f.js.Publish(t.Context(), subject, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the second delivery is acknowledged", func() bool { return f.queued() == 0 })
	after, err := results.GetLastMsgForSubject(t.Context(), "toolbridge.v1.t.s1.result.c1")
	if err != nil {
		t.Fatal(err)
	}
	if before.Sequence != after.Sequence || string(before.Data) != string(after.Data) {
		t.Errorf("the result has changed: %s, then %s", before.Data, after.Data)
	}
	if again := f.ask("s1", "bridge", body); text(again) != text(first) || len(executed()) != 1 {
		t.Errorf("%d executions; the same id again: %s", len(executed()), text(again))
	}
}

func TestB04ARequesterThatGaveUpGetsTheStoredResult(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	release := make(chan struct{})
	executed := f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { <-release; return `{"result":"late"}` })
	body := request("c1", `{"calls":[{"name":"mcp__mail__send"}]}`, ref)
	if _, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(body), 300*time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Fatalf("the request ended with %v", err)
	}
	var second sync.WaitGroup
	second.Go(func() { // while it still runs
		m, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(body), wait)
		if err != nil {
			t.Error(err)
		} else if got := decode(t, m.Data); got["result"] != "late" {
			t.Errorf("second answer %s", m.Data)
		}
	})
	eventually(t, "the tool runs", func() bool { return len(executed()) == 1 })
	close(release)
	second.Wait()
	for range 4 { // and after it, whichever worker answers
		if got := f.ask("s1", "bridge", body); got["result"] != "late" {
			t.Errorf("answer %s", text(got))
		}
	}
	other := f.ask("s1", "bridge", request("c1", `{"calls":[{"name":"mcp__gh__list_releases"}]}`, ref))
	if code(other) != "ID_REUSED" || len(executed()) != 1 {
		t.Errorf("%d executions; another call with the id: %s", len(executed()), text(other))
	}
}

// small is a fleet on a server whose messages have 1 MiB at most.
func small(t *testing.T) *fleet {
	t.Helper()
	s := bus.Server(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	nc := bus.Connect(t, s)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{t: t, server: s, nc: nc, js: js}
}

func TestB06AReplyAboveMaxPayloadIsAReferenceToWhatIsStored(t *testing.T) {
	f := small(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":"` + strings.Repeat("r", 750_000) + `"}` })
	start := time.Now()
	reply := f.call("s1", ref, `{"calls":[{"name":"mcp__mail__send"},{"name":"mcp__gh__list_releases"}]}`)
	if size, _ := at(t, reply, "blob", "size").(float64); size < 1_500_000 || reply["preview"] == "" || reply["is_error"] != false {
		t.Fatalf("reply = %.300s", text(reply))
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it took %s", d)
	}
	var whole []byte
	for int(at(t, reply, "blob", "size").(float64)) > len(whole) {
		part := f.send("toolbridge.v1.t.s1.fetch", fmt.Sprintf(`{"blob":%q,"offset":%d}`, at(t, reply, "blob", "name"), len(whole))).Data
		if len(part) == 0 {
			t.Fatal("an empty chunk")
		}
		whole = append(whole, part...)
	}
	if n := len(at(t, decode(t, whole), "results", 1, "response").(string)); n != 750_000 {
		t.Errorf("the second result has %d characters", n)
	}
}

func TestB07ArgumentsAboveMaxPayloadAreRefusedWithTheLimit(t *testing.T) {
	f := small(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	executed := f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":1}` })
	entry := func(size int) string {
		return `{"name":"mcp__mail__send","arguments":{"to":"` + strings.Repeat("b", size) + `"}}`
	}
	for name, c := range map[string]struct {
		calls, code string
	}{
		"one entry":                        {entry(2_000_000), "TOO_LARGE"},
		"one entry just below the limit":   {entry(1<<20 - 6000), "TOO_LARGE"},
		"one entry of a batch":             {entry(10) + "," + entry(2_000_000), "TOO_LARGE"},
		"a batch that is large as a whole": {entry(700_000) + "," + entry(700_000) + "," + entry(700_000), "TOO_LARGE"},
		"a large one":                      {entry(900_000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(executed())
			body := request(f.id(), `{"calls":[`+c.calls+`]}`, ref)
			reply := decode(t, f.send("toolbridge.v1.t.s1.bridge", string(packed(t, "zstd", []byte(body))), "Content-Encoding", "zstd").Data)
			if code(reply) != c.code {
				t.Fatalf("reply = %.400s", text(reply))
			}
			want := 1
			if c.code != "" {
				want = 0
				if at(t, reply, "error", "retryable") != false || !strings.Contains(text(reply), "at most") {
					t.Errorf("reply = %s", text(reply))
				}
			}
			if n := len(executed()) - before; n != want {
				t.Errorf("%d executions, want %d", n, want)
			}
		})
	}
}

func TestB08WithoutAWorkerARequestFailsAtOnce(t *testing.T) {
	f := newFleet(t)
	start := time.Now()
	_, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(`{"id":"c1","name":"tool_search","arguments":{"queries":["x"]},"tools":[]}`), wait)
	if !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("the request ended with %v", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("after %s", d)
	}
}

func TestB09AStoppingWorkerFinishesWhatRunsAndTakesNothingNew(t *testing.T) {
	f := newFleet(t)
	first := f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	release := make(chan struct{})
	executed := f.serve("toolbridge.v1.t.s1.exec", func(r map[string]any) string {
		if r["tool"] == "mcp__mail__send" {
			<-release
		}
		return `{"result":"ran"}`
	})
	var running sync.WaitGroup
	running.Go(func() {
		m, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(request("c1", `{"calls":[{"name":"mcp__mail__send"}]}`, ref)), wait)
		if err != nil {
			t.Error(err)
		} else if got := decode(t, m.Data); got["result"] != "ran" {
			t.Errorf("the running call ended with %s", m.Data)
		}
	})
	eventually(t, "the call runs", func() bool { return len(executed()) == 1 })
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		stopped <- first.Stop(ctx)
	}()
	eventually(t, "the worker takes no request any more", func() bool {
		_, err := f.nc.Request("toolbridge.v1.t.s1.preflight", []byte(`{"names":["x"],"catalog":"`+ref+`"}`), wait)
		return errors.Is(err, nats.ErrNoResponders)
	})
	f.start(worker.Config{Dev: true})
	if got := f.ask("s1", "bridge", request("c2", `{"calls":[{"name":"mcp__gh__list_releases"}]}`, ref)); got["result"] != "ran" {
		t.Errorf("a new call: %s", text(got))
	}
	close(release)
	running.Wait()
	if err := <-stopped; err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func TestB10AHandlerThatPanicsCostsOneCallOnly(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	c, err := client.New(f.nc, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Session("t", "s1")
	if err != nil {
		t.Fatal(err)
	}
	process, err := s.Serve(t.Context(), client.ServeConfig{}, func(_ context.Context, r subjects.ExecRequest) (json.RawMessage, error) {
		if r.Tool == "mcp__mail__send" {
			panic("boom")
		}
		return json.RawMessage(`"fine"`), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(context.Background()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	for range 3 {
		start := time.Now()
		boom := f.call("s1", ref, `{"calls":[{"name":"mcp__mail__send"}]}`)
		if boom["is_error"] != true || code(boom) == "" || time.Since(start) > 5*time.Second {
			t.Errorf("after %s: %s", time.Since(start), text(boom))
		}
		if got := f.call("s1", ref, `{"calls":[{"name":"mcp__gh__list_releases"}]}`); got["result"] != "fine" {
			t.Errorf("the next call: %s", text(got))
		}
	}
}

func TestB11AWildcardGluedIntoATokenIsRefusedAtTheStart(t *testing.T) {
	for _, prefix := range []string{"team-*.toolbridge", "team.>", "team*.v1", "team..v1", ".team", "te am.v1"} {
		if _, err := subjects.NewSpace(prefix); err == nil {
			t.Errorf("prefix %q is accepted", prefix)
		}
	}
	if _, err := subjects.NewSpace("team.blue.toolbridge"); err != nil {
		t.Error(err)
	}
}

func TestB14EveryRequestGetsItsOwnReplyHoweverTheyAreShuffled(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	const n = 200
	var mu sync.Mutex
	var held []func()
	sub, err := f.nc.Subscribe("toolbridge.v1.t.s1.exec", func(m *nats.Msg) {
		title := at(t, decode(t, m.Data), "arguments", "title").(string)
		mu.Lock()
		defer mu.Unlock()
		held = append(held, func() { _ = m.Respond([]byte(`{"result":"` + title + `"}`)) })
		if len(held) == n { // all wait: answer the odd ones backwards, then the even ones
			for i := n - 1; i >= 0; i -= 2 {
				held[i]()
			}
			for i := 0; i < n; i += 2 {
				held[i]()
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range n {
		id := fmt.Sprintf("p%d", i)
		body := request(id, `{"calls":[{"name":"mcp__gh__create_issue","arguments":{"title":"`+id+`"}}]}`, ref)
		all.Go(func() {
			m, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(body), 3*wait)
			if err != nil {
				t.Errorf("%s: %v", id, err)
			} else if got := decode(t, m.Data); got["id"] != id || got["result"] != id {
				t.Errorf("%s got %s", id, m.Data)
			}
		})
	}
	all.Wait()
}
