//go:build unix

package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

// BenchmarkTracing: a tool_search over the bus by a worker that is not traced, one
// that is traced and sampled out, and one that sends every span to an OTLP
// receiver, in alternating rounds of one run. At 100 % the p50 is to be at most 1.2
// times that of the worker that is not traced.
func BenchmarkTracing(b *testing.B) {
	var received atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received.Add(n)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer sink.Close()
	kinds := []struct {
		name string
		env  []string
	}{
		{"off", nil},
		{"out", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + sink.URL + "/v1/traces", "OTEL_TRACES_SAMPLER=always_off"}},
		{"on", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + sink.URL + "/v1/traces"}},
	}
	conns, lists, all := make([][]*nats.Conn, len(kinds)), make([][]exchange, len(kinds)), make([]*figures, len(kinds))
	for i, k := range kinds {
		url, _ := start(b, "server")
		start(b, "service", append(k.env, urlVariable+"="+url)...)
		d := &deployment{url}
		conns[i], all[i] = []*nats.Conn{d.connect(b)}, &figures{}
		lists[i] = exchanges(b, conns[i][0], 500)
		round(b, &figures{}, conns[i], lists[i], 20, false)
	}
	for n := 0; b.Loop(); n++ {
		for i := range kinds {
			at := (i + n) % len(kinds)
			round(b, all[at], conns[at], lists[at], 20, false)
		}
	}
	for i, k := range kinds {
		all[i].report(b, k.name)
		if i > 0 {
			b.ReportMetric(float64(all[i].at(0.5))/float64(all[0].at(0.5)), k.name+"-p50-ratio")
			b.ReportMetric(float64(all[i].cost())/float64(all[0].cost()), k.name+"-cpu-ratio")
		}
	}
	b.ReportMetric(float64(received.Load()), "bytes-exported")
	b.ReportMetric(0, "ns/op") // of a round: says nothing
}
