package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"toolbridge/approval"
	"toolbridge/catalog/arguments"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Config is what the call path needs to know.
type Config struct {
	Space              subjects.Space
	Policy             approval.Policy
	RejectLocalBatches bool
	// Timeout of one execution, from its start.
	Timeout time.Duration
	// Concurrency bounds the parallel-safe entries of one batch at once.
	Concurrency int
	// Slots is how many calls this worker runs at once; 0 means 256. A call that
	// waits for a person holds none.
	Slots int
	// Lease is how long a lost worker's call stays with it, and the queue's ack
	// wait; 0 means 30 s. It is renewed at a third.
	Lease time.Duration
	// MaxAttempts is how often a call may lose its worker before it becomes a
	// dead letter; 0 means 5.
	MaxAttempts int
	// ApprovalTimeout is how long a person is waited for; 0 means 5 minutes.
	ApprovalTimeout time.Duration
	// MaxResult is how many characters of a result go into the reply; what is
	// larger goes to the object store with a preview. 0: only the server's
	// max_payload bounds it.
	MaxResult int
	// Queued sends every call through the queue. Otherwise a worker with a free
	// slot runs what it accepts, and the queue carries what is left.
	Queued bool
	// Step, when set, is told where a call stands, at the points that a fault may
	// come between. It is for tests that stop a worker there; it may block, and
	// nil is what production uses.
	Step   func(point, callID string)
	Logger *slog.Logger
	// Tracer and Metrics, see package tracing; nil: none.
	Tracer  *tracing.Tracer
	Metrics *tracing.Metrics
}

// The points of a call that Config.Step hears of.
const (
	StepAccept    = "accept"    // before the first journal write
	StepStored    = "stored"    // after it
	StepQueued    = "queued"    // after the message went onto the queue
	StepClaimed   = "claimed"   // a worker has taken the message and the lease
	StepSent      = "sent"      // an execution has left
	StepReplied   = "replied"   // its answer has come
	StepWritten   = "written"   // after the journal write that makes the call final
	StepPublished = "published" // after the result was published
	StepAck       = "ack"       // before the message is acknowledged
)

func (e *Engine) step(point string, k key) {
	if e.cfg.Step != nil {
		e.cfg.Step(point, k.id)
	}
}

// sent is what an executor calls when an execution has left; nil when nobody
// listens.
func (e *Engine) sent(k key) func() {
	if e.cfg.Step == nil {
		return nil
	}
	return func() { e.step(StepSent, k) }
}

// wait pauses before something is tried again. It returns false when a worker
// that is stopping has tried for long enough.
func (e *Engine) wait(d time.Duration) bool {
	if at := e.cancelled.Load(); at != nil && time.Since(*at) > writeGrace {
		return false
	}
	time.Sleep(d)
	return true
}

func (c Config) withDefaults() Config {
	if c.Slots == 0 {
		c.Slots = 256
	}
	if c.Lease == 0 {
		c.Lease = 30 * time.Second
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 5
	}
	if c.ApprovalTimeout == 0 {
		c.ApprovalTimeout = 5 * time.Minute
	}
	if c.Concurrency == 0 {
		c.Concurrency = 10
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Executor runs one execution. It returns when the outcome is known, or when
// nobody can know it any more.
type Executor interface {
	Execute(ctx context.Context, e Execution) Outcome
}

// Execution is one entry, ready to be sent.
type Execution struct {
	Tenant, Session string
	CallID          string
	Index           int
	ID              string // "<call id>.<index>"
	Place           Place
	User            string // of the session's grant when the call was accepted
	Surface         string // of the session
	Name            string // for people
	Tool            string // as the executor knows it
	Toolset         string
	Registry        bool
	SHA256          string // of the definition
	Arguments       json.RawMessage
	IdempotencyKey  string
	StartBy         time.Time // not sent after it, and refused by the executor
	Timeout         time.Duration
	Repeatable      bool // safe to repeat
	Trace           [3]string
	Sent            func() // called once it has left, when not nil
	// Parks is called once the execution only waits for a person: the call holds no
	// slot from then on.
	Parks func()
	// Continue reports whether what has begun may go on to a further request: false
	// once a stop has been written down, or another worker has the call.
	Continue func() bool
	// Leaving is closed when the worker is stopping and waits no longer, also for an
	// execution that a stop has cancelled before.
	Leaving <-chan struct{}
}

// Checks are what stands between a valid entry and its start: guardrails and
// pre-call hooks; and post-call hooks behind its end.
type Checks interface {
	// Needed reports whether anything looks at this tool before its start.
	Needed(tool string) bool
	// Refused says why the tool is never run, whatever its arguments; or nil.
	Refused(tool string) *subjects.SlotError
	// Before judges one entry by its final arguments.
	Before(ctx context.Context, q Check) Verdict
	// Count is the last check: it counts an entry that nothing else keeps from
	// running (a person may still be asked), or says why it may not run.
	Count(ctx context.Context, q Check) *subjects.SlotError
	// After may replace a result, or keep it from the model.
	After(ctx context.Context, q Check, result json.RawMessage) (json.RawMessage, *subjects.SlotError)
}

// Check is one entry as checks see it.
type Check struct {
	Tenant, Session, CallID string
	Index                   int
	Tool                    string
	Also                    []string // further names of what it may run
	Arguments               json.RawMessage
	Trace                   [3]string
	// Repair holds changed arguments against the tool's schema; set for Before.
	Repair func(json.RawMessage) (json.RawMessage, *arguments.Invalid)
}

// Verdict is what checks say before the start: a refusal, or other arguments, or
// that a person must be asked, or nothing.
type Verdict struct {
	Block     *subjects.SlotError
	Arguments json.RawMessage // repaired and valid; nil: unchanged
	Ask       string          // the reason to ask a person; "" for none
}

// Approvals asks people. Decisions come back through Decide.
type Approvals interface {
	// Ask stores a pending approval and tells approvers; again for the same id
	// when a worker was lost meanwhile. none is true when nobody listens and the
	// configuration does not wait for somebody to come.
	Ask(ctx context.Context, tenant string, a subjects.Approval, trace [3]string) (none bool, err error)
	// Remembered returns the standing choice that covers an entry, or nil.
	Remembered(ctx context.Context, tenant string, s approval.Subject) (*subjects.Remembered, error)
	// Settle writes a decision that no approver made: expired, withdrawn or
	// denied for want of an approver. When a decision stands it changes nothing.
	Settle(ctx context.Context, tenant, id string, d subjects.Decision) error
}

// Engine runs calls: it accepts them into the journal and the queue, pulls what
// any worker accepted, and settles what lost workers left behind.
type Engine struct {
	cfg       Config
	nc        *nats.Conn
	js        jetstream.JetStream
	state     *state.State
	calls     *state.Calls
	journal   *journal
	executor  Executor
	checks    Checks
	approvals Approvals
	outbox    *outbox
	unready   error // why there is none
	log       *slog.Logger
	schemas   schemas
	anything  *arguments.Schema // of tools whose schema is not known here

	id    string // of this worker
	inbox string // where other workers poke it
	sub   *nats.Subscription

	claims    atomic.Uint64
	fleet     atomic.Pointer[fleet]     // what this worker sees when it sweeps
	cancelled atomic.Pointer[time.Time] // when running calls were cut off

	slots    chan struct{}
	parked   chan struct{} // calls that run without a slot
	stopping chan struct{} // closed: pull nothing more
	base     context.Context
	cancel   context.CancelCauseFunc
	pulls    sync.WaitGroup
	cutPulls context.CancelFunc // when Stop no longer waits for what is on its way
	owned    sync.WaitGroup

	mu      sync.Mutex
	live    map[key]*live
	waiting map[key]map[*waiter]struct{}
	started atomic.Bool
	closed  bool // nothing new is owned any more
	once    sync.Once
}

// New checks nothing on the bus; Start does. checks and approvals may be nil:
// then nothing is checked, and an entry that needs a person is denied.
func New(cfg Config, nc *nats.Conn, st *state.State, calls *state.Calls, executor Executor, checks Checks, approvals Approvals) *Engine {
	e := &Engine{
		cfg: cfg.withDefaults(), nc: nc, js: calls.JS, state: st, calls: calls, journal: &journal{st, calls},
		executor: executor, checks: checks, approvals: approvals, anything: arguments.Compile([]byte(`{}`)),
		id: nuid.Next(), stopping: make(chan struct{}), live: map[key]*live{}, waiting: map[key]map[*waiter]struct{}{},
	}
	e.log = e.cfg.Logger
	e.outbox, e.unready = newOutbox(nc, e.log)
	e.slots = make(chan struct{}, e.cfg.Slots)
	e.parked = make(chan struct{}, maxParked)
	e.base, e.cancel = context.WithCancelCause(context.Background())
	e.cutPulls = func() {}
	return e
}

// errShutdown is why executions are cancelled when the worker's grace is over.
var errShutdown = errors.New("the worker is stopping")

// errStopped is why executions are cancelled by a stop.
var errStopped = errors.New("stopped")

// Start begins to pull calls.
func (e *Engine) Start(ctx context.Context) error {
	if e.unready != nil {
		return fmt.Errorf("starting the call path: %w", e.unready)
	}
	e.inbox = e.nc.NewRespInbox()
	sub, err := e.nc.Subscribe(e.inbox, e.poked)
	if err != nil {
		return fmt.Errorf("starting the call path: %w", err)
	}
	e.sub = sub
	pulling, cut := context.WithCancel(context.WithoutCancel(ctx))
	e.cutPulls = cut
	for i := range e.calls.Partitions {
		p := &e.calls.Partitions[i]
		consumer, err := state.OpenConsumer(ctx, e.log, p.Queue, jetstream.ConsumerConfig{
			Durable: subjects.QueueWorkers, AckPolicy: jetstream.AckExplicitPolicy, AckWait: e.cfg.Lease,
			MaxAckPending: 1_000_000, MaxDeliver: -1,
		})
		if err != nil {
			return fmt.Errorf("starting the call path: consumer of partition %d: %w", p.Number, err)
		}
		pullers := max(1, min(e.cfg.Slots/2, pullersPerWorker)/len(e.calls.Partitions))
		for range pullers {
			it, err := consumer.Messages(jetstream.PullMaxMessages(1), jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullExpiry/3))
			if err != nil {
				return fmt.Errorf("starting the call path: pulling from partition %d: %w", p.Number, err)
			}
			e.pulls.Go(func() { e.pull(pulling, it) })
			e.owned.Go(func() {
				<-e.stopping
				it.Drain() // a message that is on its way is given back
			})
		}
	}
	e.outbox.start()
	e.owned.Go(func() { e.sweep(e.base) })
	e.started.Store(true)
	return nil
}

const (
	pullExpiry = 30 * time.Second
	// pullersPerWorker is how many messages a worker may have asked for at once.
	pullersPerWorker = 64
)

// pull takes one message per free slot. The call runs on its own goroutine; the
// puller asks for the next when it has a slot for it.
func (e *Engine) pull(ctx context.Context, it jetstream.MessagesContext) {
	for {
		select {
		case e.slots <- struct{}{}:
		case <-e.stopping:
			for {
				msg, err := it.Next(jetstream.NextContext(ctx))
				if err != nil {
					return
				}
				_ = msg.Nak()
			}
		}
		msg, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			<-e.slots
			if errors.Is(err, jetstream.ErrMsgIteratorClosed) || ctx.Err() != nil {
				return
			}
			if !errors.Is(err, jetstream.ErrNoHeartbeat) {
				e.log.Warn("pulling calls", "error", err)
			}
			select {
			case <-time.After(pullRetry):
			case <-e.stopping:
				return
			}
			continue
		}
		select {
		case <-e.stopping:
			<-e.slots
			_ = msg.Nak() // another worker takes it
			continue
		default:
		}
		e.owned.Go(func() {
			place := &slot{e: e}
			defer place.free()
			e.work(msg, place)
		})
	}
}

const pullRetry = 250 * time.Millisecond

// Stop stops pulling, lets running calls finish until ctx ends, then cancels
// their executions and settles what really happened.
func (e *Engine) Stop(ctx context.Context) error {
	var err error
	e.once.Do(func() {
		e.mu.Lock()
		e.closed = true
		e.mu.Unlock()
		close(e.stopping)
		cut := context.AfterFunc(ctx, e.cutPulls) // without the bus, draining takes long
		e.pulls.Wait()
		cut()
		e.cutPulls()
		idle := make(chan struct{})
		watch, stop := context.WithCancel(context.Background())
		var watcher sync.WaitGroup
		watcher.Go(func() { e.whenIdle(watch, idle) })
		select {
		case <-idle:
		case <-ctx.Done():
			err = fmt.Errorf("stopping the call path: running calls were cut off: %w", ctx.Err())
		}
		at := time.Now()
		e.cancelled.Store(&at)
		e.cancel(errShutdown)
		e.owned.Wait()
		e.outbox.stop()
		stop()
		watcher.Wait()
		if e.sub != nil {
			_ = e.sub.Unsubscribe()
		}
	})
	return err
}

// spawn runs f as a goroutine that Stop waits for, unless Stop has begun.
func (e *Engine) spawn(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.owned.Go(f)
	return true
}

// whenIdle closes idle once no call is in work.
func (e *Engine) whenIdle(ctx context.Context, idle chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		e.mu.Lock()
		n := len(e.live)
		e.mu.Unlock()
		if n == len(e.parked) && len(e.slots) == 0 { // who only waits for a person is handed over
			close(idle)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
