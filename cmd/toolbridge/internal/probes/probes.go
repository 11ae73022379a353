// Package probes is the HTTP server that tells supervisors and Prometheus how a
// process does: /healthz, /readyz, /metrics and /loglevel.
package probes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config is what is served.
type Config struct {
	Address string // host:port; the port 0 picks a free one
	// Ready says why the process does not serve now, or nil.
	Ready func() error
	// Metrics for Prometheus; nil: there are none.
	Metrics http.Handler
	// Level is the log's; it may be changed, from this machine only.
	Level  *slog.LevelVar
	Logger *slog.Logger
}

// Server serves until it is stopped.
type Server struct {
	listener net.Listener
	server   *http.Server
	ended    sync.WaitGroup
}

// Start listens and serves.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("serving metrics and probes: %w", err)
	}
	s := &Server{listener: listener, server: &http.Server{
		Handler: cfg.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}}
	s.ended.Go(func() {
		if err := s.server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			cfg.Logger.Error("metrics and probes are served no more", "error", err)
		}
	})
	return s, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Stop ends it; what is being answered may take until ctx ends.
func (s *Server) Stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		_ = s.server.Close()
	}
	s.ended.Wait()
	return err
}

func (c Config) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /loglevel", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, levelName(c.Level.Level())) })
	mux.HandleFunc("PUT /loglevel", c.setLevel)
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
	return mux
}

// setLevel takes a level as the body: debug, info, warn or error. Only this machine
// may set it: a debug log shows more than a metrics port is meant to.
func (c Config) setLevel(w http.ResponseWriter, r *http.Request) {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !net.ParseIP(host).IsLoopback() {
		http.Error(w, "only from this machine", http.StatusForbidden)
		return
	}
	var body [16]byte
	n, _ := r.Body.Read(body[:])
	level, err := ParseLevel(string(body[:n]))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	before := c.Level.Level()
	c.Level.Set(level)
	c.Logger.Warn("log level changed", "from", levelName(before), "to", levelName(level))
	fmt.Fprintln(w, levelName(level))
}

// ParseLevel reads debug, info, warn or error.
func ParseLevel(name string) (slog.Level, error) {
	var level slog.Level
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "debug", "info", "warn", "error":
		return level, level.UnmarshalText([]byte(name))
	}
	return level, fmt.Errorf("level %.20q is not known: debug, info, warn or error", name)
}

func levelName(l slog.Level) string { return strings.ToLower(l.String()) }
