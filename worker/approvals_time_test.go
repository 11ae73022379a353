package worker_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolbridge/test/bus"
	"toolbridge/worker"
)

// gated is a session whose every call is asked for, with the call c1 waiting.
func (f *fleet) gated() (ref string, ran func() []map[string]any, people *approvers, q map[string]any, done <-chan map[string]any) {
	f.t.Helper()
	f.grant("s1", `{"user":"ann"}`)
	ref = f.assemble("s1", bank())["catalog"].(string)
	ran = f.echo("s1")
	people = f.approvers()
	done = f.later("s1", ref, one("mcp__bank__pay", `{}`))
	return ref, ran, people, people.asked(), done
}

func TestP11ALateYesNeitherRunsNorVanishes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := fleetInBubble(t)
		f.start(worker.Config{Policy: asks, ApprovalTimeout: 2 * time.Second})
		asked := time.Now()
		_, ran, people, q, done := f.gated()
		result := next(t, "result", done)
		if d := time.Since(asked); d < 2*time.Second || d > 3*time.Second {
			t.Errorf("the result came after %s", d)
		}
		if code(result) != "APPROVAL_TIMEOUT" || !strings.Contains(text(result), "expired") || !strings.Contains(text(result), "not run") || !strings.Contains(text(result), "again if it is still wanted") {
			t.Errorf("result = %s", text(result))
		}
		if s := next(t, "settled", people.settled); s["id"] != q["id"] || s["state"] != "expired" || s["choice"] != "" || s["by"] != "" {
			t.Errorf("settled = %s", text(s))
		}
		time.Sleep(time.Second)
		late := f.choose("ann", q, "once")
		if code(late) != "EXPIRED" || !strings.Contains(text(late), "expired at "+q["expires_at"].(string)) || at(t, late, "error", "decision", "state") != "expired" {
			t.Errorf("late = %s", text(late))
		}
		time.Sleep(time.Minute)
		if n := len(ran()); n != 0 {
			t.Errorf("%d executions", n)
		}
		if got := f.audited("approval.settled"); len(got) != 1 || got[0]["reason"] != "expired" {
			t.Errorf("audit = %s", text(got))
		}
	})
}

func TestADecisionJustBeforeTheExpiryWins(t *testing.T) {
	for _, before := range []time.Duration{time.Second, 20 * time.Millisecond} {
		t.Run(before.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := fleetInBubble(t)
				f.start(worker.Config{Policy: asks, ApprovalTimeout: 5 * time.Minute})
				f.start(worker.Config{Policy: asks, ApprovalTimeout: 5 * time.Minute})
				_, _, people, q, done := f.gated()
				expires, err := time.Parse(time.RFC3339Nano, q["expires_at"].(string))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(expires) - before)
				if d := f.choose("ann", q, "once"); d["state"] != "approved" {
					t.Errorf("decision = %s", text(d))
				}
				if got := next(t, "result", done); got["result"] != "ran mcp__bank__pay" {
					t.Errorf("result = %s", text(got))
				}
				time.Sleep(time.Minute)
				if s := next(t, "settled", people.settled); s["state"] != "approved" || len(people.settled) != 0 {
					t.Errorf("settled = %s, and %d more", text(s), len(people.settled))
				}
			})
		})
	}
}

// Nobody has said yet that it expired: the decision that comes too late does.
func TestADecisionAfterTheExpiryIsNoneAlthoughNobodyHasSweptYet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := fleetInBubble(t)
		stop := f.startStoppable(worker.Config{Policy: asks, ApprovalTimeout: time.Minute})
		_, ran, _, q, done := f.gated()
		eventually(t, "the call is parked", func() bool { return f.parked("s1", "c1") })
		stop()
		time.Sleep(2 * time.Minute)
		f.start(worker.Config{Policy: asks})
		if got := f.choose("ann", q, "once"); code(got) != "EXPIRED" {
			t.Errorf("decision = %s", text(got))
		}
		if got := next(t, "result", done); code(got) != "APPROVAL_TIMEOUT" {
			t.Errorf("result = %s", text(got))
		}
		if n := len(ran()); n != 0 {
			t.Errorf("%d executions", n)
		}
	})
}

func TestWhatExpiresWhileNoWorkerIsThereIsSettledByTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := fleetInBubble(t)
		stop := f.startStoppable(worker.Config{Policy: asks, ApprovalTimeout: time.Minute})
		_, _, _, _, done := f.gated()
		eventually(t, "the call is parked", func() bool { return f.parked("s1", "c1") })
		stop()
		time.Sleep(2 * time.Minute)
		f.start(worker.Config{Policy: asks})
		if got := next(t, "result", done); code(got) != "APPROVAL_TIMEOUT" {
			t.Errorf("result = %s", text(got))
		}
	})
}

func TestWaitingForAPersonCountsNeitherAgainstTheToolsTimeNorAgainstTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := fleetInBubble(t)
		f.start(worker.Config{Policy: asks, ApprovalTimeout: 3 * time.Hour, ToolTimeout: 10 * time.Second})
		f.grant("s1", `{}`)
		ref := f.assemble("s1", bank())["catalog"].(string)
		f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string {
			time.Sleep(9 * time.Second)
			return `{"result":"slow"}`
		})
		people := f.approvers()
		deadline := strconv.FormatInt(time.Now().Add(5*time.Second).UnixMilli(), 10)
		body := fmt.Sprintf(`{"id":"b1","name":"tool_call","arguments":%s,"catalog":%q}`, one("mcp__bank__pay", `{}`), ref)
		if got := f.ask("s1", "bridge", body, "Toolbridge-Deadline", deadline); code(got) != "DEADLINE_EXCEEDED" {
			t.Errorf("the deadline bounds the reply: %s", text(got))
		}
		time.Sleep(2 * time.Hour)
		f.choose("ann", people.asked(), "once")
		time.Sleep(10 * time.Second)
		if got := f.ask("s1", "fetch", `{"call_id":"b1"}`); got["result"] != "slow" {
			t.Errorf("result = %s", text(got))
		}
	})
}

func TestEverythingSurvivesARestartOfTheServerOnItsStore(t *testing.T) {
	dir := t.TempDir()
	s := bus.Server(t, func(o *server.Options) { o.StoreDir = dir })
	f := fleetOn(t, s, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	defer f.startStoppable(worker.Config{Policy: asks})() // before the second server
	ref, _, people, q, done := f.gated()
	d := f.choose("ann", q, "always")
	next(t, "result", done)
	second := f.later("s1", ref, one("mcp__fs__write", `{}`))
	q2 := people.asked()
	eventually(t, "the call is parked", func() bool { return f.parked("s1", "c2") })
	port := s.Addr().(interface{ String() string }).String()
	number, err := strconv.Atoi(port[strings.LastIndexByte(port, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	s.WaitForShutdown()
	f.server = bus.Server(t, func(o *server.Options) { o.StoreDir, o.Port = dir, number })
	eventually(t, "the worker is back", func() bool {
		m, err := f.nc.Request("toolbridge.v1.t._approvals.list.ann", nil, time.Second)
		return err == nil && strings.Contains(string(m.Data), q2["id"].(string))
	})
	list := f.pending("ann")
	if len(list["approvals"].([]any)) != 1 || len(list["remembered"].([]any)) != 1 {
		t.Errorf("list = %s", text(list))
	}
	if again := f.choose("ann", q, "always"); text(again) != text(d) {
		t.Errorf("the decision is now %s, was %s", text(again), text(d))
	}
	f.choose("ann", q2, "once")
	if got := next(t, "result", second); got["result"] != "ran mcp__fs__write" {
		t.Errorf("result = %s", text(got))
	}
	next(t, "result", f.later("s1", ref, one("mcp__bank__pay", `{}`))) // always still holds
}
