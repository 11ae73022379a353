// Package bus starts real NATS servers inside tests: embedded, with JetStream on
// disk, gone with the test.
package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// MaxPayload is what the shipped configurations allow.
const MaxPayload = 8 << 20

// Server starts a server on a free port of the loopback, with its store in the
// test's own folder, and stops it when the test ends.
func Server(t testing.TB, options ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), MaxPayload: MaxPayload,
	}
	for _, set := range options {
		set(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatalf("embedded NATS server: %v", err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("embedded NATS server: not ready after 10 s")
	}
	return s
}

// Connect opens a connection that is closed when the test ends.
func Connect(t testing.TB, s *server.Server, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), options...)
	if err != nil {
		t.Fatalf("connecting to the embedded NATS server: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
		if nc.IsClosed() {
			return
		}
		nc.Close()
		<-closed
	})
	return nc
}
