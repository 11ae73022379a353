//go:build unix

package bench

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// figures collects the round trips of one operation.
type figures struct {
	mu    sync.Mutex
	trips []time.Duration
	wall  time.Duration // of the rounds
	// CPU time of the rounds: of the service, and of server, service and clients.
	service, all time.Duration
}

func (f *figures) add(trips []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trips = append(f.trips, trips...)
}

// at is a quantile of the round trips, 0 to 1.
func (f *figures) at(q float64) time.Duration {
	if len(f.trips) == 0 {
		return 0
	}
	slices.Sort(f.trips)
	return f.trips[int(q*float64(len(f.trips)-1))]
}

// rate is operations per second.
func (f *figures) rate() float64 { return float64(len(f.trips)) / f.wall.Seconds() }

// cost is the CPU time of one operation in all three processes. On a machine that
// others use, too, it says more than the wall clock.
func (f *figures) cost() time.Duration { return f.all / time.Duration(max(1, len(f.trips))) }

func (f *figures) report(b *testing.B, name string) {
	b.ReportMetric(float64(f.at(0.5))/1e3, name+"-p50-µs")
	b.ReportMetric(float64(f.at(0.99))/1e3, name+"-p99-µs")
	b.ReportMetric(f.rate(), name+"/s")
	b.ReportMetric(float64(f.cost())/1e3, name+"-cpu-µs")
	b.ReportMetric(float64(f.service)/1e3/float64(max(1, len(f.trips))), name+"-service-cpu-µs")
}

// median of a few repetitions.
func median(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[len(values)/2]
}
