package connectors

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

// manageFlow is one golden flow: a call against scripted routes.
type manageFlow struct {
	ID    string `json:"id"`
	Input struct {
		Args    json.RawMessage          `json:"args"`
		Routes  map[string][]routeAnswer `json:"routes"`
		Options struct {
			Card          bool     `json:"card"`
			Skip          []string `json:"skip"`
			Deadline      float64  `json:"deadline"`
			Interrupt     bool     `json:"interrupt"`
			ContinueAfter float64  `json:"continue_after"`
			AlreadyOpen   bool     `json:"already_open"`
		} `json:"options"`
	} `json:"input"`
	Expect struct {
		Error        string                       `json:"error"`
		Status       string                       `json:"status"`
		SettledBy    *string                      `json:"settled_by"`
		Targets      []map[string]any             `json:"targets"`
		Keys         []string                     `json:"keys"`
		Connectors   []map[string]json.RawMessage `json:"connectors"`
		ItemKeys     []string                     `json:"item_keys"`
		Renamed      json.RawMessage              `json:"renamed"`
		Requests     [][2]json.RawMessage         `json:"requests"`
		AccountReads bool                         `json:"account_reads"`
		CardShown    bool                         `json:"card_shown"`
	} `json:"expect"`
}

type routeAnswer struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
	Raise  int             `json:"raise"`
	hang   bool
}

// routes is a gateway and portal that answers by script; the last answer of a route
// repeats, and what is not scripted is not there.
type routes struct {
	*httptest.Server
	mu       sync.Mutex
	script   map[string][]routeAnswer
	requests [][2]string // method and path, body; the watch's reads aside
	users    []string    // authorization, of all
	reads    int
}

func newRoutes(t *testing.T, script map[string][]routeAnswer) *routes {
	t.Helper()
	r := &routes{script: script}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	r.Config.SetKeepAlivesEnabled(false) // net/http repeats a request that a kept connection breaks off on
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

func (r *routes) serve(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	route := q.Method + " " + strings.TrimPrefix(q.URL.Path, "/")
	r.mu.Lock()
	r.users = append(r.users, q.Header.Get("Authorization"))
	if strings.HasPrefix(route, "GET v1/connectors/accounts/") {
		r.reads++
	} else {
		r.requests = append(r.requests, [2]string{route, string(body)})
	}
	answer := routeAnswer{Status: 404, Body: json.RawMessage(`{}`)}
	if list := r.script[route]; len(list) > 0 {
		answer = list[0]
		if len(list) > 1 {
			r.script[route] = list[1:]
		}
	}
	r.mu.Unlock()
	switch {
	case answer.hang:
		<-q.Context().Done()
		panic(http.ErrAbortHandler)
	case answer.Raise != 0:
		panic(http.ErrAbortHandler)
	}
	if answer.Status == 0 {
		answer.Status = 200
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

func (r *routes) seen() ([][2]string, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests), r.reads
}

// bench is a Manage on a real bus, before scripted routes.
type manageBench struct {
	*Manage
	nc     *nats.Conn
	routes *routes
	events chan subjects.Event
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newBench(t *testing.T, script map[string][]routeAnswer, cfg ManageConfig, change ...func(*Config)) *manageBench {
	t.Helper()
	nc := bus.Connect(t, bus.Server(t))
	return benchOn(t, nc, newRoutes(t, script), cfg, change...)
}

// benchOn is one more worker's Manage on the same bus.
func benchOn(t *testing.T, nc *nats.Conn, r *routes, cfg ManageConfig, change ...func(*Config)) *manageBench {
	t.Helper()
	st, err := state.Open(t.Context(), nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Client: ClientConfig{URL: r.URL, Proxy: "direct", Credentials: Fixed{ann: "token-ann"}}, Breaker: BreakerConfig{Threshold: 1000}, Logger: quiet()}
	for _, f := range change {
		f(&c)
	}
	g, err := New(c, nc, st)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	b := &manageBench{nc: nc, routes: r, events: make(chan subjects.Event, 100)}
	cfg.Logger = quiet()
	if cfg.Tick == 0 {
		cfg.Tick = 20 * time.Millisecond
	}
	b.Manage = NewManage(cfg, g, g.Identities, nc, st, g.Accounts.Operations)
	sub, err := nc.Subscribe(subjects.Space{}.Session("t", "s", subjects.VerbEvent), func(m *nats.Msg) {
		var e subjects.Event
		if err := subjects.Decode(m.Data, &e); err == nil && m.Header.Get(subjects.HeaderKind) == subjects.KindEvent {
			b.events <- e
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return b
}

func (b *manageBench) call(id, surface, arguments string) ManageCall {
	return ManageCall{Who: ann, Tenant: "t", Session: "s", CallID: id, Surface: surface, Arguments: json.RawMessage(arguments)}
}

func (b *manageBench) answer(t *testing.T, a subjects.ConnectionAnswer) subjects.ConnectionAnswerReply {
	t.Helper()
	r, err := b.Answer(t.Context(), "t", "s", a)
	if err != nil {
		t.Error(err)
	}
	return r
}

// next is the next event, which must be of that type.
func (b *manageBench) next(t *testing.T, typ subjects.EventType) subjects.Event {
	t.Helper()
	select {
	case e := <-b.events:
		if e.Type != typ {
			t.Fatalf("the event is %s, want %s", e.Type, typ)
		}
		return e
	case <-time.After(10 * time.Second):
		t.Fatalf("no %s came", typ)
	}
	return subjects.Event{}
}

// flowErrors are the words of the flows for what a model reads.
var flowErrors = map[string]func(*subjects.SlotError) bool{
	"request_failed": func(e *subjects.SlotError) bool {
		return e.Code == subjects.CodeProviderError || e.Code == subjects.CodeOutcomeUnknown
	},
	"already_open":       func(e *subjects.SlotError) bool { return e.Reason == "already_open" },
	"rename_none":        func(e *subjects.SlotError) bool { return e.Reason == "rename_none" },
	"rename_ambiguous":   func(e *subjects.SlotError) bool { return e.Reason == "rename_ambiguous" },
	"rename_conflict":    func(e *subjects.SlotError) bool { return e.Reason == "rename_conflict" },
	"rename_unsupported": func(e *subjects.SlotError) bool { return e.Reason == "rename_unsupported" },
}

func TestManageFlowsGiveTheGoldenOutcome(t *testing.T) {
	for _, f := range readManageVectors(t).Flows {
		t.Run(f.ID, func(t *testing.T) {
			t.Parallel()
			options := f.Input.Options
			cfg := ManageConfig{}
			if options.Deadline > 0 {
				cfg.Deadline = time.Duration(options.Deadline * float64(time.Second))
			}
			if options.Interrupt {
				cfg.Tick = time.Hour // it is interrupted before the first look
			}
			b := newBench(t, f.Input.Routes, cfg)
			surface := subjects.SurfaceCLI
			if options.Card {
				surface = subjects.SurfaceDesktop
			}
			if options.AlreadyOpen {
				if ours, err := b.operations.claim(t.Context(), "t", "s", "op_other", time.Now().Add(time.Minute)); !ours || err != nil {
					t.Fatal(ours, err)
				}
				if _, err := b.operations.create(t.Context(), operationKey("t", "s", "op_other"), &operation{Version: operationVersion, ID: "op_other", Phase: open}); err != nil {
					t.Fatal(err)
				}
			}
			call := b.call("c1", surface, string(f.Input.Args))
			stop := make(chan struct{})
			call.Stop = stop
			done := make(chan ManageEnd, 1)
			go func() { done <- b.Execute(t.Context(), call) }()
			shown := false
			var end ManageEnd
		wait:
			for {
				select {
				case end = <-done:
					break wait
				case e := <-b.events:
					if e.Type != subjects.EventConnectionRequest {
						continue
					}
					shown = true
					if e.Operation == "" || e.Seq == 0 || len(e.Targets) == 0 || e.DeadlineAt == "" {
						t.Errorf("the card lacks something: %+v", e)
					}
					b.act(t, e, &f, stop)
				}
			}
			checkFlow(t, &f, end, b, shown)
		})
	}
}

// act does what the flow's user does on the card.
func (b *manageBench) act(t *testing.T, e subjects.Event, f *manageFlow, stop chan struct{}) {
	o := f.Input.Options
	for _, name := range o.Skip {
		for { // once the accounts are being watched
			if _, reads := b.routes.seen(); reads > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if r := b.answer(t, subjects.ConnectionAnswer{Operation: e.Operation, Target: name, Action: subjects.ConnectionSkip}); !r.Accepted {
			t.Errorf("the skip of %s was not taken: %s", name, r.Reason)
		}
	}
	if o.Interrupt {
		close(stop)
	}
	if o.ContinueAfter > 0 {
		time.AfterFunc(time.Duration(o.ContinueAfter*float64(time.Second)), func() {
			b.answer(t, subjects.ConnectionAnswer{Operation: e.Operation, Action: subjects.ConnectionContinue})
		})
	}
}

func checkFlow(t *testing.T, f *manageFlow, end ManageEnd, b *manageBench, shown bool) {
	t.Helper()
	requests, reads := b.routes.seen()
	want := [][2]string{}
	for _, r := range f.Expect.Requests {
		var route string
		if err := json.Unmarshal(r[0], &route); err != nil {
			t.Fatal(err)
		}
		want = append(want, [2]string{route, compact(t, r[1])})
	}
	for i := range requests {
		if requests[i][1] = compact(t, []byte(requests[i][1])); requests[i][1] == "" {
			requests[i][1] = "null"
		}
	}
	if d := cmp.Diff(want, append([][2]string{}, requests...)); d != "" {
		t.Errorf("requests, -want +got\n%s", d)
	}
	if (reads > 0) != f.Expect.AccountReads || shown != f.Expect.CardShown {
		t.Errorf("accounts were read %d times, the card was shown: %v; want %v and %v", reads, shown, f.Expect.AccountReads, f.Expect.CardShown)
	}
	if f.Expect.Error != "" {
		if end.Error == nil || !flowErrors[f.Expect.Error](end.Error) {
			t.Errorf("got %s, %+v; want the error %s", end.Response, end.Error, f.Expect.Error)
		}
		return
	}
	if end.Error != nil {
		t.Fatalf("failed: %+v", end.Error)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(end.Response, &got); err != nil {
		t.Fatal(err)
	}
	switch {
	case f.Expect.Renamed != nil:
		if d := cmp.Diff(value(t, f.Expect.Renamed), value(t, got["renamed"])); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	case f.Expect.ItemKeys != nil:
		checkStatus(t, f, got)
	default:
		keys := []string{}
		for k := range got {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		var targets []map[string]any
		if err := json.Unmarshal(got["targets"], &targets); err != nil {
			t.Fatal(err)
		}
		if f.Input.Options.Card && bytes.Contains(end.Response, []byte("https://")) {
			t.Errorf("the result of a card carries a link: %s", end.Response)
		}
		if d := cmp.Diff([]any{f.Expect.Status, f.Expect.Keys, f.Expect.Targets, value(t, mustJSON(t, f.Expect.SettledBy))}, []any{value(t, got["status"]), keys, targets, value(t, got["settled_by"])}); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
}

func checkStatus(t *testing.T, f *manageFlow, got map[string]json.RawMessage) {
	t.Helper()
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(got["connectors"], &items); err != nil {
		t.Fatal(err)
	}
	if len(items) != len(f.Expect.Connectors) {
		t.Fatalf("%d apps, want %d", len(items), len(f.Expect.Connectors))
	}
	for i, item := range items {
		keys := []string{}
		for k := range item {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if d := cmp.Diff(f.Expect.ItemKeys, keys); d != "" {
			t.Errorf("keys of an item, -want +got\n%s", d)
		}
		for k, v := range f.Expect.Connectors[i] {
			if d := cmp.Diff(value(t, v), value(t, item[k])); d != "" {
				t.Errorf("%s, -want +got\n%s", k, d)
			}
		}
	}
}

func value(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func compact(t *testing.T, raw []byte) string {
	t.Helper()
	if len(raw) == 0 {
		return ""
	}
	sorted, err := json.Marshal(value(t, raw))
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}
