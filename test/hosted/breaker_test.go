//go:build unix

package hosted

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"toolbridge/test/gateway/sim"
)

// Three workers in three processes share one breaker: it opens once entries have
// failed, whichever worker served them; while it is open nobody sends anything;
// after the cooldown one probe of the whole fleet goes out, and its outcome is
// everybody's.
func TestThreeWorkersHaveOneBreakerAndSendOneProbe(t *testing.T) {
	const (
		workers   = 3
		threshold = 3
		cooldown  = 3 * time.Second
		clients   = 24

		unavailable = "GATEWAY_UNAVAILABLE"
	)
	d := deploy(t)
	o := d.order("t", "other")
	o.Threshold, o.Cooldown = threshold, cooldown
	var ready sync.WaitGroup
	for range workers {
		ready.Go(func() { start(t, o) })
	}
	ready.Wait()
	if t.Failed() {
		return
	}
	s, other := d.assemble("t", connect), d.assemble("other", connect)
	sent := func() int { return len(d.gateway.Record().Of(sim.Execute)) }
	keys := func() int {
		keys := map[string]bool{}
		for _, q := range d.gateway.Record().Of(sim.Execute) {
			keys[q.Key] = true
		}
		return len(keys)
	}
	id := 0
	call := func() (string, time.Duration) {
		id++
		return s.createIssue(fmt.Sprintf("c%d", id))
	}
	// all makes calls at once, so that every worker gets some, and counts the codes.
	all := func() map[string]int {
		var mu sync.Mutex
		var wg sync.WaitGroup
		codes := map[string]int{}
		for range clients {
			id++
			id := fmt.Sprintf("c%d", id)
			wg.Go(func() {
				code, after := s.createIssue(id)
				if code == unavailable && (after <= 0 || after > cooldown) {
					t.Errorf("an open breaker says to wait %s of a cooldown of %s", after, cooldown)
				}
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		wg.Wait()
		return codes
	}
	if code, _ := call(); code != "" {
		t.Fatalf("a healthy gateway: %s", code)
	}

	// Calls fail one after another until the breaker opens.
	d.gateway.ClearRecord()
	d.inject(sim.Fault{Kind: sim.Status, Route: sim.Execute, User: user, Count: -1})
	for n := 0; ; n++ {
		code, _ := call()
		if code == unavailable {
			break
		}
		if n > workers*threshold {
			t.Fatalf("still closed after %d failures: %s", n, code)
		}
	}
	if n := keys(); n < threshold || n > workers*(threshold-1)+1 {
		t.Errorf("it opened after %d failed entries with a threshold of %d on each of %d workers", n, threshold, workers)
	}
	opened := time.Now()
	// Transitions reach the others at once, but not in no time.
	until(t, "every worker to know that it is open", func() bool {
		before := sent()
		return all()[unavailable] == clients && sent() == before
	})
	d.gateway.ClearRecord()
	if time.Since(opened) < cooldown/2 {
		if codes := all(); codes[unavailable] != clients || sent() != 0 {
			t.Errorf("open: %v, and %d requests were sent", codes, sent())
		}
	}

	// The probe fails: open for one more cooldown.
	probes := func() int {
		d.gateway.ClearRecord()
		var codes map[string]int
		until(t, "a probe", func() bool {
			codes = all()
			return codes[unavailable] < clients
		})
		if n := clients - codes[unavailable]; n != 1 {
			t.Logf("%d calls were let through: %v", n, codes)
		}
		return keys()
	}
	if n := probes(); n != 1 {
		t.Errorf("%d probes, want 1", n)
	}
	d.gateway.ClearRecord()
	if codes := all(); codes[unavailable] != clients || sent() != 0 {
		t.Errorf("after a failed probe: %v, and %d requests were sent", codes, sent())
	}

	// The gateway is well again. While the probe is under way nothing else goes out.
	d.gateway.ClearFaults()
	d.inject(sim.Fault{Kind: sim.Latency, DelayMS: 700, Route: sim.Execute, User: user})
	if n := probes(); n != 1 {
		t.Errorf("%d probes, want 1", n)
	}
	until(t, "every worker to know that it is closed", func() bool { return all()[""] == clients })

	// Another tenant has a breaker of its own; it never opened.
	if code, _ := other.createIssue("o1"); code != "" {
		t.Errorf("the other tenant: %s", code)
	}
}
