package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolbridge/catalog"
	"toolbridge/state"
	"toolbridge/subjects"
)

// actAs makes the test binary an MCP server over stdio: the value names a
// function of stdioServers.
const actAs = "TOOLBRIDGE_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(actAs); kind != "" {
		if run := stdioServers()[kind]; run != nil {
			run()
			os.Exit(0)
		}
		fmt.Fprintln(os.Stderr, "no such test server:", kind)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m,
		// nats.go starts it with the first asynchronous publish; when the connection
		// closes before it has subscribed to status changes, it waits for ever.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// stdio is the configuration of a server that the test binary acts as.
func stdio(name, kind string, env ...string) ServerConfig {
	c := ServerConfig{
		Name: name, Command: CommandLine{os.Args[0]}, Env: map[string]string{actAs: kind},
		ConnectTimeout: 20 * time.Second, CancelGrace: time.Second, TerminateGrace: 300 * time.Millisecond,
	}
	for i := 0; i < len(env); i += 2 {
		c.Env[env[i]] = env[i+1]
	}
	return c
}

// bus is an embedded NATS server with JetStream and the shared state.
type bus struct {
	t     *testing.T
	nc    *nats.Conn
	state *state.State
}

func newBus(t *testing.T, change ...func(*natsserver.Options)) *bus {
	t.Helper()
	o := &natsserver.Options{
		DontListen: true, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 16 << 30, JetStreamMaxMemory: 64 << 20,
		NoLog: true, NoSigs: true, MaxPayload: 8 << 20,
	}
	for _, c := range change {
		c(o)
	}
	srv, err := natsserver.NewServer(o)
	if err != nil {
		t.Fatalf("making the NATS server: %v", err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	b := &bus{t: t, nc: connect(t, srv)}
	if b.state, err = state.Open(t.Context(), b.nc, subjects.Space{}, state.Config{}); err != nil {
		t.Fatalf("opening the state: %v", err)
	}
	return b
}

func connect(t *testing.T, srv *natsserver.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// logs keeps what a host logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// host starts a host and waits until its servers have been tried.
func (b *bus) host(cfg Config) (*Host, *logs) {
	b.t.Helper()
	h, l := b.startHost(cfg)
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	if err := h.Ready(ctx); err != nil {
		b.t.Fatalf("the host does not get ready: %v\n%s", err, l)
	}
	return h, l
}

func (b *bus) startHost(cfg Config) (*Host, *logs) {
	b.t.Helper()
	l := &logs{}
	cfg.Tenant = "t1"
	def(&cfg.Heartbeat, 200*time.Millisecond)
	def(&cfg.Backoff, 20*time.Millisecond)
	def(&cfg.MaxBackoff, 100*time.Millisecond)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	h, err := New(cfg, b.nc, b.state)
	if err != nil {
		b.t.Fatalf("New: %v", err)
	}
	if err := h.Start(b.t.Context()); err != nil {
		b.t.Fatalf("Start: %v", err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Stop(ctx); err != nil {
			b.t.Errorf("Stop: %v", err)
		}
		if b.t.Failed() {
			b.t.Logf("log of the host:\n%s", l)
		}
	})
	return h, l
}

// registration reads the registry as a worker does.
func (b *bus) registration(h *Host, server string) (reg subjects.Registration, revision uint64, found bool) {
	b.t.Helper()
	entry, err := b.state.Toolsets.Get(b.t.Context(), subjects.ToolsetKey("t1", "mcp-"+server, h.Executor()))
	if err != nil {
		return reg, 0, false
	}
	if err := json.Unmarshal(entry.Value(), &reg); err != nil {
		b.t.Fatalf("the registration is not readable: %v", err)
	}
	return reg, entry.Revision(), true
}

// await polls the registry until ok holds.
func (b *bus) await(h *Host, server, what string, ok func(subjects.Registration) bool) subjects.Registration {
	b.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	var last subjects.Registration
	for time.Now().Before(deadline) {
		if reg, _, found := b.registration(h, server); found {
			if ok(reg) {
				return reg
			}
			last = reg
		}
		<-time.After(5 * time.Millisecond)
	}
	b.t.Fatalf("%s: server %s never gets %s; last: %+v", b.t.Name(), server, what, last)
	return last
}

func (b *bus) awaitState(h *Host, server, state string) subjects.Registration {
	b.t.Helper()
	return b.await(h, server, state, func(r subjects.Registration) bool { return r.State == state })
}

// definitions are those of the registry, decoded as a worker does.
func (b *bus) definitions(h *Host, server string) []catalog.Definition {
	b.t.Helper()
	reg, _, found := b.registration(h, server)
	if !found {
		b.t.Fatalf("toolset mcp-%s is not registered", server)
	}
	blob, err := b.state.Blobs.Get(b.t.Context(), reg.Blob)
	if err != nil {
		b.t.Fatalf("reading the definitions: %v", err)
	}
	if state.Hash(blob) != reg.DefinitionsSHA256 {
		b.t.Fatalf("definitions_sha256 is not that of the blob")
	}
	defs, warnings, err := catalog.Decode(blob, catalog.Limits{})
	if err != nil {
		b.t.Fatalf("decoding the definitions: %v", err)
	}
	for _, w := range warnings {
		b.t.Logf("warning: %+v", w)
	}
	return defs
}

func names(defs []catalog.Definition) []string {
	out := []string{}
	for _, d := range defs {
		out = append(out, d.Name)
	}
	return out
}

// request makes the request for a tool of the registry.
func (b *bus) request(h *Host, server, tool, arguments string) subjects.ExecRequest {
	b.t.Helper()
	for _, d := range b.definitions(h, server) {
		if d.Name == tool {
			return subjects.ExecRequest{
				ExecutionID: nats.NewInbox()[7:] + ".0", Session: "s1", Tool: tool, DefinitionSHA256: d.SHA256(),
				Arguments: json.RawMessage(arguments), IdempotencyKey: "k",
				StartBy: time.Now().Add(10 * time.Second).UnixMilli(), Deadline: time.Now().Add(20 * time.Second).UnixMilli(),
			}
		}
	}
	b.t.Fatalf("server %s offers no %s", server, tool)
	return subjects.ExecRequest{}
}

// ask sends a request and returns its inbox.
func (b *bus) ask(server string, req subjects.ExecRequest) *inbox {
	b.t.Helper()
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(req); err != nil {
		b.t.Fatal(err)
	}
	return b.askRaw(server, data.Bytes(), nats.Header{subjects.HeaderKind: {subjects.KindExec}})
}

func (b *bus) askRaw(server string, data []byte, header nats.Header) *inbox {
	b.t.Helper()
	in := &inbox{t: b.t, subject: nats.NewInbox()}
	sub, err := b.nc.SubscribeSync(in.subject)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = sub.Unsubscribe() })
	in.sub = sub
	m := &nats.Msg{Subject: subjects.Space{}.ExecRun("t1", "mcp-"+server), Reply: in.subject, Data: data, Header: header}
	if err := b.nc.PublishMsg(m); err != nil {
		b.t.Fatal(err)
	}
	return in
}

// call asks and waits.
func (b *bus) call(h *Host, server, tool, arguments string) subjects.ExecReply {
	b.t.Helper()
	return b.ask(server, b.request(h, server, tool, arguments)).reply()
}

func (b *bus) cancel(server, body string) {
	b.t.Helper()
	if err := b.nc.Publish(subjects.Space{}.ExecCancel("t1", "mcp-"+server), []byte(body)); err != nil {
		b.t.Fatal(err)
	}
}

// inbox takes the answers to one request.
type inbox struct {
	t       *testing.T
	subject string
	sub     *nats.Subscription
	working int
	final   *nats.Msg
}

// reply is the final answer.
func (in *inbox) reply() subjects.ExecReply {
	in.t.Helper()
	for {
		msg, err := in.sub.NextMsg(20 * time.Second)
		if err != nil {
			in.t.Fatalf("no answer: %v", err)
		}
		if msg.Header.Get("Status") == "503" {
			in.t.Fatal("no responders")
		}
		if kind := msg.Header.Get(subjects.HeaderKind); kind != subjects.KindReply {
			in.t.Errorf("the answer's kind is %q", kind)
		}
		if msg.Header.Get(subjects.HeaderStatus) == subjects.StatusWorking {
			in.working++
			continue
		}
		in.final = msg
		var r subjects.ExecReply
		if err := json.Unmarshal(msg.Data, &r); err != nil {
			in.t.Fatalf("the answer %q is not readable: %v", msg.Data, err)
		}
		if (r.Result == nil) == (r.Error == nil) {
			in.t.Fatalf("the answer %s has not exactly one of result and error", msg.Data)
		}
		return r
	}
}

// silent asserts that no answer comes.
func (in *inbox) silent() {
	in.t.Helper()
	if msg, err := in.sub.NextMsg(200 * time.Millisecond); err == nil {
		in.t.Errorf("unexpected answer: %s %v", msg.Data, msg.Header)
	}
}

func wantCode(t *testing.T, r subjects.ExecReply, code subjects.Code, contains ...string) {
	t.Helper()
	if r.Error == nil {
		t.Fatalf("got result %s, want error %s", r.Result, code)
	}
	if r.Error.Code != code {
		t.Fatalf("got %s (%s), want %s", r.Error.Code, r.Error.Message, code)
	}
	for _, c := range contains {
		if !strings.Contains(r.Error.Message, c) {
			t.Errorf("message %q does not contain %q", r.Error.Message, c)
		}
	}
}

func wantResult(t *testing.T, r subjects.ExecReply, want string) {
	t.Helper()
	if r.Error != nil {
		t.Fatalf("got error %s: %s, want result %s", r.Error.Code, r.Error.Message, want)
	}
	if string(r.Result) != want {
		t.Errorf("result\n got %s\nwant %s", r.Result, want)
	}
}

// wire is a server that speaks JSON-RPC line by line, for what no SDK does.
type wire struct {
	in  *bufio.Reader
	mu  sync.Mutex
	out io.Writer
	// answer makes the raw result of a request; "" sends nothing.
	answer map[string]func(w *wire, id, params json.RawMessage) string
}

func newWire(answer map[string]func(w *wire, id, params json.RawMessage) string) *wire {
	w := &wire{in: bufio.NewReader(os.Stdin), out: os.Stdout, answer: answer}
	if w.answer["initialize"] == nil {
		w.answer["initialize"] = func(*wire, json.RawMessage, json.RawMessage) string {
			return `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"wire","version":"1"}}`
		}
	}
	return w
}

func (w *wire) print(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.out, line)
}

// run serves until the end of its input.
func (w *wire) run() {
	for {
		line, err := w.in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if record := os.Getenv("RECORD"); record != "" {
			f, _ := os.OpenFile(record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			_, _ = f.Write(line)
			_ = f.Close()
		}
		answer := w.answer[m.Method]
		if answer == nil {
			if m.ID != nil {
				w.print(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"no such method"}}`)
			}
			continue
		}
		if result := answer(w, m.ID, m.Params); result != "" && m.ID != nil {
			w.print(`{"result":` + result + `,"jsonrpc":"2.0","id":` + string(m.ID) + `}`)
		}
	}
}

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

func portOf(t *testing.T, addr net.Addr) int {
	t.Helper()
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		t.Fatalf("%v is no TCP address", addr)
	}
	return tcp.Port
}
