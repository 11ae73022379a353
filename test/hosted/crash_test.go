//go:build unix

package hosted

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"toolbridge/test/gateway/sim"
)

// A worker is killed while one of ten calls of a batch is at the gateway: the
// gateway has each effect once, the call that was under way is sent again with its
// key, and the results are all there and in order.
func TestAKilledWorkersBatchEndsCompleteAndInOrderWithEachEffectOnce(t *testing.T) {
	for _, at := range []int{1, 5, 10} { // the request that the worker dies at
		for _, effect := range []bool{false, true} {
			if testing.Short() && at != 5 {
				continue
			}
			t.Run(fmt.Sprintf("at request %d, done %t", at, effect), func(t *testing.T) {
				t.Parallel()
				killedAt(t, at, effect)
			})
		}
	}
}

func killedAt(t *testing.T, at int, effect bool) {
	d := deploy(t)
	first := start(t, d.order("t"))
	s := d.assemble("t", connect)
	d.inject(sim.Fault{Kind: sim.Hang, Route: sim.Execute, Skip: at - 1, Effect: effect})
	var calls []string
	for i := range 10 {
		calls = append(calls, issue(fmt.Sprintf("issue %d", i)))
	}
	s.request("call", fmt.Sprintf(`{"id":"batch","name":"tool_call","arguments":{"calls":[%s]},"catalog":%q}`, strings.Join(calls, ","), s.catalog))
	until(t, "the call that hangs", func() bool {
		sent := d.gateway.Record().Of(sim.Execute)
		return len(sent) == at && sent[at-1].Fault == sim.Hang
	})
	first.kill()
	start(t, d.order("t"))

	var result json.RawMessage
	until(t, "the result", func() bool {
		var reply struct {
			Pending bool
			Result  json.RawMessage
		}
		if err := json.Unmarshal(s.request("fetch", `{"call_id":"batch"}`), &reply); err != nil {
			t.Fatal(err)
		}
		result = reply.Result
		return !reply.Pending
	})
	b := decodeBatch(t, result)
	if b.SuccessCount != 10 || b.ErrorCount != 0 || b.TotalCount != 10 || len(b.Results) != 10 {
		t.Errorf("%s", result)
	}
	for i, r := range b.Results {
		var issue struct{ Title string }
		if r.Index != i || json.Unmarshal(r.Response, &issue) != nil || issue.Title != fmt.Sprintf("issue %d", i) {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	record := d.gateway.Record()
	effects := record.EffectsOf(sim.EffectExecute)
	for i, e := range effects {
		if want := fmt.Sprintf(`{"title":"issue %d"}`, i); string(e.Arguments) != want {
			t.Errorf("effect %d is %s, want %s", i, e.Arguments, want)
		}
	}
	if len(effects) != 10 {
		t.Errorf("%d effects, want 10", len(effects))
	}
	sent := record.Of(sim.Execute)
	if len(sent) != 11 {
		t.Fatalf("%d requests, want the ten and one once more", len(sent))
	}
	keys := map[string][]int{}
	for i, q := range sent {
		keys[q.Key] = append(keys[q.Key], i)
		if q.InFlight != 1 {
			t.Errorf("request %d was sent while another was under way", i)
		}
	}
	if again := keys[sent[at-1].Key]; len(keys) != 10 || len(again) != 2 || again[1] != at {
		t.Errorf("the request that hung was not repeated with its key: %v", keys)
	}
}
