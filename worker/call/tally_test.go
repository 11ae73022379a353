package call

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"toolbridge/subjects"
)

func entryOf(call int, tool string) Check {
	return Check{Tenant: "t", Session: "s", CallID: fmt.Sprintf("c%d", call), Tool: tool, Arguments: []byte(`{}`)}
}

// In every window of the rate's length at most its number of calls run, however
// the calls come; and a session that has been quiet for a window may call again.
func TestNoWindowHoldsMoreCallsThanTheRateAllows(t *testing.T) {
	const per = time.Minute
	for _, limit := range []int{1, 2, 60, 500} {
		for _, step := range []time.Duration{0, time.Millisecond, 90 * time.Millisecond, time.Second, 1900 * time.Millisecond, 25 * time.Second, 61 * time.Second} {
			var have tally
			g := &Guardrails{Rate: Rate{limit, per}}
			at := time.UnixMilli(1_700_000_000_000)
			var ran []time.Time
			for i := range 1500 {
				block, changed := have.add(g, entryOf(i, "x"), at)
				if (block == nil) != changed {
					t.Fatalf("limit %d, step %s: block %v, changed %v", limit, step, block, changed)
				}
				if block == nil {
					ran = append(ran, at)
				} else if wait := time.Duration(block.RetryAfterMS) * time.Millisecond; wait <= 0 || wait > per {
					t.Fatalf("limit %d, step %s: wait %s", limit, step, wait)
				}
				at = at.Add(step)
			}
			for i := range ran {
				if i >= limit && ran[i].Sub(ran[i-limit]) < per {
					t.Fatalf("limit %d, step %s: %d calls within %s", limit, step, limit+1, ran[i].Sub(ran[i-limit]))
				}
			}
			if n := len(have.Tools[0].Spans); n > spansPerWindow+1 {
				t.Errorf("limit %d, step %s: %d spans are kept", limit, step, n)
			}
			if block, _ := have.add(g, entryOf(9999, "x"), at.Add(per)); block != nil {
				t.Errorf("limit %d, step %s: still blocked after a quiet window", limit, step)
			}
		}
	}
}

func TestTheWaitThatIsNamedIsEnough(t *testing.T) {
	var have tally
	g := &Guardrails{Rate: Rate{3, time.Minute}}
	at := time.UnixMilli(1_700_000_000_000)
	for i := range 3 {
		have.add(g, entryOf(i, "x"), at.Add(time.Duration(i)*10*time.Second))
	}
	at = at.Add(30 * time.Second)
	block, _ := have.add(g, entryOf(3, "x"), at)
	if block == nil || block.RetryAfterMS != 30_000 {
		t.Fatalf("block = %+v", block)
	}
	if block, _ := have.add(g, entryOf(4, "x"), at.Add(29_999*time.Millisecond)); block == nil {
		t.Error("not blocked a millisecond before")
	}
	if block, _ := have.add(g, entryOf(5, "x"), at.Add(30*time.Second)); block != nil {
		t.Errorf("blocked after the wait: %s", block.Message)
	}
}

func TestAnEntryThatIsCheckedAgainIsNotCountedAgain(t *testing.T) {
	var have tally
	g := &Guardrails{Rate: Rate{1, time.Minute}, Repeat: 1}
	at := time.UnixMilli(1_700_000_000_000)
	for range 3 {
		if block, _ := have.add(g, entryOf(1, "x"), at); block != nil {
			t.Fatal(block.Message)
		}
	}
	if block, _ := have.add(g, entryOf(2, "x"), at); block == nil {
		t.Error("another entry is not blocked")
	}
}

func TestWhatIsKeptOfASessionIsBounded(t *testing.T) {
	var have tally
	g := &Guardrails{Rate: Rate{2, time.Hour}, Repeat: 3}
	at := time.UnixMilli(1_700_000_000_000)
	have.add(g, entryOf(-1, "busy"), at)
	have.add(g, entryOf(-2, "busy"), at)
	for i := range 5000 {
		at = at.Add(time.Millisecond)
		have.add(g, entryOf(i, fmt.Sprintf("tool-%d", i)), at)
	}
	if block, _ := have.add(g, entryOf(-3, "busy"), at); block == nil {
		t.Error("calls of other tools have made room for a tool at its limit")
	}
	body, err := subjects.Encode(have)
	if err != nil {
		t.Fatal(err)
	}
	if len(have.Tools) > maxTallied || len(have.Counted) > maxCounted || len(body) > 32<<10 {
		t.Errorf("%d tools, %d ids, %d bytes", len(have.Tools), len(have.Counted), len(body))
	}
}

func TestReasonsOfOthersStandOnOneLine(t *testing.T) {
	long := strings.Repeat("é", 3*maxReason)
	for in, want := range map[string]string{
		"a\n\n b\t c":            "a b c",
		"x\u202ey\u200b\u0000":   "xy",
		" \u00a0one\u2028two  ":  "one two",
		long:                     strings.Repeat("é", maxReason) + "…",
		"broken \xff bytes stay": "broken \ufffd bytes stay",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}
