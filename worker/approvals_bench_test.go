package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/approval"
	"toolbridge/worker"
)

// BenchmarkParked parks 10,000 calls on approvals, and reports the worker's heap
// for each, how long a new call takes beside them, and how fast another worker
// settles them after the first has gone. One iteration: -benchtime 1x.
func BenchmarkParked(b *testing.B) {
	const parked = 10_000
	for b.Loop() {
		f := newFleet(b)
		cfg := worker.Config{ApprovalTimeout: time.Hour, Policy: approval.Policy{Default: approval.Allow, Rules: []approval.Rule{{Match: "mcp__bank__pay", Action: approval.Ask}}}}
		stopIdle := f.startStoppable(cfg)
		f.grant("s1", `{"user":"ann"}`)
		ref := f.assemble("s1", bank())["catalog"].(string)
		idle := worth(stopIdle)

		stop := f.startStoppable(cfg)
		f.respond("toolbridge.v1.t.s1.exec", `{"result":true}`)
		var mu sync.Mutex
		ids := make([]string, 0, parked)
		asked := f.each("toolbridge.v1.t._approvals.requested", func(m *nats.Msg) {
			var q struct{ ID string }
			_ = json.Unmarshal(m.Data, &q)
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, q.ID)
		})
		before := f.latencies(ref)
		f.parallel(parked, func(i int) (string, string) {
			return "toolbridge.v1.t.s1.call", fmt.Sprintf(`{"id":"p%d","name":"tool_call","arguments":%s,"catalog":%q}`, i, one("mcp__bank__pay", `{"to":"somebody"}`), ref)
		})
		eventually(b, "all are asked for", func() bool { return asked() == parked })
		beside := f.latencies(ref)
		b.ReportMetric(float64(max(0, worth(stop)-idle))/parked, "B/parked")
		for i, name := range []string{"p50", "p99"} {
			b.ReportMetric(float64(beside[i])/float64(before[i]), name+"-ratio")
			b.ReportMetric(float64(beside[i].Microseconds()), name+"-µs")
		}

		done := f.each("toolbridge.v1.t.s1.result.*", func(*nats.Msg) {})
		f.start(cfg)
		start := time.Now()
		f.parallel(parked, func(i int) (string, string) {
			return "toolbridge.v1.t._approvals.decide.ann", fmt.Sprintf(`{"id":%q,"choice":"once"}`, ids[i])
		})
		for deadline := time.Now().Add(5 * time.Minute); done() < parked; {
			if time.Now().After(deadline) {
				b.Fatalf("%d of %d are settled", done(), parked)
			}
			<-time.After(10 * time.Millisecond)
		}
		b.ReportMetric(float64(parked)/time.Since(start).Seconds(), "settled/s")
	}
}

// worth is how much heap a worker gives back when it is stopped.
func worth(stop func()) int64 {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	with := heap()
	stop()
	return with - heap()
}

// each counts the messages of a subject.
func (f *fleet) each(subject string, take func(*nats.Msg)) (count func() int) {
	f.t.Helper()
	var n atomic.Int64
	sub, err := f.nc.Subscribe(subject, func(m *nats.Msg) {
		take(m)
		n.Add(1)
	})
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = sub.Unsubscribe() })
	f.flush()
	return func() int { return int(n.Load()) }
}

func (f *fleet) respond(subject, body string) {
	f.t.Helper()
	f.each(subject, func(m *nats.Msg) { _ = m.Respond([]byte(body)) })
}

// parallel sends requests, 64 at once.
func (f *fleet) parallel(n int, request func(i int) (subject, body string)) {
	f.t.Helper()
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				subject, body := request(i)
				ctx, cancel := context.WithTimeout(context.Background(), wait)
				m, err := f.nc.RequestWithContext(ctx, subject, []byte(body))
				cancel()
				if err != nil || m.Header.Get("Nats-Service-Error") != "" {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if k := failed.Load(); k > 0 {
		f.t.Fatalf("%d of %d requests failed", k, n)
	}
}

// latencies are the median and the 99th percentile of 400 calls, one after the
// other.
func (f *fleet) latencies(ref string) [2]time.Duration {
	f.t.Helper()
	list := make([]time.Duration, 400)
	for i := range list {
		start := time.Now()
		if got := f.call("s1", ref, one("mcp__fs__write", `{}`)); got["is_error"] == true {
			f.t.Fatalf("reply = %s", text(got))
		}
		list[i] = time.Since(start)
	}
	slices.Sort(list)
	return [2]time.Duration{list[len(list)/2], list[len(list)*99/100]}
}
