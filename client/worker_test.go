package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"toolbridge/approval"
	"toolbridge/client"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/worker"
)

// withWorker is a session on a real worker that asks for pay and answers every
// execution with text.
func withWorker(t *testing.T, text string) (*client.Client, *client.Session) {
	t.Helper()
	server := bus.Server(t)
	w, err := worker.New(worker.Config{
		MaxResult: 1000, ApprovalWait: true, Logger: slog.New(slog.DiscardHandler),
		Policy: approval.Policy{Default: approval.Allow, Rules: []approval.Rule{{Match: "pay", Action: approval.Ask}}},
	}, bus.Connect(t, server))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopping := func(stop func(context.Context) error) func() {
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := stop(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stopping(w.Stop))
	c, err := client.New(bus.Connect(t, server), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := c.Session("acme", "s1")
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Serve(t.Context(), client.ServeConfig{}, func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
		return json.Marshal(text)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stopping(v.Stop))
	return c, s
}

func tools() client.Source {
	return client.Source{Assemble: subjects.AssembleRequest{Tools: json.RawMessage(`[
		{"name":"pay","toolset":"bank","parameters":{"type":"object"}}, {"name":"look","toolset":"bank","parameters":{"type":"object"}}]`)}}
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestACallThatAsksGoesFromRequestToResult(t *testing.T) {
	c, s := withWorker(t, "paid")
	ctx := soon(t)
	events, err := s.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	ada, err := c.Approver("acme", "ada")
	if err != nil {
		t.Fatal(err)
	}
	news, err := ada.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer news.Stop()

	id, err := s.CallDurable(ctx, tools(), "pay", json.RawMessage(`{"sum":12.50}`))
	if err != nil {
		t.Fatal(err)
	}
	asked := (<-news.C).Requested
	if asked == nil || asked.CallID != id || asked.ArgumentsJSON != `{"sum":12.50}` {
		t.Fatalf("asked for %+v", asked)
	}
	if _, err := s.Fetch(ctx, id); !errors.Is(err, client.ErrPending) {
		t.Errorf("err = %v", err)
	}
	list, err := ada.List(ctx, "s1")
	if err != nil || len(list.Approvals) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	changed := list.Approvals[0]
	changed.ArgumentsJSON = `{"sum":1.50}`
	if _, err := ada.Decide(ctx, client.Answer(changed, subjects.ChoiceOnce, "")); !errors.Is(err, &subjects.Error{Code: subjects.CodeArgumentsChanged}) {
		t.Errorf("other arguments were approved: %v", err)
	}
	d, err := ada.Decide(ctx, client.Answer(list.Approvals[0], subjects.ChoiceSession, "fine"))
	if err != nil || d.State != subjects.ApprovalApproved || d.By != "ada" {
		t.Fatalf("%+v, %v", d, err)
	}
	bob, err := c.Approver("acme", "bob")
	if err != nil {
		t.Fatal(err)
	}
	var late *subjects.Error
	if _, err := bob.Decide(ctx, client.Answer(list.Approvals[0], subjects.ChoiceDeny, "")); !errors.As(err, &late) || late.Decision == nil || late.Decision.By != "ada" {
		t.Errorf("err = %v", err)
	}
	reply, err := s.Wait(ctx, id)
	if err != nil || string(reply.Result) != `"paid"` {
		t.Fatalf("%+v, %v", reply, err)
	}
	settled := (<-news.C).Settled
	if diff := cmp.Diff(d, settled); diff != "" {
		t.Error(diff)
	}
	var types []subjects.EventType
	for e := range events.C {
		types = append(types, e.Type)
		if e.Type == subjects.EventCallFinished {
			break
		}
	}
	want := []subjects.EventType{
		subjects.EventCallAccepted, subjects.EventApprovalRequested, subjects.EventApprovalSettled, subjects.EventToolStarted, subjects.EventToolFinished, subjects.EventCallFinished,
	}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Error(diff)
	}

	// The remembered choice spares the next question, until it is forgotten.
	if reply, err := s.Call(ctx, tools(), "pay", json.RawMessage(`{"sum":1}`)); err != nil || reply.IsError {
		t.Fatalf("%+v, %v", reply, err)
	}
	list, err = ada.List(ctx, "")
	if err != nil || len(list.Remembered) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := ada.Forget(ctx, list.Remembered[0].ID, ""); err != nil {
		t.Fatal(err)
	}
	id, err = s.CallDurable(ctx, tools(), "pay", json.RawMessage(`{"sum":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if asked := (<-news.C).Requested; asked == nil || asked.CallID != id {
		t.Errorf("asked for %+v", asked)
	}
	stopped, err := s.Stop(ctx, id)
	if diff := cmp.Diff(subjects.Stopped{CallID: id, Interrupted: []int{0}, InFlight: []int{}}, stopped); err != nil || diff != "" {
		t.Error(err, diff)
	}
	reply, err = s.Wait(ctx, id)
	if err != nil || !strings.Contains(string(reply.Result), `"INTERRUPTED"`) {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestAResultThatIsKeptAsideComesWhole(t *testing.T) {
	c, s := withWorker(t, strings.Repeat("0123456789", 300_000)+"é")
	ctx := soon(t)
	reply, err := s.Call(ctx, tools(), "look", nil)
	if err != nil || reply.Blob == nil || reply.Preview == "" {
		t.Fatalf("%+v, %v", reply, err)
	}
	var b bytes.Buffer
	if err := s.WriteResult(ctx, reply, &b); err != nil {
		t.Fatal(err)
	}
	if want := `"` + strings.Repeat("0123456789", 300_000) + `é"`; b.String() != want {
		t.Errorf("%d bytes came, want %d", b.Len(), len(want))
	}
	thief, err := c.Session("acme", "s2")
	if err != nil {
		t.Fatal(err)
	}
	if err := thief.WriteResult(ctx, reply, &bytes.Buffer{}); !errors.Is(err, &subjects.Error{Code: subjects.CodeUnknownCall}) {
		t.Errorf("another session got it: %v", err)
	}
}

func TestStopReachesEveryCallThatWaits(t *testing.T) {
	_, s := withWorker(t, "paid")
	ctx := soon(t)
	ids := map[string]bool{}
	for range 5 {
		id, err := s.CallDurable(ctx, tools(), "pay", nil)
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	stopped, err := s.StopAll(ctx)
	if err != nil || len(stopped) != len(ids) {
		t.Fatalf("%+v, %v", stopped, err)
	}
	for id := range ids {
		reply, err := s.Wait(ctx, id)
		if err != nil || !reply.IsError || !strings.Contains(string(reply.Result), `"INTERRUPTED"`) {
			t.Errorf("%+v, %v", reply, err)
		}
	}
	if stopped, err = s.StopAll(ctx); err != nil || len(stopped) != 0 {
		t.Errorf("%+v, %v", stopped, err)
	}
}
