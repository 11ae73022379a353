package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

const (
	registryTimeout = 5 * time.Second
	registryRetry   = time.Second
	// blobAgain is how often the stored definitions are looked after: who sweeps
	// the store may not know that they are in use.
	blobAgain = 5 * time.Minute
)

// registryKey is this host's key of one toolset; one goroutine owns it.
type registryKey struct {
	hash     string    // of the definitions in the last registration
	since    time.Time // when they were first registered
	revision uint64    // at which they were
	stored   string    // hash of the blob that was stored last
	storedAt time.Time
}

// keepRegistered writes the server's key when something changes, with every
// heartbeat, and when the connection to NATS is back, until ctx ends.
func (s *server) keepRegistered(ctx context.Context) {
	t := time.NewTicker(s.host.cfg.Heartbeat)
	defer t.Stop()
	for {
		var again <-chan time.Time
		if err := s.register(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("registering an MCP toolset; it is tried again", "toolset", s.toolset, "error", err)
			retry := time.NewTimer(min(registryRetry, s.host.cfg.Heartbeat))
			defer retry.Stop()
			again = retry.C
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-s.kick:
		case <-again:
		}
	}
}

// register brings the bus up to date: a ready server is subscribed before it is
// offered, one that is not takes no more work once that is known.
func (s *server) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	s.mu.Lock()
	defs, state, reason := s.defs, s.state, s.reason
	s.mu.Unlock()
	if state == subjects.StateReady {
		if err := s.subscribe(ctx); err != nil {
			return err
		}
	}
	key := &s.registry
	if s.storeAgain.Swap(false) {
		key.stored = ""
	}
	if now := time.Now(); key.stored != defs.sha256 || now.Sub(key.storedAt) > blobAgain {
		if _, err := s.host.state.Blobs.PutIfAbsent(ctx, defs.blob); err != nil {
			return fmt.Errorf("storing the definitions: %w", err)
		}
		key.stored, key.storedAt = defs.sha256, now
	}
	if key.hash != defs.sha256 {
		key.hash, key.since, key.revision = defs.sha256, time.Now().UTC(), 0
	}
	value, err := json.Marshal(subjects.Registration{
		DefinitionsSHA256: defs.sha256,
		Blob:              defs.sha256,
		Since:             key.since.Format("2006-01-02T15:04:05.000Z07:00"),
		Revision:          key.revision,
		State:             state,
		Reason:            reason,
		ToolCount:         len(defs.tools),
		Trusted:           s.cfg.Trusted,
	})
	if err != nil {
		return fmt.Errorf("encoding the registration: %w", err)
	}
	revision, err := s.host.state.Toolsets.Put(ctx, s.key(), value)
	if err != nil {
		return fmt.Errorf("writing the registry: %w", err)
	}
	if key.revision == 0 || revision < key.revision { // lower: the bucket was made anew
		key.revision = revision
	}
	if state != subjects.StateReady {
		s.unsubscribe()
	}
	if state != subjects.StateConnecting {
		select {
		case <-s.first:
		default:
			close(s.first)
		}
	}
	return nil
}

func (s *server) key() string {
	return subjects.ToolsetKey(s.host.cfg.Tenant, s.toolset, s.host.cfg.Executor)
}

// withdraw takes the key out of the registry.
func (s *server) withdraw(ctx context.Context) error {
	err := s.host.state.Toolsets.Purge(ctx, s.key())
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("withdrawing toolset %s: %w", s.toolset, err)
	}
	return nil
}

// subscribe takes work from now on.
func (s *server) subscribe(ctx context.Context) error {
	s.mu.Lock()
	subscribed := s.runSub != nil || s.stopping
	s.mu.Unlock()
	if subscribed {
		return nil
	}
	sub, err := s.host.nc.QueueSubscribe(s.host.cfg.Space.ExecRun(s.host.cfg.Tenant, s.toolset), subjects.QueueExecutors, s.onRun)
	if err != nil {
		return fmt.Errorf("subscribing to calls: %w", err)
	}
	s.mu.Lock()
	s.runSub = sub
	s.mu.Unlock()
	if err := s.host.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("subscribing to calls: %w", err)
	}
	return nil
}

// unsubscribe takes no more work; what was delivered already is still answered.
// The channel is closed when nothing more comes.
func (s *server) unsubscribe() (drained <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	if s.runSub == nil {
		close(done)
		return done
	}
	s.runSub.SetClosedHandler(func(string) { close(done) })
	if err := s.runSub.Drain(); err != nil {
		if !errors.Is(err, nats.ErrConnectionClosed) {
			s.log.Debug("draining the subscription to calls", "error", err)
		}
		done = make(chan struct{})
		close(done)
	}
	s.runSub = nil
	return done
}
