package worker_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"toolbridge/test/bus"
	"toolbridge/worker"
)

func stop(t *testing.T, w *worker.Worker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		t.Fatalf("Stop: %v", err)
	}
}

func TestRepliesAimedAtOthersAreNotSent(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	js := f.js
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "VICTIM", Subjects: []string{"victim.>"}}); err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "victims"})
	if err != nil {
		t.Fatal(err)
	}
	aims := []string{
		"toolbridge.v1.t.other.event", "toolbridge.v1.t.other.exec", "toolbridge.v1.t.other.result.c1",
		"toolbridge.v1.t._exec.run.mcp-x", "toolbridge.v1.t._approvals.decide.mallory",
		"$KV.victims.key", "$KV.toolbridge_grants.t.s1", "victim.x", "$JS.API.STREAM.PURGE.VICTIM",
		"_INBOXES.x", "_inbox.x", "plain", "toolbridge.v1._dead.x",
	}
	var heard []func() int
	for _, aim := range aims {
		heard = append(heard, f.count(aim))
	}
	for _, verb := range []string{"assemble", "bridge", "preflight"} {
		for _, aim := range aims {
			if err := f.nc.PublishRequest("toolbridge.v1.t.s1."+verb, aim, []byte(session())); err != nil {
				t.Fatal(err)
			}
		}
		// Broken tokens and bodies are answered on other paths: they are guarded too.
		if err := f.nc.PublishRequest("toolbridge.v1.t.s$1."+verb, aims[0], []byte(session())); err != nil {
			t.Fatal(err)
		}
		if err := f.nc.Publish("toolbridge.v1.t.s1."+verb, []byte(session())); err != nil {
			t.Fatal(err)
		}
	}
	f.assemble("s1", session()) // the worker has taken all that came before
	for i, n := range heard {
		if got := n(); got != 0 {
			t.Errorf("%d messages arrived on %s", got, aims[i])
		}
	}
	info, err := js.Stream(t.Context(), "VICTIM")
	if err != nil {
		t.Fatal(err)
	}
	if n := info.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("the stream took %d answers", n)
	}
	if keys, err := kv.Keys(t.Context()); err == nil {
		t.Errorf("the bucket took answers: %v", keys)
	}
}

// A tenant with an account of its own reaches the workers by a service import;
// the server then gives requests a reply below _R_.
func TestTenantsInAccountsOfTheirOwnAreAnswered(t *testing.T) {
	workers, tenant := server.NewAccount("WORKERS"), server.NewAccount("TENANT")
	s := bus.Server(t, func(o *server.Options) {
		o.Accounts = []*server.Account{workers, tenant}
		o.Users = []*server.User{{Username: "w", Password: "w", Account: workers}, {Username: "t", Password: "t", Account: tenant}}
		o.SystemAccount = "SYS"
		o.Accounts = append(o.Accounts, server.NewAccount("SYS"))
	})
	account := func(name string) *server.Account {
		a, err := s.LookupAccount(name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	w, a := account("WORKERS"), account("TENANT")
	if err := w.EnableJetStream(nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.AddServiceExport("toolbridge.v1.t.*.>", nil); err != nil {
		t.Fatal(err)
	}
	if err := a.AddServiceImport(w, "toolbridge.v1.t.*.>", "toolbridge.v1.t.*.>"); err != nil {
		t.Fatal(err)
	}
	worker1, err := worker.New(worker.Config{Dev: true}, bus.Connect(t, s, nats.UserInfo("w", "w")))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker1.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, worker1)
	seen := make(chan string, 1)
	spy, err := bus.Connect(t, s, nats.UserInfo("w", "w")).Subscribe("toolbridge.v1.t.s1.assemble", func(m *nats.Msg) { seen <- m.Reply })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = spy.Unsubscribe() }()
	m, err := bus.Connect(t, s, nats.UserInfo("t", "t")).Request("toolbridge.v1.t.s1.assemble", []byte(session()), wait)
	if err != nil {
		t.Fatal(err)
	}
	if at(t, decode(t, m.Data), "deferred_count") != 3.0 {
		t.Errorf("reply = %s", m.Data)
	}
	if reply := <-seen; !strings.HasPrefix(reply, "_R_.") {
		t.Errorf("the reply subject was %s, so this test tests nothing", reply)
	}
}

func TestBrokenTokensAreRefusedAndReservedOnesLeftAlone(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	for _, subject := range []string{
		"toolbridge.v1.t.s$1.assemble", "toolbridge.v1.t€.s1.assemble", "toolbridge.v1.t." + strings.Repeat("x", 65) + ".bridge", "toolbridge.v1._t.s1.preflight",
	} {
		m := f.send(subject, session())
		if code(decode(t, m.Data)) != "BAD_REQUEST" || m.Header.Get("Nats-Service-Error-Code") != "400" || m.Header.Get("Nats-Service-Error") == "" {
			t.Errorf("%s: %s %v", subject, m.Data, m.Header)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if m, err := f.nc.RequestWithContext(ctx, "toolbridge.v1.t._approvals.assemble", []byte(session())); err == nil {
		t.Errorf("a reserved second token was answered: %s", m.Data)
	}
}

func TestRequestsAndRepliesMayBePacked(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	big := `{"tools":` + tools(tool("plain_one", "", strings.Repeat("words and ", 2000))) + `}`
	plain := f.send("toolbridge.v1.t.s1.assemble", big).Data
	for _, encoding := range []string{"zstd", "gzip"} {
		reply := f.send("toolbridge.v1.t.s1.assemble", string(packed(t, encoding, []byte(big))), "Content-Encoding", encoding)
		if reply.Header.Get("Content-Encoding") != "" || !bytes.Equal(reply.Data, plain) {
			t.Errorf("%s: the reply differs or is packed unasked", encoding)
		}
		reply = f.send("toolbridge.v1.t.s1.assemble", big, "Accept-Encoding", encoding)
		if reply.Header.Get("Content-Encoding") != encoding || !bytes.Equal(unpacked(t, encoding, reply.Data), plain) {
			t.Errorf("%s: the reply is not the same, packed", encoding)
		}
	}
	for encoding, data := range map[string][]byte{"br": []byte(big), "zstd": []byte(big), "gzip": packed(t, "gzip", []byte(big))[:200]} {
		if got := code(decode(t, f.send("toolbridge.v1.t.s1.assemble", string(data), "Content-Encoding", encoding).Data)); got != "BAD_REQUEST" {
			t.Errorf("unreadable %s: %q", encoding, got)
		}
	}
}

func TestARequestThatUnpacksToTooMuchIsRefused(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true, MaxRequest: 1 << 20})
	bomb := bytes.Repeat([]byte(" "), 8<<20)
	for _, encoding := range []string{"zstd", "gzip"} {
		reply := f.send("toolbridge.v1.t.s1.assemble", string(packed(t, encoding, bomb)), "Content-Encoding", encoding)
		if code(decode(t, reply.Data)) != "TOO_LARGE" || reply.Header.Get("Nats-Service-Error-Code") != "413" {
			t.Errorf("%s bomb: %s", encoding, reply.Data)
		}
	}
	if got := code(decode(t, f.send("toolbridge.v1.t.s1.assemble", `{"tools":["`+strings.Repeat("x", 1<<20)+`"]}`).Data)); got != "TOO_LARGE" {
		t.Errorf("a plain body above the bound: %q", got)
	}
}

func packed(t *testing.T, encoding string, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&buf)
	if encoding == "zstd" {
		z, err := zstd.NewWriter(&buf)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func unpacked(t *testing.T, encoding string, data []byte) []byte {
	t.Helper()
	var r io.Reader
	if encoding == "zstd" {
		z, err := zstd.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	} else {
		g, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		r = g
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAReplyAboveTheServersLimitIsAnErrorThatSaysSo(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	// 9 MB of spaces inside visible definitions: small when packed, too large as a reply.
	def := `{"type":"function","function":{"name":"n%d","description":"d","parameters":{"type":"object"}` + strings.Repeat(" ", 1<<20) + `}}`
	var list []string
	for i := range 9 {
		list = append(list, fmt.Sprintf(def, i))
	}
	reply := f.send("toolbridge.v1.t.s1.assemble", string(packed(t, "zstd", []byte(`{"tools":`+tools(list...)+`}`))), "Content-Encoding", "zstd")
	if code(decode(t, reply.Data)) != "TOO_LARGE" {
		t.Errorf("reply of %d bytes: %.200s", len(reply.Data), reply.Data)
	}
}

func TestDeadlinesBoundTheReply(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	past := strconv.FormatInt(time.Now().Add(-time.Second).UnixMilli(), 10)
	if got := code(f.ask("s1", "assemble", session(), "Toolbridge-Deadline", past)); got != "DEADLINE_EXCEEDED" {
		t.Errorf("a deadline in the past: %q", got)
	}
	if got := code(f.ask("s1", "assemble", session(), "Toolbridge-Deadline", "soon")); got != "BAD_REQUEST" {
		t.Errorf("a deadline that is no time: %q", got)
	}
	future := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	if got := code(f.ask("s1", "assemble", session(), "Toolbridge-Deadline", future)); got != "" {
		t.Errorf("a deadline ahead: %q", got)
	}
}

func TestMoreThanTheWorkerTakesIsBusyNotQueued(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true, MaxInFlight: 1, MaxWaiting: -1})
	ref := f.assemble("s1", session())["catalog"].(string)
	started, finish := make(chan struct{}), make(chan struct{})
	sub, err := f.nc.Subscribe("toolbridge.v1.t.s1.exec", func(m *nats.Msg) {
		close(started)
		<-finish
		_ = m.Respond([]byte(`{"result":"done"}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	first := make(chan *nats.Msg, 1)
	go func() {
		m, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(`{"id":"c1","name":"tool_call","arguments":{"calls":[{"name":"mcp__gh__list_releases","arguments":{}}]},"catalog":"`+ref+`"}`), wait)
		if err != nil {
			t.Errorf("first call: %v", err)
		}
		first <- m
	}()
	<-started
	reply := f.send("toolbridge.v1.t.s2.assemble", session())
	if code(decode(t, reply.Data)) != "BUSY" || reply.Header.Get("Nats-Service-Error-Code") != "429" {
		t.Errorf("reply = %s", reply.Data)
	}
	close(finish)
	if m := <-first; m != nil && at(t, decode(t, m.Data), "result") != "done" {
		t.Errorf("the first call ended with %s", m.Data)
	}
}

func TestTheServiceIsSeenByStockTools(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true, Version: "1.2.3"})
	m, err := f.nc.Request("$SRV.INFO.toolbridge", nil, wait)
	if err != nil {
		t.Fatal(err)
	}
	info := decode(t, m.Data)
	got := map[string]string{}
	for _, e := range info["endpoints"].([]any) {
		got[at(t, e, "subject").(string)] = at(t, e, "queue_group").(string)
	}
	for _, subject := range []string{"toolbridge.v1.*.*.assemble", "toolbridge.v1.*.*.bridge", "toolbridge.v1.*.*.preflight"} {
		if got[subject] != "workers" {
			t.Errorf("endpoint %s has queue group %q", subject, got[subject])
		}
	}
	if info["version"] != "1.2.3" || info["type"] != micro.InfoResponseType {
		t.Errorf("info = %s", m.Data)
	}
}

func TestTraceContextComesBackWithTheReply(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	m := f.send("toolbridge.v1.t.s1.assemble", session(), "traceparent", parent, "tracestate", "a=b")
	if m.Header.Get("traceparent") != parent || m.Header.Get("tracestate") != "a=b" {
		t.Errorf("headers = %v", m.Header)
	}
}

func TestRefusalsCarryTheTraceToo(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	m := f.send("toolbridge.v1.t.a=b.assemble", session(), "tracestate", "a=b")
	if code(decode(t, m.Data)) != "BAD_REQUEST" || m.Header.Get("tracestate") != "a=b" {
		t.Errorf("headers = %v, body %s", m.Header, m.Data)
	}
}

func TestHeadersOfARequestNeverCostItsReply(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	for _, n := range []int{8 << 10, 8<<10 + 1, 3 << 20} {
		value := strings.Repeat("v", n)
		m := f.send("toolbridge.v1.t.s1.assemble", session(), "baggage", value, "tracestate", value)
		if want := n <= 8<<10; code(decode(t, m.Data)) != "" || (m.Header.Get("baggage") == value) != want {
			t.Errorf("%d bytes of baggage: %d come back, body %.100s", n, len(m.Header.Get("baggage")), m.Data)
		}
	}
}

func TestNamesOfEncodingsAreReadAsInHTTP(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true})
	big := `{"tools":` + tools(tool("plain_one", "", strings.Repeat("words and ", 2000))) + `}`
	for sent, body := range map[string][]byte{"GZIP": packed(t, "gzip", []byte(big)), " zstd ": packed(t, "zstd", []byte(big)), "identity": []byte(big)} {
		if m := f.send("toolbridge.v1.t.s1.assemble", string(body), "Content-Encoding", sent); code(decode(t, m.Data)) != "" {
			t.Errorf("Content-Encoding %q: %.200s", sent, m.Data)
		}
	}
	for accept, want := range map[string]string{
		"GZip": "gzip", "br, zstd;q=0.5": "zstd", "zstd;q=0, gzip": "gzip", "gzip; q=0.0": "", "identity": "", "*": "",
	} {
		if got := f.send("toolbridge.v1.t.s1.assemble", big, "Accept-Encoding", accept).Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q gives %q, want %q", accept, got, want)
		}
	}
}

func TestStopLetsRunningCallsFinish(t *testing.T) {
	f := newFleet(t)
	w := f.start(worker.Config{Dev: true})
	ref := f.assemble("s1", session())["catalog"].(string)
	started, finish := make(chan struct{}), make(chan struct{})
	sub, err := f.nc.Subscribe("toolbridge.v1.t.s1.exec", func(m *nats.Msg) {
		close(started)
		<-finish
		_ = m.Respond([]byte(`{"result":"done"}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	answer := make(chan *nats.Msg, 1)
	go func() {
		m, err := f.nc.Request("toolbridge.v1.t.s1.bridge", []byte(`{"id":"c1","name":"tool_call","arguments":{"calls":[{"name":"mcp__gh__list_releases","arguments":{}}]},"catalog":"`+ref+`"}`), wait)
		if err != nil {
			t.Errorf("call: %v", err)
		}
		answer <- m
	}()
	<-started
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop(t, w) }()
	eventually(t, "the worker takes no more requests", func() bool {
		_, err := f.nc.Request("toolbridge.v1.t.s1.assemble", []byte(session()), time.Second)
		return err != nil
	})
	close(finish)
	if m := <-answer; m == nil || at(t, decode(t, m.Data), "result") != "done" {
		t.Errorf("answer = %v", m)
	}
	<-stopped
	stop(t, w) // a second Stop is harmless
}

// Draining takes the library half a minute when nobody answers.
func TestAWorkerWhoseServerIsGoneStopsWithinItsGrace(t *testing.T) {
	f := newFleet(t)
	nc := bus.Connect(t, f.server, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	w, err := worker.New(worker.Config{Dev: true, Logger: slog.New(slog.DiscardHandler)}, nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.server.Shutdown()
	f.server.WaitForShutdown()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	_ = w.Stop(ctx) // says that it could not send what was left
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestConfigurationThatCanNotWorkIsRefused(t *testing.T) {
	f := newFleet(t)
	for name, cfg := range map[string]worker.Config{
		"negative bound":           {MaxInFlight: -1},
		"a reply prefix for all":   {ReplyPrefixes: []string{""}},
		"a prefix without its dot": {ReplyPrefixes: []string{"_INBOX"}},
	} {
		if _, err := worker.New(cfg, f.nc); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := worker.New(worker.Config{}, nil); err == nil {
		t.Error("no connection: accepted")
	}
}

func TestRequestsThatOnlyWaitForACallKeepNothingElseOut(t *testing.T) {
	f := newFleet(t)
	f.start(worker.Config{Dev: true, MaxInFlight: 1})
	ref := f.assemble("s1", session())["catalog"].(string)
	started, finish := make(chan struct{}, 3), make(chan struct{})
	f.serve("toolbridge.v1.t.s1.exec", func(map[string]any) string {
		started <- struct{}{}
		<-finish
		return `{"result":"done"}`
	})
	answers := make(chan *nats.Msg, 3)
	for i := range 3 {
		go func() {
			for {
				m, err := f.nc.Request("toolbridge.v1.t.s1.bridge", fmt.Appendf(nil, `{"id":"w%d","name":"tool_call","arguments":{"calls":[{"name":"mcp__gh__list_releases","arguments":{}}]},"catalog":%q}`, i, ref), wait)
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				if m != nil && code(decode(t, m.Data)) == "BUSY" {
					continue // the one before has only just been stored
				}
				answers <- m
				return
			}
		}()
		<-started
	}
	eventually(t, "another request is served beside the waiting ones", func() bool {
		return code(f.ask("s2", "assemble", session())) == ""
	})
	close(finish)
	for range 3 {
		if m := <-answers; m != nil && at(t, decode(t, m.Data), "result") != "done" {
			t.Errorf("answer = %s", m.Data)
		}
	}
}
