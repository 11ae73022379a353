//go:build unix

package hosted

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"toolbridge/test/gateway/sim"
)

// searched are queries that local tools answer, and that the gateway has tools for
// as well.
var searched = []string{"send an email", "create an issue", "post a message to a channel", "write a note", "read a file", "calendar event"}

// found is what a search found, without what it says of connectors.
func (s *session) found(id, query string) string {
	s.t.Helper()
	text, err := json.Marshal(map[string]any{"queries": []string{query}})
	if err != nil {
		s.t.Fatal(err)
	}
	var whole map[string]json.RawMessage
	result := s.bridge(id, "tool_search", string(text))
	if err := json.Unmarshal(result, &whole); err != nil {
		s.t.Fatalf("%s: %v", result, err)
	}
	delete(whole, "connectors")
	out, err := json.Marshal(whole)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

// ours are the goroutines that run our code, without the gateway's and the test's
// own, by their innermost function of ours. Those that a worker keeps for its next
// requests for some seconds are not at work.
func ours() map[string]int {
	stacks := make([]byte, 1<<20)
	n := runtime.Stack(stacks, true)
	for n == len(stacks) {
		stacks = make([]byte, 2*len(stacks))
		n = runtime.Stack(stacks, true)
	}
	count := map[string]int{}
	for stack := range strings.SplitSeq(string(stacks[:n]), "\n\n") {
		if strings.Contains(stack, "test/gateway/sim.(*Server)") || strings.Contains(stack, "testing.") {
			continue
		}
		for line := range strings.Lines(stack) {
			if !strings.HasPrefix(line, "toolbridge/") {
				continue
			}
			if name, _, _ := strings.Cut(line, "(0x"); name != "toolbridge/worker.(*hands).loop" {
				count[name]++
			}
			break
		}
	}
	return count
}

// more are those that there are more of than before.
func more(before map[string]int) map[string]int {
	now := ours()
	for from, n := range now {
		if n <= before[from] {
			delete(now, from)
		}
	}
	return now
}

// Whatever the gateway does, a search finds the same local tools as without
// connectors, is not held up by much longer than connectors.search_wait, and leaves
// nothing running.
func TestASearchDuringAnOutageFindsWhatItFindsWithoutConnectors(t *testing.T) {
	always := func(f sim.Fault) []sim.Fault {
		f.Count = -1
		return []sim.Fault{f}
	}
	outages := map[string][]sim.Fault{
		"down":         nil, // the gateway is stopped
		"hanging":      always(sim.Fault{Kind: sim.Hang}),
		"slow":         always(sim.Fault{Kind: sim.Drip, DelayMS: 50}),
		"failing":      always(sim.Fault{Kind: sim.Status}),
		"error page":   always(sim.Fault{Kind: sim.HTML}),
		"page as 200":  always(sim.Fault{Kind: sim.HTML, Status: 200}),
		"garbage":      always(sim.Fault{Kind: sim.Garbage}),
		"truncated":    always(sim.Fault{Kind: sim.Truncated}),
		"resetting":    always(sim.Fault{Kind: sim.Reset}),
		"huge":         always(sim.Fault{Kind: sim.Huge, Bytes: 32 << 20}),
		"non-objects":  always(sim.Fault{Kind: sim.NonObject}),
		"no results":   always(sim.Fault{Kind: sim.TooFew}),
		"rate limited": always(sim.Fault{Kind: sim.RateLimited, RetryAfterS: 60}),
		"dark":         always(sim.Fault{Kind: sim.Dark}),
		"not entitled": always(sim.Fault{Kind: sim.Forbidden}),
		"signed out":   always(sim.Fault{Kind: sim.Unauthorized}),
	}
	d := deploy(t)
	o := d.order("none") // a user without accounts; every outage has a tenant, with its own breaker
	o.SearchWait, o.Threshold, o.Cooldown = 100*time.Millisecond, 4, 200*time.Millisecond
	tenant := func(name string) string { return strings.ReplaceAll(name, " ", "_") }
	for name := range outages {
		o.Users[tenant(name)] = token
	}
	o.Users["flapping"], o.Users["warm"] = token, token
	n, err := open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	tools := local(60)
	off := d.assemble("none", tools...) // without the definition there are no connectors
	want := map[string]string{}
	for i, q := range searched {
		want[q] = off.found(fmt.Sprintf("w%d", i), q)
		if !strings.Contains(want[q], "mcp__own__") {
			t.Fatalf("%s: %s", q, want[q])
		}
	}
	with := append(local(60), connect)
	search := func(t *testing.T, s *session, round string) {
		t.Helper()
		var all sync.WaitGroup
		for i, q := range searched {
			all.Go(func() {
				begun := time.Now()
				got := s.found(fmt.Sprintf("%s%d", round, i), q)
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("%q took %s", q, took)
				}
				if got != want[q] {
					t.Errorf("%q\nfound %s\nwant  %s", q, got, want[q])
				}
			})
		}
		all.Wait()
	}
	warm := d.assemble("warm", with...)
	for i, q := range searched { // what starts once has started
		warm.found(fmt.Sprintf("w%d", i), q)
	}
	before := ours()
	settled := func(t *testing.T) {
		t.Helper()
		end := time.Now().Add(10 * time.Second)
		for len(more(before)) > 0 || d.gateway.Record().InFlight > 0 {
			if time.Now().After(end) {
				t.Fatalf("10 s later more goroutines run than before the outage: %v; the gateway has %d requests under way", more(before), d.gateway.Record().InFlight)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for name, faults := range outages {
		t.Run(name, func(t *testing.T) {
			s := d.assemble(tenant(name), with...)
			if faults == nil {
				d.gateway.Stop()
				defer func() {
					if _, err := d.gateway.Start(strings.TrimPrefix(d.origin, "http://")); err != nil {
						t.Fatal(err)
					}
				}()
			}
			d.inject(faults...)
			defer d.gateway.ClearFaults()
			for round := range 3 { // the breaker opens on the way
				search(t, s, fmt.Sprintf("r%d_", round))
			}
			settled(t)
		})
	}
	t.Run("flapping", func(t *testing.T) {
		s := d.assemble("flapping", with...)
		defer d.gateway.ClearFaults()
		answered := 0
		for round := range 12 {
			d.gateway.ClearFaults()
			kind := []string{sim.Reset, sim.Status, sim.Hang, sim.Garbage}[round%4]
			d.inject(sim.Fault{Kind: kind, Skip: 1, Count: 2, Cycle: true})
			for i, q := range searched {
				got := s.found(fmt.Sprintf("f%d_%d", round, i), q)
				if hosted := strings.Contains(got, "connectors__"); !hosted && got != want[q] {
					t.Errorf("round %d, %q\nfound %s\nwant  %s", round, q, got, want[q])
				} else if hosted { // ranked among the local ones
					answered++
				}
			}
		}
		if d.gateway.ClearFaults(); answered == 0 {
			t.Error("no search had a hosted tool although the gateway answered now and then")
		}
		settled(t)
	})
}
