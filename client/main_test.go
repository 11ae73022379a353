package client

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolbridge/subjects"
	testbus "toolbridge/test/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testbus.Leaks()...) }

// bus starts a NATS server in this process and returns a way to connect to it.
func bus(t testing.TB, change func(*server.Options)) func(...nats.Option) *nats.Conn {
	t.Helper()
	o := &server.Options{DontListen: true, NoSigs: true, NoLog: true, MaxPayload: 1 << 20}
	if change != nil {
		change(o)
	}
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	return func(options ...nats.Option) *nats.Conn {
		t.Helper()
		nc, err := nats.Connect("", append(options, nats.InProcessServer(ns))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
}

// worker answers a verb of every session as a worker would, with what answer
// returns.
func worker(t testing.TB, nc *nats.Conn, verb subjects.Verb, answer func(m *nats.Msg) *nats.Msg) {
	t.Helper()
	sub, err := nc.QueueSubscribe(subjects.Space{}.AnySession(verb), subjects.QueueWorkers, func(m *nats.Msg) {
		r := answer(m)
		if r == nil {
			return
		}
		r.Subject = m.Reply
		if r.Header == nil {
			r.Header = nats.Header{}
		}
		if _, ok := r.Header[subjects.HeaderKind]; !ok {
			r.Header[subjects.HeaderKind] = []string{subjects.KindReply}
		}
		if err := nc.PublishMsg(r); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func session(t testing.TB, nc *nats.Conn, cfg Config) *Session {
	t.Helper()
	c, err := New(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := c.Session("acme", "s1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
