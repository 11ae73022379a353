//go:build unix

package bench

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// BenchmarkSessions is what each of 10,000 sessions on one catalog adds to a
// worker's memory, to be at most 1 KB: every session assembles, and searches once.
func BenchmarkSessions(b *testing.B) {
	const sessions = 10_000
	d := deploy(b)
	nc := d.connect(b)
	body := []byte(`{"tools":` + generated(20, "") + `}`)
	for round := 0; b.Loop(); round++ {
		one := func(i int) {
			session := "s" + strconv.Itoa(round) + "-" + strconv.Itoa(i)
			m, err := nc.Request("toolbridge.v1.bench."+session+".assemble", body, 60*time.Second)
			if err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
				b.Errorf("assemble: %v", err)
				return
			}
			// The reference stands first in the reply: {"catalog":"sha256:…64…"
			ref := m.Data[len(`{"catalog":"`) : len(`{"catalog":"sha256:`)+64]
			search := fmt.Appendf(nil, `{"id":"c1","name":"tool_search","arguments":{"queries":["create issue"]},"catalog":"%s"}`, ref)
			if m, err = nc.Request("toolbridge.v1.bench."+session+".bridge", search, 60*time.Second); err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
				b.Errorf("search: %v %s", err, m.Data)
			}
		}
		for i := range 200 { // what does not grow with sessions
			one(-1 - i)
		}
		before := usage(b, nc, "bench.heap.service")
		begin := time.Now()
		next := make(chan int)
		var clients sync.WaitGroup
		for range 32 {
			clients.Go(func() {
				for i := range next {
					one(i)
				}
			})
		}
		for i := range sessions {
			next <- i
		}
		close(next)
		clients.Wait()
		took := time.Since(begin)
		after := usage(b, nc, "bench.heap.service")
		b.ReportMetric(float64(after-before)/sessions, "B/session")
		b.ReportMetric(sessions/took.Seconds(), "sessions/s")
	}
	b.ReportMetric(0, "ns/op")
}
