//go:build unix

package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"toolbridge/tracing/setup"
	"toolbridge/worker"
)

// maxPayload is what the shipped configurations allow.
const maxPayload = 8 << 20

// urlVariable tells the service process where the server is.
const urlVariable = "TOOLBRIDGE_BENCH_URL"

// runServer is the server process: NATS with JetStream on disk.
func runServer() error {
	store, err := os.MkdirTemp("", "toolbridge-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(store) }()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: store, MaxPayload: maxPayload,
	})
	if err != nil {
		return err
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(20 * time.Second) {
		return errors.New("the server was not ready after 20 s")
	}
	nc, err := nats.Connect(s.ClientURL(), nats.InProcessServer(s))
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := serveUsage(nc, "server"); err != nil {
		return err
	}
	announce(s.ClientURL())
	return nil
}

// runService is the service process: one worker, and the bare echo that it is held
// against, each on a connection of its own.
func runService() (err error) {
	if path := os.Getenv("TOOLBRIDGE_BENCH_CPUPROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer func() { pprof.StopCPUProfile(); _ = f.Close() }()
	}
	url := os.Getenv(urlVariable)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	telemetry, err := setup.Start(ctx, setup.Config{Service: "bench"}) // by OTEL_ variables, where there are some
	if err != nil {
		return err
	}
	defer func() { _ = telemetry.Stop(context.Background()) }()
	cfg := worker.Config{Dev: true, Logger: slog.New(slog.DiscardHandler), Tracer: telemetry.Tracer, Metrics: telemetry.Metrics}
	if origin := os.Getenv(gatewayVariable); origin != "" {
		if cfg.Gateway, err = openGateway(ctx, nc, origin); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cfg.Gateway.Stop(context.Background())) }()
	}
	w, err := worker.New(cfg, nc)
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, w.Stop(ctx))
	}()
	bare, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer bare.Close()
	if err := serveEcho(bare); err != nil {
		return err
	}
	if err := serveUsage(bare, "service"); err != nil {
		return err
	}
	announce(strconv.Itoa(os.Getpid()))
	return nil
}

// serveEcho is a bare micro service. bench.set.<n> stores a reply, bench.echo.<n>
// answers with it.
func serveEcho(nc *nats.Conn) error {
	var mu sync.RWMutex
	replies := map[string][]byte{}
	last := func(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
	service, err := micro.AddService(nc, micro.Config{Name: "echo", Version: "1.0.0"})
	if err != nil {
		return err
	}
	for name, handle := range map[string]micro.HandlerFunc{
		"bench.set.*": func(r micro.Request) {
			mu.Lock()
			replies[last(r.Subject())] = append([]byte(nil), r.Data()...)
			mu.Unlock()
			_ = r.Respond(nil)
		},
		"bench.echo.*": func(r micro.Request) {
			mu.RLock()
			reply := replies[last(r.Subject())]
			mu.RUnlock()
			_ = r.Respond(reply)
		},
	} {
		if err := service.AddEndpoint(strings.NewReplacer(".*", "", ".", "-").Replace(name), handle, micro.WithEndpointSubject(name)); err != nil {
			return fmt.Errorf("endpoint %s: %w", name, err)
		}
	}
	return nc.Flush()
}
