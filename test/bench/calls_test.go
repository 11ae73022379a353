//go:build unix

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A durable call of a tool that answers at once, beside what it can not do with
// less: the bare chain publish → pull → KV create → KV update → publish → double
// ack on streams of the same kind, written straight against the client library.

// chain is the bare chain on one connection.
type chain struct {
	js       jetstream.JetStream
	kv       jetstream.KeyValue
	consumer jetstream.Consumer
}

const (
	chainStream  = "bench_chain"
	chainResults = "bench_results"
	chainBucket  = "bench_journal"
)

func newChain(b testing.TB, nc *nats.Conn) *chain {
	b.Helper()
	ctx := b.Context()
	c := &chain{}
	var err error
	if c.js, err = jetstream.New(nc); err != nil {
		b.Fatal(err)
	}
	for _, cfg := range []jetstream.StreamConfig{
		{Name: chainStream, Subjects: []string{"bench.chain.*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew},
		{Name: chainResults, Subjects: []string{"bench.result.*"}, MaxMsgsPerSubject: 1, Storage: jetstream.FileStorage},
	} {
		if _, err := c.js.CreateOrUpdateStream(ctx, cfg); err != nil {
			b.Fatal(err)
		}
	}
	if c.kv, err = c.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: chainBucket, History: 1, Storage: jetstream.FileStorage}); err != nil {
		b.Fatal(err)
	}
	if c.consumer, err = c.js.CreateOrUpdateConsumer(ctx, chainStream, jetstream.ConsumerConfig{Durable: "bench", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1_000_000}); err != nil {
		b.Fatal(err)
	}
	return c
}

// once takes one message the whole way. Where several clients do so at once, it
// may be another's.
func (c *chain) once(ctx context.Context, id string, body []byte) error {
	if _, err := c.js.Publish(ctx, "bench.chain."+id, body); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	msg, err := c.consumer.Next(jetstream.FetchMaxWait(30 * time.Second))
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	id = msg.Subject()[len("bench.chain."):]
	revision, err := c.kv.Create(ctx, id, msg.Data())
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if _, err := c.kv.Update(ctx, id, msg.Data(), revision); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	if _, err := c.js.Publish(ctx, "bench.result."+id, msg.Data()); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return msg.DoubleAck(ctx)
}

// caller makes durable calls of one session on one connection.
type caller struct {
	nc  *nats.Conn
	ref string
}

var calls atomic.Int64

func nextID(prefix string) string { return fmt.Sprintf("%s%d", prefix, calls.Add(1)) }

const (
	callSubject   = "toolbridge.v1.bench.calls.call"
	bridgeSubject = "toolbridge.v1.bench.calls.bridge"
	noop          = "mcp__bench__noop"
	nap           = "mcp__bench__nap"
)

func (c *caller) body(id, calls string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"name":"tool_call","arguments":{"calls":[%s]},"catalog":%q}`, id, calls, c.ref)
}

// waits is one call over the bridge, which is stored and waited for.
func (c *caller) waits(_ context.Context) error {
	m, err := c.nc.Request(bridgeSubject, c.body(nextID("b"), `{"name":"`+noop+`","arguments":{}}`), 60*time.Second)
	if err == nil && string(m.Data[len(m.Data)-len(noopResult)-1:]) != noopResult+"}" {
		err = fmt.Errorf("the reply is %s", m.Data)
	}
	return err
}

// stores is one call that is stored, and whose result comes by itself.
func (c *caller) stores(_ context.Context) error {
	id := nextID("d")
	result := make(chan *nats.Msg, 1)
	sub, err := c.nc.ChanSubscribe("toolbridge.v1.bench.calls.result."+id, result)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	m, err := c.nc.Request(callSubject, c.body(id, `{"name":"`+noop+`","arguments":{}}`), 60*time.Second)
	if err != nil {
		return err
	}
	if m.Header.Get("Nats-Service-Error-Code") != "" {
		return fmt.Errorf("not stored: %s", m.Data)
	}
	select {
	case <-result:
		return nil
	case <-time.After(60 * time.Second):
		return fmt.Errorf("call %s: no result came", id)
	}
}

const noopResult = `{"ok":true}`

// execute is the session's own process: it answers the no-op at once, and naps
// for 100 ms.
func execute(b testing.TB, nc *nats.Conn) {
	b.Helper()
	if _, err := nc.Subscribe("toolbridge.v1.bench.calls.exec", func(m *nats.Msg) {
		if !bytes.Contains(m.Data, []byte(nap)) {
			_ = m.Respond([]byte(`{"result":` + noopResult + `}`))
			return
		}
		time.AfterFunc(napTime, func() { _ = m.Respond([]byte(`{"result":` + noopResult + `}`)) })
	}); err != nil {
		b.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		b.Fatal(err)
	}
}

const napTime = 100 * time.Millisecond

const callTools = `[{"type":"function","toolset":"mcp-bench","function":{"name":"` + noop + `","description":"Nothing.","parameters":{"type":"object"}}},
 {"type":"function","toolset":"mcp-bench","parallel":true,"function":{"name":"` + nap + `","description":"A nap.","parameters":{"type":"object"}}}]`

// turns runs an operation `times` times on each of the clients.
func turns(b *testing.B, nc *nats.Conn, f *figures, clients, times int, once func(client int) error) {
	b.Helper()
	service, cpu := spent(b, nc)
	begin := time.Now()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			trips := make([]time.Duration, 0, times)
			for range times {
				at := time.Now()
				if err := once(c); err != nil {
					b.Error(err)
					return
				}
				trips = append(trips, time.Since(at))
			}
			f.add(trips)
		})
	}
	all.Wait()
	f.wall += time.Since(begin)
	service2, cpu2 := spent(b, nc)
	f.service, f.all = f.service+service2-service, f.all+cpu2-cpu
}

// fsyncs is the disk's rate of small synced writes in the folder of the stores.
func fsyncs(b testing.TB) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "probe"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	const n = 100
	block := make([]byte, 4096)
	begin := time.Now()
	for range n {
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return n / time.Since(begin).Seconds()
}

// durable measures calls over the bridge, stored calls, and the bare chain in
// alternating rounds.
func durable(b *testing.B, clients, times int) (bridge, stored, bare *figures) {
	d := deploy(b)
	ctx := b.Context()
	nc := d.connect(b)
	execute(b, d.connect(b))
	ref := assembleDeferred(b, nc)
	callers, chains := make([]*caller, clients), make([]*chain, clients)
	for i := range clients {
		callers[i] = &caller{nc: d.connect(b), ref: ref}
		chains[i] = newChain(b, d.connect(b))
	}
	body := callers[0].body("x", `{"name":"`+noop+`","arguments":{}}`)
	bridge, stored, bare = &figures{}, &figures{}, &figures{}
	kinds := []struct {
		f    *figures
		once func(int) error
	}{
		{bridge, func(c int) error { return callers[c].waits(ctx) }},
		{stored, func(c int) error { return callers[c].stores(ctx) }},
		{bare, func(c int) error { return chains[c].once(ctx, nextID("x"), body) }},
	}
	for _, k := range kinds {
		turns(b, nc, &figures{}, clients, times, k.once)
	}
	for i := 0; b.Loop(); i++ {
		for n := range kinds {
			k := kinds[(n+i)%len(kinds)]
			turns(b, nc, k.f, clients, times, k.once)
		}
	}
	bridge.report(b, "bridge")
	stored.report(b, "stored")
	bare.report(b, "chain")
	b.ReportMetric(fsyncs(b), "fsyncs/s")
	b.ReportMetric(0, "ns/op") // of a round: says nothing
	return bridge, stored, bare
}

func assembleDeferred(b testing.TB, nc *nats.Conn) string {
	b.Helper()
	var reply struct{ Catalog string }
	if err := json.Unmarshal(ask(b, nc, "toolbridge.v1.bench.calls.assemble", []byte(`{"tools":`+callTools+`,"config":{"enabled":true}}`)), &reply); err != nil {
		b.Fatal(err)
	}
	return reply.Catalog
}

// BenchmarkDurableCallOneClient: the p50 of a durable call of one entry is to be at
// most 1.3 times that of the bare chain.
func BenchmarkDurableCallOneClient(b *testing.B) {
	bridge, stored, bare := durable(b, 1, 100)
	b.ReportMetric(float64(bridge.at(0.5))/float64(bare.at(0.5)), "bridge-p50-ratio")
	b.ReportMetric(float64(stored.at(0.5))/float64(bare.at(0.5)), "stored-p50-ratio")
}

// BenchmarkDurableCall64Clients: the rate with 64 clients, each on a connection of
// its own, is to be at least 0.8 times that of the bare chain.
func BenchmarkDurableCall64Clients(b *testing.B) {
	bridge, stored, bare := durable(b, 64, 20)
	b.ReportMetric(bridge.rate()/bare.rate(), "bridge-rate-ratio")
	b.ReportMetric(stored.rate()/bare.rate(), "stored-rate-ratio")
}

// BenchmarkTenParallelEntries: ten parallel-safe entries of 100 ms are to take at
// most 1.15 times as long as one.
func BenchmarkTenParallelEntries(b *testing.B) {
	d := deploy(b)
	execute(b, d.connect(b))
	c := &caller{nc: d.connect(b), ref: assembleDeferred(b, d.connect(b))}
	call := func(entries int) error {
		list := ""
		for i := range entries {
			if i > 0 {
				list += ","
			}
			list += `{"name":"` + nap + `","arguments":{}}`
		}
		m, err := c.nc.Request(bridgeSubject, c.body(nextID("p"), list), 60*time.Second)
		if err == nil && m.Header.Get("Nats-Service-Error-Code") != "" {
			err = fmt.Errorf("%s", m.Data)
		}
		return err
	}
	one, ten := &figures{}, &figures{}
	for b.Loop() {
		turns(b, c.nc, one, 1, 5, func(int) error { return call(1) })
		turns(b, c.nc, ten, 1, 5, func(int) error { return call(10) })
	}
	one.report(b, "one")
	ten.report(b, "ten")
	b.ReportMetric(float64(ten.at(0.5))/float64(one.at(0.5)), "p50-ratio")
	b.ReportMetric(0, "ns/op")
}
