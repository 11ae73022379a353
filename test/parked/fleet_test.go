//go:build unix

package parked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func contextWithin(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

const (
	tenant   = "toolbridge.v1.t."
	sessions = 20
	// atOnce is how many requests are under way.
	atOnce = 32
	// patience is how long anything is waited for that must come.
	patience = 5 * time.Minute
	// answerWithin is after how long a request is sent again.
	answerWithin = 5 * time.Second
)

// fleet is one server and its workers, with the tenant's callers, approver and
// executor.
type fleet struct {
	t      testing.TB
	bus    *process
	order  order
	nc     *nats.Conn
	js     jetstream.JetStream
	refs   [sessions]string // catalogs
	stored int              // calls that have a result in the end
	amid   bool             // workers are killed while they run what was approved
	lost   int              // executions of which the outcome is unknown

	mu    sync.Mutex
	ran   map[string]int    // executions by call
	asked map[string]string // approval ids by call
}

// newFleet starts a server and a first worker.
func newFleet(t testing.TB, approval, lease time.Duration) (*fleet, *process) {
	t.Helper()
	f := &fleet{t: t, order: order{Store: t.TempDir(), Port: -1, Approval: approval, Lease: lease}, ran: map[string]int{}, asked: map[string]string{}}
	t.Cleanup(func() { f.bus.stop() }) // after the workers and the connection
	f.bus = start(t, "bus", f.order)
	f.order.URL = f.bus.said
	if _, err := fmt.Sscanf(f.bus.said, "nats://127.0.0.1:%d", &f.order.Port); err != nil {
		t.Fatalf("the server is at %q: %v", f.bus.said, err)
	}
	nc, err := nats.Connect(f.order.URL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	t.Cleanup(func() { nc.Close(); <-closed })
	f.nc = nc
	if f.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	f.subscribe(tenant+"*.exec", f.execute)
	f.subscribe(tenant+"_approvals.requested", f.request)
	w := f.worker()
	f.sessions()
	return f, w
}

func (f *fleet) worker() *process {
	f.t.Helper()
	w := start(f.t, "worker", f.order)
	f.t.Cleanup(w.stop)
	return w
}

func (f *fleet) subscribe(subject string, take nats.MsgHandler) {
	f.t.Helper()
	sub, err := f.nc.Subscribe(subject, take)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = f.nc.Flush()
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// execute is the sessions' own process: it counts and answers.
func (f *fleet) execute(m *nats.Msg) {
	var r struct {
		ExecutionID string `json:"execution_id"`
	}
	_ = json.Unmarshal(m.Data, &r)
	call, _, _ := strings.Cut(r.ExecutionID, ".")
	f.mu.Lock()
	f.ran[call]++
	f.mu.Unlock()
	_ = m.Respond([]byte(`{"result":"ran ` + call + `"}`))
}

// request is an approver who is asked.
func (f *fleet) request(m *nats.Msg) {
	var r struct {
		ID   string `json:"id"`
		Call string `json:"call_id"`
	}
	_ = json.Unmarshal(m.Data, &r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[r.Call] = r.ID
}

func (f *fleet) sessions() {
	f.t.Helper()
	ctx, cancel := contextWithin(time.Minute)
	defer cancel()
	grants, err := f.js.KeyValue(ctx, "toolbridge_grants")
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range f.refs {
		if _, err := grants.PutString(ctx, "t."+session(i), `{"user":"ann"}`); err != nil {
			f.t.Fatal(err)
		}
		var definitions []string
		for _, name := range []string{payTool, writeTool} {
			definitions = append(definitions, fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":"Does it.","parameters":{"type":"object","properties":{"to":{"type":"string"}}}}}`, name))
		}
		reply := f.ask(tenant+session(i)+".assemble", `{"tools":[`+strings.Join(definitions, ",")+`]}`)
		if f.refs[i] = reply.Catalog; reply.Catalog == "" {
			f.t.Fatalf("a session has no catalog: %+v", reply)
		}
	}
}

func session(i int) string { return fmt.Sprintf("s%d", i%sessions) }

// reply has what is looked at of all replies.
type reply struct {
	Catalog string          `json:"catalog"`
	Stored  bool            `json:"stored"`
	ID      string          `json:"id"`
	Result  json.RawMessage `json:"result"`
	State   string          `json:"state"`
	IsError bool            `json:"is_error"`
	Error   struct {
		Code     string `json:"code"`
		Decision struct {
			State string `json:"state"`
		} `json:"decision"`
	} `json:"error"`
	Approvals []json.RawMessage `json:"approvals"`
	Truncated int               `json:"truncated"`
}

// ask sends a request again until it is answered: all that are sent here change
// nothing the second time.
func (f *fleet) ask(subject, body string) (r reply) {
	for deadline := time.Now().Add(patience); ; {
		m, err := f.nc.Request(subject, []byte(body), answerWithin)
		if err == nil {
			err = json.Unmarshal(m.Data, &r)
		}
		if err == nil && r.Error.Code != "UNAVAILABLE" && r.Error.Code != "BUSY" && r.Error.Code != "DEADLINE_EXCEEDED" {
			return r
		}
		if time.Now().After(deadline) {
			f.t.Errorf("%s is not answered: %v %+v", subject, err, r)
			return r
		}
		r = reply{}
		if errors.Is(err, nats.ErrNoResponders) || err == nil {
			<-time.After(20 * time.Millisecond)
		}
	}
}

// each does something for the numbers from 0 on, several at once.
func each(n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}

func callID(i int) string { return fmt.Sprintf("p%d", i) }

// park stores n calls that need a person and returns when all are parked.
func (f *fleet) park(n int) {
	f.t.Helper()
	began := time.Now()
	each(n, func(i int) {
		body := fmt.Sprintf(`{"id":%q,"name":"tool_call","arguments":{"calls":[{"name":%q,"arguments":{"to":"account %d"}}]},"catalog":%q}`, callID(i), payTool, i, f.refs[i%sessions])
		if r := f.ask(tenant+session(i)+".call", body); !r.Stored {
			f.t.Errorf("call %d is not stored: %+v", i, r)
		}
	})
	f.stored += n
	f.eventually("all calls are parked", func() bool { return f.askedFor() == n && f.waiting() == n })
	f.t.Logf("%d calls parked in %s", n, since(began))
	if f.t.Failed() {
		f.t.FailNow()
	}
}

func (f *fleet) askedFor() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

// waiting is how many calls wait for people, with nobody at work on them, by the
// journal.
func (f *fleet) waiting() (n int) {
	f.t.Helper()
	ctx, cancel := contextWithin(patience)
	defer cancel()
	journal, err := f.js.KeyValue(ctx, "toolbridge_journal_0")
	if err != nil {
		f.t.Fatal(err)
	}
	watch, err := journal.Watch(ctx, "t.*.*")
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = watch.Stop() }()
	for entry := range watch.Updates() {
		if entry == nil {
			return n
		}
		var r struct {
			Lease   any
			Entries []struct {
				State string
				Asked bool
			}
		}
		if err := json.Unmarshal(entry.Value(), &r); err != nil {
			f.t.Fatal(err)
		}
		if r.Lease == nil && len(r.Entries) == 1 && r.Entries[0].State == "awaiting" && r.Entries[0].Asked {
			n++
		}
	}
	return n
}

// write is a call that needs nobody; it returns how long its result took.
func (f *fleet) write(i int) time.Duration {
	f.t.Helper()
	body := fmt.Sprintf(`{"id":"w%d","name":"tool_call","arguments":{"calls":[{"name":%q,"arguments":{"to":"file"}}]},"catalog":%q}`, f.stored, writeTool, f.refs[i%sessions])
	want := fmt.Sprintf(`"ran w%d"`, f.stored)
	f.stored++
	began := time.Now()
	r := f.ask(tenant+session(i)+".bridge", body)
	took := time.Since(began)
	if string(r.Result) != want {
		f.t.Fatalf("a call that needs nobody: %+v, want %s", r, want)
	}
	return took
}

// replace kills a worker and starts another.
func (f *fleet) replace(w *process) *process {
	f.t.Helper()
	w.kill()
	began := time.Now()
	next := f.worker()
	f.t.Logf("a worker was killed and another is ready after %s", since(began))
	return next
}

// restartBus kills the server and starts it again on its store.
func (f *fleet) restartBus() {
	f.t.Helper()
	began := time.Now()
	f.bus.kill()
	f.bus = start(f.t, "bus", f.order)
	f.t.Logf("the server was killed and is back after %s", since(began))
}

// results reads the stream of results: the results by call, and whether one was
// published more than once.
func (f *fleet) results() (byCall map[string]reply, twice bool) {
	f.t.Helper()
	ctx, cancel := contextWithin(patience)
	defer cancel()
	stream, err := f.js.Stream(ctx, "TOOLBRIDGE_RESULTS")
	if err != nil {
		f.t.Fatal(err)
	}
	state := stream.CachedInfo().State
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		f.t.Fatal(err)
	}
	byCall = map[string]reply{}
	it, err := consumer.Messages()
	if err != nil {
		f.t.Fatal(err)
	}
	defer it.Stop()
	for range state.Msgs {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			f.t.Fatal(err)
		}
		var r reply
		if err := json.Unmarshal(m.Data(), &r); err != nil {
			f.t.Fatal(err)
		}
		if !strings.HasSuffix(m.Subject(), "."+r.ID) {
			f.t.Errorf("%s has the result of %s", m.Subject(), r.ID)
		}
		byCall[r.ID] = r
	}
	return byCall, state.LastSeq != state.Msgs
}

// count is how many messages a stream has.
func (f *fleet) count(stream string) int {
	f.t.Helper()
	ctx, cancel := contextWithin(time.Minute)
	defer cancel()
	s, err := f.js.Stream(ctx, stream)
	if err != nil {
		f.t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

func (f *fleet) eventually(what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
