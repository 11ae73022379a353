//go:build unix

package parked

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// long is the full number of calls, and the bounds as they are promised.
func long() bool { return os.Getenv("TOOLBRIDGE_LONG") != "" }

// parkedCalls is how many calls wait for people at once.
func parkedCalls() int {
	switch {
	case long():
		return 10_000
	case testing.Short():
		return 100
	}
	return 300
}

// seed makes the choices of a test; it is printed, so that a run can be repeated.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	t.Logf("seed %d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// Two equal fleets, each with a server of its own; on one of them calls are
// parked. Calls that need nobody go to both by turns.
func TestParkedCallsCostLittleMemoryAndOthersNoTime(t *testing.T) {
	n, rounds, calls := parkedCalls(), 10, 20
	switch {
	case long():
		rounds, calls = 20, 100
	case testing.Short():
		rounds = 3
	}
	loaded, w := newFleet(t, time.Hour, 0)
	idle, _ := newFleet(t, time.Hour, 0)
	for i := range 100 { // both are warm
		loaded.write(i)
		idle.write(i)
	}
	w.collect()
	before := w.rss()
	loaded.park(n)
	raw := w.rss() - before
	w.collect()
	kept := w.rss() - before
	if before > 0 {
		t.Logf("memory of the worker: %d B per parked call as it stands, %d B after a collection (%.1f MB and %.1f MB for %d calls)",
			raw/int64(n), kept/int64(n), float64(raw)/1e6, float64(kept)/1e6, n)
	}
	if perCall := int64(10_000); long() && raw > perCall*int64(n) {
		t.Errorf("%d parked calls take %d bytes, more than %d each", n, raw, perCall)
	}

	var all [2][]time.Duration
	var p50s, p99s []float64
	for range rounds {
		var round [2][]time.Duration
		for i := range calls {
			for j, f := range []*fleet{loaded, idle} {
				round[j] = append(round[j], f.write(i))
			}
		}
		p50s = append(p50s, float64(quantile(round[0], 50))/float64(quantile(round[1], 50)))
		p99s = append(p99s, float64(quantile(round[0], 99))/float64(quantile(round[1], 99)))
		for j := range round {
			all[j] = append(all[j], round[j]...)
		}
	}
	p50, p99 := float64(quantile(all[0], 50))/float64(quantile(all[1], 50)), float64(quantile(all[0], 99))/float64(quantile(all[1], 99))
	t.Logf("a call beside %d parked ones: p50 %s and p99 %s, beside none %s and %s: ratios %.3f and %.3f; medians of %d rounds %.3f and %.3f",
		n, quantile(all[0], 50), quantile(all[0], 99), quantile(all[1], 50), quantile(all[1], 99), p50, p99, rounds, median(p50s), median(p99s))
	// Noise of the machine is not the parked calls' doing: the better of the two
	// ways to sum the rounds up counts.
	bound50, bound99 := 1.5, 5.0
	if long() {
		bound50, bound99 = 1.1, 1.5
	}
	if got := min(p50, median(p50s)); got > bound50 {
		t.Errorf("at p50 a call takes %.3f × as long beside parked ones, at most %.1f × is promised", got, bound50)
	}
	if got := min(p99, median(p99s)); got > bound99 {
		t.Errorf("at p99 a call takes %.3f × as long beside parked ones, at most %.1f × is promised", got, bound99)
	}

	began := time.Now()
	r := loaded.ask(tenant+"_approvals.list.ann", "")
	t.Logf("listing what is pending: %d of %d in %s", len(r.Approvals), n, since(began))
}

func quantile(list []time.Duration, percent int) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[min(len(list)-1, len(list)*percent/100)]
}

func median(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }

func TestParkedCallsAreSettledAfterTheirWorkerIsKilled(t *testing.T) {
	settle(t, func(f *fleet, w *process, decide func()) {
		f.replace(w)
		decide()
	})
}

func TestParkedCallsAreSettledAfterTheServerIsKilled(t *testing.T) {
	settle(t, func(f *fleet, _ *process, decide func()) {
		f.restartBus()
		decide()
	})
}

// Who decides sends again what was not answered: the first word stands. What a
// killed worker was about to apply comes to the next after half a minute.
func TestParkedCallsAreSettledWhenServerAndWorkerAreKilledAmidDecisions(t *testing.T) {
	if !long() {
		t.Skip("TOOLBRIDGE_LONG is not set")
	}
	settle(t, func(f *fleet, w *process, decide func()) {
		f.amid = true
		decided := make(chan struct{})
		go func() { defer close(decided); decide() }()
		f.eventually("some are settled", func() bool { return f.count("TOOLBRIDGE_DECISIONS") > parkedCalls()/10 })
		w = f.replace(w)
		f.eventually("more are settled", func() bool { return f.count("TOOLBRIDGE_DECISIONS") > parkedCalls()/3 })
		f.restartBus()
		f.eventually("most are settled", func() bool { return f.count("TOOLBRIDGE_DECISIONS") > parkedCalls()/2 })
		f.replace(w)
		<-decided
	})
}

// settle parks calls, has nine of ten decided on at random, about a fault, and
// lets the others expire. Every call has one result then, the one that was decided.
func settle(t *testing.T, about func(f *fleet, w *process, decide func())) {
	n, wait, lease := parkedCalls(), 10*time.Second, 2*time.Second
	if long() {
		wait, lease = 2*time.Minute, 0
	} else {
		t.Parallel()
	}
	random := seed(t)
	choices := make([]string, n)
	for i := range choices {
		choices[i] = []string{"once", "deny"}[random.IntN(2)]
		if random.IntN(10) == 0 {
			choices[i] = ""
		}
	}
	f, w := newFleet(t, wait, lease)
	f.park(n)
	var began time.Time
	var wanted map[string]string
	about(f, w, func() {
		began = time.Now()
		var late int
		wanted, late = f.decide(choices)
		t.Logf("decided on %d in %s; %d of the decisions came too late", len(wanted), since(began), late)
	})
	f.eventually("every call has a result", func() bool { return f.count("TOOLBRIDGE_RESULTS") >= f.stored })
	t.Logf("all settled %s after the first decision", since(began))

	results, twice := f.results()
	if twice {
		t.Error("a result was published more than once")
	}
	counts := map[string]int{}
	for i := range n {
		id := callID(i)
		state := wanted[id]
		if state == "" {
			state = "expired"
		}
		counts[state]++
		f.check(id, state, results[id])
	}
	t.Logf("outcomes: %v; %d executions were lost with their worker", counts, f.lost)
	if counts["approved"] == 0 || counts["denied"] == 0 || counts["expired"] == 0 {
		t.Error("not every outcome was seen")
	}
	if got := f.count("TOOLBRIDGE_DECISIONS"); got != n {
		t.Errorf("%d decisions on %d approvals", got, n)
	}
	if got := f.count("TOOLBRIDGE_DEAD"); got != 0 {
		t.Errorf("%d dead letters", got)
	}
	f.eventually("nothing is pending any more", func() bool { return len(f.ask(tenant+"_approvals.list.ann", "").Approvals) == 0 })
	f.eventually("the queue is empty", func() bool { return f.count("TOOLBRIDGE_CALLS_0") == 0 })
}

// decide makes the choices known, and returns which state each approver was told,
// and how many of them came too late.
func (f *fleet) decide(choices []string) (told map[string]string, late int) {
	f.t.Helper()
	f.mu.Lock()
	ids := make([]string, len(choices))
	for i := range ids {
		ids[i] = f.asked[callID(i)]
	}
	f.mu.Unlock()
	told = map[string]string{}
	var mu sync.Mutex
	each(len(choices), func(i int) {
		if choices[i] == "" {
			return
		}
		r := f.ask(tenant+"_approvals.decide.ann", fmt.Sprintf(`{"id":%q,"choice":%q}`, ids[i], choices[i]))
		mu.Lock()
		defer mu.Unlock()
		want := map[string]string{"once": "approved", "deny": "denied"}[choices[i]]
		switch {
		case r.State == want:
			told[callID(i)] = want
		case r.Error.Code == "EXPIRED" && r.Error.Decision.State == "expired":
			told[callID(i)] = "expired"
			late++
		default:
			f.t.Errorf("deciding on %s: %+v, want %s", callID(i), r, want)
		}
	})
	return told, late
}

// check holds one call's result and executions against what was decided.
func (f *fleet) check(id, state string, r reply) {
	f.t.Helper()
	f.mu.Lock()
	ran := f.ran[id]
	f.mu.Unlock()
	result := string(r.Result)
	if f.amid && state == "approved" && ran <= 1 && strings.Contains(result, `"code":"OUTCOME_UNKNOWN"`) {
		f.lost++ // its worker was killed while it ran
		return
	}
	code := map[string]string{"denied": "APPROVAL_DENIED", "expired": "APPROVAL_TIMEOUT"}[state]
	switch {
	case state == "approved" && (ran != 1 || r.IsError || result != `"ran `+id+`"`):
		f.t.Errorf("%s was approved, ran %d times, and its result is %s", id, ran, result)
	case state != "approved" && (ran != 0 || !r.IsError || !strings.Contains(result, `"code":"`+code+`"`)):
		f.t.Errorf("%s is %s, ran %d times, and its result is %s", id, state, ran, result)
	}
}
