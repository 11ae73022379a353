package call

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// The sweeper settles what no message brings back: approvals that expire, and
// accepted calls whose message was never queued or got lost. One worker of the
// fleet sweeps; it holds a lease in the journal of partition 0.
const (
	sweepTick  = time.Second
	sweepLease = 10 * time.Second
	sweepKey   = "=sweeper"
)

type sweepHolder struct {
	Worker string `json:"worker"`
	Until  int64  `json:"until"`
}

// open is what the sweeper remembers of a call that is not final.
type open struct {
	changed time.Time // when the record was written
	until   int64     // of its lease, unix milliseconds; 0: none
	waiting bool      // for people only
	pending []pendingApproval
}

type pendingApproval struct {
	id      string
	expires int64 // unix milliseconds
}

type sweeper struct {
	e    *Engine
	seen []uint64 // per partition: the last journal write that was looked at
	open map[key]*open
}

func (e *Engine) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepTick)
	defer tick.Stop()
	s := &sweeper{e: e}
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.stopping:
			return
		case <-tick.C:
		}
		if !e.sweeps(ctx) {
			s.open = nil // another worker sweeps; what is known here grows old
			continue
		}
		if s.open == nil {
			s.open, s.seen = map[key]*open{}, make([]uint64, len(e.calls.Partitions))
		}
		if err := s.once(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("sweeping calls", "error", err)
		}
	}
}

// sweeps takes or renews the sweeper's lease.
func (e *Engine) sweeps(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepLease/2)
	defer cancel()
	p := &e.calls.Partitions[0]
	value, revision, err := e.state.GetFresh(ctx, p.Bucket, sweepKey)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return false
	}
	var have sweepHolder
	now := time.Now()
	if err == nil && subjects.Decode(value, &have) == nil && have.Worker != e.id && now.UnixMilli() < have.Until {
		return false
	}
	if have.Worker == e.id && now.Add(sweepLease/2).UnixMilli() < have.Until {
		return true
	}
	body, err := subjects.Encode(sweepHolder{e.id, now.Add(sweepLease).UnixMilli()})
	if err != nil {
		return false
	}
	_, err = p.Journal.Update(ctx, sweepKey, body, revision)
	return err == nil
}

func (s *sweeper) once(ctx context.Context) error {
	for i := range s.e.calls.Partitions {
		if err := s.read(ctx, i); err != nil {
			return err
		}
	}
	now := time.Now()
	for k, o := range s.open {
		for _, a := range o.pending {
			if now.UnixMilli() >= a.expires {
				s.expire(ctx, k, a.id)
			}
		}
		late := now.Sub(o.changed) > 2*s.e.cfg.Lease
		if !late || o.waiting || o.until > now.UnixMilli() {
			continue
		}
		if err := s.e.wake(ctx, k); err != nil {
			return err
		}
		o.changed = now // give it time before it is sent once more
	}
	return nil
}

func (s *sweeper) expire(ctx context.Context, k key, id string) {
	d := subjects.Decision{ID: id, State: subjects.ApprovalExpired, At: now(), Reason: "expired"}
	if err := s.e.approvals.Settle(ctx, k.tenant, id, d); err != nil {
		s.e.log.Warn("an expired approval could not be settled; it is tried again", "approval", id, "error", err)
	}
}

// read looks at what was written into one journal since the last time. The
// journal keeps one value a call, so that a call costs one look however often it
// was written between two.
func (s *sweeper) read(ctx context.Context, partition int) error {
	p := &s.e.calls.Partitions[partition]
	stream, err := s.e.js.Stream(ctx, "KV_"+p.Bucket)
	if err != nil {
		return err
	}
	last := stream.CachedInfo().State.LastSeq
	if last <= s.seen[partition] {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.seen[partition] + 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	for s.seen[partition] < last {
		batch, err := consumer.FetchNoWait(500)
		if err != nil {
			return err
		}
		n := 0
		for msg := range batch.Messages() {
			n++
			meta, err := msg.Metadata()
			if err != nil {
				return err
			}
			s.seen[partition] = meta.Sequence.Stream
			s.note(strings.TrimPrefix(msg.Subject(), "$KV."+p.Bucket+"."), msg.Data(), meta)
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if n == 0 {
			s.seen[partition] = last // the rest is gone by now
		}
	}
	return nil
}

func (s *sweeper) note(name string, data []byte, meta *jetstream.MsgMetadata) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || strings.HasPrefix(parts[2], "=") {
		return
	}
	k := key{parts[0], parts[1], parts[2]}
	r := new(Record)
	if subjects.Decode(data, r) != nil || r.Final || r.Body == "" {
		delete(s.open, k)
		return
	}
	o := &open{changed: meta.Timestamp, waiting: r.Lease == nil && len(r.startable()) == 0 && !r.undecided() && !r.allDone()}
	if r.Lease != nil {
		o.until = r.Lease.Until
	}
	for i := range r.Entries {
		if r.Entries[i].State == Awaiting {
			o.pending = append(o.pending, pendingApproval{r.Entries[i].Approval, r.Entries[i].Expires})
		}
	}
	s.open[k] = o
}
