package worker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/tracing"
)

const (
	// lookEvery is how often a worker looks at the streams that the fleet shares.
	lookEvery = 15 * time.Second
	// lookWithin bounds one such look.
	lookWithin = 10 * time.Second
)

// Ready says why the worker does not serve now, or nil.
func (w *Worker) Ready() error {
	switch {
	case !w.serving.Load():
		return errors.New("the worker does not serve yet, or is stopping")
	case !w.nc.IsConnected():
		return errors.New("not connected to NATS")
	}
	return nil
}

// shared is what the worker has last seen of the state that the fleet shares.
type shared struct {
	streams   []streamFigures
	journals  []streamFigures // by partition
	queues    []queueFigures  // by partition
	deadKept  int64
	available bool
}

type streamFigures struct {
	name                   string
	messages, bytes, limit int64
}

type queueFigures struct{ depth, unacked int64 }

// watchFigures shows the worker's figures until the returned function is called.
func (w *Worker) watchFigures(calls *state.Calls) (stop func(), err error) {
	if w.cfg.Metrics == nil {
		return func() {}, nil
	}
	stop, err = w.cfg.Metrics.Watch(w.figures)
	if err == nil {
		w.owned.Go(func() { w.look(w.base, calls) })
	}
	return stop, err
}

func (w *Worker) figures(r tracing.Readings) {
	r.Gauge(tracing.RequestsInFlight, int64(len(w.slots)), "working")
	r.Gauge(tracing.RequestsInFlight, int64(len(w.waits)), "waiting")
	n, bytes := w.catalogs.memory.size()
	r.Gauge(tracing.Catalogs, int64(n))
	r.Gauge(tracing.CatalogMemory, bytes)
	w.calls.Watch(r)
	for state, n := range w.registry.states() {
		r.Gauge(tracing.Executors, int64(n), state)
	}
	if g := w.cfg.Gateway; g != nil {
		r.Breaker(g.Breakers.Worst())
	}
	r.NATS(w.nc)
	s := w.seen.Load()
	if s == nil || !s.available {
		return
	}
	for p, q := range s.queues {
		r.Gauge(tracing.QueueDepth, q.depth, strconv.Itoa(p))
		r.Gauge(tracing.QueueUnacked, q.unacked, strconv.Itoa(p))
	}
	for p, j := range s.journals {
		r.Gauge(tracing.JournalRecords, j.messages, strconv.Itoa(p))
		r.Gauge(tracing.JournalBytes, j.bytes, strconv.Itoa(p))
		if j.limit > 0 {
			r.Gauge(tracing.JournalLimit, j.limit, strconv.Itoa(p))
		}
	}
	for _, f := range s.streams {
		r.Gauge(tracing.StreamMessages, f.messages, f.name)
		r.Gauge(tracing.StreamBytes, f.bytes, f.name)
		if f.limit > 0 {
			r.Gauge(tracing.StreamLimit, f.limit, f.name)
		}
	}
	r.Gauge(tracing.DeadLettersKept, s.deadKept)
}

// look looks at the shared streams until ctx ends. Whatever can not be seen now is
// not shown.
func (w *Worker) look(ctx context.Context, calls *state.Calls) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.seen.Store(w.lookOnce(ctx, calls))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Worker) lookOnce(ctx context.Context, calls *state.Calls) *shared {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	s := &shared{}
	for i := range calls.Partitions {
		p := &calls.Partitions[i]
		info, err := p.Queue.Info(ctx)
		if err != nil {
			return s
		}
		q := queueFigures{depth: int64(info.State.Msgs)}
		consumer, err := p.Queue.Consumer(ctx, subjects.QueueWorkers)
		if err != nil {
			return s
		}
		q.unacked = int64(consumer.CachedInfo().NumAckPending)
		s.queues = append(s.queues, q)
		j, err := figuresOf(ctx, calls.JS, "KV_"+p.Bucket)
		if err != nil {
			return s
		}
		s.journals = append(s.journals, j)
	}
	for _, name := range []string{
		subjects.StreamResults, subjects.StreamDecisions, subjects.StreamAudit, subjects.StreamDead,
		"KV_" + subjects.BucketBindings, "KV_" + subjects.BucketApprovals, "OBJ_" + subjects.ObjectsCatalogs, "OBJ_" + subjects.ObjectsBlobs,
	} {
		f, err := figuresOf(ctx, calls.JS, name)
		if err != nil {
			return s
		}
		s.streams = append(s.streams, f)
		if name == subjects.StreamDead {
			s.deadKept = f.messages
		}
	}
	s.available = true
	return s
}

func figuresOf(ctx context.Context, js jetstream.JetStream, name string) (streamFigures, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return streamFigures{}, err
	}
	info := stream.CachedInfo()
	shown := name
	for _, kind := range []string{"KV_", "OBJ_"} {
		if len(name) > len(kind) && name[:len(kind)] == kind {
			shown = name[len(kind):]
		}
	}
	return streamFigures{shown, int64(info.State.Msgs), int64(info.State.Bytes), info.Config.MaxBytes}, nil
}
