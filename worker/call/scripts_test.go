package call_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"toolbridge/worker/call"
)

// play runs one script and returns the world as it ended.
func play(t *testing.T, s script, then func(*world)) {
	t.Helper()
	var faults []string
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s, false)
		defer w.end()
		w.run()
		faults = w.check()
		if len(faults) == 0 && then != nil {
			then(w)
		}
	})
	if len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
}

func (w *world) reply(i int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.answered[i])
}

func (w *world) started(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.starts[id])
}

const long = 3 * machineLease

// two ordered entries, neither safe to repeat.
func ordered() [][]entryPlan {
	return [][]entryPlan{{{Tool: "mcp__m__seq", Does: "ok"}, {Tool: "mcp__m__seq", Does: "ok"}}}
}

func TestAWorkerThatWasPausedStartsNothingThatOthersHaveSettled(t *testing.T) {
	const pause = 5 * time.Second // the paused ones take messages that come back first
	for _, queued := range []bool{false, true} {
		s := script{Queued: queued, Slots: 8, Calls: ordered()}
		for i := range machineEngines - 1 { // whoever takes the call is paused; the last one lives
			s.Ops = append(s.Ops, op{Kind: "stall", Engine: i, Point: call.StepClaimed, For: pause})
		}
		s.Ops = append(s.Ops, op{Kind: "accept"}, op{Kind: "wait", For: 2 * pause})
		play(t, s, func(w *world) {
			if n := w.started("c0.0"); n > 0 && strings.Contains(w.reply(0), "OUTCOME_UNKNOWN") {
				t.Errorf("queued %v: entry 0 was started after others had settled it: %s", queued, w.reply(0))
			}
		})
	}
}

func TestWhatALostWorkerHadStartedIsRepeatedOnlyWhenThatIsSafe(t *testing.T) {
	for _, point := range []string{call.StepSent, call.StepReplied} {
		for tool, want := range map[string]string{"mcp__m__seq": "OUTCOME_UNKNOWN", "mcp__m__par": "OUTCOME_UNKNOWN", "mcp__m__seq_rep": `"run":1`, "mcp__m__par_rep": `"run":1`} {
			s := script{Slots: 8, Calls: [][]entryPlan{{{Tool: tool, Does: "ok"}}}, Ops: []op{
				{Kind: "cut", Engine: 0, Point: point}, {Kind: "accept"}, {Kind: "wait", For: long},
			}}
			play(t, s, func(w *world) {
				if !strings.Contains(w.reply(0), want) {
					t.Errorf("%s, worker lost at %q: %s, want %s", tool, point, w.reply(0), want)
				}
			})
		}
	}
}

// The second run of a tool that is safe to repeat does not start: the first one
// may have taken effect all the same.
func TestARunThatCanNotBeRepeatedIsNotCalledUnstarted(t *testing.T) {
	s := script{Slots: 8, Calls: [][]entryPlan{{{Tool: "mcp__m__seq_rep", Does: "once"}}}, Ops: []op{
		{Kind: "cut", Engine: 0, Point: call.StepSent}, {Kind: "accept"}, {Kind: "wait", For: long},
	}}
	play(t, s, func(w *world) {
		if !strings.Contains(w.reply(0), "OUTCOME_UNKNOWN") {
			t.Errorf("reply = %s", w.reply(0))
		}
	})
}

func TestACallSurvivesItsWorkerAtEveryPoint(t *testing.T) {
	for _, queued := range []bool{false, true} {
		for _, point := range points {
			s := script{Queued: queued, Slots: 8, Calls: [][]entryPlan{{{Tool: "mcp__m__seq", Does: "ok"}, {Tool: "mcp__m__par_rep", Does: "ok"}}}}
			for i := range machineEngines - 1 {
				s.Ops = append(s.Ops, op{Kind: "cut", Engine: i, Point: point})
			}
			s.Ops = append(s.Ops, op{Kind: "accept"}, op{Kind: "wait", For: long})
			play(t, s, nil)
		}
	}
}

func TestAStopThatComesBeforeItsCallInterruptsItWhole(t *testing.T) {
	s := script{Slots: 8, Calls: ordered(), Ops: []op{{Kind: "stop"}, {Kind: "accept", Engine: 1}, {Kind: "wait", For: long}}}
	play(t, s, func(w *world) {
		if strings.Count(w.reply(0), "INTERRUPTED") != 2 || w.started("c0.0")+w.started("c0.1") > 0 {
			t.Errorf("reply = %s", w.reply(0))
		}
	})
}

func TestAStopDuringACallInterruptsWhatHasNotStarted(t *testing.T) {
	s := script{Slots: 8, Calls: ordered(), Ops: []op{{Kind: "accept"}, {Kind: "wait", For: 20 * time.Millisecond}, {Kind: "stop", Engine: 1}, {Kind: "wait", For: long}}}
	s.Calls[0][0].Takes = time.Second
	play(t, s, func(w *world) {
		if w.started("c0.0") != 1 || w.started("c0.1") != 0 || !strings.Contains(w.reply(0), "INTERRUPTED") || !strings.Contains(w.reply(0), "cancelled: stopped") {
			t.Errorf("reply = %s", w.reply(0))
		}
	})
}

// What has not started when a worker's grace ends goes to another one.
func TestAWorkerThatLeavesHandsOverWhatHasNotStarted(t *testing.T) {
	for _, queued := range []bool{false, true} {
		s := script{Queued: queued, Slots: 8, Calls: [][]entryPlan{{{Tool: "mcp__m__seq", Does: "ok", Takes: time.Second}, {Tool: "mcp__m__seq", Does: "ok"}}}}
		s.Ops = []op{{Kind: "accept"}, {Kind: "wait", For: 20 * time.Millisecond}}
		for i := range machineEngines {
			s.Ops = append(s.Ops, op{Kind: "leave", Engine: i, For: 20 * time.Millisecond})
		}
		s.Ops = append(s.Ops, op{Kind: "wait", For: long})
		play(t, s, func(w *world) {
			if w.started("c0.1") != 1 || !strings.Contains(w.reply(0), `"success_count":1`) {
				t.Errorf("queued %v: reply = %s", queued, w.reply(0))
			}
		})
	}
}

func TestTheSameIdLeadsToTheSameResultAndAnotherBodyIsRefused(t *testing.T) {
	play(t, script{Slots: 8, Calls: ordered(), Ops: []op{
		{Kind: "accept"}, {Kind: "again", Engine: 1}, {Kind: "other", Engine: 2}, {Kind: "duplicate"}, {Kind: "wake"}, {Kind: "wait", For: long}, {Kind: "again", Engine: 2}, {Kind: "other", Engine: 1},
	}}, func(w *world) {
		if w.started("c0.0") != 1 || w.started("c0.1") != 1 {
			t.Errorf("started %d and %d times", w.started("c0.0"), w.started("c0.1"))
		}
	})
}
