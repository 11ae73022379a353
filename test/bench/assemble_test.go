//go:build unix

package bench

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// BenchmarkAssemble is an array of 500 tools, about 500 KB, over the bus: content
// that no worker has seen (cold), to be at most 4 times one encoding/json validity
// pass over the same bytes, and the same content again (hit), to be at most 1.5
// times. The bare echo takes the same request and gives the same reply.
func BenchmarkAssemble(b *testing.B) {
	d := deploy(b)
	nc := d.connect(b)
	body := func(salt string) []byte {
		return []byte(`{"tools":` + generated(500, salt) + `,"context_length":200000}`)
	}
	const subject = "toolbridge.v1.bench.s1.assemble"
	known := body("")
	reply := ask(b, nc, subject, known)
	ask(b, nc, "bench.set.a", reply)
	b.Logf("request %d bytes, reply %d bytes", len(known), len(reply))
	var cold, hit, echo, valid figures
	measure := func(f *figures, do func()) {
		begin := time.Now()
		do()
		trip := time.Since(begin)
		f.add([]time.Duration{trip})
		f.wall += trip
	}
	run := time.Now().UnixNano()
	for i := 0; b.Loop(); i++ {
		fresh := body(fmt.Sprintf("-%d-%d", run, i))
		measure(&cold, func() { ask(b, nc, subject, fresh) })
		measure(&hit, func() { ask(b, nc, subject, known) })
		measure(&echo, func() { ask(b, nc, "bench.echo.a", known) })
		measure(&valid, func() {
			if !json.Valid(known) {
				b.Error("not valid")
			}
		})
	}
	for name, f := range map[string]*figures{"cold": &cold, "hit": &hit, "echo": &echo, "valid": &valid} {
		b.ReportMetric(float64(f.at(0.5))/1e6, name+"-p50-ms")
	}
	b.ReportMetric(float64(cold.at(0.5))/float64(valid.at(0.5)), "cold-ratio")
	b.ReportMetric(float64(hit.at(0.5))/float64(valid.at(0.5)), "hit-ratio")
	// Without what the same bytes cost on the bus alone.
	b.ReportMetric(float64(cold.at(0.5)-echo.at(0.5))/float64(valid.at(0.5)), "cold-net-ratio")
	b.ReportMetric(float64(hit.at(0.5)-echo.at(0.5))/float64(valid.at(0.5)), "hit-net-ratio")
	b.ReportMetric(0, "ns/op") // of a round: says nothing
}
