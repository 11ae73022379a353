//go:build unix

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

// plan is what a campaign does.
type plan struct {
	Calls   int           // at least
	Kills   int           // of workers, at each point of a call
	Pauses  int           // of a worker, past its ack wait
	Outages int           // of the server: killed, and started again on its store
	Within  time.Duration // the whole of it
}

const (
	agents  = 12
	workers = 3
)

// TestNoCallIsLostAndNothingUnsafeRunsTwiceWhateverProcessIsKilled is the fault
// campaign: calls of every kind while workers are killed at every point of a call,
// paused past their ack wait, messages come twice, calls are stopped, and the
// server is killed and started again.
func TestNoCallIsLostAndNothingUnsafeRunsTwiceWhateverProcessIsKilled(t *testing.T) {
	p := plan{Calls: 100, Kills: 1, Pauses: 1, Outages: 1, Within: 3 * time.Minute}
	if testing.Short() {
		p.Pauses, p.Outages = 0, 0
	}
	if os.Getenv("TOOLBRIDGE_LONG") != "" {
		p = plan{Calls: 3000, Kills: 20, Pauses: 10, Outages: 8, Within: 10 * time.Minute}
	}
	run(t, p)
}

// A worker that was stopped by the system past its ack wait and goes on later
// starts nothing that others have settled, and changes no result.
func TestAPausedWorkerDoesNoHarm(t *testing.T) {
	run(t, plan{Calls: 30, Pauses: 2, Within: 2 * time.Minute})
}

// The server is killed and started again on its store, with calls under way.
func TestCallsSurviveTheServer(t *testing.T) {
	run(t, plan{Calls: 30, Outages: 2, Within: 2 * time.Minute})
}

// campaign is one run.
type campaign struct {
	t    *testing.T
	plan plan
	dir  string
	port int
	url  string
	nc   *nats.Conn
	ref  map[string]string // catalog by session

	mu      sync.Mutex
	random  *rand.Rand
	bus     *process
	workers []*process
	sent    map[string]*sent
	heard   map[string][][]byte // published results

	killed, paused, outages, duplicates, stops atomic.Int64
	supervise                                  sync.WaitGroup
	over                                       chan struct{}
}

// sent is one call of an agent.
type sent struct {
	session, id string
	entries     []entry
	stopped     bool  // it was stopped, before or during
	interrupted []int // entries that the stop called interrupted
	reply       []byte
}

type entry struct {
	Name      string `json:"name"`
	Arguments work   `json:"arguments"`
}

func seed(t *testing.T) uint64 {
	if s := os.Getenv("TOOLBRIDGE_FAULTS_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return rand.Uint64()
}

func run(t *testing.T, p plan) {
	n := seed(t)
	t.Logf("TOOLBRIDGE_FAULTS_SEED=%d", n)
	c := &campaign{
		t: t, plan: p, dir: t.TempDir(), port: -1, random: rand.New(rand.NewPCG(n, n)),
		sent: map[string]*sent{}, heard: map[string][][]byte{}, ref: map[string]string{}, over: make(chan struct{}),
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), p.Within)
	defer cancel()
	c.begin(ctx)
	defer c.end()
	c.run(ctx)
	c.check(ctx)
	dead := deaths(t, c.dir)
	t.Logf("%d calls, %d workers killed %v, %d paused, %d outages of the server, %d messages twice, %d stops; seed %d, %s",
		len(c.sent), c.killed.Load(), dead, c.paused.Load(), c.outages.Load(), c.duplicates.Load(), c.stops.Load(), n, time.Since(begun).Round(time.Second))
	for _, point := range points {
		if dead[point] < p.Kills {
			t.Errorf("%d workers died at %q, %d were to", dead[point], point, p.Kills)
		}
	}
	if c.paused.Load() < int64(p.Pauses) || c.outages.Load() < int64(p.Outages) {
		t.Errorf("%d pauses and %d outages, want %d and %d", c.paused.Load(), c.outages.Load(), p.Pauses, p.Outages)
	}
}

func (c *campaign) begin(ctx context.Context) {
	c.startBus()
	if _, err := fmt.Sscanf(c.url[strings.LastIndexByte(c.url, ':'):], ":%d", &c.port); err != nil {
		c.t.Fatalf("%s: %v", c.url, err)
	}
	executor, err := start("executor", order{URL: c.url, Dir: c.dir})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(executor.end)
	c.workers = make([]*process, workers)
	for i := range workers {
		c.startWorker(i)
		c.supervise.Go(func() { c.keep(i) })
	}
	if c.nc, err = connect(c.url); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.nc.Subscribe("toolbridge.v1.t.*.result.*", func(m *nats.Msg) {
		c.mu.Lock()
		defer c.mu.Unlock()
		id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		c.heard[id] = append(c.heard[id], m.Data)
	}); err != nil {
		c.t.Fatal(err)
	}
	for a := range agents {
		session := fmt.Sprintf("s%d", a)
		for c.ref[session] == "" {
			reply, err := c.request(ctx, session, "assemble", `{"toolsets":["mcp-faults"],"config":{"enabled":true}}`, 5*time.Second)
			var r struct {
				Catalog string `json:"catalog"`
			}
			if err == nil && json.Unmarshal(reply, &r) == nil && r.Catalog != "" {
				c.ref[session] = r.Catalog
			} else if ctx.Err() != nil {
				c.t.Fatalf("assembling: %s %v", reply, err)
			}
		}
	}
}

func (c *campaign) startBus() {
	p, err := start("bus", order{Port: c.port, Dir: c.dir})
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bus, c.url = p, p.said
}

func (c *campaign) startWorker(i int) {
	for {
		p, err := start("worker", order{URL: c.url, Dir: c.dir, Queued: i > 0})
		if err == nil {
			c.mu.Lock()
			c.workers[i] = p
			c.mu.Unlock()
			return
		}
		select {
		case <-c.over:
			return
		default: // the server may be away
		}
	}
}

// keep starts a worker again whenever it has died.
func (c *campaign) keep(i int) {
	for {
		c.mu.Lock()
		p := c.workers[i]
		c.mu.Unlock()
		select {
		case <-p.gone:
			select {
			case <-c.over:
				return
			default:
			}
			if !p.killed() {
				c.t.Errorf("a worker ended by itself: %v", p.err)
			}
			c.killed.Add(1)
			c.startWorker(i)
		case <-c.over:
			return
		}
	}
}

func (c *campaign) end() {
	select {
	case <-c.over:
	default:
		close(c.over)
	}
	c.supervise.Wait()
	for _, p := range c.workers {
		if p != nil {
			p.end()
		}
	}
	if c.nc != nil {
		c.nc.Close()
	}
	c.bus.end()
}

// run lets the agents call while the faults happen, and returns when every call
// has been answered.
func (c *campaign) run(ctx context.Context) {
	var next atomic.Int64
	var deadly []string // points that calls are to die at, in random order
	for _, point := range points {
		for range c.plan.Kills {
			deadly = append(deadly, point)
		}
	}
	c.random.Shuffle(len(deadly), func(i, j int) { deadly[i], deadly[j] = deadly[j], deadly[i] })
	every := 1
	if len(deadly) > 0 {
		every = max(1, c.plan.Calls/len(deadly))
	}
	faults := c.faults(ctx)
	var all sync.WaitGroup
	for a := range agents {
		session := fmt.Sprintf("s%d", a)
		all.Go(func() {
			for ctx.Err() == nil && !c.t.Failed() {
				n := int(next.Add(1)) - 1
				where := ""
				switch {
				case n/every < len(deadly) && n%every == 0:
					where = deadly[n/every]
				case n < c.plan.Calls:
				case c.missing() != "": // a point that no worker has come to as often as it was to
					where = c.missing()
				default:
					select {
					case <-faults: // they go on: so do the calls
						return
					default:
					}
				}
				c.agent(ctx, session, callID(n, where))
			}
		})
	}
	all.Wait()
	<-faults
}

func (c *campaign) missing() string {
	dead := deaths(c.t, c.dir)
	for _, point := range points {
		if dead[point] < c.plan.Kills {
			return point
		}
	}
	return ""
}

// faults pauses workers and kills the server, one after the other.
func (c *campaign) faults(ctx context.Context) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; n < c.plan.Pauses+c.plan.Outages && ctx.Err() == nil && !c.t.Failed(); n++ {
			sleep(ctx, c.between(500*time.Millisecond, 2*time.Second))
			if c.paused.Load() < int64(c.plan.Pauses) && (n%2 == 0 || c.outages.Load() >= int64(c.plan.Outages)) {
				c.pause(ctx)
			} else {
				c.outage(ctx)
			}
		}
	}()
	return done
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// pause stops a worker past its ack wait.
func (c *campaign) pause(ctx context.Context) {
	c.mu.Lock()
	p := c.workers[c.random.IntN(workers)]
	c.mu.Unlock()
	p.signal(syscall.SIGSTOP)
	sleep(ctx, c.between(2*lease, 4*lease))
	p.signal(syscall.SIGCONT)
	c.paused.Add(1)
}

func (c *campaign) outage(ctx context.Context) {
	c.bus.kill()
	sleep(ctx, c.between(100*time.Millisecond, time.Second))
	c.startBus()
	c.outages.Add(1)
}

func (c *campaign) between(low, high time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return low + time.Duration(c.random.Int64N(int64(high-low)))
}

func (c *campaign) chance(percent int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(100) < percent
}

// draw makes a random call.
func (c *campaign) draw(session, id string) *sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := slices.Sorted(maps.Keys(tools))
	s := &sent{session: session, id: id}
	for range 1 + c.random.IntN(4) {
		s.entries = append(s.entries, entry{names[c.random.IntN(len(names))], work{
			Takes: []int{0, 0, 1, 5, 20, 100}[c.random.IntN(6)], Fails: c.random.IntN(8) == 0,
		}})
	}
	c.sent[id] = s
	return s
}

// agent makes one call and waits for its result, as often as it takes.
func (c *campaign) agent(ctx context.Context, session, id string) {
	s := c.draw(session, id)
	arguments, err := json.Marshal(map[string]any{"calls": s.entries})
	if err != nil {
		c.t.Error(err)
		return
	}
	body := fmt.Sprintf(`{"id":%q,"name":"tool_call","arguments":%s,"catalog":%q}`, id, arguments, c.ref[session])
	if c.chance(3) {
		c.stop(ctx, s)
	}
	verb := "bridge"
	if c.chance(50) {
		verb = "call"
	}
	for ctx.Err() == nil {
		reply, err := c.request(ctx, session, verb, body, 3*time.Second)
		if err == nil && isFailure(reply) == "" {
			if verb == "bridge" {
				s.reply = reply
			}
			break
		}
		if code := isFailure(reply); err == nil && code != "UNAVAILABLE" && code != "DEADLINE_EXCEEDED" && code != "BUSY" {
			c.t.Errorf("call %s: %s", id, reply)
			return
		}
		sleep(ctx, 20*time.Millisecond)
	}
	if c.chance(10) {
		c.duplicate(s)
	}
	if verb == "call" && c.chance(10) {
		sleep(ctx, c.between(0, 100*time.Millisecond))
		c.stop(ctx, s)
	}
	for s.reply == nil && ctx.Err() == nil {
		reply, err := c.request(ctx, session, "fetch", fmt.Sprintf(`{"call_id":%q}`, id), 2*time.Second)
		var pending struct {
			Pending bool `json:"pending"`
		}
		if err == nil && isFailure(reply) == "" && json.Unmarshal(reply, &pending) == nil && !pending.Pending {
			s.reply = reply
			return
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// isFailure is the code of a request that was not served, or "".
func isFailure(reply []byte) string {
	var r struct {
		ID    string `json:"id"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return "unreadable"
	}
	return r.Error.Code
}

func (c *campaign) stop(ctx context.Context, s *sent) {
	s.stopped = true
	for ctx.Err() == nil {
		reply, err := c.request(ctx, s.session, "stop", fmt.Sprintf(`{"call_id":%q}`, s.id), 3*time.Second)
		var r subjects.StopReply
		if err == nil && isFailure(reply) == "" && json.Unmarshal(reply, &r) == nil && len(r.Stopped) == 1 {
			s.interrupted = r.Stopped[0].Interrupted
			c.stops.Add(1)
			return
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

// duplicate publishes the call's message again, as a retrying publisher does.
func (c *campaign) duplicate(s *sent) {
	subject := subjects.Space{}.CallSubject(0, tenant, s.session, s.id)
	if c.chance(50) {
		subject = subjects.Space{}.WakeSubject(0, tenant, s.session, s.id)
	}
	if c.nc.Publish(subject, []byte(`{}`)) == nil {
		c.duplicates.Add(1)
	}
}

func (c *campaign) request(ctx context.Context, session, verb, body string, within time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, "toolbridge.v1."+tenant+"."+session+"."+verb, []byte(body))
	if err != nil {
		if errors.Is(err, nats.ErrNoResponders) {
			sleep(ctx, 50*time.Millisecond)
		}
		return nil, err
	}
	return m.Data, nil
}

// check holds what the agents got against what the executor did.
func (c *campaign) check(ctx context.Context) {
	js, err := jetstream.New(c.nc)
	if err != nil {
		c.t.Fatal(err)
	}
	st, err := state.Open(ctx, c.nc, subjects.Space{}, state.Config{})
	if err != nil {
		c.t.Fatal(err)
	}
	calls, err := state.OpenCalls(ctx, js, subjects.Space{}, state.Config{}, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = st
	// What is still on the queue are wake-ups of calls that are final.
	for ctx.Err() == nil {
		info, err := calls.Partitions[0].Queue.Info(ctx)
		if err == nil && info.State.Msgs == 0 {
			break
		}
		sleep(ctx, 100*time.Millisecond)
	}
	if ctx.Err() != nil {
		c.t.Error("the time is over, and the queue is not empty")
	}
	log := readLog(c.t, c.dir)
	checking, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.sent)) {
		s := c.sent[id]
		if s.reply == nil {
			c.t.Errorf("call %s: no result", id)
			continue
		}
		m, err := c.result(checking, calls, s)
		if err != nil || !bytes.Equal(m, s.reply) {
			c.t.Errorf("call %s: the agent got %s, the results have %s: %v", id, s.reply, m, err)
		}
		for _, h := range c.heard[id] {
			if !bytes.Equal(h, s.reply) {
				c.t.Errorf("call %s: the agent got %s, published was %s", id, s.reply, h)
			}
		}
		c.checkSlots(s, log)
		c.checkOrder(s, log)
	}
	c.checkDead(checking, js)
	c.checkAudit(checking, js, log)
}

// result waits for the published result: the sweeper may have to see to it.
func (c *campaign) result(ctx context.Context, calls *state.Calls, s *sent) ([]byte, error) {
	for until := time.Now().Add(10 * lease); ; {
		m, err := calls.Results.GetLastMsgForSubject(ctx, subjects.Space{}.Result(tenant, s.session, s.id))
		if err == nil {
			return m.Data, nil
		}
		if time.Now().After(until) {
			return nil, err
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

type slot struct {
	Index    int                 `json:"index"`
	Response json.RawMessage     `json:"response"`
	Error    *subjects.SlotError `json:"error"`
}

func slots(reply []byte, entries int) ([]slot, error) {
	var r struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return nil, err
	}
	if entries == 1 {
		var one slot
		if err := json.Unmarshal(r.Result, &one); err != nil {
			return nil, err
		}
		if one.Error == nil {
			one.Response = r.Result
		}
		return []slot{one}, nil
	}
	var batch struct {
		Results []slot `json:"results"`
	}
	err := json.Unmarshal(r.Result, &batch)
	if err == nil && len(batch.Results) != entries {
		err = fmt.Errorf("%d slots for %d entries", len(batch.Results), entries)
	}
	return batch.Results, err
}

// checkSlots: every slot says what happened.
func (c *campaign) checkSlots(s *sent, log map[string]*executed) {
	list, err := slots(s.reply, len(s.entries))
	if err != nil {
		c.t.Errorf("call %s: %s: %v", s.id, s.reply, err)
		return
	}
	for i, slot := range list {
		done := log[fmt.Sprintf("%s.%d", s.id, i)]
		if done == nil {
			done = &executed{}
		}
		text, _ := json.Marshal(slot)
		bad := func(why string) {
			c.t.Errorf("call %s entry %d (%s, started %d times, ended %q): %s: %s", s.id, i, s.entries[i].Name, len(done.starts), done.ends, text, why)
		}
		if len(done.starts) > 1 && !tools[s.entries[i].Name].repeatable {
			bad("it is not safe to repeat")
		}
		if slices.Contains(s.interrupted, i) && len(done.starts) > 0 {
			bad("the stop called it interrupted")
		}
		if slot.Error == nil {
			var r struct {
				Run int `json:"run"`
			}
			if err := json.Unmarshal(slot.Response, &r); err != nil || r.Run >= len(done.ends) || done.ends[r.Run] != "done" {
				bad("no run ended so")
			}
			continue
		}
		switch slot.Error.Code {
		case subjects.CodeToolError:
			switch {
			case slot.Error.ExecutorCode == string(subjects.CodeCancelled):
				if !slices.Contains(done.ends, "cancelled") || !s.stopped {
					bad("no run was cancelled")
				}
			case !slices.Contains(done.ends, "failed"):
				bad("no run failed")
			}
		case subjects.CodeInterrupted:
			if len(done.starts) > 0 || !s.stopped {
				bad("it was started, or nobody stopped it")
			}
		case subjects.CodeExecutorUnavailable:
			if len(done.starts) > 0 {
				bad("it was started")
			}
		case subjects.CodeTimeout:
			// One that is safe to repeat may have been lost on its way.
			if !tools[s.entries[i].Name].repeatable && !slices.Contains(done.ends, "cancelled") {
				bad("it is not safe to repeat, and its cancel was not confirmed")
			}
		case subjects.CodeOutcomeUnknown: // says nothing that could be wrong
		default:
			bad("this code was not to be expected")
		}
	}
}

// checkOrder: an entry of the ordered lane starts only when the one before it was
// settled. One that was settled without its end being known may still run.
func (c *campaign) checkOrder(s *sent, log map[string]*executed) {
	list, err := slots(s.reply, len(s.entries))
	if err != nil {
		return
	}
	var last, ended time.Time
	for i, e := range s.entries {
		if tools[e.Name].parallel {
			continue
		}
		done := log[fmt.Sprintf("%s.%d", s.id, i)]
		if done == nil {
			continue
		}
		for _, at := range done.starts {
			if at.Before(last) || at.Before(ended) {
				c.t.Errorf("call %s: entry %d started out of order", s.id, i)
			}
		}
		last = slices.MaxFunc(done.starts, time.Time.Compare)
		if len(done.starts) == 1 && list[i].Error == nil {
			ended = done.ended[0]
		}
	}
}

// checkAudit: whatever was executed is in the audit, at least once, and only that.
func (c *campaign) checkAudit(ctx context.Context, js jetstream.JetStream, log map[string]*executed) {
	stream, err := js.Stream(ctx, subjects.StreamAudit)
	if err != nil {
		c.t.Fatal(err)
	}
	written := map[string]int{}
	for until := time.Now().Add(10 * lease); ; sleep(ctx, 100*time.Millisecond) { // the last may be on their way
		info, err := stream.Info(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		clear(written)
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
			m, err := stream.GetMsg(ctx, seq)
			if err != nil {
				c.t.Fatal(err)
			}
			var a subjects.AuditRecord
			if err := subjects.Decode(m.Data, &a); err != nil {
				c.t.Errorf("audit record %d: %s: %v", seq, m.Data, err)
			} else if a.Type == string(subjects.EventToolFinished) && a.Index != nil {
				written[fmt.Sprintf("%s.%d", a.CallID, *a.Index)]++
			}
		}
		var missing []string
		for _, id := range slices.Sorted(maps.Keys(log)) {
			if written[id] == 0 {
				missing = append(missing, id)
			}
		}
		if len(missing) == 0 {
			break
		}
		if time.Now().After(until) {
			c.t.Errorf("executed, and not in the audit: %q", missing)
			break
		}
	}
	twice := 0
	for _, n := range written {
		if n > 1 {
			twice++
		}
	}
	c.t.Logf("%d executions in the audit, %d of them more than once", len(written), twice)
}

// checkDead: nothing was given up but messages that name no call.
func (c *campaign) checkDead(ctx context.Context, js jetstream.JetStream) {
	stream, err := js.Stream(ctx, subjects.StreamDead)
	if err != nil {
		c.t.Fatal(err)
	}
	for seq := stream.CachedInfo().State.FirstSeq; seq <= stream.CachedInfo().State.LastSeq && stream.CachedInfo().State.Msgs > 0; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil || !bytes.Contains(m.Data, []byte("the journal has no record")) {
			c.t.Errorf("a dead letter: %s %v", m.Data, err)
		}
	}
}
