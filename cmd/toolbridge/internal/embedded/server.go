package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// MaxPayload is the largest message that the server takes, in bytes.
const MaxPayload = 8 << 20

// Config of a Server.
type Config struct {
	// Port on 127.0.0.1; 0 or less picks a free one.
	Port int
	// Store is the folder of the JetStream data, made when it is missing.
	Store string
	// Logger gets the server's log.
	Logger *slog.Logger
}

// Server is a running NATS server. Stop it once.
type Server struct {
	ns   *server.Server
	lock *os.File
}

// Start takes the store and returns when clients can connect.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := os.MkdirAll(cfg.Store, 0o700); err != nil {
		return nil, fmt.Errorf("making the store: %w", err)
	}
	lock, err := lockStore(cfg.Store)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock
	return s, nil
}

func start(ctx context.Context, cfg Config) (*Server, error) {
	port := cfg.Port
	if port <= 0 {
		port = server.RANDOM_PORT
	} else if err := portFree(ctx, port); err != nil {
		return nil, err
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: "toolbridge-dev", Host: "127.0.0.1", Port: port,
		JetStream: true, StoreDir: cfg.Store, MaxPayload: MaxPayload,
		NoSigs: true, DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, fmt.Errorf("the embedded NATS server: %w", err)
	}
	fatal := make(chan string, 1)
	ns.SetLoggerV2(&logger{log: cfg.Logger, fatal: fatal}, false, false, false)
	ns.Start()
	s := &Server{ns: ns}
	for !ns.ReadyForConnections(10 * time.Millisecond) {
		select {
		case why := <-fatal:
			s.shutdown()
			return nil, fmt.Errorf("the embedded NATS server: %s", why)
		case <-ctx.Done():
			s.shutdown()
			return nil, fmt.Errorf("starting the embedded NATS server: %w", ctx.Err())
		default:
		}
	}
	return s, nil
}

// portFree tells a taken port before the server stumbles over it.
func portFree(ctx context.Context, port int) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d is in use: another NATS server or toolbridge dev runs there; stop it, or choose --nats-port (0 picks a free one)", port)
	}
	if err != nil {
		return fmt.Errorf("listening on port %d: %w", port, err)
	}
	return l.Close()
}

// URL is the address for clients, e.g. nats://127.0.0.1:4222.
func (s *Server) URL() string {
	if a, ok := s.ns.Addr().(*net.TCPAddr); ok {
		return "nats://127.0.0.1:" + strconv.Itoa(a.Port)
	}
	return s.ns.ClientURL()
}

// InProcess is the option that connects a client inside this process.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.ns) }

// Stop closes the connections, flushes the store and lets go of it.
func (s *Server) Stop() error {
	s.shutdown()
	if err := s.lock.Close(); err != nil {
		return fmt.Errorf("letting go of the store: %w", err)
	}
	return nil
}

func (s *Server) shutdown() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}

// lockStore makes sure that one process uses the store. The lock is the
// system's own and goes with the process; the file names who holds it.
func lockStore(dir string) (*os.File, error) {
	path := filepath.Join(dir, "toolbridge.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the store: %w", err)
	}
	if err := lockFile(f); err != nil {
		holder := make([]byte, 32)
		n, _ := f.ReadAt(holder, 0) // only for the message
		_ = f.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("the store %s is in use by another toolbridge dev (process %s): stop it, or choose another --store", dir, digits(holder[:n]))
		}
		return nil, fmt.Errorf("locking the store %s: %w", dir, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the store: %w", err), f.Close())
	}
	return f, nil
}

var errLocked = errors.New("locked by another process")

func digits(b []byte) string {
	end := 0
	for end < len(b) && b[end] >= '0' && b[end] <= '9' {
		end++
	}
	if end == 0 {
		return "unknown"
	}
	return string(b[:end])
}
