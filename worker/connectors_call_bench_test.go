package worker_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"toolbridge/connectors"
	"toolbridge/worker"
)

// BenchmarkConnectorCall measures a call of one connector's tool, durable as every
// call is, and the bare HTTP request to the same gateway, in alternation; it reports
// both medians in microseconds.
func BenchmarkConnectorCall(b *testing.B) {
	f, gateway := benchHosted(b)
	ref := f.assembleIn("t", "s1", `{"tools":`+tools(manageConnections)+`}`)
	body := []byte(`{"tools":[{"connector":"a","tool":"A_T","arguments":{"n":1}}]}`)
	var bare, whole []time.Duration
	for b.Loop() {
		begun := time.Now()
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, gateway.URL+"/v1/connectors/execute", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer token-of-t.dev")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		bare = append(bare, time.Since(begun))

		begun = time.Now()
		f.bridgeIn("t", "s1", ref, "tool_call", calls(`a/T {"n":1}`))
		whole = append(whole, time.Since(begun))
	}
	http.DefaultClient.CloseIdleConnections()
	b.ReportMetric(median(bare), "bare-us")
	b.ReportMetric(median(whole), "call-us")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAThousandSessionsCallAtOnce is one call of each of 1,000 sessions through
// one worker, against a gateway that takes 20 ms.
func BenchmarkAThousandSessionsCallAtOnce(b *testing.B) {
	const sessions = 1000
	f, gateway := benchHosted(b)
	gateway.answer = func(n int, x executed) gatewayAnswer {
		<-time.After(20 * time.Millisecond)
		return echo(n, x)
	}
	refs := make([]string, sessions)
	for i := range refs {
		refs[i] = f.assembleIn("t", fmt.Sprintf("s%d", i), `{"tools":`+tools(manageConnections)+`}`)
	}
	run := 0
	var each []time.Duration
	var mu sync.Mutex
	for b.Loop() {
		run++
		var all sync.WaitGroup
		for i, ref := range refs {
			all.Go(func() {
				begun := time.Now()
				reply, err := f.nc.Request(fmt.Sprintf("toolbridge.v1.t.s%d.bridge", i),
					fmt.Appendf(nil, `{"id":"r%d","name":"tool_call","arguments":%s,"catalog":%q}`, run, calls(`a/T {"n":1}`), ref), time.Minute)
				if err != nil || !bytes.Contains(reply.Data, []byte(`"success_count":1`)) {
					b.Errorf("session %d: %v", i, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				each = append(each, time.Since(begun))
			})
		}
		all.Wait()
	}
	slices.Sort(each)
	b.ReportMetric(median(each), "median-us")
	b.ReportMetric(float64(each[len(each)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(gateway.most), "at-once")
}

func benchHosted(b *testing.B) (*fleet, *callGateway) {
	f := newFleet(b)
	gateway := newCallGateway(b, echo)
	f.start(worker.Config{Dev: true, CallSlots: 2000, Gateway: gatewayOf(b, f, gateway.URL, func(c *connectors.Config) { c.Client.Credentials = perUser{} })})
	return f, gateway
}

// median is in microseconds.
func median(list []time.Duration) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return float64(list[len(list)/2].Nanoseconds()) / 1000
}
