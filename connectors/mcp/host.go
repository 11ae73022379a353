package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"toolbridge/state"
)

// Host brings the MCP servers of one tenant onto the bus. See the package
// documentation for what it promises.
type Host struct {
	cfg     Config
	nc      *nats.Conn
	state   *state.State
	env     lookup
	chooser chooser // servers that users install and enable

	listing sync.RWMutex // over servers
	servers []*server

	composing sync.Mutex
	lists     map[string][]listedTool // of every server that has been read

	life        sync.Mutex
	started     bool
	stopped     bool
	registry    context.Context // of what keeps registrations
	connecting  context.Context // of what keeps servers connected
	killing     context.Context // of processes
	endRegistry context.CancelFunc
	endServers  context.CancelFunc
	kill        context.CancelFunc
	unwatch     func()
	registries  sync.WaitGroup
	supervisors sync.WaitGroup
}

// New checks the configuration and makes a host; nothing runs yet.
func New(cfg Config, nc *nats.Conn, st *state.State) (*Host, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("MCP host: %w", err)
	}
	h := &Host{cfg: cfg.withDefaults("mcp-" + nuid.Next()), nc: nc, state: st, env: os.LookupEnv, lists: map[string][]listedTool{}}
	h.chooser = newChooser(h)
	for _, c := range h.cfg.Servers {
		if c.Disabled {
			continue
		}
		s, err := newServer(h, c)
		if err != nil {
			return nil, fmt.Errorf("MCP host: %w", err)
		}
		h.servers = append(h.servers, s)
	}
	return h, nil
}

// Start registers every server as connecting and returns; the servers connect
// in the background. ctx bounds only that. The error says that the registry
// could not be written, and then nothing runs. A host starts once.
func (h *Host) Start(ctx context.Context) error {
	h.life.Lock()
	defer h.life.Unlock()
	if h.started || h.stopped {
		return errors.New("MCP host: it was started or stopped before")
	}
	chosen, err := h.chooser.remembered(ctx)
	if err != nil {
		return fmt.Errorf("MCP host: %w", err)
	}
	for _, c := range chosen {
		s, err := newServer(h, c)
		if err != nil {
			return fmt.Errorf("MCP host: %w", err)
		}
		h.servers = append(h.servers, s)
	}
	for i, s := range h.servers {
		if err := s.offer(ctx); err != nil {
			for _, s := range h.servers[:i] {
				s.unsubscribeCancels()
				_ = s.withdraw(ctx)
			}
			return fmt.Errorf("MCP host: toolset %s: %w", s.toolset, err)
		}
	}
	if err := h.chooser.start(); err != nil {
		return fmt.Errorf("MCP host: %w", err)
	}
	unwatch, err := h.watchFigures()
	if err != nil {
		return fmt.Errorf("MCP host: %w", err)
	}
	h.unwatch = unwatch
	h.started = true
	base := context.WithoutCancel(ctx)
	h.registry, h.endRegistry = context.WithCancel(base)
	h.connecting, h.endServers = context.WithCancel(base)
	h.killing, h.kill = context.WithCancel(base)
	for _, s := range h.servers {
		h.run(s)
	}
	h.registries.Go(func() { h.watchConnection(h.registry) })
	return nil
}

// run keeps a server registered and connected.
func (h *Host) run(s *server) {
	h.registries.Go(func() { s.keepRegistered(h.registry) })
	h.supervisors.Go(func() { s.supervise(h.connecting, h.killing) })
}

// offer registers a server for the first time.
func (s *server) offer(ctx context.Context) error {
	err := s.subscribeCancels()
	if err == nil {
		err = s.register(ctx)
	}
	if err != nil {
		s.unsubscribeCancels()
		_ = s.withdraw(ctx)
	}
	return err
}

// add hosts one more server, while the host runs.
func (h *Host) add(ctx context.Context, cfg ServerConfig) error {
	h.life.Lock()
	defer h.life.Unlock()
	if !h.started || h.stopped {
		return errStopping
	}
	if h.named(cfg.Name) != nil {
		return nil
	}
	s, err := newServer(h, cfg)
	if err == nil {
		err = s.offer(ctx)
	}
	if err != nil {
		return fmt.Errorf("toolset %s: %w", cfg.Toolset(), err)
	}
	h.listing.Lock()
	h.servers = append(h.servers, s)
	h.listing.Unlock()
	h.run(s)
	return nil
}

// all are the servers that are hosted now.
func (h *Host) all() []*server {
	h.listing.RLock()
	defer h.listing.RUnlock()
	return slices.Clone(h.servers)
}

// named is the hosted server of that name, whatever its case; nil when there is none.
func (h *Host) named(name string) *server {
	for _, s := range h.all() {
		if strings.EqualFold(s.cfg.Name, name) {
			return s
		}
	}
	return nil
}

// watchConnection registers everything again when NATS is back.
func (h *Host) watchConnection(ctx context.Context) {
	connected := h.nc.StatusChanged(nats.CONNECTED)
	defer h.nc.RemoveStatusListener(connected)
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-connected:
			if !ok {
				return
			}
			for _, s := range h.all() {
				s.storeAgain.Store(true) // the store may be another one now
				signal(s.kick)
			}
		}
	}
}

// Ready returns when every server has connected, or failed to, once, and the
// registry shows it; or with the error of ctx.
func (h *Host) Ready(ctx context.Context) error {
	for _, s := range h.all() {
		select {
		case <-s.first:
		case <-ctx.Done():
			return fmt.Errorf("waiting for MCP server %q: %w", s.cfg.Name, ctx.Err())
		}
	}
	return nil
}

// Stop withdraws the toolsets, lets running calls finish, and ends the servers.
// Calls that still run when most of ctx's time is gone are cancelled and
// answered; processes that still run at its end are killed. It may be called
// before Start and more than once.
func (h *Host) Stop(ctx context.Context) error {
	h.life.Lock()
	defer h.life.Unlock()
	if h.stopped || !h.started {
		h.stopped = true
		return nil
	}
	h.stopped = true
	h.chooser.stop()
	defer h.unwatch()

	// Withdrawing must not fail because the caller has no time left.
	h.endRegistry()
	h.registries.Wait()
	patience := registryTimeout
	if !h.nc.IsConnected() {
		patience = time.Second // the keys expire by themselves
	}
	withdrawing, done := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer done()
	withdrawn := make([]error, len(h.servers))
	var all sync.WaitGroup
	for i, s := range h.servers {
		all.Go(func() { withdrawn[i] = s.withdraw(withdrawing) })
	}
	all.Wait()
	err := errors.Join(withdrawn...)

	for _, s := range h.servers {
		all.Go(func() { s.drain(ctx) })
	}
	all.Wait()
	if !h.nc.IsClosed() {
		flushing, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		if flushed := h.nc.FlushWithContext(flushing); flushed != nil {
			err = errors.Join(err, fmt.Errorf("flushing the last answers: %w", flushed))
		}
	}

	// The processes get the rest of the time; ctx kills them.
	defer h.kill()
	defer context.AfterFunc(ctx, h.kill)()
	h.endServers()
	h.supervisors.Wait()
	for _, s := range h.servers {
		s.retiring.Wait()
		s.executing.Wait()
		s.unsubscribeCancels()
	}
	if err != nil {
		return fmt.Errorf("stopping the MCP host: %w", err)
	}
	return nil
}

// drain takes no more calls and waits for those that run. When three quarters
// of the time are gone it cancels them.
func (s *server) drain(ctx context.Context) {
	drained := s.unsubscribe()
	if s.host.nc.IsClosed() {
		drained = closedChannel()
	}
	soft, cancel := context.WithCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		soft, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
	}
	defer cancel()
	select {
	case <-drained:
	case <-soft.Done():
	}
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.executing.Wait()
	}()
	select {
	case <-finished:
		return
	case <-soft.Done():
	}
	s.executions.cancelAll(errStopping)
	select {
	case <-finished:
	case <-ctx.Done():
	}
}

func (s *server) subscribeCancels() error {
	sub, err := s.host.nc.Subscribe(s.host.cfg.Space.ExecCancel(s.host.cfg.Tenant, s.toolset), s.onCancel)
	if err != nil {
		return fmt.Errorf("subscribing to cancellations: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = sub
	return nil
}

func (s *server) unsubscribeCancels() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancels != nil {
		_ = s.cancels.Unsubscribe()
		s.cancels = nil
	}
}

// compose takes the tools of one server and names those of all anew: a name may
// become taken, or free, by the tools of another.
func (h *Host) compose(server string, tools []listedTool) error {
	h.composing.Lock()
	defer h.composing.Unlock()
	h.lists[server] = tools
	shown, warnings := compose(h.lists)
	var errs []error
	for _, s := range h.all() {
		if _, known := h.lists[s.cfg.Name]; !known {
			continue
		}
		var left []Warning
		for _, w := range warnings {
			if w.Server == s.cfg.Name {
				left = append(left, w)
			}
		}
		errs = append(errs, s.define(shown[s.cfg.Name], left))
	}
	return errors.Join(errs...)
}

// ServerStatus is how one server stands.
type ServerStatus struct {
	Name      string
	Toolset   string
	State     string // subjects.StateReady, StateConnecting or StateUnavailable
	Reason    string // why it is not ready
	ToolCount int
	Warnings  []Warning // tools that are left out or repaired
}

// Status is how the servers stand, in the order of the configuration.
func (h *Host) Status() []ServerStatus {
	servers := h.all()
	out := make([]ServerStatus, 0, len(servers))
	for _, s := range servers {
		s.mu.Lock()
		out = append(out, ServerStatus{
			Name: s.cfg.Name, Toolset: s.toolset, State: s.state, Reason: s.reason, ToolCount: len(s.defs.tools),
			Warnings: append(append([]Warning(nil), s.warnings...), s.left...),
		})
		s.mu.Unlock()
	}
	return out
}

// Executor is the token under which the host's toolsets are registered.
func (h *Host) Executor() string { return h.cfg.Executor }

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
