package connectors

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"toolbridge/subjects"
)

// moves is the table of the moves that a target may make: "connector initiated
// connected" to who makes it.
func moves(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, row := range readManageVectors(t).Transitions {
		var kind, from string
		var to map[string]string
		for i, into := range []any{&kind, &from, &to} {
			if err := json.Unmarshal(row[i], into); err != nil {
				t.Fatal(err)
			}
		}
		for state, by := range to {
			out[kind+" "+from+" "+state] = by
		}
	}
	return out
}

func TestTargetsMoveOnlyAsTheTableSays(t *testing.T) {
	table := moves(t)
	seen := map[string]bool{}
	all := []subjects.ConnectionStatus{
		subjects.ConnectionPending, subjects.ConnectionInitiated, subjects.ConnectionConnected, subjects.ConnectionFailed,
		subjects.ConnectionExpired, subjects.ConnectionSkipped, subjects.ConnectionNotConnected,
	}
	for _, server := range []bool{false, true} {
		kind := "connector"
		if server {
			kind = "mcp"
		}
		for _, from := range all {
			if server && from == subjects.ConnectionExpired {
				continue // servers have no links
			}
			fresh := func() *operation {
				return &operation{Phase: open, Card: true, Deadline: moment(time.Now().Add(time.Hour)), Targets: []target{
					{Name: "x", MCP: server, State: from, Connection: "c", Chosen: from == subjects.ConnectionNotConnected}, {Name: "other", State: subjects.ConnectionInitiated},
				}}
			}
			check := func(what string, o *operation, allowed ...string) {
				to := o.Targets[0].State
				if to == from {
					return
				}
				seen[kind+" "+string(from)+" "+string(to)] = true
				by, ok := table[kind+" "+string(from)+" "+string(to)]
				if !ok || by != allowed[0] && by != "clock" {
					t.Errorf("%s: %s moves from %s to %s, the table says %q", what, kind, from, to, by)
				}
			}
			if !server {
				for _, status := range []string{accountPending, accountActive, accountFailed, accountRevoked, accountInactive, accountExpired, "", "weird"} {
					o := fresh()
					o.Targets[0].observe(status)
					check("account "+status, o, "backend_watcher")
				}
			}
			o := fresh()
			if reason := o.answer(subjects.ConnectionAnswer{Target: "x", Action: subjects.ConnectionSkip}); reason == "" {
				check("skip", o, "user")
			}
			o = fresh()
			if reason := o.answer(subjects.ConnectionAnswer{Target: "x", Action: subjects.ConnectionRetry}); reason == "" {
				if o.Targets[0].Start != wanted || o.Targets[0].State != from {
					t.Errorf("retry of %s: %+v", from, o.Targets[0])
				}
				o.Targets[0].State = subjects.ConnectionInitiated // as the run that starts it does
				by := "user"
				if from == subjects.ConnectionPending {
					by = "backend_watcher"
				}
				check("retry", o, by)
			}
			if server && (from == subjects.ConnectionInitiated || from == subjects.ConnectionPending) {
				for _, s := range []string{subjects.StateReady, subjects.StateConnecting, subjects.StateUnavailable, subjects.ServerDisabled} {
					o := fresh()
					o.Targets[0].State = subjects.ConnectionInitiated
					o.Targets[0].server(&subjects.ManagedMCP{Name: "x", State: s}, nil)
					if from == subjects.ConnectionInitiated {
						check("server "+s, o, "backend_watcher")
					}
				}
			}
		}
	}
	for move := range table {
		if !seen[move] && move != "connector pending initiated" && move != "connector pending failed" && move != "mcp pending failed" { // by the start itself
			t.Errorf("nothing makes the move %q", move)
		}
	}
}

func TestWhatComesLateChangesNothing(t *testing.T) {
	o := &operation{Phase: open, Card: true, Targets: []target{{Name: "a", State: subjects.ConnectionInitiated, Connection: "c", URL: "https://v"}}}
	if reason := o.answer(subjects.ConnectionAnswer{Action: subjects.ConnectionContinue}); reason != "" {
		t.Fatal(reason)
	}
	if o.Phase != settled || o.By != settledContinue || o.Targets[0].State != subjects.ConnectionNotConnected || o.Targets[0].URL != "" {
		t.Errorf("%+v", o)
	}
	if o.Targets[0].observe(accountActive) {
		t.Error("a settled target was connected")
	}
	for _, a := range []subjects.ConnectionAction{subjects.ConnectionSkip, subjects.ConnectionRetry, subjects.ConnectionContinue} {
		if o.answer(subjects.ConnectionAnswer{Target: "a", Action: a}) == "" {
			t.Errorf("%s was taken after the end", a)
		}
	}
	o.settle(settledDeadline)
	if o.By != settledContinue {
		t.Errorf("it was settled again, by %s", o.By)
	}
}

func TestARetryGivesTheCardItsWholeTimeBack(t *testing.T) {
	now := time.Now()
	whole := moment(now.Add(5 * time.Minute))
	o := &operation{Phase: open, Card: true, Deadline: whole, Targets: []target{{Name: "x", State: subjects.ConnectionFailed}}}
	for range 2 {
		if !o.hurry(now, time.Minute) || o.Deadline == whole {
			t.Fatalf("a card that waits for nothing but a word on a failed target ends at %s", o.Deadline)
		}
		if o.hurry(now.Add(time.Second), time.Minute) {
			t.Error("the time for that word was moved")
		}
		if reason := o.answer(subjects.ConnectionAnswer{Target: "x", Action: subjects.ConnectionRetry}); reason != "" || o.Deadline != whole {
			t.Fatalf("after a retry (%q) it ends at %s, not at %s", reason, o.Deadline, whole)
		}
		if o.hurry(now, time.Minute) {
			t.Error("a target that is being started was hurried")
		}
		o.Targets[0].Start = "" // and it failed again
	}
}

func TestFailuresOfAServersHostEndItsWait(t *testing.T) {
	for name, f := range map[string]func(*target) bool{
		"no answer": func(t *target) bool { return t.server(nil, errors.New("gone")) },
		"forgotten": func(t *target) bool { return t.server(nil, nil) },
		"offered":   func(t *target) bool { return t.server(&subjects.ManagedMCP{State: subjects.ServerOffered}, nil) },
	} {
		x := target{Name: "x", MCP: true, State: subjects.ConnectionInitiated}
		if !f(&x) || x.State != subjects.ConnectionFailed || x.Detail == "" {
			t.Errorf("%s: %+v", name, x)
		}
	}
}
