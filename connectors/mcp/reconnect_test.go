package mcp

import (
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolbridge/state"
	"toolbridge/subjects"
)

// The NATS server goes and comes back with an empty store: the host makes its
// registration whole again, and takes work.
func TestAfterALostNATSServerEverythingIsRegisteredAgain(t *testing.T) {
	start := func(port int) *natsserver.Server {
		srv, err := natsserver.NewServer(&natsserver.Options{
			Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 16 << 30, NoLog: true, NoSigs: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		if !srv.ReadyForConnections(10 * time.Second) {
			t.Fatal("the NATS server does not start")
		}
		return srv
	}
	srv := start(-1)
	nc, err := nats.Connect(srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b := &bus{t: t, nc: nc}
	if b.state, err = state.Open(t.Context(), nc, subjects.Space{}, state.Config{}); err != nil {
		t.Fatal(err)
	}
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard")}})
	before := b.await(h, "std", "a revision", func(r subjects.Registration) bool { return r.State == subjects.StateReady && r.Revision > 0 })

	addr := srv.Addr()
	srv.Shutdown()
	srv.WaitForShutdown()
	start(portOf(t, addr))
	for nc.Stats().Reconnects == 0 || !nc.IsConnected() {
		<-time.After(5 * time.Millisecond)
	}
	if b.state, err = state.Open(t.Context(), nc, subjects.Space{}, state.Config{}); err != nil { // as a worker does
		t.Fatal(err)
	}
	after := b.await(h, "std", "registered", func(r subjects.Registration) bool { return r.State == subjects.StateReady })
	if after.DefinitionsSHA256 != before.DefinitionsSHA256 || after.Since != before.Since {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	for range 400 { // the blob was lost too
		if _, err := b.state.Blobs.Get(t.Context(), after.Blob); err == nil {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	wantResult(t, b.call(h, "std", "mcp__std__say", `{"text":"x"}`), `"x"`)
	if err := h.Stop(t.Context()); err != nil { // before the server's own cleanup
		t.Error(err)
	}
}
