package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

func publish(t *testing.T, nc *nats.Conn, subject, kind, data string) {
	t.Helper()
	if err := nc.PublishMsg(&nats.Msg{Subject: subject, Data: []byte(data), Header: nats.Header{"Toolbridge-Kind": {kind}}}); err != nil {
		t.Fatal(err)
	}
}

func next[T any](t *testing.T, f *Feed[T]) T {
	t.Helper()
	select {
	case item, ok := <-f.C:
		if !ok {
			t.Fatal("the feed has ended")
		}
		return item
	case <-time.After(5 * time.Second):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

func TestEventsComeInOrderAndOnlyOfTheirKind(t *testing.T) {
	connect := bus(t, nil)
	s, nc := session(t, connect(), Config{}), connect()
	f, err := s.Events(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	const subject = "toolbridge.v1.acme.s1.event"
	publish(t, nc, subject, "reply", `{"type":"call.accepted","call_id":"forged"}`)
	publish(t, nc, "toolbridge.v1.acme.s2.event", "event", `{"type":"call.accepted","call_id":"foreign"}`)
	publish(t, nc, subject, "event", `not JSON`)
	for i := range 100 {
		publish(t, nc, subject, "event", fmt.Sprintf(`{"type":"tool.started","at":"2026-01-01T00:00:00Z","call_id":"c%d","index":0,"tool":"t","later":1}`, i))
	}
	for i := range 100 {
		e := next(t, f)
		if e.Type != subjects.EventToolStarted || e.CallID != fmt.Sprintf("c%d", i) || e.Index == nil || *e.Index != 0 {
			t.Fatalf("event %d is %s", i, e.JSON)
		}
	}
	if f.Lost() != 1 {
		t.Errorf("%d lost, want the one that was not readable", f.Lost())
	}
	f.Stop()
	f.Stop()
	if _, ok := <-f.C; ok {
		t.Error("an event after the end")
	}
}

func TestAFeedEndsWithItsClient(t *testing.T) {
	s := session(t, bus(t, nil)(), Config{})
	f, err := s.Events(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	_ = s.client.Close()
	if _, ok := <-f.C; ok {
		t.Error("an event after the end")
	}
	f.Stop()
}

func TestASlowReaderLosesEventsAndIsToldHowMany(t *testing.T) {
	connect := bus(t, nil)
	s, nc := session(t, connect(), Config{}), connect()
	f, err := s.Events(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	const more = 50
	for range feedBacklog + more {
		publish(t, nc, "toolbridge.v1.acme.s1.event", "event", `{"type":"call.accepted"}`)
	}
	for end := time.Now().Add(5 * time.Second); f.Lost() < more && time.Now().Before(end); {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	f.Stop()
	n := 0
	for range f.C {
		n++
	}
	if n != feedBacklog || f.Lost() != more {
		t.Errorf("%d came, %d lost", n, f.Lost())
	}
}

func TestAFeedThatTheServerRefusesIsAnError(t *testing.T) {
	connect := bus(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "u", Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", "toolbridge.v1.acme._approvals.requested"}},
		}}}
	})
	nc := connect(nats.UserInfo("u", "u"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	s := session(t, nc, Config{})
	if _, err := s.Events(within(t, 5*time.Second)); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("err = %v", err)
	}
	a, err := s.client.Approver("acme", "ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Watch(within(t, 5*time.Second)); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("err = %v", err)
	}
}

const pendingApproval = `{"id":"a1","session":"s1","call_id":"c1","index":0,"tool":"pay","arguments":{"n":1},"arguments_json":"{\"n\":1}","arguments_sha256":"dc86c6a5f6c8b9d1a65d4c3bc37abcdcc9cb6f4adf3c4f5bb1ee15d9a6a7c3c0","definition_sha256":"","rule":"r","reason":"","requested_at":"","expires_at":"","choices":["once","deny"]}`

func approver(t *testing.T, nc *nats.Conn) *Approver {
	t.Helper()
	c, err := New(nc, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	a, err := c.Approver("acme", "ada")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAWatcherAnswersEveryQuestionAtOnceAndEmpty(t *testing.T) {
	connect := bus(t, nil)
	a, nc := approver(t, connect()), connect()
	f, err := a.Watch(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	ask := func(kind string) (*nats.Msg, error) {
		return nc.RequestMsgWithContext(within(t, time.Second), &nats.Msg{
			Subject: "toolbridge.v1.acme._approvals.requested", Data: []byte(pendingApproval), Header: nats.Header{"Toolbridge-Kind": {kind}},
		})
	}
	// Nobody reads the feed, and the answer comes all the same.
	m, err := ask("approval")
	if err != nil || len(m.Data) != 0 || m.Header.Get("Status") == "503" || m.Header.Get("Toolbridge-Kind") != "reply" {
		t.Fatalf("%+v, %v", m, err)
	}
	publish(t, nc, "toolbridge.v1.acme._approvals.settled", "approval", `{"id":"a1","state":"denied","choice":"deny","by":"bob","at":""}`)
	n := next(t, f)
	if n.Requested == nil || n.Settled != nil || n.Requested.ArgumentsJSON != `{"n":1}` || string(n.JSON) != pendingApproval {
		t.Errorf("%+v", n)
	}
	n = next(t, f)
	if n.Settled == nil || n.Requested != nil || n.Settled.By != "bob" {
		t.Errorf("%+v", n)
	}
	if _, err := ask("event"); err == nil {
		t.Error("a message of another kind was answered")
	}
}

func TestAnAnswerIsNeverAimedAtSomebodyElse(t *testing.T) {
	connect := bus(t, nil)
	a, nc := approver(t, connect()), connect()
	f, err := a.Watch(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	victim, err := nc.SubscribeSync("victim.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishMsg(&nats.Msg{
		Subject: "toolbridge.v1.acme._approvals.requested", Reply: "victim.x", Data: []byte(pendingApproval), Header: nats.Header{"Toolbridge-Kind": {"approval"}},
	}); err != nil {
		t.Fatal(err)
	}
	next(t, f)
	if err := a.client.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := victim.Pending(); n != 0 || err != nil {
		t.Errorf("%d messages went astray, %v", n, err)
	}
}

func TestAnApproverListsDecidesAndForgets(t *testing.T) {
	connect := bus(t, nil)
	a, nc := approver(t, connect()), connect()
	got := make(chan string, 1)
	answer := func(subject, reply string) {
		t.Helper()
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			got <- string(m.Data)
			_ = m.RespondMsg(&nats.Msg{Data: []byte(reply), Header: nats.Header{"Toolbridge-Kind": {"reply"}}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	answer("toolbridge.v1.acme._approvals.list.ada", `{"approvals":[`+pendingApproval+`],"remembered":[]}`)
	answer("toolbridge.v1.acme._approvals.decide.ada", `{"id":"a1","state":"approved","choice":"once","by":"ada","at":"2026-01-01T00:00:00Z"}`)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	list, err := a.List(within(t, 5*time.Second), "s1")
	if err != nil || len(list.Approvals) != 1 || <-got != `{"session":"s1"}` {
		t.Fatalf("%+v, %v", list, err)
	}
	// The digest is that of what was seen, not that of the record.
	r := Answer(list.Approvals[0], subjects.ChoiceOnce, "fine")
	d, err := a.Decide(within(t, 5*time.Second), r)
	want := `{"id":"a1","choice":"once","arguments_sha256":"` + blobOf([]byte(`{"n":1}`)).Name + `","reason":"fine"}`
	if diff := cmp.Diff(want, <-got); err != nil || diff != "" || d.State != subjects.ApprovalApproved {
		t.Errorf("%+v, %v %s", d, err, diff)
	}
	if _, err := a.Forget(within(t, 5*time.Second), "m1", ""); err != nil || <-got != `{"forget":"m1"}` {
		t.Errorf("err = %v", err)
	}
}

func TestADecisionThatStandsComesWithItsError(t *testing.T) {
	connect := bus(t, nil)
	a, nc := approver(t, connect()), connect()
	if _, err := nc.Subscribe("toolbridge.v1.acme._approvals.decide.ada", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{
			Data:   []byte(`{"error":{"code":"ALREADY_DECIDED","message":"m","retryable":false,"decision":{"id":"a1","state":"denied","choice":"deny","by":"bob","at":""}}}`),
			Header: nats.Header{"Toolbridge-Kind": {"reply"}, "Nats-Service-Error-Code": {"409"}},
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	_, err := a.Decide(within(t, 5*time.Second), subjects.ApprovalDecideRequest{ID: "a1", Choice: subjects.ChoiceOnce})
	var e *subjects.Error
	if !errors.As(err, &e) || e.Code != subjects.CodeAlreadyDecided || e.Decision == nil || e.Decision.By != "bob" {
		t.Errorf("err = %v", err)
	}
	if _, err := a.client.Approver("acme", "a.b"); err == nil {
		t.Error("a name with a dot was taken")
	}
}
