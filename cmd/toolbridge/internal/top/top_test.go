package top

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func failed(v bool) *bool { return &v }

func TestCallsAreCountedWhileTheyRunAndWhenTheyEnd(t *testing.T) {
	f := NewFleet(start)
	event := func(session string, e subjects.Event) { f.Event(session, e, start) }
	event("s1", subjects.Event{Type: subjects.EventCallAccepted, CallID: "c1"})
	event("s1", subjects.Event{Type: subjects.EventCallAccepted, CallID: "c1"}) // told twice
	event("s1", subjects.Event{Type: subjects.EventCallAccepted, CallID: "c2"})
	event("s1", subjects.Event{Type: subjects.EventToolFinished, CallID: "c1", Tool: "mcp__notes__add", IsError: failed(true)})
	event("s1", subjects.Event{Type: subjects.EventCallFinished, CallID: "c1", IsError: failed(true)})
	event("s2", subjects.Event{Type: subjects.EventCallFinished, CallID: "c9", IsError: failed(false)}) // began before the picture
	p := f.Picture(start.Add(time.Second))
	if len(p.Sessions) != 2 {
		t.Fatalf("sessions: %+v", p.Sessions)
	}
	s := p.Sessions[0]
	if s.Name != "s1" || s.Running != 1 || s.Finished != 1 || s.Failed != 1 || s.Executions != 1 || s.ExecFailures != 1 || s.Tool != "mcp__notes__add" {
		t.Errorf("s1: %+v", s)
	}
	if s := p.Sessions[1]; s.Running != 0 || s.Finished != 1 || s.Failed != 0 {
		t.Errorf("s2: %+v", s)
	}
	if p := f.Picture(start.Add(time.Hour)); len(p.Sessions) != 0 {
		t.Errorf("sessions that have been quiet: %+v", p.Sessions)
	}
}

func TestApprovalsWaitUntilTheyAreSettledOrExpired(t *testing.T) {
	f := NewFleet(start)
	ask := func(id string, expires time.Duration) {
		f.Event("s1", subjects.Event{Type: subjects.EventApprovalRequested, Approval: &subjects.Approval{
			ID: id, Tool: "pay", RequestedAt: start.Format(time.RFC3339), ExpiresAt: start.Add(expires).Format(time.RFC3339),
		}}, start)
	}
	ask("a1", time.Minute)
	ask("a2", time.Minute)
	ask("a3", time.Second)
	f.Event("s1", subjects.Event{Type: subjects.EventApprovalSettled, Decision: &subjects.Decision{ID: "a1"}}, start)
	p := f.Picture(start.Add(2 * time.Second))
	if len(p.Waiting) != 1 || p.Waiting[0].ID != "a2" {
		t.Errorf("waiting: %+v", p.Waiting)
	}
	f.Approvals([]subjects.Approval{{ID: "b1", Tool: "old"}})
	if p := f.Picture(start); len(p.Waiting) != 1 || p.Waiting[0].ID != "b1" {
		t.Errorf("after the whole list: %+v", p.Waiting)
	}
}

func TestRatesComeFromTheLastTwoAnswers(t *testing.T) {
	f := NewFleet(start)
	f.Workers([]Worker{{ID: "w", Requests: 10}}, start)
	f.Workers([]Worker{{ID: "w", Requests: 30}, {ID: "new", Requests: 5}}, start.Add(2*time.Second))
	p := f.Picture(start)
	if p.Workers[1].Rate != 10 || p.Workers[0].Rate != 0 {
		t.Errorf("workers: %+v", p.Workers)
	}
	f.Workers([]Worker{{ID: "w", Requests: 1}}, start.Add(3*time.Second)) // restarted
	if p := f.Picture(start); len(p.Workers) != 1 || p.Workers[0].Rate != 0 {
		t.Errorf("after a restart: %+v", p.Workers)
	}
}

func TestThePictureIsBounded(t *testing.T) {
	f := NewFleet(start)
	for i := range maxSessions + 100 {
		f.Event(fmt.Sprintf("s%d", i), subjects.Event{Type: subjects.EventCallAccepted, CallID: "c"}, start)
	}
	for i := range maxCalls {
		f.Event("s0", subjects.Event{Type: subjects.EventCallAccepted, CallID: fmt.Sprint(i)}, start)
	}
	p := f.Picture(start)
	if len(p.Sessions) != maxSessions || p.Lost != 100 {
		t.Errorf("%d sessions, %d lost", len(p.Sessions), p.Lost)
	}
	running := 0
	for _, s := range p.Sessions {
		running += s.Running
	}
	if running != maxCalls {
		t.Errorf("%d calls are kept", running)
	}
}

func TestWhatIsDrawnFitsTheTerminalAndIsClean(t *testing.T) {
	f := NewFleet(start)
	f.Note("executors", "nobody\nanswers")
	f.Toolset("t.a.b", Toolset{Name: "mcp-\x1b[31mred", Executor: "pool", State: "unavailable", Reason: strings.Repeat("long ", 100)})
	f.Toolset("t.c.d", Toolset{Name: "mcp-ok", Executor: "pool", State: "ready", Tools: 3})
	f.Breaker(Breaker{Name: "gateway", State: "open", Since: start})
	for i := range 40 {
		f.Event(fmt.Sprintf("s%d", i), subjects.Event{Type: subjects.EventCallAccepted, CallID: "c", Tool: "日本語のツール"}, start)
	}
	text := Render(f.Picture(start.Add(time.Minute)), "acme", 80, 24, false)
	lines := strings.Split(text, "\n")
	if len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if n := len([]rune(l)); n > 80 {
			t.Errorf("%d characters: %s", n, l)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("control characters are drawn: %q", text)
	}
	whole := Render(f.Picture(start.Add(time.Minute)), "acme", 0, 0, false)
	for _, want := range []string{"40 calls running", "mcp-ok", "open", "1m0s", "not shown: executors", "日本語のツール"} {
		if !strings.Contains(whole, want) {
			t.Errorf("%q is not drawn:\n%s", want, whole)
		}
	}
	if strings.Index(whole, "unavailable") > strings.Index(whole, "mcp-ok") {
		t.Error("what is broken does not come first")
	}
}

func TestTheCollectorHearsEventsRegistryAndBreakers(t *testing.T) {
	s := bus.Server(t)
	nc := bus.Connect(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	st, err := state.Open(ctx, nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Toolsets.Put(ctx, subjects.ToolsetKey("acme", "mcp-notes", "pool"), []byte(`{"definitions_sha256":"x","blob":"x","since":"2026-01-01T00:00:00Z","tool_count":3}`)); err != nil {
		t.Fatal(err)
	}
	fleet := NewFleet(time.Now())
	c := &Collector{Conn: nc, Tenant: "acme", Approver: "ann", Fleet: fleet}
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	send := func(kind string) {
		t.Helper()
		if err := nc.PublishMsg(&nats.Msg{
			Subject: "toolbridge.v1.acme.s1.event", Header: nats.Header{subjects.HeaderKind: {kind}},
			Data: []byte(`{"type":"call.accepted","at":"2026-01-01T00:00:00Z","call_id":"` + kind + `"}`),
		}); err != nil {
			t.Fatal(err)
		}
	}
	send("forged") // of another kind: dropped
	send(subjects.KindEvent)
	for {
		p := fleet.Picture(time.Now())
		if len(p.Sessions) == 1 && p.Sessions[0].Running == 1 && len(p.Toolsets) == 1 && p.Toolsets[0].Tools == 3 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the picture: %+v", p)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
