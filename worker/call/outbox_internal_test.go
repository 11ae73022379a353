package call

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/test/bus"
)

func newTestOutbox(t *testing.T) (*outbox, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc := bus.Connect(t, bus.Server(t))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	o, err := newOutbox(nc, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o.start()
	return o, nc, js
}

func stored(t *testing.T, js jetstream.JetStream, stream string) map[string]int {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		got[string(m.Data)]++
	}
	return got
}

func TestAnAuditRecordThatTheStreamDidNotTakeIsSentAgain(t *testing.T) {
	o, _, js := newTestOutbox(t)
	const records = 20
	for i := range records {
		o.audit(&nats.Msg{Subject: "audit.x", Data: fmt.Appendf(nil, "record %d", i)})
	}
	for until := time.Now().Add(20 * time.Second); ; { // there is no stream
		o.mu.Lock()
		n := len(o.again)
		o.mu.Unlock()
		if n == records {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d records wait to be sent again, want %d", n, records)
		}
		<-time.After(5 * time.Millisecond)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"audit.>"}}); err != nil {
		t.Fatal(err)
	}
	o.stop()
	o.audit(&nats.Msg{Subject: "audit.x", Data: []byte("afterwards")})
	got := stored(t, js, "AUDIT")
	if len(got) != records+1 {
		t.Errorf("%d records are there, want %d: %v", len(got), records+1, got)
	}
	for record, n := range got {
		if n != 1 {
			t.Errorf("%s is there %d times", record, n)
		}
	}
}

func TestEventsLeaveInTheirOrderAndWaitBounded(t *testing.T) {
	o, nc, _ := newTestOutbox(t)
	sub, err := nc.SubscribeSync("event")
	if err != nil {
		t.Fatal(err)
	}
	const sent = outboxLimit / 4
	for i := range sent {
		o.event(&nats.Msg{Subject: "event", Data: fmt.Append(nil, i)})
	}
	o.stop()
	o.event(&nats.Msg{Subject: "event", Data: fmt.Append(nil, sent)}) // at once
	for i := range sent + 1 {
		m, err := sub.NextMsg(20 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) != fmt.Sprint(i) {
			t.Fatalf("event %d is %s", i, m.Data)
		}
	}

	slow := &outbox{log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1), running: true}
	for range outboxLimit + 5 {
		slow.event(&nats.Msg{})
	}
	if len(slow.events) != outboxLimit || slow.dropped != 5 {
		t.Errorf("%d wait, %d were dropped", len(slow.events), slow.dropped)
	}
}
