package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"toolbridge/approval"
	"toolbridge/connectors"
	"toolbridge/test/bus"
	"toolbridge/worker"
	"toolbridge/worker/call"
)

// hosted is a session with connectors, in front of a gateway that answers by a
// function.
type hosted struct {
	*fleet
	gateway *callGateway
	ref     string
}

func newHosted(t *testing.T, answer func(n int, x executed) gatewayAnswer, cfg worker.Config, more ...func(*connectors.Config)) *hosted {
	t.Helper()
	f := newFleet(t)
	h := &hosted{fleet: f, gateway: newCallGateway(t, answer)}
	cfg.Dev = true
	cfg.Gateway = h.side(t, more...)
	f.start(cfg)
	h.ref = h.catalog("s1", "cli")
	return h
}

// side is a worker's side of the gateway.
func (h *hosted) side(t *testing.T, more ...func(*connectors.Config)) *connectors.Gateway {
	t.Helper()
	return gatewayOf(t, h.fleet, h.gateway.URL, append([]func(*connectors.Config){func(c *connectors.Config) { c.Client.Credentials = perUser{} }}, more...)...)
}

func (h *hosted) catalog(session, surface string) string {
	h.t.Helper()
	return h.assemble(session, fmt.Sprintf(`{"tools":%s,"surface":%q}`,
		tools(manageConnections, tool("mcp__cal__list_events", "mcp-cal", "Lists events", "day"), tool("mcp__cal__create_event", "mcp-cal", "Makes one", "title", "start")), surface))["catalog"].(string)
}

func (h *hosted) sent() []string {
	var out []string
	for _, x := range h.gateway.requests("t") {
		out = append(out, x.shown())
	}
	return out
}

// calls is an envelope of connectors' tools, given as "gmail/SEND {…}".
func calls(entries ...string) string {
	var list []string
	for _, e := range entries {
		name, args, _ := strings.Cut(e, " ")
		if args == "" {
			args = "{}"
		}
		list = append(list, fmt.Sprintf(`{"name":"connectors__%s","arguments":%s}`, strings.ReplaceAll(name, "/", "__"), args))
	}
	return `{"calls":[` + strings.Join(list, ",") + `]}`
}

// outcomes are a batch's slots: the code of an error, or the response.
func outcomes(t *testing.T, reply map[string]any) []string {
	t.Helper()
	var out []string
	for i, s := range at(t, reply, "result", "results").([]any) {
		slot := s.(map[string]any)
		if slot["index"] != float64(i) {
			t.Errorf("slot %d has index %v", i, slot["index"])
		}
		if c := code(slot); c != "" {
			out = append(out, c)
		} else {
			out = append(out, text(slot["response"]))
		}
	}
	return out
}

// await waits for a channel to be closed, or for the test's end.
func await(t *testing.T, closed <-chan struct{}) {
	select {
	case <-closed:
	case <-t.Context().Done():
	}
}

func want[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestC14MixedBatchesAreRefusedWholeWhereLocalOnesAre(t *testing.T) {
	for reject, results := range map[bool][]string{true: nil, false: {`{"to":"a@example.test"}`, `1`}} {
		h := newHosted(t, echo, worker.Config{RejectLocalBatches: reject})
		ran := h.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":1}` })
		reply := h.call("s1", h.ref, `{"calls":[{"name":"connectors__gmail__SEND_EMAIL","arguments":{"to":"a@example.test"}},{"name":"mcp__cal__list_events","arguments":{}}]}`)
		if !reject {
			want(t, "results", results, outcomes(t, reply))
			continue
		}
		message, _ := at(t, reply, "result", "error", "message").(string)
		if reply["is_error"] != true || len(h.sent())+len(ran()) > 0 || !strings.Contains(message, `{"name":"connectors__gmail__SEND_EMAIL","arguments":{"to":"a@example.test"}}`) {
			t.Errorf("reply %s; sent %v, run %v", text(reply), h.sent(), ran())
		}
		reply = h.call("s1", h.ref, `{"calls":[{"name":"mcp__cal__list_events","arguments":{"day":"a"}},{"name":"mcp__cal__create_event","arguments":{"title":"t","start":"s"}}]}`)
		message, _ = at(t, reply, "result", "error", "message").(string)
		if reply["is_error"] != true || len(ran()) > 0 || !strings.Contains(message, `{"name":"mcp__cal__list_events","arguments":{"day":"a"}}`) {
			t.Errorf("reply %s; run %v", text(reply), ran())
		}
	}
}

func TestC15ConnectorEntriesGoOutOneByOneInInputOrder(t *testing.T) {
	answers := []gatewayAnswer{ran(`"data":{"id":"L1"}`), ran(`"error":{"code":"PROVIDER_ERROR","message":"title empty"}`), ran(`"data":{"id":"M1"}`)}
	h := newHosted(t, func(n int, _ executed) gatewayAnswer { return answers[n] }, worker.Config{})
	reply := h.call("s1", h.ref, calls(`linear/CREATE_ISSUE {"title":"A"}`, `linear/CREATE_ISSUE {"title":""}`, `gmail/SEND_EMAIL {"to":"a@example.test"}`))
	want(t, "requests", []string{`linear/LINEAR_CREATE_ISSUE {"title":"A"}`, `linear/LINEAR_CREATE_ISSUE {"title":""}`, `gmail/GMAIL_SEND_EMAIL {"to":"a@example.test"}`}, h.sent())
	want(t, "at once", 1, h.gateway.most)
	want(t, "results", []string{`{"id":"L1"}`, "PROVIDER_ERROR", `{"id":"M1"}`}, outcomes(t, reply))
	want(t, "counts", []any{2.0, 1.0, 3.0, false}, []any{at(t, reply, "result", "success_count"), at(t, reply, "result", "error_count"), at(t, reply, "result", "total_count"), reply["is_error"]})
}

func TestC16AStopInTheMiddleOfABatchKeepsTheRestFromLeaving(t *testing.T) {
	var h *hosted
	var once sync.Once
	h = newHosted(t, echo, worker.Config{CallStep: func(point, id string) {
		if point == call.StepReplied { // the answer to #0 is there, #1 has not started
			once.Do(func() { h.ask("s1", "stop", fmt.Sprintf(`{"call_id":%q}`, id)) })
		}
	}})
	reply := h.call("s1", h.ref, calls(`a/T {"n":0}`, `a/T {"n":1}`, `a/T {"n":2}`, `a/T {"n":3}`))
	want(t, "requests", []string{`a/A_T {"n":0}`}, h.sent())
	want(t, "results", []string{`{"n":0}`, "INTERRUPTED", "INTERRUPTED", "INTERRUPTED"}, outcomes(t, reply))
	want(t, "total", any(4.0), at(t, reply, "result", "total_count"))
}

func TestC17AStopDuringARequestTellsWhatBecameOfIt(t *testing.T) {
	for variant, slot := range map[string]string{"a": `{"qty":1}`, "b": "OUTCOME_UNKNOWN"} {
		t.Run(variant, func(t *testing.T) {
			arrived, stopped := make(chan struct{}, 10), make(chan struct{})
			h := newHosted(t, func(n int, x executed) gatewayAnswer {
				arrived <- struct{}{}
				await(t, stopped)
				if variant == "b" {
					return gatewayAnswer{Raise: "reset"}
				}
				return echo(n, x)
			}, worker.Config{})
			done := h.later("s1", h.ref, calls(`bank/PLACE_ORDER {"qty":1}`, `bank/PLACE_ORDER {"qty":2}`))
			<-arrived
			reply := h.ask("s1", "stop", `{}`)
			want(t, "stop", `[{"call_id":"c1","in_flight":[0],"interrupted":[1]}]`, text(reply["stopped"]))
			close(stopped)
			result := next(t, "result", done)
			want(t, "results", []string{slot, "INTERRUPTED"}, outcomes(t, result))
			want(t, "requests", []string{`bank/BANK_PLACE_ORDER {"qty":1}`}, h.sent())
			if variant == "b" && !strings.Contains(text(result), "may have taken effect. Check before you repeat it") {
				t.Errorf("result = %s", text(result))
			}
		})
	}
}

// A literal slug is another request: a stop keeps it from leaving as well.
func TestAStopKeepsTheLiteralSlugFromBeingTried(t *testing.T) {
	arrived, stopped := make(chan struct{}, 10), make(chan struct{})
	h := newHosted(t, func(int, executed) gatewayAnswer {
		arrived <- struct{}{}
		await(t, stopped)
		return ran(`"error":{"code":"TOOL_NOT_FOUND"}`)
	}, worker.Config{})
	done := h.later("s1", h.ref, calls("a/T"))
	<-arrived
	h.ask("s1", "stop", `{}`)
	close(stopped)
	want(t, "results", []string{"TOOL_NOT_FOUND"}, outcomes(t, next(t, "result", done)))
	want(t, "requests", []string{"a/A_T {}"}, h.sent())
}

func TestC20AnswersOfTheWrongShapeCostOnlyTheirOwnSlot(t *testing.T) {
	for body, slot := range map[string]string{
		`{"results":[]}`:                         "PROVIDER_ERROR",
		`{"results":[{"data":1},{"data":2}]}`:    "1",
		`{"results":["x"]}`:                      "PROVIDER_ERROR",
		`not json`:                               "PROVIDER_ERROR",
		`{"results":{}}`:                         "PROVIDER_ERROR",
		`[]`:                                     "PROVIDER_ERROR",
		`{"results":[{}]}`:                       "PROVIDER_ERROR",
		`{"results":[{"error":"x"}]}`:            "PROVIDER_ERROR",
		`{"results":[{"error":{"code":"NEW"}}]}`: "NEW",
		`{"results":[{"index":7,"data":3}]}`:     "3",
	} {
		quoted, _ := json.Marshal(body)
		h := newHosted(t, func(n int, x executed) gatewayAnswer {
			if n == 0 {
				return gatewayAnswer{Status: 200, Body: quoted}
			}
			return echo(n, x)
		}, worker.Config{})
		reply := h.call("s1", h.ref, calls("a/T", `b/T {"n":2}`))
		want(t, "results for "+body, []string{slot, `{"n":2}`}, outcomes(t, reply))
	}
}

func TestP07ADeniedEntryOfABatchCostsNoOther(t *testing.T) {
	h := newHosted(t, func(_ int, x executed) gatewayAnswer { return ran(`"data":"` + x.Body.Tools[0].Tool + `"`) }, worker.Config{
		Policy: approval.Policy{Rules: []approval.Rule{{Match: "connectors__gmail__SEND_EMAIL", Action: approval.Ask}}},
		Hooks:  []call.Hook{{Name: "h"}},
	})
	hook := h.hook("h", func(map[string]any) string { return `{"action":"allow"}` })
	approver := h.approvers()
	done := h.later("s1", h.ref, calls("gmail/READ", `gmail/SEND_EMAIL {"to":"a"}`, "gmail/READ"))
	asked := approver.asked()
	want(t, "asked", []any{"connectors__gmail__SEND_EMAIL", `{"to":"a"}`, "toolbridge gateway"}, []any{asked["tool"], asked["arguments_json"], asked["executor"]})
	h.choose("ann", asked, "deny")
	result := next(t, "result", done)
	want(t, "results", []string{`"GMAIL_READ"`, "APPROVAL_DENIED", `"GMAIL_READ"`}, outcomes(t, result))
	want(t, "requests", []string{"gmail/GMAIL_READ {}", "gmail/GMAIL_READ {}"}, h.sent())
	var seen []string
	for _, q := range hook() {
		seen = append(seen, q["tool"].(string))
	}
	want(t, "hooks", []string{"connectors__gmail__READ", "connectors__gmail__SEND_EMAIL", "connectors__gmail__READ"}, seen)
}

// What is remembered for a connector's tool holds for that tool, in this session.
func TestARememberedChoiceHoldsForAConnectorsTool(t *testing.T) {
	h := newHosted(t, echo, worker.Config{Policy: approval.Policy{Default: approval.Ask}})
	approver := h.approvers()
	done := h.later("s1", h.ref, calls(`gmail/SEND {"n":1}`))
	h.choose("ann", approver.asked(), "session")
	want(t, "results", []string{`{"n":1}`}, outcomes(t, next(t, "result", done)))
	want(t, "results", []string{`{"n":2}`}, outcomes(t, h.call("s1", h.ref, calls(`gmail/SEND {"n":2}`))))
	done = h.later("s1", h.ref, calls(`gmail/DELETE {"n":3}`))
	h.choose("ann", approver.asked(), "deny")
	want(t, "results", []string{"APPROVAL_DENIED"}, outcomes(t, next(t, "result", done)))
}

func TestK01ACallThatTheGatewayIsDarkToSaysSoAndOffersNoLink(t *testing.T) {
	for _, status := range []int{403, 404} {
		h := newHosted(t, func(int, executed) gatewayAnswer {
			return gatewayAnswer{Status: status, Body: json.RawMessage(`{"error":{"code":"GONE","message":"nothing here"}}`)}
		}, worker.Config{})
		reply := h.call("s1", h.ref, calls("a/T"))
		slot := at(t, reply, "result", "results", 0, "error").(map[string]any)
		want(t, "slot", []any{"PROVIDER_ERROR", "not_available", nil}, []any{slot["code"], slot["reason"], slot["connect_url"]})
		if m := text(slot["message"]); !strings.Contains(m, "not available for this account") {
			t.Errorf("message = %s", m)
		}
		want(t, "requests", 1, len(h.sent()))
	}
}

func TestK03EveryRequestIsMadeForTheSessionsUser(t *testing.T) {
	h := newHosted(t, echo, worker.Config{})
	h.grant("s1", `{"user":"u-17"}`)
	h.grant("s2", `{"user":"u-18"}`)
	first, second := h.catalog("s1", "cli"), h.catalog("s2", "cli")
	h.call("s1", first, calls("slack/POST", "slack/READ"))
	h.call("s2", second, calls("slack/POST"))
	var users []string
	for _, x := range h.gateway.requests("t") {
		users = append(users, x.User)
	}
	want(t, "users", []string{"u-17", "u-17", "u-18"}, users)
}

func TestK04TheChoiceOfAnAccountTravelsWithEachRequest(t *testing.T) {
	h := newHosted(t, func(_ int, x executed) gatewayAnswer {
		var a struct {
			Alias string `json:"connector_alias"`
		}
		_ = json.Unmarshal(x.Body.Tools[0].Arguments, &a)
		if a.Alias == "gone" {
			return ran(`"error":{"code":"CONNECTION_REQUIRED","message":"no account gone"},"account":"gone"`)
		}
		return ran(`"data":1,"account":"` + a.Alias + `"`)
	}, worker.Config{})
	reply := h.call("s1", h.ref, calls(`acc/READ {"connector_alias":"b"}`, `acc/WRITE {"connector_alias":"b","n":1.10}`, `acc/WRITE {"connector_alias":"gone"}`))
	want(t, "requests", []string{`acc/ACC_READ {"connector_alias":"b"}`, `acc/ACC_WRITE {"connector_alias":"b","n":1.10}`, `acc/ACC_WRITE {"connector_alias":"gone"}`}, h.sent())
	want(t, "accounts", []any{"b", "b", "gone"}, []any{at(t, reply, "result", "results", 0, "account"), at(t, reply, "result", "results", 1, "account"), at(t, reply, "result", "results", 2, "account")})

	// A choice that stands where it would be lost is refused, not run without it.
	reply = h.call("s1", h.ref, `{"calls":[{"name":"connectors__acc__WRITE","arguments":{"n":1},"connector_alias":"b"},{"name":"connectors__acc__READ","connector_alias":"b"}]}`)
	want(t, "results", []string{"INVALID_ARGUMENTS", "INVALID_ARGUMENTS"}, outcomes(t, reply))
	want(t, "requests", 3, len(h.sent()))
}

func TestK05AnAccountIsLookedAtWhenTheToolRuns(t *testing.T) {
	h := newHosted(t, func(n int, x executed) gatewayAnswer {
		if n == 0 {
			return echo(n, x)
		}
		return ran(`"error":{"code":"CONNECTION_REQUIRED","message":"revoked by an administrator","connectUrl":"https://connect.test/1"}`)
	}, worker.Config{})
	reply := h.call("s1", h.ref, calls("slack/POST"))
	want(t, "results", []string{"{}"}, outcomes(t, reply))
	reply = h.call("s1", h.ref, calls("slack/POST"))
	want(t, "results", []string{"CONNECTION_REQUIRED"}, outcomes(t, reply))
	want(t, "link", any("https://connect.test/1"), at(t, reply, "result", "results", 0, "error", "connect_url"))
}

func TestK07ErrorsOfToolsLeaveTheBreakerClosed(t *testing.T) {
	h := newHosted(t, func(n int, x executed) gatewayAnswer {
		if n < 3 {
			return ran(`"error":{"code":"PROVIDER_ERROR","message":"not found"}`)
		}
		return echo(n, x)
	}, worker.Config{}, func(c *connectors.Config) { c.Breaker.Threshold = 3 })
	reply := h.call("s1", h.ref, calls("a/T", "a/T", "a/T", "a/T"))
	want(t, "results", []string{"PROVIDER_ERROR", "PROVIDER_ERROR", "PROVIDER_ERROR", "{}"}, outcomes(t, reply))
}

func TestK08ARateLimitIsPassedOnAndLeavesTheBreakerClosed(t *testing.T) {
	h := newHosted(t, func(n int, x executed) gatewayAnswer {
		if n < 3 {
			return gatewayAnswer{Status: 429, Body: json.RawMessage(`{"code":"RATE","message":"slow down","retryAfterMs":7000}`)}
		}
		return echo(n, x)
	}, worker.Config{}, func(c *connectors.Config) { c.Breaker.Threshold = 3 })
	reply := h.call("s1", h.ref, calls("a/T", "a/T", "a/T", "a/T"))
	want(t, "results", []string{"PROVIDER_ERROR", "PROVIDER_ERROR", "PROVIDER_ERROR", "{}"}, outcomes(t, reply))
	want(t, "wait", any(7000.0), at(t, reply, "result", "results", 0, "error", "retry_after_ms"))
	if m := text(at(t, reply, "result", "results", 0, "error", "message")); !strings.Contains(m, "rate limited, retry after 7s") {
		t.Errorf("message = %s", m)
	}
}

func TestK11ABreakerThatOpensInABatchLeavesTheRestUnsent(t *testing.T) {
	h := newHosted(t, func(n int, x executed) gatewayAnswer {
		if n == 0 {
			return echo(n, x)
		}
		<-t.Context().Done()
		return gatewayAnswer{Raise: "late"}
	}, worker.Config{}, func(c *connectors.Config) {
		c.Breaker.Threshold, c.Breaker.Cooldown, c.Client.ExecuteTimeout = 3, time.Hour, 200*time.Millisecond
	})
	reply := h.call("s1", h.ref, calls("a/T", "a/T", "a/T", "a/T", "a/T"))
	want(t, "results", []string{"{}", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "GATEWAY_UNAVAILABLE"}, outcomes(t, reply))
	requests := h.gateway.requests("t")
	want(t, "requests: each that was not answered once more under its key", 1+3*2, len(requests))
	for i := 1; i+1 < len(requests); i += 2 {
		if requests[i].Key != requests[i+1].Key {
			t.Errorf("request %d is repeated with another key", i)
		}
	}
	last := at(t, reply, "result", "results", 4, "error").(map[string]any)
	if ms, _ := last["retry_after_ms"].(float64); ms < 1000 || !strings.Contains(text(last), "was not sent") {
		t.Errorf("last slot = %s", text(last))
	}

	p := at(t, h.ask("s1", "preflight", fmt.Sprintf(`{"names":["connectors__a__T","connectors__a","manage_connections"],"catalog":%q}`, h.ref)), "tools").(map[string]any)
	want(t, "preflight", []any{false, "GATEWAY_UNAVAILABLE", false, "TOOL_NOT_FOUND", true}, []any{
		at(t, p, "connectors__a__T", "callable"), at(t, p, "connectors__a__T", "code"), at(t, p, "connectors__a", "callable"), at(t, p, "connectors__a", "code"), at(t, p, "manage_connections", "callable"),
	})
}

func TestK14MalformedNamesStayInTheirSlots(t *testing.T) {
	h := newHosted(t, echo, worker.Config{})
	reply := h.call("s1", h.ref, calls("gmail", "gmail/SEND_EMAIL", "/X"))
	want(t, "results", []string{"TOOL_NOT_FOUND", "{}", "TOOL_NOT_FOUND"}, outcomes(t, reply))
	want(t, "requests", []string{"gmail/GMAIL_SEND_EMAIL {}"}, h.sent())
}

func TestK17MoreCallsThanOneDispatchMayCarryAreRefusedWhole(t *testing.T) {
	h := newHosted(t, echo, worker.Config{})
	reply := h.call("s1", h.ref, calls(slices.Repeat([]string{"a/T"}, 11)...))
	if m := text(at(t, reply, "result", "error")); !strings.Contains(m, "at most 10") || !strings.Contains(m, "INVALID_ARGUMENTS") {
		t.Errorf("reply %s", text(reply))
	}
	want(t, "requests", 0, len(h.sent()))
}

// effects is a gateway that has one effect for all requests with the same key.
type effects struct {
	mu    sync.Mutex
	byKey map[string]string
	order []string // what took effect
}

func (e *effects) answer(n int, x executed) gatewayAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.byKey[x.Key]; !ok {
		e.byKey[x.Key] = string(echo(n, x).Body)
		for _, c := range x.Body.Tools {
			e.order = append(e.order, string(c.Arguments))
		}
	}
	return gatewayAnswer{Status: 200, Body: json.RawMessage(e.byKey[x.Key])}
}

// ten is a batch of ten, and its results.
func ten() (envelope string, results []string) {
	var list []string
	for i := range 10 {
		list = append(list, fmt.Sprintf(`a/T {"n":%d}`, i))
		results = append(results, fmt.Sprintf(`{"n":%d}`, i))
	}
	return calls(list...), results
}

// lose starts a worker that is cut off the bus when it has come to a point for the
// nth time.
func (h *hosted) lose(t *testing.T, point string, nth int64, cfg worker.Config, more ...func(*connectors.Config)) {
	nc := bus.Connect(t, h.server)
	var count atomic.Int64
	cfg.Dev, cfg.Logger, cfg.CallLease, cfg.Gateway = true, slog.New(slog.DiscardHandler), 900*time.Millisecond, h.side(t, more...)
	cfg.CallStep = func(at, _ string) {
		if at == point && count.Add(1) == nth {
			nc.Close()
		}
	}
	w, err := worker.New(cfg, nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.Stop(ctx) // it is off the bus
	})
}

// sendOff sends a call to a worker that may be lost before it can answer, and returns
// the result.
func (h *hosted) sendOff(session, catalog, arguments string) <-chan map[string]any {
	h.t.Helper()
	id := h.id()
	done := make(chan map[string]any, 1)
	sub, err := h.nc.Subscribe("toolbridge.v1.t."+session+".result."+id, func(m *nats.Msg) { done <- decode(h.t, m.Data) })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = sub.Unsubscribe() })
	h.flush()
	if err := h.nc.PublishRequest("toolbridge.v1.t."+session+".call", h.nc.NewRespInbox(), []byte(request(id, arguments, catalog))); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, "the gateway gets a request", func() bool { return len(h.gateway.requests("t")) > 0 })
	return done
}

func TestAWorkerLostInABatchLeavesOneEffectForEachEntry(t *testing.T) {
	for _, point := range []string{call.StepSent, call.StepReplied} {
		for single, nth := range map[bool]int64{false: 4, true: 1} {
			t.Run(fmt.Sprintf("%s single %v", point, single), func(t *testing.T) {
				e := &effects{byKey: map[string]string{}}
				batching := func(c *connectors.Config) { c.Single = single }
				f := newFleet(t)
				h := &hosted{fleet: f, gateway: newCallGateway(t, e.answer)}
				h.lose(t, point, nth, worker.Config{}, batching)
				h.ref = h.catalog("s1", "cli")
				envelope, results := ten()
				done := h.sendOff("s1", h.ref, envelope)
				f.start(worker.Config{Dev: true, CallLease: 900 * time.Millisecond, Gateway: h.side(t, batching)})
				want(t, "results", results, outcomes(t, next(t, "result", done)))
				want(t, "effects", results, e.order)
				requests := 11 // the one under way is repeated, under its key
				if single {
					requests = 2
				}
				want(t, "requests", requests, len(h.gateway.requests("t")))
			})
		}
	}
}

// A worker that stops hands over what is on its way; the next one asks under the
// same key what became of it.
func TestAWorkerThatLeavesHandsARequestOver(t *testing.T) {
	e := &effects{byKey: map[string]string{}}
	arrived := make(chan struct{}, 10)
	f := newFleet(t)
	h := &hosted{fleet: f, gateway: newCallGateway(t, func(n int, x executed) gatewayAnswer {
		a := e.answer(n, x)
		if n == 0 { // it has taken effect, and its answer does not come
			arrived <- struct{}{}
			<-t.Context().Done()
		}
		return a
	})}
	w := f.start(worker.Config{Dev: true, Gateway: h.side(t)})
	h.ref = h.catalog("s1", "cli")
	done := h.later("s1", h.ref, calls(`a/T {"n":0}`, `a/T {"n":1}`))
	<-arrived
	f.start(worker.Config{Dev: true, Gateway: h.side(t)})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_ = w.Stop(ctx) // says that it cut something off
	want(t, "results", []string{`{"n":0}`, `{"n":1}`}, outcomes(t, next(t, "result", done)))
	want(t, "effects", []string{`{"n":0}`, `{"n":1}`}, e.order)
	keys := h.gateway.requests("t")
	if len(keys) != 3 || keys[0].Key != keys[1].Key || keys[1].Key == keys[2].Key {
		t.Errorf("requests %+v", keys)
	}
}

func TestACallsKeyIsItsOwn(t *testing.T) {
	h := newHosted(t, echo, worker.Config{})
	h.call("s1", h.ref, calls("a/T", "a/T"))
	h.call("s1", h.ref, calls("a/T", "a/T"))
	seen := map[string]bool{}
	for _, x := range h.gateway.requests("t") {
		seen[x.Key] = true
	}
	want(t, "keys", 4, len(seen))
}

func TestOneRequestForAConnectorOnlyBatch(t *testing.T) {
	h := newHosted(t, func(_ int, x executed) gatewayAnswer {
		var out []string
		for _, c := range x.Body.Tools {
			switch c.Tool {
			case "A_LOST":
				out = append(out, `"error":{"code":"TOOL_NOT_FOUND"}`)
			case "A_NEW":
				out = append(out, `"error":{"code":"QUOTA_SPENT","message":"m"},"account":"work"`)
			default:
				out = append(out, `"data":"`+c.Tool+`"`)
			}
		}
		return ran(out...)
	}, worker.Config{Policy: approval.Policy{Rules: []approval.Rule{{Match: "*ASK*", Action: approval.Ask}, {Match: "*DENIED*", Action: approval.Deny}}}},
		func(c *connectors.Config) { c.Single = true })
	approver := h.approvers()
	done := h.later("s1", h.ref, calls("a/ONE", "a/LOST", "a/DENIED", "broken", "a/ASK", "a/NEW"))
	asked := approver.asked()
	want(t, "sent before all approvals are there", 0, len(h.sent()))
	h.choose("ann", asked, "once")
	result := next(t, "result", done)
	want(t, "results", []string{`"A_ONE"`, `"LOST"`, "APPROVAL_DENIED", "TOOL_NOT_FOUND", `"A_ASK"`, "QUOTA_SPENT"}, outcomes(t, result))
	want(t, "account", any("work"), at(t, result, "result", "results", 5, "account"))
	requests := h.gateway.requests("t")
	if len(requests) != 2 || len(requests[0].Body.Tools) != 4 || len(requests[1].Body.Tools) != 1 || requests[0].Key == requests[1].Key {
		t.Errorf("requests %+v", requests)
	}
	// With a local tool among them, entries go out one by one.
	h.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string { return `{"result":1}` })
	reply := h.call("s1", h.ref, `{"calls":[{"name":"connectors__a__ONE"},{"name":"mcp__cal__list_events"},{"name":"connectors__a__TWO"}]}`)
	want(t, "results", []string{`"A_ONE"`, "1", `"A_TWO"`}, outcomes(t, reply))
	want(t, "requests", 4, len(h.sent()))
}

// The literal slug of connectors__gmail__GMAIL_SEND is what is shown as
// connectors__gmail__SEND: what is said of that name counts for both.
func TestAToolsOtherNameEvadesNothing(t *testing.T) {
	cfg := worker.Config{
		Policy:     approval.Policy{Rules: []approval.Rule{{Match: "connectors__gmail__SEND", Action: approval.Deny}}},
		Guardrails: call.Guardrails{Deny: []string{"connectors__gmail__WIPE"}},
		Hooks:      []call.Hook{{Name: "h", Match: "connectors__gmail__DRAFT"}},
	}
	h := newHosted(t, echo, cfg)
	h.hook("h", func(map[string]any) string { return `{"action":"block"}` })
	h.grant("s2", `{"user":"u","deny":["connectors__gmail__PURGE"]}`)
	for entry, slot := range map[string]string{
		"gmail/SEND": "APPROVAL_DENIED", "gmail/GMAIL_SEND": "APPROVAL_DENIED", "GMAIL/GMAIL_SEND": "APPROVAL_DENIED",
		"gmail/GMAIL_WIPE": "BLOCKED", "gmail/GMAIL_DRAFT": "BLOCKED",
		"gmail/send": "APPROVAL_DENIED", "Gmail/Gmail_Send": "APPROVAL_DENIED", "gmail/wipe": "BLOCKED", "gmail/gmail_draft": "BLOCKED",
	} {
		want(t, entry, []string{slot}, outcomes(t, h.call("s1", h.ref, calls(entry))))
	}
	ref := h.catalog("s2", "cli")
	for _, entry := range []string{"gmail/PURGE", "gmail/GMAIL_PURGE", "Gmail/PURGE", "gmail/purge", "gmail/Purge", "gmail/gmail_PURGE"} {
		want(t, entry, []string{"TOOL_NOT_FOUND"}, outcomes(t, h.call("s2", ref, calls(entry))))
	}
	want(t, "requests", 0, len(h.sent()))
	want(t, "another tool", []string{"{}"}, outcomes(t, h.call("s2", ref, calls("gmail/READ"))))
}

func TestAGrantSaysWhichConnectorsToolsASessionMayCall(t *testing.T) {
	h := newHosted(t, echo, worker.Config{})
	for grant, slots := range map[string][]string{
		`{"user":"u"}`: {"{}", "{}"},
		`{"user":"u","tools":["connectors__gmail__*"]}`:    {"{}", "TOOL_NOT_FOUND"},
		`{"user":"u","toolsets":["connectors"]}`:           {"{}", "{}"},
		`{"user":"u","toolsets":["mcp-*"]}`:                {"TOOL_NOT_FOUND", "TOOL_NOT_FOUND"},
		`{"user":"u","deny":["connectors__gmail__*"]}`:     {"TOOL_NOT_FOUND", "{}"},
		`{"user":"u","deny":["manage_connections"]}`:       {"TOOL_NOT_FOUND", "TOOL_NOT_FOUND"},
		`{"user":"u","expires_at":"2020-01-01T00:00:00Z"}`: {"TOOL_NOT_FOUND", "TOOL_NOT_FOUND"},
		`{"user":"u","approval":"deny"}`:                   {"APPROVAL_DENIED", "APPROVAL_DENIED"},
	} {
		h.grant("s9", grant)
		ref := h.catalog("s9", "cli")
		want(t, grant, slots, outcomes(t, h.call("s9", ref, calls("gmail/SEND", "slack/POST"))))
	}
}

func TestOutsideDevASessionWithoutAUserHasNoConnectors(t *testing.T) {
	f := newFleet(t)
	h := &hosted{fleet: f, gateway: newCallGateway(t, echo)}
	f.start(worker.Config{Gateway: h.side(t, func(c *connectors.Config) { c.DevUser = "" }), Policy: approval.Policy{Default: approval.Allow}})
	for session, grant := range map[string]string{"s1": "", "s2": `{}`, "s3": `{"user":"u"}`} {
		if grant != "" {
			h.grant(session, grant)
		}
		reply := h.assemble(session, `{"tools":`+tools(manageConnections)+`}`)
		slots := outcomes(t, h.call(session, reply["catalog"].(string), calls("a/T")))
		if session == "s3" {
			want(t, session, []string{"{}"}, slots)
			continue
		}
		want(t, session, []string{"TOOL_NOT_FOUND"}, slots)
		if text(reply["tools"]) != "[]" || !strings.Contains(text(reply["warnings"]), "CONNECTORS_UNAVAILABLE") {
			t.Errorf("%s: %s", session, text(reply))
		}
	}
	want(t, "requests", 1, len(h.sent()))
}

func TestManageConnectionsIsTheWorkersOwnDefinition(t *testing.T) {
	h := newHosted(t, echo, worker.Config{})
	own := func(surface string) string {
		var d struct{ Description string }
		_ = json.Unmarshal(connectors.ManageDefinition(surface), &d)
		return d.Description
	}
	for definition, path := range map[string][]any{
		`{"type":"function","function":{"name":"manage_connections","description":"ignore","parameters":{}},"toolset":"connections"}`: {"function", "description"},
		`{"name":"manage_connections","description":"ignore","input_schema":{}}`:                                                      {"description"},
		`{"name":"manage_connections","description":"ignore","inputSchema":{}}`:                                                       {"description"},
		`{"type":"function","name":"manage_connections","description":"ignore","parameters":{}}`:                                      {"description"},
	} {
		for _, surface := range []string{"cli", "desktop"} {
			reply := h.assemble("s1", fmt.Sprintf(`{"tools":[%s],"surface":%q,"config":{"defer":["manage_connections"]}}`, definition, surface))
			if got := at(t, reply, append([]any{"tools", 0}, path...)...); got != own(surface) {
				t.Errorf("%s on %s: %s", definition, surface, text(reply["tools"]))
			}
			want(t, "bridges", 4, len(reply["tools"].([]any)))
			if !strings.Contains(text(at(t, reply, "tools", 1)), "connectors__") {
				t.Errorf("tool_search does not tell of connectors: %s", text(at(t, reply, "tools", 1)))
			}
		}
	}
	if reply := h.assemble("s1", `{"tools":[{"name":"manage\u005fconnections","description":"d","parameters":{}}]}`); len(reply["tools"].([]any)) != 4 {
		t.Errorf("an escaped name: %s", text(reply))
	}
	if reply := h.assemble("s1", `{"tools":`+tools(tool("x", "", "X"))+`}`); strings.Contains(text(reply), "manage_connections") {
		t.Errorf("injected: %s", text(reply))
	}
	// Through tool_call it is refused like every tool that the model sees.
	want(t, "through tool_call", "TOOL_NOT_ALLOWED", code(h.call("s1", h.ref, `{"calls":[{"name":"manage_connections"}]}`)))
}

// A side agent uses what is connected; it neither sees manage_connections nor is it
// given a link.
func TestASideAgentUsesConnectionsAndMakesNone(t *testing.T) {
	h := newHosted(t, func(int, executed) gatewayAnswer {
		return ran(`"error":{"code":"CONNECTION_REQUIRED","message":"open https://v/1","connectUrl":"https://v/1","connectionId":"ca_1","hint":"https://v/1"}`)
	}, worker.Config{}, func(c *connectors.Config) { c.ReturnTo = "app" })
	reply := h.assemble("s1", `{"tools":`+tools(manageConnections)+`,"surface":"side"}`)
	if names := text(reply["tools"]); strings.Contains(names, "manage_connections") || !strings.Contains(names, "connectors__") || !strings.Contains(text(reply["warnings"]), "CONNECTORS_UNAVAILABLE") {
		t.Errorf("assembled %s", text(reply))
	}
	ref := reply["catalog"].(string)
	for surface, ref := range map[string]string{"side": ref, "desktop": h.catalog("s1", "desktop")} {
		result := h.call("s1", ref, calls("gmail/SEND"))
		want(t, surface, []string{"CONNECTION_REQUIRED"}, outcomes(t, result))
		if body := text(result); strings.Contains(body, "https://v/1") || strings.Contains(body, "ca_1") {
			t.Errorf("%s: the link is told: %s", surface, body)
		}
	}
	want(t, "managing", true, h.bridge("s1", ref, "manage_connections", `{}`)["is_error"] == true)
	requests := h.gateway.requests("t")
	want(t, "where pages lead back to", 1, len(slices.DeleteFunc(requests, func(x executed) bool { return x.Body.ReturnTo != "app" })))
}

// What a worker of another surface or user takes over is what was accepted.
func TestALargeResultOfAConnectorIsFetched(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	h := newHosted(t, func(int, executed) gatewayAnswer { return ran(`"data":"` + large + `"`) }, worker.Config{MaxResult: 1000})
	reply := h.call("s1", h.ref, calls("a/T"))
	blob, _ := reply["blob"].(map[string]any)
	if reply["result"] != nil || blob == nil || reply["preview"] == "" {
		t.Fatalf("reply %.300s", text(reply))
	}
	data := h.send("toolbridge.v1.t.s1.fetch", fmt.Sprintf(`{"blob":%q,"offset":0}`, blob["name"])).Data
	if !strings.Contains(string(data), large[:1000]) {
		t.Errorf("fetched %.200s", data)
	}
}

func TestTheFeedNamesTheConnectorsTool(t *testing.T) {
	h := newHosted(t, echo, worker.Config{})
	feed := h.feed("s1")
	h.call("s1", h.ref, calls("gmail/READ"))
	told := func() string {
		var out []string
		for _, e := range feed() {
			if e["tool"] != nil {
				out = append(out, fmt.Sprintf("%v %v", e["type"], e["tool"]))
			}
		}
		return strings.Join(out, ", ")
	}
	eventually(t, "the feed tells of the tool", func() bool {
		return told() == "tool.started connectors__gmail__READ, tool.finished connectors__gmail__READ"
	})
}

func TestPreflightOfConnectorsTools(t *testing.T) {
	h := newHosted(t, echo, worker.Config{
		Policy:     approval.Policy{Rules: []approval.Rule{{Match: "*SEND*", Action: approval.Ask}, {Match: "*PAY*", Action: approval.Deny}}},
		Guardrails: call.Guardrails{Deny: []string{"*WIPE*"}},
	})
	h.grant("s1", `{"user":"u","deny":["connectors__hr__*"]}`)
	h.ref = h.catalog("s1", "cli")
	names := []string{"connectors__a__READ", "connectors__a__SEND", "connectors__A__A_SEND", "connectors__a__PAY", "connectors__a__WIPE", "connectors__hr__READ", "connectors__a"}
	reply := h.ask("s1", "preflight", fmt.Sprintf(`{"names":%s,"catalog":%q}`, text(names), h.ref))
	var got []string
	for _, n := range names {
		p := at(t, reply, "tools", n).(map[string]any)
		c, _ := p["code"].(string)
		got = append(got, fmt.Sprintf("%v %s %v %v", p["callable"], c, p["parallel"], p["needs_approval"]))
	}
	want(t, "preflight", []string{
		"true  true false", "true  true true", "true  true true", "false APPROVAL_DENIED false false",
		"false BLOCKED false false", "false TOOL_NOT_FOUND false false", "false TOOL_NOT_FOUND false false",
	}, got)
	want(t, "requests", 0, len(h.sent()))
}
