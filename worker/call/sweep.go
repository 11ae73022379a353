package call

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// The sweeper brings back what no message does: calls whose worker was lost while
// it ran what it had accepted itself, accepted calls whose message was never
// queued or got lost, results that were written down and not published, and
// approvals that expire. One worker of the fleet sweeps; it holds a lease in the
// journal of partition 0. What it finds it only sends to the queue, so that two
// sweepers at once do no harm.
const (
	sweepTick  = time.Second
	sweepLease = 10 * time.Second
	sweepKey   = "=sweeper"
	// patience is how many leases a message that is still on its queue is waited
	// for before another is sent.
	patience = 10
	// resends is how often a result that stays unpublished is sent for.
	resends = 5
)

// sweepTimes are tick and lease of the sweeper, shorter where the calls' lease is.
func (c Config) sweepTimes() (tick, lease time.Duration) {
	tick = min(sweepTick, c.Lease/4)
	return tick, max(min(sweepLease, c.Lease), 3*tick)
}

type sweepHolder struct {
	Worker string `json:"worker"`
	Until  int64  `json:"until"`
}

// open is what the sweeper remembers of a call that is not final.
type open struct {
	changed time.Time // when the record was written, or its call was last sent
	written time.Time
	until   int64 // of its lease, unix milliseconds; 0: none
	waiting bool  // for people only
	pending []pendingApproval
}

// unsent is a final call whose result was not seen in the results yet.
type unsent struct {
	since time.Time
	sent  int
}

type pendingApproval struct {
	id      string
	expires int64 // unix milliseconds
}

type sweeper struct {
	e        *Engine
	tick     time.Duration
	lease    time.Duration
	holds    bool
	journals []follower // by partition
	results  follower
	since    time.Time // what was final before was some earlier sweeper's
	open     map[key]*open
	unsent   map[key]*unsent
	early    map[key]time.Time // results seen before their record
}

func (e *Engine) sweep(ctx context.Context) {
	s := &sweeper{e: e}
	s.tick, s.lease = e.cfg.sweepTimes()
	tick := time.NewTicker(s.tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.stopping:
			if s.holds {
				s.release()
			}
			return
		case <-tick.C:
		}
		held := s.holds
		if s.holds = s.take(ctx); !s.holds {
			e.fleet.Store(nil)
			continue
		}
		if !held { // what another sweeper knew is not known here
			s.begin()
		}
		if err := s.once(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("sweeping calls", "error", err)
		}
	}
}

func (s *sweeper) begin() {
	s.open, s.unsent, s.early = map[key]*open{}, map[key]*unsent{}, map[key]time.Time{}
	s.results = follower{js: s.e.js, stream: subjects.StreamResults, headers: true, from: s.since}
	s.journals = nil
	for i := range s.e.calls.Partitions {
		s.journals = append(s.journals, follower{js: s.e.js, stream: "KV_" + s.e.calls.Partitions[i].Bucket})
	}
}

// take takes or renews the sweeper's lease.
func (s *sweeper) take(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.lease/2)
	defer cancel()
	p := &s.e.calls.Partitions[0]
	value, revision, err := s.e.state.GetFresh(ctx, p.Bucket, sweepKey)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return false
	}
	var have sweepHolder
	now := time.Now()
	readable := err == nil && subjects.Decode(value, &have) == nil
	if readable && have.Worker != s.e.id && now.UnixMilli() < have.Until {
		return false
	}
	if have.Worker == s.e.id && now.Add(s.lease/2).UnixMilli() < have.Until {
		return true
	}
	if !s.holds {
		s.since = time.Time{}
		if readable && have.Until > 0 {
			s.since = time.UnixMilli(have.Until).Add(-s.lease - (resends+1)*s.e.cfg.Lease)
		}
	}
	return s.write(ctx, sweepHolder{s.e.id, now.Add(s.lease).UnixMilli()}, revision)
}

func (s *sweeper) write(ctx context.Context, h sweepHolder, revision uint64) bool {
	body, err := subjects.Encode(h)
	if err != nil {
		return false
	}
	_, err = s.e.calls.Partitions[0].Journal.Update(ctx, sweepKey, body, revision)
	return err == nil
}

// release gives the lease up, so that another worker goes on at once.
func (s *sweeper) release() {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTick)
	defer cancel()
	value, revision, err := s.e.state.GetFresh(ctx, s.e.calls.Partitions[0].Bucket, sweepKey)
	var have sweepHolder
	if err == nil && subjects.Decode(value, &have) == nil && have.Worker == s.e.id {
		s.write(ctx, sweepHolder{s.e.id, time.Now().UnixMilli()}, revision)
	}
}

func (s *sweeper) once(ctx context.Context) error {
	for i := range s.journals {
		prefix := "$KV." + s.e.calls.Partitions[i].Bucket + "."
		if err := s.journals[i].read(ctx, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
			s.note(strings.TrimPrefix(m.Subject(), prefix), m.Data(), meta)
		}); err != nil {
			return err
		}
	}
	if err := s.results.read(ctx, func(m jetstream.Msg, meta *jetstream.MsgMetadata) { s.published(m.Subject(), meta) }); err != nil {
		return err
	}
	now := time.Now()
	var errs []error
	for k, o := range s.open {
		for _, a := range o.pending {
			if now.UnixMilli() >= a.expires {
				s.expire(ctx, k, a.id)
			}
		}
		if o.waiting || !s.lost(ctx, k, o, now) {
			continue
		}
		o.changed = now // give it time before it is sent once more
		s.e.cfg.Metrics.Count(tracing.CallsResent, 1)
		errs = append(errs, s.e.wake(ctx, k))
	}
	for k, u := range s.unsent {
		if now.Sub(u.since) < s.e.cfg.Lease {
			continue
		}
		if u.since, u.sent = now, u.sent+1; u.sent > resends {
			delete(s.unsent, k)
			continue
		}
		errs = append(errs, s.e.wake(ctx, k))
	}
	for k, at := range s.early {
		if now.Sub(at) > followerIdle {
			delete(s.early, k)
		}
	}
	s.count()
	return errors.Join(errs...)
}

// lost reports whether nothing will bring a call back: its lease has ended, or it
// has none and no message either.
func (s *sweeper) lost(ctx context.Context, k key, o *open, now time.Time) bool {
	if o.until > 0 {
		return now.UnixMilli() > o.until && now.Sub(o.changed) > s.e.cfg.Lease
	}
	if now.Sub(o.changed) < 2*s.e.cfg.Lease {
		return false
	}
	return now.Sub(o.written) > patience*s.e.cfg.Lease || !s.queued(ctx, k)
}

// queued reports whether a call has a message on its queue, be it with a worker.
func (s *sweeper) queued(ctx context.Context, k key) bool {
	p := s.e.calls.Of(k.tenant, k.session)
	for _, subject := range []string{
		s.e.cfg.Space.CallSubject(p.Number, k.tenant, k.session, k.id), s.e.cfg.Space.WakeSubject(p.Number, k.tenant, k.session, k.id),
	} {
		if _, err := p.Queue.GetLastMsgForSubject(ctx, subject); !errors.Is(err, jetstream.ErrMsgNotFound) {
			return true // or not to be known now
		}
	}
	return false
}

func (s *sweeper) expire(ctx context.Context, k key, id string) {
	if s.e.approvals == nil {
		return
	}
	d := subjects.Decision{ID: id, State: subjects.ApprovalExpired, At: now(), Reason: "expired"}
	if err := s.e.approvals.Settle(ctx, k.tenant, id, d); err != nil {
		s.e.log.Warn("an expired approval could not be settled; it is tried again", "approval", id, "error", err)
	}
}

// finalRecord is how the value of a final record begins.
var finalRecord = []byte(`{"v":1,"final":true,`)

// note remembers what a record says.
func (s *sweeper) note(name string, data []byte, meta *jetstream.MsgMetadata) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !subjects.ValidToken(parts[2]) {
		return
	}
	k := key{parts[0], parts[1], parts[2]}
	if bytes.HasPrefix(data, finalRecord) {
		delete(s.open, k)
		if _, ok := s.early[k]; ok {
			delete(s.early, k)
		} else if meta.Timestamp.After(s.since) {
			s.unsent[k] = &unsent{since: meta.Timestamp}
		}
		return
	}
	r := new(Record)
	if subjects.Decode(data, r) != nil || r.Final || r.Body == "" {
		delete(s.open, k)
		return
	}
	o := &open{changed: meta.Timestamp, written: meta.Timestamp, waiting: r.Lease == nil && len(r.startable()) == 0 && !r.undecided() && !r.allDone()}
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

// published takes note of a result.
func (s *sweeper) published(subject string, meta *jetstream.MsgMetadata) {
	addr, err := s.e.cfg.Space.Parse(subject)
	if err != nil {
		return
	}
	k := key{addr.Tenant, addr.Session, addr.CallID}
	if _, ok := s.unsent[k]; ok {
		delete(s.unsent, k)
		return
	}
	s.early[k] = meta.Timestamp
}
