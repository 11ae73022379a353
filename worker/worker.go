package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"toolbridge/catalog"
	"toolbridge/connectors"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/tracing"
	"toolbridge/worker/call"
)

// Worker answers requests from sessions. Start it once, Stop it once; Stop may
// come before Start and more than once.
type Worker struct {
	cfg      Config
	nc       *nats.Conn
	log      *slog.Logger
	settings catalog.Config

	state    *state.State
	grants   *grants
	registry *registry
	catalogs *catalogs
	packing  *packing
	buffers  buffers
	// assemblies keeps outcomes by everything they depend on, so that equal
	// requests are decoded once.
	assemblies *onceCache[*assembled]
	calls      *call.Engine
	bus        *call.Bus
	approvals  *approvals
	changes    *changes
	service    micro.Service
	directory  *connectors.Directory // nil: there is no gateway
	manage     *connectors.Manage    // nil: there is no gateway
	portal     *connectors.Portal    // nil: there is no gateway
	audits     jetstream.JetStream

	slots    chan struct{}
	waits    chan struct{} // requests that only wait for a call's result
	building chan struct{} // bounds the assemblies and index loads that run at once
	running  *flight
	hands    hands
	base     context.Context // ends when Stop gives up on running requests
	cancel   context.CancelFunc
	owned    sync.WaitGroup // the worker's own goroutines

	mu      sync.Mutex
	started bool
	stopped bool

	served, errors, dropped, busy atomic.Int64

	serving atomic.Bool            // see Ready
	seen    atomic.Pointer[shared] // see look
	unwatch func()                 // its figures are not shown any more
}

// New checks the configuration. It sends nothing.
func New(cfg Config, nc *nats.Conn) (*Worker, error) {
	cfg = cfg.withDefaults()
	if nc == nil {
		return nil, errors.New("a worker needs a NATS connection")
	}
	if cfg.MaxInFlight < 1 || cfg.MaxRequest < 1 || cfg.MaxTools < 1 || cfg.CacheBytes < 1 ||
		cfg.RequestTimeout < 0 || cfg.ToolTimeout < 0 || cfg.ToolConcurrency < 1 {
		return nil, errors.New("a worker's limits are positive")
	}
	if err := cfg.checks().Validate(); err != nil {
		return nil, err
	}
	for _, p := range cfg.ReplyPrefixes {
		if p == "" || !strings.HasSuffix(p, ".") {
			return nil, fmt.Errorf("reply prefix %q must end with a dot, or it would match foreign subjects", p)
		}
	}
	w := &Worker{cfg: cfg, nc: nc, log: cfg.Logger, running: newFlight(), slots: make(chan struct{}, cfg.MaxInFlight), waits: make(chan struct{}, max(0, cfg.MaxWaiting)), building: make(chan struct{}, maxBuilding)}
	if cfg.ToolSearch != nil {
		w.settings = *cfg.ToolSearch
	} else {
		w.settings = catalog.DefaultConfig()
	}
	var err error
	if w.packing, err = newPacking(); err != nil {
		return nil, err
	}
	if cfg.Gateway != nil {
		w.directory = connectors.NewDirectory(connectors.DirectoryConfig{Logger: cfg.Logger}, cfg.Gateway)
	}
	w.base, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

// maxBuilding bounds the requests that decode or index whole catalogs at once;
// the others wait for their turn within their deadline.
const maxBuilding = 4

// Start opens the shared state, begins to watch grants and registry, and
// returns when the endpoints answer. While JetStream does not answer, it tries
// again, with the reason in the log, for a minute at most.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started || w.stopped {
		return errors.New("starting the worker: it was started or stopped before")
	}
	w.started = true
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	js, err := jetstream.New(w.nc)
	if err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	var st *state.State
	var calls *state.Calls
	err = state.Retry(ctx, w.log, func(ctx context.Context) (err error) {
		if st, err = state.Open(ctx, w.nc, w.cfg.Space, w.cfg.State); err != nil {
			return err
		}
		calls, err = state.OpenCalls(ctx, js, w.cfg.Space, w.cfg.State, w.cfg.Partitions)
		return err
	})
	if err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	w.state = st
	w.grants = newGrants(st, w.cfg.Dev, w.log)
	w.registry = newRegistry(st, w.cfg.MaxTools, w.log)
	w.changes = newChanges(w.nc, w.cfg.Space, w.registry, w.grants, w.log)
	w.registry.changed = w.changes.toolset
	w.assemblies = newOnceCache(w.cfg.CacheBytes/4, (*assembled).weight)
	w.assemblies.asked = w.asked("assembly")
	w.catalogs = newCatalogs(st, w.cfg.CacheBytes, w.packing, w.log)
	w.catalogs.making = w.making
	w.catalogs.memory.asked = w.asked("catalog")
	if w.bus, err = call.NewBus(w.nc, w.cfg.Space); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	policy := w.cfg.Policy
	policy.Dev = w.cfg.Dev
	if w.cfg.Gateway != nil && w.cfg.Gateway.Accounts != nil {
		w.manage = connectors.NewManage(connectors.ManageConfig{Space: w.cfg.Space, Logger: w.log}, w.cfg.Gateway, w.cfg.Gateway.Identities, w.nc, st, w.cfg.Gateway.Accounts.Operations)
		w.portal = connectors.NewPortal(w.cfg.Gateway)
	}
	w.audits = calls.JS
	w.approvals = newApprovals(w.nc, w.cfg.Space, st, calls, w.cfg.ApprovalWait, w.log)
	w.approvals.metrics = w.cfg.Metrics
	w.calls = call.New(call.Config{
		Space: w.cfg.Space, Policy: policy, RejectLocalBatches: w.cfg.RejectLocalBatches,
		Timeout: w.cfg.ToolTimeout, Concurrency: w.cfg.ToolConcurrency, Slots: w.cfg.CallSlots, Lease: w.cfg.CallLease, Queued: w.cfg.CallQueued, Step: w.cfg.CallStep,
		ApprovalTimeout: w.cfg.ApprovalTimeout, MaxResult: w.cfg.MaxResult, Logger: w.log, Tracer: w.cfg.Tracer, Metrics: w.cfg.Metrics,
	}, w.nc, st, calls, w.route(), call.NewChecks(w.cfg.checks(), w.nc, st, calls), w.approvals)
	for _, watch := range []func(context.Context, context.Context) (func(), error){w.grants.watch, w.registry.watch} {
		var run func()
		err := state.Retry(ctx, w.log, func(ctx context.Context) (err error) {
			run, err = watch(ctx, w.base)
			return err
		})
		if err != nil {
			return fmt.Errorf("starting the worker: %w", err)
		}
		w.owned.Go(run)
	}
	w.owned.Go(func() { w.catalogs.sweep(w.base) })
	if err := w.approvals.start(ctx, w.calls, calls.Decisions); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	if err := w.calls.Start(ctx); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	if w.unwatch, err = w.watchFigures(calls); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	if err := w.serve(); err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	if err := w.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("starting the worker: waiting for the server to know the endpoints: %w", err)
	}
	w.serving.Store(true)
	w.log.Info("worker ready", "prefix", w.cfg.Space.Prefix(), "server", w.nc.ConnectedServerName())
	return nil
}

// startWithin bounds Start; stopWithin bounds a Stop whose context has no end.
const (
	startWithin = time.Minute
	stopWithin  = time.Minute
)

func (w *Worker) serve() error {
	service, err := micro.AddService(w.nc, micro.Config{
		Name: subjects.ServiceName, Version: w.cfg.Version, QueueGroup: subjects.QueueWorkers,
		Description: "Tool search for agents: assemble, search, describe and call",
		StatsHandler: func(*micro.Endpoint) any {
			return map[string]int64{"served": w.served.Load(), "errors": w.errors.Load(), "dropped": w.dropped.Load(), "busy": w.busy.Load(), "in_flight": int64(len(w.slots) + len(w.waits))}
		},
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			w.log.Warn("micro service", "subject", e.Subject, "error", e.Description)
		},
	})
	if err != nil {
		return fmt.Errorf("registering the micro service: %w", err)
	}
	w.service = service
	for _, e := range []struct {
		verb   subjects.Verb
		answer func(context.Context, *request) ([]byte, error)
	}{
		{subjects.VerbAssemble, w.assemble},
		{subjects.VerbBridge, w.bridge},
		{subjects.VerbCall, w.call},
		{subjects.VerbFetch, w.fetch},
		{subjects.VerbPreflight, w.preflight},
		{subjects.VerbStop, w.stopCalls},
		{subjects.VerbConnectionAnswer, w.answerConnection},
	} {
		ours := func(a subjects.Address) bool { return a.Verb == e.verb }
		if err := w.endpoint(string(e.verb), w.cfg.Space.AnySession(e.verb), ours, e.answer); err != nil {
			return err
		}
	}
	for _, e := range []struct {
		area, subject string
		answer        func(context.Context, *request) ([]byte, error)
	}{
		{subjects.AreaApprovalsList, w.cfg.Space.ApprovalList("*", "*"), w.listApprovals},
		{subjects.AreaApprovalsDecide, w.cfg.Space.ApprovalDecide("*", "*"), w.decideApproval},
		{subjects.AreaPortal, w.cfg.Space.Portal("*", "*"), w.servePortal},
	} {
		ours := func(a subjects.Address) bool { return a.Area == e.area }
		if err := w.endpoint(e.area, e.subject, ours, e.answer); err != nil {
			return err
		}
	}
	return nil
}

// endpoint adds one to the micro service. ours tells its subjects from others
// that its wildcards happen to match.
func (w *Worker) endpoint(name, subject string, ours func(subjects.Address) bool, answer func(context.Context, *request) ([]byte, error)) error {
	name = strings.ReplaceAll(name, ".", "-")
	err := w.service.AddEndpoint(name, w.handler(ours, answer),
		micro.WithEndpointSubject(subject),
		micro.WithEndpointMetadata(map[string]string{"contract": w.cfg.Space.Prefix(), "schema": name}))
	if err != nil {
		return fmt.Errorf("registering endpoint %s: %w", name, err)
	}
	return nil
}

// handler hands a request over to a goroutine at once, since micro serves one
// request at a time per endpoint, and answers BUSY when too many are in work.
func (w *Worker) handler(ours func(subjects.Address) bool, answer func(context.Context, *request) ([]byte, error)) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		if !subjects.ReplyAllowed(r.Reply(), w.cfg.ReplyPrefixes) {
			w.dropped.Add(1)
			w.cfg.Metrics.Count(tracing.RequestsDropped, 1)
			w.log.Warn("request dropped: its reply subject is none that may be answered", "subject", r.Subject(), "reply", headerText(r.Reply()))
			return
		}
		addr, err := w.cfg.Space.Parse(r.Subject())
		if errors.Is(err, subjects.ErrForeign) || !ours(addr) {
			return
		}
		if err != nil {
			w.reply(newRequest(addr, r), nil, subjects.NewError(subjects.CodeBadRequest, err.Error()))
			return
		}
		select {
		case w.slots <- struct{}{}:
		default:
			w.busy.Add(1)
			e := subjects.NewError(subjects.CodeBusy, fmt.Sprintf("this worker has %d requests in work already", cap(w.slots)))
			e.RetryAfterMS = 100
			q := newRequest(addr, r)
			q.limit = limitInFlight
			w.reply(q, nil, e)
			return
		}
		if !w.running.enter() {
			<-w.slots
			w.reply(newRequest(addr, r), nil, subjects.NewError(subjects.CodeUnavailable, "this worker is stopping; another one will answer"))
			return
		}
		w.hands.run(func() {
			defer w.running.leave()
			in := &place{in: w.slots}
			defer in.leave()
			w.answer(addr, r, in, answer)
		})
	})
}

func (w *Worker) answer(addr subjects.Address, r micro.Request, in *place, answer func(context.Context, *request) ([]byte, error)) {
	w.served.Add(1)
	q, err := w.readRequest(addr, r)
	q.place = in
	ctx := w.begin(q, r)
	defer func() {
		if p := recover(); p != nil {
			w.log.ErrorContext(ctx, "request failed", "tenant", q.Tenant, "session", q.Session, "verb", string(q.Verb), "panic", p, "stack", string(debug.Stack()))
			w.reply(q, nil, subjects.NewError(subjects.CodeInternal, "the worker failed on this request; its log says why"))
		}
	}()
	if err != nil {
		w.reply(q, nil, err)
		return
	}
	if !q.deadline.IsZero() && !time.Now().Before(q.deadline) {
		q.limit = limitDeadline
		w.reply(q, nil, subjects.NewError(subjects.CodeDeadlineExceeded, "the deadline had passed when the request arrived"))
		return
	}
	body, err := answer(ctx, q)
	w.reply(q, body, err)
	if q.sent != nil {
		q.sent()
	}
}

// bounded is the context of a request that is not a call.
func (w *Worker) bounded(ctx context.Context, q *request) (context.Context, context.CancelFunc) {
	until := time.Now().Add(w.cfg.RequestTimeout)
	if !q.deadline.IsZero() && q.deadline.Before(until) {
		until = q.deadline
	}
	return context.WithDeadline(ctx, until)
}

// Stop stops taking requests, lets those in work finish until ctx ends (a minute
// at most), then
// cancels them, and waits for every goroutine of the worker. The connection is
// the caller's and stays open.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || !w.started {
		w.stopped = true
		w.cancel()
		return nil
	}
	w.stopped = true
	w.serving.Store(false)
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	var err error
	if w.service != nil {
		if stopErr := w.service.Stop(); stopErr != nil {
			err = fmt.Errorf("stopping the worker: %w", stopErr)
		}
		// The server has seen the unsubscriptions after this round trip, and
		// what it sent before has reached the handlers' queues.
		if flushErr := w.nc.FlushWithContext(ctx); flushErr != nil && !errors.Is(flushErr, nats.ErrConnectionClosed) {
			err = errors.Join(err, fmt.Errorf("stopping the worker: %w", flushErr))
		}
	}
	if w.approvals != nil {
		w.approvals.stop(ctx)
	}
	if w.calls != nil {
		err = errors.Join(err, w.calls.Stop(ctx))
	}
	idle := w.running.close()
	select {
	case <-idle:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("stopping the worker: requests were cut off: %w", ctx.Err()))
	}
	w.cancel()
	<-idle
	w.hands.close()
	w.owned.Wait()
	if w.directory != nil {
		w.directory.Stop()
	}
	if w.unwatch != nil {
		w.unwatch()
	}
	if w.bus != nil {
		w.bus.Close()
	}
	last, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	if flushErr := w.nc.FlushWithContext(last); flushErr != nil && !errors.Is(flushErr, nats.ErrConnectionClosed) {
		err = errors.Join(err, fmt.Errorf("stopping the worker: sending the last replies: %w", flushErr))
	}
	return err
}
