package conformance

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolbridge/worker"
)

var (
	natsURL = flag.String("nats", os.Getenv("TOOLBRIDGE_NATS"), "server of the deployment to check; by default one is started")
	creds   = flag.String("creds", "", "credentials file")
	tenant  = flag.String("tenant", "conformance", "tenant of the sessions")
	prefix  = flag.String("prefix", "toolbridge.v1", "root of the subjects")
)

// wait bounds every request.
const wait = 30 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := check(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func check(m *testing.M) (int, error) {
	if *natsURL != "" {
		return m.Run(), nil
	}
	store, err := os.MkdirTemp("", "toolbridge-conformance-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(store) }()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: store, MaxPayload: 8 << 20,
	})
	if err != nil {
		return 0, err
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(20 * time.Second) {
		return 0, fmt.Errorf("the embedded server was not ready")
	}
	*natsURL = s.ClientURL()
	closed := make(chan struct{})
	nc, err := nats.Connect(s.ClientURL(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		return 0, err
	}
	defer func() { nc.Close(); <-closed }()
	w, err := worker.New(worker.Config{Dev: true, Logger: slog.New(slog.DiscardHandler)}, nc)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	code := m.Run()
	stopping, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return code, w.Stop(stopping)
}

// connect opens a connection that is closed with the test.
func connect(t *testing.T) *nats.Conn {
	t.Helper()
	closed := make(chan struct{})
	options := []nats.Option{nats.ClosedHandler(func(*nats.Conn) { close(closed) })}
	if *creds != "" {
		options = append(options, nats.UserCredentials(*creds))
	}
	nc, err := nats.Connect(*natsURL, options...)
	if err != nil {
		t.Fatalf("connecting to %s: %v", *natsURL, err)
	}
	t.Cleanup(func() { nc.Close(); <-closed })
	return nc
}
