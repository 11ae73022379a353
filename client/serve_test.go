package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// executing is a session's process and the worker that sends to it.
type executing struct {
	t       *testing.T
	server  *Server
	nc      *nats.Conn // the worker's
	replies *nats.Subscription
	inbox   string
}

func execute(t *testing.T, cfg ServeConfig, h Handler) *executing {
	t.Helper()
	connect := bus(t, nil)
	s := session(t, connect(), Config{})
	v, err := s.Serve(within(t, 5*time.Second), cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := v.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	x := &executing{t: t, server: v, nc: connect()}
	x.inbox = x.nc.NewInbox()
	x.replies, err = x.nc.SubscribeSync(x.inbox)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func request(id string) subjects.ExecRequest {
	return subjects.ExecRequest{
		ExecutionID: id, Session: "s1", Tool: "note", DefinitionSHA256: "ab", Arguments: json.RawMessage(`{"n":1.0}`),
		StartBy: time.Now().Add(time.Minute).UnixMilli(), Deadline: time.Now().Add(time.Minute).UnixMilli(),
	}
}

func (x *executing) publish(verb subjects.Verb, reply, kind string, message any) {
	x.t.Helper()
	data, err := subjects.Encode(message)
	if err != nil {
		x.t.Fatal(err)
	}
	m := &nats.Msg{Subject: subjects.Space{}.Session("acme", "s1", verb), Reply: reply, Data: data, Header: nats.Header{}}
	if kind != "" {
		m.Header[subjects.HeaderKind] = []string{kind}
	}
	if err := x.nc.PublishMsg(m); err != nil {
		x.t.Fatal(err)
	}
}

func (x *executing) send(r subjects.ExecRequest) {
	x.t.Helper()
	x.publish(subjects.VerbExec, x.inbox, subjects.KindExec, r)
}

func (x *executing) cancel(id string) {
	x.t.Helper()
	x.publish(subjects.VerbExecCancel, "", subjects.KindExec, subjects.ExecCancel{ExecutionID: id})
}

// answer waits for the next final reply and counts the interim ones before it.
func (x *executing) answer() (r subjects.ExecReply, working int) {
	x.t.Helper()
	for {
		m, err := x.replies.NextMsg(10 * time.Second)
		if err != nil {
			x.t.Fatal(err)
		}
		if m.Header.Get(subjects.HeaderKind) != subjects.KindReply {
			x.t.Errorf("kind = %q", m.Header.Get(subjects.HeaderKind))
		}
		if m.Header.Get(subjects.HeaderStatus) == subjects.StatusWorking {
			working++
			continue
		}
		if err := subjects.Decode(m.Data, &r); err != nil {
			x.t.Fatal(err)
		}
		return r, working
	}
}

func TestAnExecutionReachesTheHandlerAndItsResultTheWorker(t *testing.T) {
	got := make(chan subjects.ExecRequest, 1)
	x := execute(t, ServeConfig{}, func(ctx context.Context, r subjects.ExecRequest) (json.RawMessage, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		got <- r
		return json.RawMessage(`{ "ok": 1.00 }`), nil
	})
	sent := request("c1.0")
	x.send(sent)
	r, _ := x.answer()
	if string(r.Result) != `{ "ok": 1.00 }` || r.Error != nil {
		t.Errorf("reply = %+v", r)
	}
	if diff := cmp.Diff(sent, <-got); diff != "" {
		t.Error(diff)
	}
}

func TestFailuresKeepTheirCodeAndWords(t *testing.T) {
	for name, tt := range map[string]struct {
		handler Handler
		want    subjects.ExecError
	}{
		"own code": {func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
			return nil, errors.Join(&ToolError{Code: "NO_SUCH_NOTE", Message: "it is gone"})
		}, subjects.ExecError{Code: "NO_SUCH_NOTE", Message: "it is gone"}},
		"any error": {func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
			return nil, errors.New("disk full")
		}, subjects.ExecError{Code: subjects.CodeToolError, Message: "disk full"}},
		"panic": {func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
			panic("oops")
		}, subjects.ExecError{Code: subjects.CodeToolError, Message: "the tool's program failed; the session's log says why"}},
		"no JSON": {func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
			return json.RawMessage(`hello`), nil
		}, subjects.ExecError{Code: subjects.CodeToolError, Message: "the tool's result is not JSON"}},
		"too large": {func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
			return json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`), nil
		}, subjects.ExecError{Code: subjects.CodeResultTooLarge, Message: "the result has 2097165 bytes; the server takes 1044480"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := execute(t, ServeConfig{}, tt.handler)
			x.send(request("c1.0"))
			r, _ := x.answer()
			if r.Error == nil {
				t.Fatalf("reply = %+v", r)
			}
			if diff := cmp.Diff(tt.want, *r.Error); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARepeatedExecutionRunsOnceAndGetsTheSameAnswer(t *testing.T) {
	var runs atomic.Int32
	release := make(chan struct{})
	x := execute(t, ServeConfig{}, func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
		<-release
		return json.RawMessage([]byte{'0' + byte(runs.Add(1))}), nil
	})
	r := request("c1.0")
	x.send(r)
	second := x.nc.NewInbox() // a copy from another worker, while the first runs
	other, err := x.nc.SubscribeSync(second)
	if err != nil {
		t.Fatal(err)
	}
	x.publish(subjects.VerbExec, second, subjects.KindExec, r)
	changed := r
	changed.Arguments = json.RawMessage(`{"n":2}`)
	x.send(changed) // the copy behind it has been noted once this is refused
	if a, _ := x.answer(); a.Error == nil || a.Error.Code != subjects.CodeIDReused {
		t.Fatalf("another body under the same id: %+v", a)
	}
	close(release)
	if a, _ := x.answer(); string(a.Result) != "1" {
		t.Errorf("first = %+v", a)
	}
	if m, err := other.NextMsg(5 * time.Second); err != nil || string(m.Data) != `{"result":1}` {
		t.Errorf("copy: %v %v", m, err)
	}
	x.send(r) // after it is done
	if a, _ := x.answer(); string(a.Result) != "1" {
		t.Errorf("again = %+v", a)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestLateAndForeignExecutionsDoNotStart(t *testing.T) {
	x := execute(t, ServeConfig{Definition: func(tool string) string { return map[string]string{"note": "ab"}[tool] }},
		func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
			t.Error("it started")
			return json.RawMessage("1"), nil
		})
	for name, tt := range map[string]struct {
		change func(*subjects.ExecRequest)
		want   subjects.Code
	}{
		"late":             {func(r *subjects.ExecRequest) { r.StartBy = time.Now().Add(-time.Second).UnixMilli() }, subjects.CodeTooLate},
		"other definition": {func(r *subjects.ExecRequest) { r.DefinitionSHA256 = "cd" }, subjects.CodeDefinitionMismatch},
		"unknown tool":     {func(r *subjects.ExecRequest) { r.Tool = "other" }, subjects.CodeDefinitionMismatch},
		"other session":    {func(r *subjects.ExecRequest) { r.Session = "s2" }, subjects.CodeBadRequest},
		"no id":            {func(r *subjects.ExecRequest) { r.ExecutionID = "" }, subjects.CodeBadRequest},
	} {
		r := request("c-" + strings.ReplaceAll(name, " ", "_"))
		tt.change(&r)
		x.send(r)
		if a, _ := x.answer(); a.Error == nil || a.Error.Code != tt.want {
			t.Errorf("%s: %+v", name, a)
		}
	}
	x.publish(subjects.VerbExec, x.inbox, subjects.KindExec, "no object")
	if a, _ := x.answer(); a.Error == nil || a.Error.Code != subjects.CodeBadRequest {
		t.Errorf("garbage: %+v", a)
	}
}

func TestMessagesOfAnotherKindOrWithAForeignReplyAreDropped(t *testing.T) {
	ran := make(chan string, 10)
	x := execute(t, ServeConfig{}, func(_ context.Context, r subjects.ExecRequest) (json.RawMessage, error) {
		ran <- r.ExecutionID
		return json.RawMessage("1"), nil
	})
	for _, kind := range []string{"", subjects.KindReply, subjects.KindEvent, "EXEC"} {
		x.publish(subjects.VerbExec, x.inbox, kind, request("bad"))
	}
	for _, reply := range []string{"", "toolbridge.v1.acme.s2.event", "$KV.toolbridge_grants.acme.s2"} {
		x.publish(subjects.VerbExec, reply, subjects.KindExec, request("bad"))
	}
	x.send(request("good"))
	x.answer()
	if id := <-ran; id != "good" {
		t.Errorf("%s ran", id)
	}
}

func TestACancelledExecutionIsConfirmed(t *testing.T) {
	started := make(chan struct{}, 1)
	x := execute(t, ServeConfig{}, func(ctx context.Context, _ subjects.ExecRequest) (json.RawMessage, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	x.send(request("c1.0"))
	<-started
	x.publish(subjects.VerbExecCancel, "", "", subjects.ExecCancel{ExecutionID: "c1.0"}) // of no worker
	x.cancel("unrelated")
	x.cancel("c1.0")
	if a, _ := x.answer(); a.Error == nil || a.Error.Code != subjects.CodeCancelled {
		t.Errorf("reply = %+v", a)
	}
}

func TestACancelThatComesFirstStillCounts(t *testing.T) {
	x := execute(t, ServeConfig{}, func(_ context.Context, r subjects.ExecRequest) (json.RawMessage, error) {
		if r.ExecutionID == "c1.0" {
			t.Error("it started")
		}
		return json.RawMessage("1"), nil
	})
	x.cancel("c1.0")
	waitFor(t, func() bool {
		x.server.seen.mu.Lock()
		defer x.server.seen.mu.Unlock()
		return x.server.seen.byID["c1.0"] != nil
	})
	x.send(request("c1.0"))
	if a, _ := x.answer(); a.Error == nil || a.Error.Code != subjects.CodeCancelled {
		t.Errorf("reply = %+v", a)
	}
}

func TestLongWorkShowsSignsOfLife(t *testing.T) {
	release := make(chan struct{})
	x := execute(t, ServeConfig{WorkingEvery: 5 * time.Millisecond}, func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
		<-release
		return json.RawMessage("1"), nil
	})
	x.send(request("c1.0"))
	m, err := x.replies.NextMsg(5 * time.Second)
	if err != nil || m.Header.Get(subjects.HeaderStatus) != subjects.StatusWorking || m.Header.Get(subjects.HeaderKind) != subjects.KindReply {
		t.Errorf("interim message: %+v %v", m, err)
	}
	close(release)
	if a, _ := x.answer(); string(a.Result) != "1" {
		t.Errorf("reply = %+v", a)
	}
}

func TestTheDeadlineEndsAnExecution(t *testing.T) {
	x := execute(t, ServeConfig{}, func(ctx context.Context, _ subjects.ExecRequest) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	r := request("c1.0")
	r.Deadline = time.Now().Add(20 * time.Millisecond).UnixMilli()
	x.send(r)
	if a, _ := x.answer(); a.Error == nil || a.Error.Code != subjects.CodeTimeout {
		t.Errorf("reply = %+v", a)
	}
}

func TestWhatWaitsTooLongForASlotIsRefused(t *testing.T) {
	release := make(chan struct{})
	x := execute(t, ServeConfig{Concurrency: 1}, func(_ context.Context, r subjects.ExecRequest) (json.RawMessage, error) {
		if r.ExecutionID == "second" {
			t.Error("it started")
		}
		<-release
		return json.RawMessage("1"), nil
	})
	x.send(request("first"))
	r := request("second")
	r.StartBy = time.Now().Add(30 * time.Millisecond).UnixMilli()
	x.send(r)
	if a, _ := x.answer(); a.Error == nil || a.Error.Code != subjects.CodeTooLate {
		t.Errorf("second = %+v", a)
	}
	close(release)
	if a, _ := x.answer(); string(a.Result) != "1" {
		t.Errorf("first = %+v", a)
	}
}

func TestStopLetsRunningExecutionsFinishThenCancelsThem(t *testing.T) {
	t.Run("finish", func(t *testing.T) {
		started, release := make(chan struct{}), make(chan struct{})
		x := execute(t, ServeConfig{}, func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
			close(started)
			<-release
			return json.RawMessage("1"), nil
		})
		x.send(request("c1.0"))
		<-started
		time.AfterFunc(20*time.Millisecond, func() { close(release) })
		if err := x.server.Stop(within(t, 5*time.Second)); err != nil {
			t.Error(err)
		}
		if a, _ := x.answer(); string(a.Result) != "1" {
			t.Errorf("reply = %+v", a)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		started := make(chan struct{})
		x := execute(t, ServeConfig{}, func(ctx context.Context, _ subjects.ExecRequest) (json.RawMessage, error) {
			close(started)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		x.send(request("c1.0"))
		<-started
		if err := x.server.Stop(within(t, 20*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if a, _ := x.answer(); a.Error == nil || a.Error.Code != subjects.CodeToolError {
			t.Errorf("reply = %+v", a)
		}
	})
}

func TestWhatComesWhileTheServerStopsIsRefused(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	x := execute(t, ServeConfig{Concurrency: 1}, func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
		close(started)
		<-release
		return json.RawMessage("1"), nil
	})
	x.send(request("c1.0"))
	<-started
	for i := range 5 { // one waits for the slot, the others wait behind it
		x.send(request(fmt.Sprintf("c2.%d", i)))
	}
	if err := x.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- x.server.Stop(within(t, 20*time.Second)) }()
	for range 5 {
		if a, _ := x.answer(); a.Error == nil || a.Error.Code != subjects.CodeTooLate {
			t.Errorf("reply = %+v", a)
		}
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if a, _ := x.answer(); string(a.Result) != "1" {
		t.Errorf("reply = %+v", a)
	}
}

func TestMemoryOfExecutionsIsBounded(t *testing.T) {
	m := newMemory()
	big := make([]byte, maxAnswers/4)
	for i := range maxExecutions + 10 {
		e, first := m.enter(NewID(), [32]byte{}, "_INBOX.x")
		if !first {
			t.Fatal("a new id was known")
		}
		answer := []byte("1")
		if i < 10 {
			answer = big
		}
		m.finish(e, answer)
	}
	if len(m.byID) != maxExecutions || len(m.ended) != maxExecutions || m.answers > maxAnswers {
		t.Errorf("%d ids, %d ended, %d bytes", len(m.byID), len(m.ended), m.answers)
	}
	e, _ := m.enter("a", [32]byte{}, "_INBOX.x")
	m.finish(e, []byte("1"))
	for range 5 {
		o, _ := m.enter(NewID(), [32]byte{}, "_INBOX.x")
		m.finish(o, big)
	}
	again, first := m.enter("a", [32]byte{}, "_INBOX.x")
	if first || !strings.Contains(string(again.repeat("_INBOX.x")), string(subjects.CodeOutcomeUnknown)) {
		t.Error("an execution whose answer gave way would run again")
	}
}

func TestServeConfigIsChecked(t *testing.T) {
	s := session(t, bus(t, nil)(), Config{})
	ok := func(context.Context, subjects.ExecRequest) (json.RawMessage, error) { return nil, nil }
	for _, cfg := range []ServeConfig{{Concurrency: -1}, {WorkingEvery: time.Minute}} {
		if _, err := s.Serve(within(t, time.Second), cfg, ok); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
	if _, err := s.Serve(within(t, time.Second), ServeConfig{}, nil); err == nil {
		t.Error("no handler was accepted")
	}
}

func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(5 * time.Second); !ready(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("it did not happen within 5 s")
		}
	}
}
