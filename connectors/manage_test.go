package connectors

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"toolbridge/subjects"
	"toolbridge/test/bus"
)

const (
	mintRoute    = "POST v1/connectors/connections"
	listRoute    = "GET v1/connectors"
	portalRoute  = "GET api/v1/connectors/accounts"
	accountRoute = "GET v1/connectors/accounts/c1"
	guestRoute   = "POST v1/identity/guest"
)

func bodies(texts ...string) []routeAnswer {
	list := make([]routeAnswer, len(texts))
	for i, b := range texts {
		list[i] = routeAnswer{Body: json.RawMessage(b)}
	}
	return list
}

func initiated(app, id string) string {
	return `{"results":[{"connector":"` + app + `","status":"initiated","connectUrl":"https://v/` + id + `","connectionId":"` + id + `"}]}`
}

func accountIs(status string) string {
	return `{"connectionId":"c1","connector":"gmail","status":"` + status + `","label":"me@x","alias":null,"active":true}`
}

// run starts a call and returns what receives its end.
func (b *manageBench) run(ctx context.Context, c ManageCall) <-chan ManageEnd {
	done := make(chan ManageEnd, 1)
	go func() { done <- b.Execute(ctx, c) }()
	return done
}

func ends(t *testing.T, done <-chan ManageEnd) ManageEnd {
	t.Helper()
	select {
	case end := <-done:
		return end
	case <-time.After(20 * time.Second):
		t.Fatal("the call does not end")
		return ManageEnd{}
	}
}

// states are the targets of a result, name to state.
func states(t *testing.T, end ManageEnd) map[string]string {
	t.Helper()
	if end.Error != nil {
		t.Fatalf("failed: %+v", end.Error)
	}
	var p struct {
		Targets []struct{ Name, State string } `json:"targets"`
	}
	if err := json.Unmarshal(end.Response, &p); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, target := range p.Targets {
		out[target.Name] = target.State
	}
	return out
}

func (r *routes) count(route string) int {
	requests, _ := r.seen()
	n := 0
	for _, q := range requests {
		if q[0] == route {
			n++
		}
	}
	return n
}

// K12: the start of an authorization is sent once; when nobody knows what came of it,
// the answer says so.
func TestK12TheStartOfAConnectionIsSentOnce(t *testing.T) {
	short := func(c *Config) { c.Client.OtherTimeout = 200 * time.Millisecond }
	for name, answer := range map[string]routeAnswer{"timeout": {hang: true}, "reset": {Raise: 1}, "failure": {Status: 502, Body: json.RawMessage(`{}`)}, "garbage": {Body: json.RawMessage(`{"resul`)}} {
		for _, surface := range []string{subjects.SurfaceCLI, subjects.SurfaceDesktop} {
			t.Run(name+" on "+surface, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, map[string][]routeAnswer{mintRoute: {answer}}, ManageConfig{}, short)
				call := b.call("c1", surface, `{"action":"connect","connectors":["gmail"]}`)
				end := b.Execute(t.Context(), call)
				if end.Error == nil || end.Error.Code != subjects.CodeOutcomeUnknown || !strings.Contains(end.Error.Message, "unknown") || !strings.Contains(end.Error.Message, "check status before starting again") {
					t.Errorf("got %s, %+v", end.Response, end.Error)
				}
				again := b.Execute(t.Context(), call) // as another worker would run the same call
				if d := cmp.Diff(end, again); d != "" {
					t.Errorf("the same call answers otherwise later, -first +second\n%s", d)
				}
				if n := b.routes.count(mintRoute); n != 1 {
					t.Errorf("%d requests left", n)
				}
			})
		}
	}
}

// K01: what is not available, what is not connected and what is down are told apart.
func TestK01StatusTellsWhatIsNotAvailableFromWhatIsNotConnectedAndWhatIsDown(t *testing.T) {
	status := func(script map[string][]routeAnswer) ManageEnd {
		b := newBench(t, script, ManageConfig{})
		return b.Execute(t.Context(), b.call("c1", subjects.SurfaceCLI, `{}`))
	}
	dark := status(nil)
	if dark.Error == nil || dark.Error.Reason != reasonNotAvailable || !strings.Contains(dark.Error.Message, "not available for this account") || dark.Error.ConnectURL != "" {
		t.Errorf("every route 404: %s, %+v", dark.Response, dark.Error)
	}
	down := status(map[string][]routeAnswer{listRoute: {{Status: 503, Body: json.RawMessage(`{}`)}}})
	if down.Error == nil || down.Error.Reason != ReasonUnreachable || !strings.Contains(down.Error.Message, "temporarily unreachable") {
		t.Errorf("503: %s, %+v", down.Response, down.Error)
	}
	apart := status(map[string][]routeAnswer{listRoute: bodies(`{"items":[{"connector":"gmail","connected":false,"enabled":true}],"nextCursor":null}`), portalRoute: bodies(`{"accounts":[]}`)})
	if apart.Error != nil || !strings.Contains(string(apart.Response), `"connected":false`) {
		t.Errorf("not connected: %s, %+v", apart.Response, apart.Error)
	}
	expired := status(map[string][]routeAnswer{listRoute: {{Status: 401, Body: json.RawMessage(`{}`)}}})
	if expired.Error == nil || expired.Error.Reason != ReasonSignInExpired {
		t.Errorf("401: %s, %+v", expired.Response, expired.Error)
	}
}

func TestALostWorkersCardIsWatchedOnByAnother(t *testing.T) {
	r := newRoutes(t, map[string][]routeAnswer{mintRoute: bodies(initiated("gmail", "c1")), accountRoute: bodies(accountIs("pending"))})
	nc := bus.Connect(t, bus.Server(t))
	one, two := benchOn(t, nc, r, ManageConfig{}), benchOn(t, nc, r, ManageConfig{})
	call := one.call("c1", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`)
	lost, lose := context.WithCancel(t.Context())
	first := one.run(lost, call)
	card := one.next(t, subjects.EventConnectionRequest)
	lose()
	if end := ends(t, first); !end.Again || end.Error == nil {
		t.Fatalf("the run of a stopping worker ends with %+v", end)
	}
	second := two.run(t.Context(), call)
	two.next(t, subjects.EventConnectionRequest) // the first run's, which every feed has heard
	if shown := two.next(t, subjects.EventConnectionRequest); shown.Operation != card.Operation || shown.Targets[0].ConnectURL != "https://v/c1" || shown.DeadlineAt != card.DeadlineAt {
		t.Errorf("the card is shown again as %+v", shown)
	}
	r.mu.Lock()
	r.script[accountRoute] = bodies(accountIs("active"))
	r.mu.Unlock()
	if d := cmp.Diff(map[string]string{"gmail": "connected"}, states(t, ends(t, second))); d != "" {
		t.Error(d)
	}
	if n := r.count(mintRoute); n != 1 {
		t.Errorf("%d connections were started", n)
	}
}

func TestAnAnswerReachesTheOperationThroughAnyWorker(t *testing.T) {
	r := newRoutes(t, map[string][]routeAnswer{mintRoute: bodies(initiated("gmail", "c1")), accountRoute: bodies(accountIs("pending"))})
	nc := bus.Connect(t, bus.Server(t))
	one, two := benchOn(t, nc, r, ManageConfig{Tick: time.Hour}), benchOn(t, nc, r, ManageConfig{})
	done := one.run(t.Context(), one.call("c1", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`))
	card := one.next(t, subjects.EventConnectionRequest)
	for name, a := range map[string]subjects.ConnectionAnswer{
		"another operation": {Operation: "op_0", Action: subjects.ConnectionContinue},
		"another target":    {Operation: card.Operation, Target: "slack", Action: subjects.ConnectionSkip},
		"retry of a link":   {Operation: card.Operation, Target: "gmail", Action: subjects.ConnectionRetry},
	} {
		if reply := two.answer(t, a); reply.Accepted || reply.Reason == "" {
			t.Errorf("%s was taken: %+v", name, reply)
		}
	}
	if reply, err := two.Answer(t.Context(), "t", "other", subjects.ConnectionAnswer{Operation: card.Operation, Action: subjects.ConnectionContinue}); err != nil || reply.Accepted {
		t.Errorf("another session ended the operation: %+v, %v", reply, err)
	}
	if reply := two.answer(t, subjects.ConnectionAnswer{Operation: card.Operation, Target: "GMAIL", Action: subjects.ConnectionSkip}); !reply.Accepted {
		t.Fatalf("the skip was not taken: %+v", reply)
	}
	if d := cmp.Diff(map[string]string{"gmail": "skipped"}, states(t, ends(t, done))); d != "" {
		t.Error(d)
	}
	if reply := two.answer(t, subjects.ConnectionAnswer{Operation: card.Operation, Action: subjects.ConnectionContinue}); reply.Accepted || !strings.Contains(reply.Reason, "ended") {
		t.Errorf("an answer that is too late: %+v", reply)
	}
}

func TestAFailedTargetEndsItsWaitOnceTheUserHasChosen(t *testing.T) {
	failed := `{"results":[{"connector":"gmail","status":"failed","statusReason":"bad scope"}]}`
	t.Run("continue", func(t *testing.T) {
		b := newBench(t, map[string][]routeAnswer{mintRoute: bodies(failed)}, ManageConfig{})
		done := b.run(t.Context(), b.call("c1", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`))
		card := b.next(t, subjects.EventConnectionRequest)
		if reply := b.answer(t, subjects.ConnectionAnswer{Operation: card.Operation, Target: "gmail", Action: subjects.ConnectionContinue}); !reply.Accepted {
			t.Fatalf("%+v", reply)
		}
		end := ends(t, done)
		if d := cmp.Diff(map[string]string{"gmail": "not_connected"}, states(t, end)); d != "" || !strings.Contains(string(end.Response), `"settled_by":"all_resolved"`) || !strings.Contains(string(end.Response), "bad scope") {
			t.Errorf("%s\n%s", d, end.Response)
		}
	})
	t.Run("retry", func(t *testing.T) {
		b := newBench(t, map[string][]routeAnswer{mintRoute: bodies(failed, initiated("gmail", "c1")), accountRoute: bodies(accountIs("active"))}, ManageConfig{})
		done := b.run(t.Context(), b.call("c1", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`))
		card := b.next(t, subjects.EventConnectionRequest)
		b.answer(t, subjects.ConnectionAnswer{Operation: card.Operation, Target: "gmail", Action: subjects.ConnectionRetry})
		if d := cmp.Diff(map[string]string{"gmail": "connected"}, states(t, ends(t, done))); d != "" {
			t.Error(d)
		}
		requests, _ := b.routes.seen()
		if last := requests[len(requests)-1]; last[0] != mintRoute || !strings.Contains(last[1], `"reinitiate":true`) {
			t.Errorf("the retry was sent as %v", last)
		}
	})
	t.Run("nobody chooses", func(t *testing.T) {
		b := newBench(t, map[string][]routeAnswer{mintRoute: bodies(failed)}, ManageConfig{Patience: 300 * time.Millisecond})
		began := time.Now()
		end := b.Execute(t.Context(), b.call("c1", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`))
		if took := time.Since(began); took > 30*time.Second || !strings.Contains(string(end.Response), `"settled_by":"deadline"`) {
			t.Errorf("after %s: %s", took, end.Response)
		}
	})
}

func TestARetryThatWasSentIsNotSentAgainByAnotherRun(t *testing.T) {
	b := newBench(t, map[string][]routeAnswer{mintRoute: bodies(`{"results":[{"connector":"gmail","status":"failed"}]}`)}, ManageConfig{})
	call := b.call("c1", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`)
	lost, lose := context.WithCancel(t.Context())
	first := b.run(lost, call)
	card := b.next(t, subjects.EventConnectionRequest)
	lose()
	ends(t, first)
	// As a run leaves it that was killed while its request was on the way.
	if _, _, err := b.operations.change(t.Context(), operationKey("t", "s", card.Operation), func(o *operation) bool {
		o.Targets[0].Start, o.Targets[0].Epoch = sent, "lost"
		return true
	}); err != nil {
		t.Fatal(err)
	}
	second := b.run(t.Context(), call)
	for told := false; !told; {
		select {
		case e := <-b.events:
			told = e.Targets[0].State == subjects.ConnectionFailed && strings.Contains(e.Targets[0].Detail, "unknown")
		case <-time.After(10 * time.Second):
			t.Fatal("the card does not tell that the outcome is unknown")
		}
	}
	b.answer(t, subjects.ConnectionAnswer{Operation: card.Operation, Action: subjects.ConnectionContinue})
	ends(t, second)
	if n := b.routes.count(mintRoute); n != 1 {
		t.Errorf("%d requests left", n)
	}
}

func TestASecondCardOpensWhenTheFirstIsDone(t *testing.T) {
	b := newBench(t, map[string][]routeAnswer{mintRoute: bodies(initiated("gmail", "c1")), accountRoute: bodies(accountIs("pending"))}, ManageConfig{})
	first := b.run(t.Context(), b.call("c1", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`))
	card := b.next(t, subjects.EventConnectionRequest)
	if end := b.Execute(t.Context(), b.call("c2", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`)); end.Error == nil || end.Error.Reason != "already_open" {
		t.Errorf("a second card: %s, %+v", end.Response, end.Error)
	}
	other := b.call("c3", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`)
	other.Session = "s2"
	elsewhere, cancel := context.WithCancel(t.Context())
	second := b.run(elsewhere, other)
	b.answer(t, subjects.ConnectionAnswer{Operation: card.Operation, Action: subjects.ConnectionContinue})
	ends(t, first)
	third := b.run(t.Context(), b.call("c4", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`))
	for {
		select {
		case e := <-b.events:
			if e.Type == subjects.EventConnectionRequest && e.CallID == "c4" {
				b.answer(t, subjects.ConnectionAnswer{Operation: e.Operation, Action: subjects.ConnectionContinue})
			}
			continue
		case end := <-third:
			if end.Error != nil {
				t.Errorf("the card after it: %+v", end.Error)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the third card does not end")
		}
		break
	}
	cancel()
	ends(t, second)
}

func TestASideAgentHasNoManageConnections(t *testing.T) {
	b := newBench(t, nil, ManageConfig{})
	end := b.Execute(t.Context(), b.call("c1", subjects.SurfaceSide, `{}`))
	if end.Error == nil || end.Error.Code != subjects.CodeToolNotFound || b.routes.count(listRoute) != 0 {
		t.Errorf("got %s, %+v", end.Response, end.Error)
	}
	if d := ManageDefinition(subjects.SurfaceSide); d != nil {
		t.Errorf("it is offered %s", d)
	}
	for _, surface := range []string{subjects.SurfaceCLI, subjects.SurfaceDesktop, ""} {
		if !json.Valid(ManageDefinition(surface)) {
			t.Errorf("the definition for %q is no JSON", surface)
		}
	}
}

func TestARetiredAccountIsNotRenamed(t *testing.T) {
	b := newBench(t, map[string][]routeAnswer{portalRoute: bodies(`{"accounts":[{"connectionId":"w","connector":"gmail","status":"active","label":"me@x","alias":"work","retired":true}]}`)}, ManageConfig{})
	end := b.Execute(t.Context(), b.call("c1", subjects.SurfaceCLI, `{"action":"rename","connectors":[{"name":"gmail","alias":"work","to":"home"}]}`))
	if end.Error == nil || end.Error.Reason != "rename_retired" || b.routes.count("PATCH api/v1/connectors/accounts/w") != 0 {
		t.Errorf("got %s, %+v", end.Response, end.Error)
	}
}

func TestLinksThatNoBrowserShouldOpenAreNotPassedOn(t *testing.T) {
	b := newBench(t, map[string][]routeAnswer{mintRoute: bodies(`{"results":[{"connector":"gmail","status":"initiated","connectUrl":"javascript:alert(1)","connectionId":"c1"}]}`)}, ManageConfig{})
	end := b.Execute(t.Context(), b.call("c1", subjects.SurfaceCLI, `{"action":"connect","connectors":["gmail"]}`))
	if end.Error != nil || strings.Contains(string(end.Response), "javascript") {
		t.Errorf("got %s, %+v", end.Response, end.Error)
	}
}

func TestAConnectionIsMadeAndUsedUnderOneIdentity(t *testing.T) { // K03, the part of manage_connections
	b := newBench(t, map[string][]routeAnswer{
		mintRoute: bodies(initiated("gmail", "c1")), accountRoute: bodies(accountIs("active")),
		listRoute: bodies(`{"items":[{"connector":"gmail","connected":true,"enabled":true}],"nextCursor":null}`), portalRoute: bodies(`{"accounts":[]}`),
	}, ManageConfig{})
	states(t, ends(t, b.run(t.Context(), b.call("c1", subjects.SurfaceDesktop, `{"action":"connect","connectors":["gmail"]}`))))
	b.Execute(t.Context(), b.call("c2", subjects.SurfaceCLI, `{}`))
	b.routes.mu.Lock()
	defer b.routes.mu.Unlock()
	for i, user := range b.routes.users {
		if user != "Bearer token-ann" {
			t.Errorf("request %d went out as %q", i, user)
		}
	}
	if len(b.routes.users) < 4 {
		t.Errorf("only %d requests", len(b.routes.users))
	}
}
