package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"toolbridge/approval"
	"toolbridge/client"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/worker"
)

// screen is standard output that a test reads as it grows.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	read int
	grew chan struct{}
}

func newScreen() *screen { return &screen{grew: make(chan struct{}, 1)} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	select {
	case s.grew <- struct{}{}:
	default:
	}
	return len(b), nil
}

// wait returns what came up to and with a text, since the last wait.
func (s *screen) wait(t *testing.T, text string) string {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		all := s.text.String()[s.read:]
		if i := strings.Index(all, text); i >= 0 {
			s.read += i + len(text)
			s.mu.Unlock()
			return all[:i+len(text)]
		}
		s.mu.Unlock()
		select {
		case <-s.grew:
		case <-limit:
			t.Fatalf("%q did not come; there is\n%s", text, all)
		}
	}
}

// watched is a worker that asks for every call, a session whose process answers
// them, and a person before toolbridge approvals watch.
type watched struct {
	t       *testing.T
	url     string
	session *client.Session
	screen  *screen
	typed   *io.PipeWriter
	status  chan int
}

func startWatch(t *testing.T, timeout time.Duration, args ...string) *watched {
	t.Helper()
	server := bus.Server(t)
	w, err := worker.New(worker.Config{
		Policy: approval.Policy{Default: approval.Ask}, ApprovalTimeout: timeout, Logger: slog.New(slog.DiscardHandler),
	}, bus.Connect(t, server))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(bus.Connect(t, server), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	d := &watched{t: t, url: server.ClientURL(), screen: newScreen(), status: make(chan int, 1)}
	if d.session, err = c.Session("default", "s1"); err != nil {
		t.Fatal(err)
	}
	v, err := d.session.Serve(t.Context(), client.ServeConfig{}, func(context.Context, subjects.ExecRequest) (json.RawMessage, error) {
		return json.RawMessage(`"paid"`), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = v.Stop(ctx)
	})
	from, to := io.Pipe()
	d.typed = to
	t.Cleanup(func() { _ = to.Close() })
	said := newScreen()
	go func() {
		d.status <- run(append([]string{"approvals", "watch", "--nats", d.url, "--approver", "ada"}, args...), &program{
			stdin: from, stdout: d.screen, stderr: said, lookup: func(string) (string, bool) { return "", false },
		})
	}()
	said.wait(t, "watching tenant default as approver ada")
	return d
}

// call stores a call; its result comes later.
func (d *watched) call(id, arguments string) {
	d.t.Helper()
	r, err := client.NewBridgeRequest(client.Source{Assemble: subjects.AssembleRequest{Tools: json.RawMessage(`[{"name":"pay","toolset":"bank","parameters":{"type":"object"}}]`)}},
		subjects.ToolCall, client.CallArguments{Calls: []client.CallEntry{{Name: "pay", Arguments: json.RawMessage(arguments)}}})
	if err != nil {
		d.t.Fatal(err)
	}
	r.ID = id
	if err := d.session.Store(d.t.Context(), r); err != nil {
		d.t.Fatal(err)
	}
}

func (d *watched) result(id string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	reply, err := d.session.Wait(ctx, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(reply.Result)
}

func (d *watched) answer(line string) {
	d.t.Helper()
	if _, err := io.WriteString(d.typed, line+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

// other decides as somebody else.
func (d *watched) other(choice subjects.Choice) {
	d.t.Helper()
	status, out, _ := command(d.t, "approvals", "list", "--nats", d.url, "--json")
	var list subjects.ApprovalListReply
	if err := json.Unmarshal([]byte(out), &list); status != 0 || err != nil || len(list.Approvals) == 0 {
		d.t.Fatalf("%d %v %s", status, err, out)
	}
	if status, _, stderr := command(d.t, "approvals", "decide", list.Approvals[0].ID, string(choice), "--approver", "bob", "--nats", d.url); status != 0 {
		d.t.Fatal(stderr)
	}
}

func (d *watched) end() string {
	d.t.Helper()
	_ = d.typed.Close()
	if status := <-d.status; status != 0 {
		d.t.Errorf("status %d", status)
	}
	d.screen.mu.Lock()
	defer d.screen.mu.Unlock()
	return d.screen.text.String()[d.screen.read:]
}

const question = "skip? "

func TestAPersonIsAskedAboutEachCallWithAllThatCounts(t *testing.T) {
	d := startWatch(t, 0)
	d.call("c1", `{"to":"ada\u0007 \u202e\u200b`+"\u202e\u00a0\U000e0041"+`","sum":12.50,"n":[]}`)
	shown := d.screen.wait(t, question)
	for _, want := range []string{
		"\n  tool       pay\n", "\n  session    s1\n", "\n  call       c1, entry 0\n", "\n  reason ", "\n  expires ", ", in 5m0s\n",
		"\n    {\n      \"to\": \"ada\\u0007 \\u202e\\u200b\\u202e\\u00a0\\udb40\\udc41\",\n      \"sum\": 12.50,\n      \"n\": []\n    }\n",
		"(o)nce, (s)ession, (a)lways, (d)eny, skip? ",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("there is no %q in\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "warning") {
		t.Error(shown)
	}
	d.answer("yes")
	d.screen.wait(t, "Type o, s, a, d or skip")
	d.screen.wait(t, question)
	d.answer("")
	d.screen.wait(t, question)
	d.answer("O it is fine")
	d.screen.wait(t, "approved (once) by ada: it is fine\n")
	if r := d.result("c1"); r != `"paid"` {
		t.Error(r)
	}

	d.call("c2", `{}`)
	d.screen.wait(t, question)
	d.answer("d not today")
	d.screen.wait(t, "denied by ada: not today\n")
	if r := d.result("c2"); !strings.Contains(r, `"APPROVAL_DENIED"`) || !strings.Contains(r, "not today") {
		t.Error(r)
	}

	d.call("c3", `{}`)
	d.screen.wait(t, question)
	d.answer("session")
	d.screen.wait(t, "approved (session) by ada\n")
	d.call("c4", `{"n":2}`)
	if r := d.result("c4"); r != `"paid"` {
		t.Errorf("asked again: %s", r)
	}
	if rest := d.end(); strings.Contains(rest, "Left undecided") {
		t.Error(rest)
	}
}

func TestALineTypedForOneCallNeverDecidesOnAnother(t *testing.T) {
	d := startWatch(t, 0)
	d.call("c1", `{"n":1}`)
	d.screen.wait(t, question)
	d.other(subjects.ChoiceDeny)
	d.screen.wait(t, "Settled meanwhile: ")
	d.screen.wait(t, "denied by bob\n")
	d.screen.wait(t, "Press Enter to go on: ")
	d.call("c2", `{"n":2}`)
	d.answer("o") // was typed for c1
	shown := d.screen.wait(t, question)
	if !strings.Contains(shown, "call       c2") {
		t.Fatal(shown)
	}
	if _, err := d.session.Fetch(t.Context(), "c2"); err == nil {
		t.Fatal("the line decided on the next call")
	}
	d.answer("o")
	d.screen.wait(t, "approved (once) by ada\n")
	if r := d.result("c2"); r != `"paid"` {
		t.Error(r)
	}
	d.end()
}

func TestWhatIsSkippedIsLeftToOthers(t *testing.T) {
	d := startWatch(t, 0)
	d.call("c1", `{"n":1}`)
	d.screen.wait(t, question)
	d.answer("skip")
	d.screen.wait(t, "Left to others: toolbridge approvals decide ")
	d.other(subjects.ChoiceOnce)
	d.screen.wait(t, "Settled: ")
	d.screen.wait(t, "approved (once) by bob\n")
	d.result("c1")
	d.call("c2", `{"n":2}`)
	d.screen.wait(t, question)
	if rest := d.end(); !strings.Contains(rest, "Left undecided: 1 approval.") {
		t.Error(rest)
	}
}

func TestAnExpiryIsToldAndCostsNothingElse(t *testing.T) {
	d := startWatch(t, 500*time.Millisecond)
	d.call("c1", `{}`)
	d.screen.wait(t, question)
	d.screen.wait(t, "Settled meanwhile: ")
	d.screen.wait(t, " expired\n")
	if r := d.result("c1"); !strings.Contains(r, `"APPROVAL_TIMEOUT"`) {
		t.Error(r)
	}
	d.end()
}

func TestOnlyOneSessionIsWatchedWhereThatIsAsked(t *testing.T) {
	d := startWatch(t, 0, "--session", "s1")
	other, err := client.Dial(t.Context(), client.Config{URL: d.url})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	mine := d.session
	if d.session, err = other.Session("default", "s2"); err != nil {
		t.Fatal(err)
	}
	d.call("c1", `{"n":1}`)
	d.session = mine
	d.call("c1", `{"n":2}`)
	if shown := d.screen.wait(t, question); !strings.Contains(shown, `"n": 2`) {
		t.Error(shown)
	}
	d.answer("o")
	d.screen.wait(t, "approved (once) by ada\n")
	if rest := d.end(); strings.Contains(rest, "tool  ") || strings.Contains(rest, "undecided") {
		t.Error(rest)
	}
}

func TestAnswersAreReadAsTheyAreOffered(t *testing.T) {
	all := subjects.Choices()
	for line, want := range map[string]string{
		"o": "once true", "once": "once true", " S ": "session true", "a because": "always because true", "deny  too much ": "deny too much true", "skip": "true",
		"": "false", "y": "false", "on": "false", "sk": "false", "oo": "false", "skip it": "true",
	} {
		c, reason, ok := readChoice(line, all)
		if got := strings.Join(strings.Fields(fmt.Sprint(string(c)+" "+reason, " ", ok)), " "); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
	if _, _, ok := readChoice("a", []subjects.Choice{subjects.ChoiceOnce, subjects.ChoiceDeny}); ok {
		t.Error("always was not offered")
	}
}
