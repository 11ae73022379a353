package sim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolbridge/connectors"
)

const issue = `{"title":"A"}`

// What a client sees of each kind of fault in an execute, and whether the tool ran.
func TestEachFaultIsWhatItIsCalled(t *testing.T) {
	type seen struct {
		status int
		header http.Header
		body   string
		err    error
	}
	for name, test := range map[string]struct {
		fault   Fault
		effects int
		ok      func(seen) bool
	}{
		"latency":      {Fault{Kind: Latency, DelayMS: 1}, 1, func(s seen) bool { return s.status == 200 }},
		"status":       {Fault{Kind: Status}, 0, func(s seen) bool { return s.status == 503 && json.Valid([]byte(s.body)) }},
		"status after": {Fault{Kind: Status, Status: 500, Code: "BOOM", Effect: true}, 1, func(s seen) bool { return s.status == 500 && strings.Contains(s.body, "BOOM") }},
		"rate limit":   {Fault{Kind: RateLimited, RetryAfterS: 7}, 0, func(s seen) bool { return s.status == 429 && s.header.Get("Retry-After") == "7" }},
		"rate limit in ms": {Fault{Kind: RateLimited, RetryAfterS: -1, RetryAfterMS: 2500}, 0, func(s seen) bool {
			return s.header.Get("Retry-After") == "" && strings.Contains(s.body, `"retryAfterMs":2500`)
		}},
		"html":              {Fault{Kind: HTML}, 0, func(s seen) bool { return s.status == 502 && strings.Contains(s.body, "<html>") }},
		"html with 200":     {Fault{Kind: HTML, Status: 200}, 0, func(s seen) bool { return s.status == 200 && strings.Contains(s.body, "<html>") }},
		"hang":              {Fault{Kind: Hang}, 0, func(s seen) bool { return isTimeout(s.err) }},
		"hang after":        {Fault{Kind: Hang, Effect: true}, 1, func(s seen) bool { return isTimeout(s.err) }},
		"reset":             {Fault{Kind: Reset}, 0, func(s seen) bool { return s.err != nil && !isTimeout(s.err) }},
		"reset after":       {Fault{Kind: Reset, Effect: true}, 1, func(s seen) bool { return s.err != nil && !isTimeout(s.err) }},
		"truncated":         {Fault{Kind: Truncated}, 1, func(s seen) bool { return s.err != nil && s.status == 200 && s.body != "" }},
		"wrong index":       {Fault{Kind: WrongIndex}, 1, func(s seen) bool { return !strings.Contains(s.body, `"index":0`) && strings.Contains(s.body, `"data"`) }},
		"too few":           {Fault{Kind: TooFew}, 1, func(s seen) bool { return s.body == `{"results":[]}` }},
		"too many":          {Fault{Kind: TooMany}, 1, func(s seen) bool { return strings.Count(s.body, `"data"`) == 2 }},
		"non-object":        {Fault{Kind: NonObject}, 1, func(s seen) bool { return s.body == `{"results":["x"]}` }},
		"unknown code":      {Fault{Kind: UnknownCode}, 0, func(s seen) bool { return s.status == 200 && strings.Contains(s.body, `"code":"QUOTA_EXHAUSTED"`) }},
		"duplicate":         {Fault{Kind: Duplicate}, 1, func(s seen) bool { return s.status == 200 && strings.Contains(s.body, `"data"`) }},
		"garbage":           {Fault{Kind: Garbage}, 1, func(s seen) bool { return s.status == 200 && !json.Valid([]byte(s.body)) }},
		"huge":              {Fault{Kind: Huge, Bytes: 1 << 20}, 1, func(s seen) bool { return len(s.body) > 1<<19 && json.Valid([]byte(s.body)) }},
		"drip":              {Fault{Kind: Drip, DelayMS: 1}, 1, func(s seen) bool { return s.err == nil && json.Valid([]byte(s.body)) }},
		"drip, client goes": {Fault{Kind: Drip, DelayMS: 60_000}, 1, func(s seen) bool { return isTimeout(s.err) && s.status == 200 }},
		"content type": {Fault{Kind: ContentType}, 1, func(s seen) bool {
			return s.header.Get("Content-Type") == "text/html; charset=utf-8" && json.Valid([]byte(s.body))
		}},
		"dark":         {Fault{Kind: Dark}, 0, func(s seen) bool { return s.status == 404 }},
		"forbidden":    {Fault{Kind: Forbidden}, 0, func(s seen) bool { return s.status == 403 }},
		"unauthorized": {Fault{Kind: Unauthorized}, 0, func(s seen) bool { return s.status == 401 && strings.Contains(s.body, "TOKEN_EXPIRED") }},
	} {
		t.Run(name, func(t *testing.T) {
			test.fault.Route = Execute
			c := run(t, Config{Faults: []Fault{test.fault}})
			ctx := deadline(t, time.Minute)
			if test.fault.Kind == Hang || test.fault.DelayMS > 1000 {
				ctx = deadline(t, 200*time.Millisecond)
			}
			got, err := c.send(ctx, "POST", connectors.RouteExecute, "k1", call("linear", "LINEAR_CREATE_ISSUE", issue))
			s := seen{got.status, got.header, string(got.body), err}
			if !test.ok(s) {
				t.Errorf("%d %v %.300q %v", s.status, s.header, s.body, s.err)
			}
			if n := len(c.s.Record().EffectsOf(EffectExecute)); n != test.effects {
				t.Errorf("%d effects, want %d", n, test.effects)
			}
			// The same key once more, as a client does: one effect in all, and its answer.
			if r := c.one("k1", "linear", "LINEAR_CREATE_ISSUE", issue); r.Error != nil {
				t.Errorf("%+v", r.Error)
			}
			record := c.s.Record()
			if n := len(record.EffectsOf(EffectExecute)); n != 1 {
				t.Errorf("%d effects after the same key again", n)
			}
			if f := record.Requests[0].Fault; f != test.fault.Kind {
				t.Errorf("the record says %q", f)
			}
		})
	}
}

func TestAFaultHitsItsRouteUserAndToolSoOftenAsItSays(t *testing.T) {
	list := func(c *client) int {
		got, err := c.send(t.Context(), "GET", connectors.RouteConnectors, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.status
	}
	for name, test := range map[string]struct {
		faults []Fault
		want   []int
	}{
		"once":            {[]Fault{{Kind: Status}}, []int{503, 200, 200}},
		"later":           {[]Fault{{Kind: Status, Skip: 1, Count: 2}}, []int{200, 503, 503, 200}},
		"always":          {[]Fault{{Kind: Status, Count: -1}}, []int{503, 503, 503}},
		"flapping":        {[]Fault{{Kind: Status, Skip: 1, Count: 2, Cycle: true}}, []int{200, 503, 503, 200, 503, 503, 200}},
		"another route":   {[]Fault{{Kind: Status, Route: Search, Count: -1}}, []int{200, 200}},
		"another user":    {[]Fault{{Kind: Status, User: "dev", Count: -1}}, []int{200, 200}},
		"one after other": {[]Fault{{Kind: Status}, {Kind: Dark}}, []int{503, 404, 200}},
	} {
		c := run(t, Config{Faults: test.faults})
		var got []int
		for range test.want {
			got = append(got, list(c))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	c := run(t, Config{Faults: []Fault{{Kind: UnknownCode, Tool: "LINEAR_CREATE_ISSUE", Count: -1}}})
	if a, b := c.one("k1", "linear", "LINEAR_LIST_TEAMS", `{}`), c.one("k2", "linear", "LINEAR_CREATE_ISSUE", issue); a.Error != nil || b.Error == nil {
		t.Errorf("%+v %+v", a, b)
	}
}

func TestTheRecordCountsWhatIsUnderWay(t *testing.T) {
	c := run(t, Config{Faults: []Fault{{Kind: Hang, Count: -1}}})
	ctx := deadline(t, 300*time.Millisecond)
	var all sync.WaitGroup
	for _, token := range []string{"ada-token", "ada-token", "dev-token"} {
		all.Go(func() { _, _ = c.as(token).send(ctx, "GET", connectors.RouteConnectors, "", nil) })
	}
	all.Wait()
	for limit := time.Now().Add(5 * time.Second); c.s.Record().InFlight > 0; {
		if time.Now().After(limit) {
			t.Fatal("requests are under way whose clients are gone")
		}
		time.Sleep(time.Millisecond)
	}
	r := c.s.Record()
	if r.MaxInFlight[List] != 3 || r.MaxInFlight[""] != 3 || len(r.Of(List)) != 3 {
		t.Errorf("%+v", r)
	}
	most := 0
	for _, q := range r.Requests {
		if q.User == "ada" {
			most = max(most, q.InFlightUser)
		}
		if q.Answered != 0 || q.Done.IsZero() {
			t.Errorf("%+v", q)
		}
	}
	if most != 2 {
		t.Errorf("%d of ada's at once", most)
	}
}

func TestADuplicateIsTwoDeliveriesInTheRecord(t *testing.T) {
	c := run(t, Config{Faults: []Fault{{Kind: Duplicate}}})
	c.one("k1", "linear", "LINEAR_CREATE_ISSUE", issue)
	got := c.s.Record().Of(Execute)
	if len(got) != 2 || got[0].Key != "k1" || got[1].Key != "k1" || got[0].Duplicate || !got[1].Duplicate {
		t.Errorf("%+v", got)
	}
}

func TestAForeignProcessScriptsFaultsAndReadsTheRecord(t *testing.T) {
	c := run(t, Config{}).as("")
	must[[]FaultState](c, 200, "POST", ControlFaults, "", `{"kind":"dark","route":"list"}`)
	must[[]FaultState](c, 200, "POST", ControlFaults, "", `[{"kind":"status","route":"list"}]`)
	must[problemBody](c, 400, "POST", ControlFaults, "", `[{"kind":"status","rout":"list"}]`)
	ada := c.as("ada-token")
	for _, status := range []int{404, 503, 200} {
		must[json.RawMessage](ada, status, "GET", connectors.RouteConnectors, "", nil)
	}
	if f := must[[]FaultState](c, 200, "GET", ControlFaults, "", nil); len(f) != 2 || f[1].Hits != 1 || f[0].Seen != 3 {
		t.Errorf("%+v", f)
	}
	if f := must[[]FaultState](c, 200, "PUT", ControlFaults, "", `[{"kind":"status","count":-1}]`); len(f) != 1 {
		t.Errorf("%+v", f)
	}
	must[struct{}](c, 200, "DELETE", ControlFaults, "", nil)
	ada.one("k1", "linear", "LINEAR_CREATE_ISSUE", issue)
	r := must[Record](c, 200, "GET", ControlRecord+"?route=execute&user=ada", "", nil)
	if len(r.Requests) != 1 || len(r.Effects) != 1 || r.Requests[0].Key != "k1" || strings.Contains(string(encode(r)), "ada-token") {
		t.Errorf("%s", encode(r))
	}
	must[struct{}](c, 200, "DELETE", ControlRecord, "", nil)
	if r := must[Record](c, 200, "GET", ControlRecord, "", nil); len(r.Requests)+len(r.Effects) != 0 {
		t.Errorf("%+v", r)
	}
	must[struct{}](c, 200, "POST", ControlUsers, "", User{Name: "zoe", Token: "zoe-token"})
	a := must[connectors.Account](c, 200, "POST", ControlAccounts, "", `{"user":"zoe","connector":"slack","alias":"work"}`)
	if r := c.as("zoe-token").one("k1", "slack", "SLACK_POST", `{"channel":"c","text":"t"}`); r.Account != "work" {
		t.Errorf("%+v", r)
	}
	must[struct{}](c, 200, "PATCH", ControlAccounts+"/"+a.ConnectionID, "", `{"status":"revoked"}`)
	if r := c.as("zoe-token").one("k2", "slack", "SLACK_POST", `{"channel":"c","text":"t"}`); code(r) != codeConnection {
		t.Errorf("%+v", r)
	}
	if l := must[connectors.AccountsReply](c, 200, "GET", ControlAccounts+"?user=zoe", "", nil); len(l.Accounts) != 1 || l.Accounts[0].Status != StatusRevoked {
		t.Errorf("%+v", l)
	}
	must[struct{}](c, 200, "POST", ControlReset, "", nil)
	must[problemBody](c.as("zoe-token"), 401, "GET", connectors.RouteConnectors, "", nil)
}

func TestTheRecordIsBounded(t *testing.T) {
	c := run(t, Config{KeepRequests: 10})
	for range 25 {
		must[connectors.ListReply](c, 200, "GET", connectors.RouteConnectors, "", nil)
	}
	r := c.s.Record()
	if len(r.Requests) > 10 || r.Dropped+len(r.Requests) != 25 || r.Requests[len(r.Requests)-1].Seq != 25 {
		t.Errorf("%d requests, %d dropped", len(r.Requests), r.Dropped)
	}
}
