package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Config is what a simulator starts with. The zero value is one with DefaultUsers
// and no faults.
type Config struct {
	// Users are those who have a token. Default: DefaultUsers.
	Users []User
	// Faults are the first faults.
	Faults []Fault
	// NoGuests refuses the creation of guest identities, with status 403.
	NoGuests bool
	// MoreApps adds so many apps of one tool each, sample001 and so on.
	MoreApps int
	// PublicURL is the origin of the links that connect an account. Default: the
	// host that the request was sent to.
	PublicURL string
	// KeepRequests bounds the record: when it is full the oldest half of the
	// requests goes. Default 100,000. Effects are all kept.
	KeepRequests int
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Server is a simulator. It is an http.Handler, and can serve by itself.
type Server struct {
	cfg   Config
	shelf *shelf
	now   func() time.Time
	mux   *http.ServeMux

	mu     sync.Mutex
	users  map[string]*user // by name
	tokens map[string]*user
	guests map[string]*guest // by key
	faults []*fault
	record record

	serving sync.Mutex
	http    *http.Server
	served  chan struct{}
	quit    chan struct{} // closed by Stop: what hangs ends
}

// New makes a simulator.
func New(cfg Config) (*Server, error) {
	if cfg.Users == nil {
		cfg.Users = DefaultUsers()
	}
	if cfg.KeepRequests <= 0 {
		cfg.KeepRequests = 100_000
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	shelf, err := readApps(cfg.MoreApps)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, shelf: shelf, now: cfg.Now, quit: make(chan struct{})}
	s.mux = s.routes()
	if err := s.Reset(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reset puts users, faults and the record back to what they were at the start.
func (s *Server) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users, s.tokens, s.guests = map[string]*user{}, map[string]*user{}, map[string]*guest{}
	for _, u := range s.cfg.Users {
		if _, err := s.addUser(u); err != nil {
			return fmt.Errorf("user %q: %w", u.Name, err)
		}
	}
	faults, err := newFaults(s.cfg.Faults)
	if err != nil {
		return err
	}
	s.faults = faults
	s.record.reset(s.cfg.KeepRequests)
	return nil
}

// ServeHTTP serves the gateway, the portal, the pages that connect an account, and
// the simulator's own control.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mux.ServeHTTP(w, r)
}

// Start listens on an address, such as "127.0.0.1:0", and serves until Stop. It
// returns the origin. After Stop it may be called again; users, faults and the
// record stay.
func (s *Server) Start(address string) (origin string, err error) {
	s.serving.Lock()
	defer s.serving.Unlock()
	if s.http != nil {
		return "", errors.New("the simulator serves already")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return "", fmt.Errorf("listening for the simulator: %w", err)
	}
	select {
	case <-s.quit:
		s.quit = make(chan struct{})
	default:
	}
	quit := s.quit
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return context.WithValue(ctx, quitKey{}, quit) },
	}
	s.served = make(chan struct{})
	go func(h *http.Server, done chan struct{}) {
		defer close(done)
		_ = h.Serve(l)
	}(s.http, s.served)
	return "http://" + l.Addr().String(), nil
}

// Stop closes the listener and every connection, ends what hangs, and waits for
// the requests under way. It may come twice, and before Start.
func (s *Server) Stop() {
	s.serving.Lock()
	defer s.serving.Unlock()
	if s.http == nil {
		return
	}
	close(s.quit)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.served
	s.http = nil
}

// quitKey is where a request's context has the channel that ends it.
type quitKey struct{}

// wait lets time pass, unless the client goes or the simulator stops.
func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-quitOf(r):
	}
	return false
}

// hang waits until the client goes or the simulator stops.
func hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-quitOf(r):
	}
}

func quitOf(r *http.Request) <-chan struct{} {
	quit, _ := r.Context().Value(quitKey{}).(chan struct{})
	return quit
}
