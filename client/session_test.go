package client

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

func body(s string) *nats.Msg { return &nats.Msg{Data: []byte(s)} }

func TestAssembleSendsTheRequestAndKeepsDefinitionsByteForByte(t *testing.T) {
	connect := bus(t, nil)
	got := make(chan *nats.Msg, 1)
	worker(t, connect(), subjects.VerbAssemble, func(m *nats.Msg) *nats.Msg {
		got <- m
		return body(`{"catalog":"sha256:ab","activated":true,"tier":1,"deferred_count":2,"tools":[{ "name" : "a<b>",  "n": 1.00 }],"warnings":[],"later":1}`)
	})
	s := session(t, connect(), Config{})
	length := int64(200000)
	reply, err := s.Assemble(within(t, 5*time.Second), subjects.AssembleRequest{
		Tools: json.RawMessage(`[ {"name":"<x>", "n":1.0} ]`), Toolsets: AllToolsets(), ContextLength: &length,
	})
	if err != nil {
		t.Fatal(err)
	}
	if reply.Catalog != "sha256:ab" || string(reply.Tools[0]) != `{ "name" : "a<b>",  "n": 1.00 }` {
		t.Errorf("reply = %+v", reply)
	}
	m := <-got
	if m.Subject != "toolbridge.v1.acme.s1.assemble" {
		t.Errorf("subject = %s", m.Subject)
	}
	if want := `{"tools":[ {"name":"<x>", "n":1.0} ],"toolsets":["*"],"context_length":200000}`; string(m.Data) != want {
		t.Errorf("body = %s\nwant   %s", m.Data, want)
	}
}

func TestTheWorkerIsToldADeadlineJustBeforeTheContexts(t *testing.T) {
	connect := bus(t, nil)
	told := make(chan string, 1)
	worker(t, connect(), subjects.VerbPreflight, func(m *nats.Msg) *nats.Msg {
		told <- m.Header.Get(subjects.HeaderDeadline)
		return body(`{"tools":{"a":{"callable":false,"code":"TOOL_NOT_FOUND","parallel":false,"needs_approval":false}}}`)
	})
	s := session(t, connect(), Config{})
	ctx := within(t, 10*time.Second)
	reply, err := s.Preflight(ctx, "sha256:ab", "a")
	if err != nil {
		t.Fatal(err)
	}
	if reply.Tools["a"].Code != subjects.CodeToolNotFound {
		t.Errorf("reply = %+v", reply)
	}
	until, _ := ctx.Deadline()
	ms, err := strconv.ParseInt(<-told, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if early := until.Sub(time.UnixMilli(ms)); early < 0 || early > 60*time.Millisecond {
		t.Errorf("told a deadline %s before the context's", early)
	}
}

func TestSearchAndDescribeReturnTypedResults(t *testing.T) {
	connect := bus(t, nil)
	requests := make(chan subjects.BridgeRequest, 2)
	worker(t, connect(), subjects.VerbBridge, func(m *nats.Msg) *nats.Msg {
		var r subjects.BridgeRequest
		if err := subjects.Decode(m.Data, &r); err != nil {
			t.Error(err)
		}
		requests <- r
		if r.Name == subjects.ToolSearch {
			return body(`{"id":"` + r.ID + `","name":"tool_search","is_error":false,"result":{"queries":["q"],"total_available":3,"results":[{"query":"q","matches":["a"]}],"tools":{"a":{"source":"mcp","source_name":"x","description":"d","required":["p"]}}}}`)
		}
		return body(`{"id":"` + r.ID + `","name":"tool_describe","is_error":true,"result":{"error":{"code":"INVALID_ARGUMENTS","message":"too many names"}}}`)
	})
	s := session(t, connect(), Config{})
	found, err := s.Search(within(t, 5*time.Second), Catalog("sha256:ab"), SearchArguments{Queries: []string{"q"}, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, found.Results[0].Matches); diff != "" {
		t.Error(diff)
	}
	r := <-requests
	if string(r.Arguments) != `{"queries":["q"],"limit":3}` || r.Catalog != "sha256:ab" || !subjects.ValidToken(r.ID) {
		t.Errorf("request = %+v", r)
	}
	_, err = s.Describe(within(t, 5*time.Second), Source{Assemble: subjects.AssembleRequest{Toolsets: AllToolsets()}}, "a", "b")
	var wrong *ResultError
	if !errors.As(err, &wrong) || wrong.Slot.Code != subjects.CodeInvalidArguments {
		t.Errorf("err = %v", err)
	}
	r2 := <-requests
	if string(r2.Arguments) != `{"names":["a","b"]}` || r2.Catalog != "" || r2.Toolsets[0] != "*" || r2.ID == r.ID {
		t.Errorf("request = %+v", r2)
	}
}

func TestCallHandsArgumentsAndResultOnByteForByte(t *testing.T) {
	connect := bus(t, nil)
	worker(t, connect(), subjects.VerbBridge, func(m *nats.Msg) *nats.Msg {
		var r subjects.BridgeRequest
		if err := subjects.Decode(m.Data, &r); err != nil {
			t.Error(err)
		}
		if want := `{"calls":[{"name":"t","arguments":{ "n": 12345678901234567890.10, "s":"<é>" }}]}`; string(r.Arguments) != want {
			t.Errorf("arguments = %s", r.Arguments)
		}
		return body(`{"id":"` + r.ID + `","name":"tool_call","is_error":true,"result":{"error":{"code":"TOOL_ERROR","message":"m"},  "x":1.0}}`)
	})
	s := session(t, connect(), Config{})
	reply, err := s.Call(within(t, 5*time.Second), Catalog("sha256:ab"), "t", json.RawMessage(`{ "n": 12345678901234567890.10, "s":"<é>" }`))
	if err != nil {
		t.Fatal(err)
	}
	if !reply.IsError || string(reply.Result) != `{"error":{"code":"TOOL_ERROR","message":"m"},  "x":1.0}` {
		t.Errorf("reply = %+v", reply)
	}
	if _, err := s.Call(within(t, time.Second), Catalog("sha256:ab"), "t", json.RawMessage(`{"a":`)); err == nil {
		t.Error("arguments that are no JSON were sent")
	}
}

func TestErrorsOfTheWorkerCarryTheirCode(t *testing.T) {
	for name, tt := range map[string]struct {
		reply *nats.Msg
		want  subjects.Error
	}{
		"as the contract says": {
			&nats.Msg{Data: []byte(`{"error":{"code":"BUSY","message":"later","retryable":true,"retry_after_ms":100}}`), Header: nats.Header{subjects.HeaderErrorCode: {"429"}, subjects.HeaderError: {"later"}}},
			subjects.Error{Code: subjects.CodeBusy, Message: "later", Retryable: true, RetryAfterMS: 100},
		},
		"without the headers": {
			body(` { "error" : {"code":"UNKNOWN_CATALOG","message":"assemble again","retryable":false}}`),
			subjects.Error{Code: subjects.CodeUnknownCatalog, Message: "assemble again"},
		},
		"without a body": {
			&nats.Msg{Header: nats.Header{subjects.HeaderErrorCode: {"503"}, subjects.HeaderError: {"gone"}}},
			subjects.Error{Code: subjects.CodeUnavailable, Message: "gone", Retryable: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			connect := bus(t, nil)
			worker(t, connect(), subjects.VerbBridge, func(*nats.Msg) *nats.Msg { return tt.reply })
			_, err := session(t, connect(), Config{}).Search(within(t, 5*time.Second), Catalog("x"), SearchArguments{Queries: []string{"q"}})
			var e *subjects.Error
			if !errors.As(err, &e) {
				t.Fatalf("err = %v", err)
			}
			if diff := cmp.Diff(tt.want, *e); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNobodyThereShowsAtOnce(t *testing.T) {
	s := session(t, bus(t, nil)(), Config{})
	began := time.Now()
	_, err := s.Assemble(within(t, 20*time.Second), subjects.AssembleRequest{Toolsets: AllToolsets()})
	if !errors.Is(err, nats.ErrNoResponders) || !strings.Contains(err.Error(), "toolbridge.v1.acme.s1.assemble") {
		t.Errorf("err = %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestARequestEndsWithItsContextOrTheClientsOwnLimit(t *testing.T) {
	connect := bus(t, nil)
	worker(t, connect(), subjects.VerbBridge, func(*nats.Msg) *nats.Msg { return nil })
	nc := connect()
	s := session(t, nc, Config{Timeout: 50 * time.Millisecond, CallTimeout: 60 * time.Millisecond})
	if _, err := s.Search(context.Background(), Catalog("x"), SearchArguments{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("search: %v", err)
	}
	if _, err := s.Call(context.Background(), Catalog("x"), "t", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Search(ctx, Catalog("x"), SearchArguments{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if n := len(s.client.waiting); n != 0 {
		t.Errorf("%d requests are still noted", n)
	}
}

func TestAMessageOfAnotherKindIsNoReply(t *testing.T) {
	connect := bus(t, nil)
	nc := connect()
	worker(t, nc, subjects.VerbPreflight, func(m *nats.Msg) *nats.Msg {
		for _, kind := range []string{"", subjects.KindResult, subjects.KindExec, "Reply"} {
			wrong := &nats.Msg{Subject: m.Reply, Data: []byte(`{"tools":{"wrong":{}}}`), Header: nats.Header{}}
			if kind != "" {
				wrong.Header[subjects.HeaderKind] = []string{kind}
			}
			if err := nc.PublishMsg(wrong); err != nil {
				t.Error(err)
			}
		}
		return body(`{"tools":{"right":{"callable":true,"parallel":false,"needs_approval":false}}}`)
	})
	reply, err := session(t, connect(), Config{}).Preflight(within(t, 5*time.Second), "x", "right")
	if err != nil {
		t.Fatal(err)
	}
	if !reply.Tools["right"].Callable {
		t.Errorf("reply = %+v", reply)
	}
}

func TestLargeRequestsArePackedAndPackedRepliesRead(t *testing.T) {
	connect := bus(t, nil)
	seen := make(chan int, 1)
	worker(t, connect(), subjects.VerbAssemble, func(m *nats.Msg) *nats.Msg {
		plain, err := unpack(m.Header.Get(subjects.HeaderContentEncoding), m.Data, 64<<20)
		if err != nil {
			t.Error(err)
		}
		seen <- len(plain)
		if m.Header.Get(subjects.HeaderAcceptEncoding) != subjects.EncodingZstd {
			t.Error("the request takes no packed reply")
		}
		packed, err := pack([]byte(`{"catalog":"` + strings.Repeat("x", 100_000) + `"}`))
		if err != nil {
			t.Error(err)
		}
		return &nats.Msg{Data: packed, Header: nats.Header{subjects.HeaderContentEncoding: {subjects.EncodingZstd}}}
	})
	s := session(t, connect(), Config{})
	tools := json.RawMessage(`[{"name":"a","description":"` + strings.Repeat("many words ", 200_000) + `"}]`)
	reply, err := s.Assemble(within(t, 10*time.Second), subjects.AssembleRequest{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	if n := <-seen; n < len(tools) || len(reply.Catalog) != 100_000 {
		t.Errorf("the worker saw %d bytes, the client %d", n, len(reply.Catalog))
	}
}

func TestARequestThatCanNotFitSaysSo(t *testing.T) {
	connect := bus(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	random := make([]byte, 200_000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = 'a' + byte(rng.IntN(26))
	}
	_, err := session(t, connect(), Config{}).Assemble(within(t, 5*time.Second), subjects.AssembleRequest{Tools: json.RawMessage(`["` + string(random) + `"]`)})
	var e *subjects.Error
	if !errors.As(err, &e) || e.Code != subjects.CodeTooLarge {
		t.Errorf("err = %v", err)
	}
}

func TestRepliesAreBoundedWhenUnpacked(t *testing.T) {
	bomb, err := pack(make([]byte, 50<<20))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"bomb": bomb, "no zstd": []byte("{}"), "cut off": bomb[:len(bomb)/2]} {
		if _, err := unpack(subjects.EncodingZstd, data, 1<<20); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := unpack("br", nil, 1); err == nil {
		t.Error("unknown encoding: no error")
	}
}

func TestTokensAreCheckedBeforeAnythingIsSent(t *testing.T) {
	c, err := New(bus(t, nil)(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range [][2]string{{"", "s"}, {"t", ""}, {"_t", "s"}, {"t", "a.b"}, {"t", "*"}, {"t", strings.Repeat("x", 65)}} {
		if _, err := c.Session(tt[0], tt[1]); err == nil {
			t.Errorf("session %q of tenant %q was accepted", tt[1], tt[0])
		}
	}
}

func TestAForbiddenSubjectShowsAtOnce(t *testing.T) {
	for name, p := range map[string]*server.Permissions{
		"publish": {Publish: &server.SubjectPermission{Allow: []string{"toolbridge.v1.acme.s1.preflight"}}},
		"reply":   {Subscribe: &server.SubjectPermission{Allow: []string{"toolbridge.>"}}},
	} {
		t.Run(name, func(t *testing.T) {
			connect := bus(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "w", Password: "w"}, {Username: "s", Password: "s", Permissions: p}}
			})
			worker(t, connect(nats.UserInfo("w", "w")), subjects.VerbAssemble, func(*nats.Msg) *nats.Msg { return body(`{}`) })
			quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
			s := session(t, connect(nats.UserInfo("s", "s"), quiet), Config{})
			_, err := s.Assemble(within(t, 30*time.Second), subjects.AssembleRequest{Toolsets: AllToolsets()})
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestCloseEndsWaitingRequests(t *testing.T) {
	connect := bus(t, nil)
	asked := make(chan struct{}, 1)
	worker(t, connect(), subjects.VerbBridge, func(*nats.Msg) *nats.Msg { asked <- struct{}{}; return nil })
	s := session(t, connect(), Config{})
	failed := make(chan error, 1)
	go func() {
		_, err := s.Search(context.Background(), Catalog("x"), SearchArguments{})
		failed <- err
	}()
	<-asked
	if err := s.client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("err = %v", err)
	}
	if _, err := s.Search(context.Background(), Catalog("x"), SearchArguments{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := s.client.Close(); err != nil {
		t.Error(err)
	}
}

func TestHeadersOfTheContextGoAlong(t *testing.T) {
	connect := bus(t, nil)
	got := make(chan string, 1)
	worker(t, connect(), subjects.VerbPreflight, func(m *nats.Msg) *nats.Msg {
		got <- m.Header.Get(subjects.HeaderTraceParent)
		return body(`{"tools":{}}`)
	})
	s := session(t, connect(), Config{Inject: func(_ context.Context, h nats.Header) { h[subjects.HeaderTraceParent] = []string{"00-ab"} }})
	if _, err := s.Preflight(within(t, 5*time.Second), "x", "a"); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != "00-ab" {
		t.Errorf("traceparent = %q", v)
	}
}

func TestPasswordsOfAddressesAreNotShown(t *testing.T) {
	if got := redact("nats://u:secret@a:4222, nats://b"); strings.Contains(got, "secret") {
		t.Error(got)
	}
	ctx := within(t, 300*time.Millisecond)
	if _, err := Dial(ctx, Config{URL: "nats://u:secret@127.0.0.1:1"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("err = %v", err)
	}
}
