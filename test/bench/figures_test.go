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
	spent time.Duration // wall time of the rounds
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
func (f *figures) rate() float64 { return float64(len(f.trips)) / f.spent.Seconds() }

func (f *figures) report(b *testing.B, name string) {
	b.ReportMetric(float64(f.at(0.5))/1e3, name+"-p50-µs")
	b.ReportMetric(float64(f.at(0.99))/1e3, name+"-p99-µs")
	b.ReportMetric(f.rate(), name+"/s")
}

// median of a few repetitions.
func median(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[len(values)/2]
}
