//go:build unix

package hosted

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"toolbridge/test/gateway/sim"
)

// Calls of hosted tools while the gateway fails in every way it can and workers are
// killed: no effect comes twice, no success is claimed without its effect, what is
// said not to have been sent had none, and every call ends with all its results in
// order.
func TestNoHostedEffectComesTwiceWhateverFails(t *testing.T) {
	const workers, agents, entries = 3, 6, 3
	rounds, kills := 12, 4
	if testing.Short() {
		rounds, kills = 4, 1
	}
	seed := rand.Uint64()
	if text := os.Getenv("TOOLBRIDGE_HOSTED_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TOOLBRIDGE_HOSTED_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	d := deploy(t)
	o := d.order("t")
	o.Execute, o.Threshold, o.Cooldown = time.Second, 4, 300*time.Millisecond
	fleet := make([]*process, workers)
	var ready sync.WaitGroup
	for i := range fleet {
		ready.Go(func() { fleet[i] = start(t, o) })
	}
	ready.Wait()
	if t.Failed() {
		return
	}
	// Each comes up every now and then, for one request or for two: two in a row fail
	// an entry for good.
	for _, f := range []sim.Fault{
		{Kind: sim.Reset},
		{Kind: sim.Reset, Effect: true},
		{Kind: sim.Status, Status: 500},
		{Kind: sim.Status, Effect: true},
		{Kind: sim.HTML, Effect: true},
		{Kind: sim.Truncated},
		{Kind: sim.Garbage},
		{Kind: sim.TooFew},
		{Kind: sim.WrongIndex},
		{Kind: sim.TooMany},
		{Kind: sim.NonObject},
		{Kind: sim.UnknownCode},
		{Kind: sim.Duplicate},
		{Kind: sim.RateLimited},
		{Kind: sim.Latency, DelayMS: 200},
		{Kind: sim.Hang, Effect: true},
		{Kind: sim.Latency, DelayMS: 1500}, // later than anybody waits
	} {
		f.Route, f.Skip, f.Count, f.Cycle = sim.Execute, 10+random.IntN(40), 1+random.IntN(2), true
		d.inject(f)
	}

	type made struct {
		s  *session
		id string
	}
	calls := make([][]made, agents)
	sessions := make([]*session, agents)
	for a := range agents {
		sessions[a] = d.assemble("t", connect)
	}
	over := make(chan struct{})
	var killing sync.WaitGroup
	killed := 0
	killing.Go(func() {
		for killed < kills {
			select {
			case <-over:
				return
			case <-time.After(time.Duration(100+random.IntN(400)) * time.Millisecond):
			}
			i := random.IntN(workers)
			fleet[i].kill()
			fleet[i] = start(t, o)
			killed++
		}
	})
	var all sync.WaitGroup
	for a, s := range sessions {
		all.Go(func() {
			for n := range rounds {
				id := fmt.Sprintf("a%d_%d", a, n)
				var list []string
				for i := range entries {
					list = append(list, issue(fmt.Sprintf("%s.%d", id, i)))
				}
				body := fmt.Sprintf(`{"id":%q,"name":"tool_call","arguments":{"calls":[%s]},"catalog":%q}`, id, strings.Join(list, ","), s.catalog)
				// The worker that gets it may be killed before it answers: the same once more.
				until(t, "the call to be stored", func() bool {
					m, err := s.nc.Request(s.subject+"call", []byte(body), 2*time.Second)
					return err == nil && m.Header.Get("Nats-Service-Error-Code") == ""
				})
				calls[a] = append(calls[a], made{s, id})
			}
		})
	}
	all.Wait()
	outcomes := map[string]int{}
	said := map[string]string{} // by title: the code, or ok
	for _, list := range calls {
		for _, c := range list {
			b := decodeBatch(t, c.s.fetched(c.id))
			if len(b.Results) != entries || b.TotalCount != entries || b.SuccessCount+b.ErrorCount != entries {
				t.Fatalf("%s: %+v", c.id, b)
			}
			for i, r := range b.Results {
				title := fmt.Sprintf("%s.%d", c.id, i)
				var issue struct{ Title string }
				code := "ok"
				if r.Error != nil {
					code = r.Error.Code
				} else if json.Unmarshal(r.Response, &issue) != nil || issue.Title != title {
					t.Errorf("%s has another's result: %s", title, r.Response)
				}
				if r.Index != i {
					t.Errorf("%s stands at %d", title, r.Index)
				}
				said[title] = code
				outcomes[code]++
			}
		}
	}
	close(over)
	killing.Wait()
	d.gateway.ClearFaults()
	until(t, "the gateway to be done", func() bool { return d.gateway.Record().InFlight == 0 })
	record := d.gateway.Record()
	effects := map[string]int{}
	for _, e := range record.EffectsOf(sim.EffectExecute) {
		var issue struct{ Title string }
		if err := json.Unmarshal(e.Arguments, &issue); err != nil {
			t.Fatal(err)
		}
		effects[issue.Title]++
	}
	for title, code := range said {
		switch n := effects[title]; {
		case n > 1:
			t.Errorf("%s (%s) had %d effects", title, code, n)
		case code == "ok" && n != 1:
			t.Errorf("%s is said to have succeeded and had %d effects", title, n)
		case (code == "GATEWAY_UNAVAILABLE" || code == "INTERRUPTED") && n != 0:
			t.Errorf("%s is said not to have been sent (%s) and had an effect", title, code)
		}
	}
	if n := len(said); len(effects) > n || outcomes["ok"] == 0 {
		t.Errorf("%d entries, effects of %d", n, len(effects))
	}
	hit := 0
	for _, q := range record.Requests {
		if q.Fault != "" {
			hit++
		}
	}
	if hit == 0 || killed == 0 {
		t.Errorf("%d requests were hit by a fault and %d workers were killed", hit, killed)
	}
	t.Logf("%d entries: %v; %d requests, %d of them hit by a fault; %d workers killed", len(said), outcomes, len(record.Requests), hit, killed)
}

// fetched is a stored call's result, from whichever worker is there.
func (s *session) fetched(id string) (result json.RawMessage) {
	s.t.Helper()
	until(s.t, "the result of "+id, func() bool {
		m, err := s.nc.Request(s.subject+"fetch", []byte(fmt.Sprintf(`{"call_id":%q}`, id)), 2*time.Second)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
			return false
		}
		var reply struct {
			Pending bool
			Result  json.RawMessage
		}
		if err := json.Unmarshal(m.Data, &reply); err != nil {
			s.t.Fatalf("%s: %v", m.Data, err)
		}
		result = reply.Result
		return !reply.Pending
	})
	return result
}
