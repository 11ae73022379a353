package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

func TestCallReachesAStdioServer(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard")}})
	const exact = `{"id":7310046220981450071,"z":1.10,"a":"<&>","é":"\u2028","z":9007199254740993}`
	wantResult(t, b.call(h, "std", "mcp__std__echo", exact), exact)
	wantResult(t, b.call(h, "std", "mcp__std__say", `{"text":"plain words"}`), `"plain words"`)
	wantResult(t, b.call(h, "std", "mcp__std__echo", `null`), `{}`)
	if got := b.call(h, "std", "mcp__std__say", `{"text":"`+strings.Repeat("b", 5000)+`"}`); len(got.Result) != 5002 {
		t.Errorf("C28: %d bytes came back", len(got.Result))
	}
}

func TestRegistrationHoldsWhatTheContractAsks(t *testing.T) {
	b := newBus(t)
	cfg := stdio("std", "standard")
	cfg.Trusted, cfg.SupportsParallelToolCalls = true, true
	h, _ := b.host(Config{Executor: "x1", Servers: []ServerConfig{cfg}})
	reg := b.await(h, "std", "a revision", func(r subjects.Registration) bool { return r.State == subjects.StateReady && r.Revision > 0 })
	if reg.Blob != reg.DefinitionsSHA256 || len(reg.Blob) != 64 || reg.ToolCount != 12 || !reg.Trusted || reg.Reason != "" {
		t.Errorf("registration: %+v", reg)
	}
	since, err := time.Parse(time.RFC3339, reg.Since)
	if err != nil || time.Since(since) > time.Minute || !strings.HasSuffix(reg.Since, "Z") {
		t.Errorf("since %q: %v", reg.Since, err)
	}
	d := b.definitions(h, "std")[0]
	if d.Toolset != "mcp-std" || !d.Parallel || d.Description != "Test tool big." {
		t.Errorf("definition: %+v", d)
	}
	// Heartbeats change nothing but the KV revision.
	_, before, _ := b.registration(h, "std")
	b.await(h, "std", "another heartbeat", func(r subjects.Registration) bool {
		_, now, _ := b.registration(h, "std")
		if diff := cmp.Diff(reg, r); diff != "" {
			t.Fatalf("a heartbeat changed the registration:\n%s", diff)
		}
		return now > before+1
	})
	if got := h.Status(); len(got) != 1 || got[0].State != subjects.StateReady || got[0].ToolCount != 12 || got[0].Toolset != "mcp-std" {
		t.Errorf("Status: %+v", got)
	}
}

func TestStopWithdrawsTheKeys(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard"), stdio("gone", "exit")}})
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := b.state.Toolsets.Keys(t.Context())
	if !errors.Is(err, jetstream.ErrNoKeysFound) {
		t.Errorf("keys left: %v %v", keys, err)
	}
	if _, err := b.nc.Request(subjects.Space{}.ExecRun("t1", "mcp-std"), nil, time.Second); err == nil || !strings.Contains(err.Error(), "no responders") {
		t.Errorf("still subscribed: %v", err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Errorf("the second Stop: %v", err)
	}
	if err := h.Start(t.Context()); err == nil {
		t.Error("it started again")
	}
}

func TestVanishedKeyIsWrittenAgain(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard")}})
	reg := b.await(h, "std", "a revision", func(r subjects.Registration) bool { return r.Revision > 0 })
	if err := b.state.Toolsets.Purge(t.Context(), subjects.ToolsetKey("t1", "mcp-std", h.Executor())); err != nil {
		t.Fatal(err)
	}
	again := b.awaitState(h, "std", subjects.StateReady)
	if diff := cmp.Diff(reg, again); diff != "" {
		t.Errorf("since and revision must stand while the hash stands:\n%s", diff)
	}
}

// A21: turn 1 lists the server as connecting, turn 2 has its tools, in the same
// session.
func TestA21AServerThatConnectsSlowlyIsListedAsConnecting(t *testing.T) {
	b := newBus(t)
	h, _ := b.startHost(Config{Servers: []ServerConfig{stdio("slow", "standard", "SLOW_START", "300ms"), stdio("quick", "standard")}})
	reg, _, found := b.registration(h, "slow")
	if !found || reg.State != subjects.StateConnecting || reg.Reason == "" || reg.ToolCount != 0 {
		t.Errorf("right after Start: %v %+v", found, reg)
	}
	if defs := b.definitions(h, "slow"); len(defs) != 0 {
		t.Errorf("definitions while connecting: %v", names(defs))
	}
	b.awaitState(h, "quick", subjects.StateReady)
	if reg := b.awaitState(h, "slow", subjects.StateReady); reg.ToolCount != 12 {
		t.Errorf("then: %+v", reg)
	}
	wantResult(t, b.call(h, "slow", "mcp__slow__say", `{"text":"hi"}`), `"hi"`)
}

func TestReadyWaitsForEveryServerToConnectOrFail(t *testing.T) {
	b := newBus(t)
	hang := stdio("hang", "hang-initialize")
	h, _ := b.startHost(Config{Servers: []ServerConfig{stdio("std", "standard"), hang}})
	b.awaitState(h, "std", subjects.StateReady)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"hang"`) {
		t.Errorf("Ready: %v", err)
	}
}

func TestListChangedPublishesTheNewDefinitions(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard")}})
	old := b.request(h, "std", "mcp__std__say", `{"text":"x"}`)
	before := b.await(h, "std", "a revision", func(r subjects.Registration) bool { return r.Revision > 0 })
	wantResult(t, b.call(h, "std", "mcp__std__grow", `{}`), `"grown"`)
	after := b.await(h, "std", "new definitions", func(r subjects.Registration) bool {
		return r.DefinitionsSHA256 != before.DefinitionsSHA256 && r.Revision > 0
	})
	if after.Revision <= before.Revision || after.Since < before.Since {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	got := strings.Join(names(b.definitions(h, "std")), " ")
	if !strings.Contains(got, "mcp__std__grown") || strings.Contains(got, "mcp__std__say") {
		t.Errorf("A01: tools now: %s", got)
	}
	wantResult(t, b.call(h, "std", "mcp__std__grown", `{}`), `"I am new"`)
	wantCode(t, b.ask("std", old).reply(), subjects.CodeDefinitionMismatch, "mcp__std__say")
}

func TestNewRefusesWrongConfigurations(t *testing.T) {
	b := newBus(t)
	ok := ServerConfig{Name: "a", Command: CommandLine{"x"}}
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no tenant", Config{}, "tenant is empty"},
		{"bad executor", Config{Tenant: "t", Executor: "a.b"}, "executor"},
		{"twice", Config{Tenant: "t", Servers: []ServerConfig{ok, ok}}, `"a" is configured twice`},
		{"no name", Config{Tenant: "t", Servers: []ServerConfig{{Command: CommandLine{"x"}}}}, "without a name"},
		{"neither", Config{Tenant: "t", Servers: []ServerConfig{{Name: "a"}}}, "neither command nor url"},
		{"both", Config{Tenant: "t", Servers: []ServerConfig{{Name: "a", Command: CommandLine{"x"}, URL: "http://h"}}}, "both command and url"},
		{"bad url", Config{Tenant: "t", Servers: []ServerConfig{{Name: "a", URL: "ftp://h"}}}, "http://"},
		{"env of url", Config{Tenant: "t", Servers: []ServerConfig{{Name: "a", URL: "http://h", Env: map[string]string{"A": "b"}}}}, "use headers"},
		{"env name", Config{Tenant: "t", Servers: []ServerConfig{{Name: "a", Command: CommandLine{"x"}, Env: map[string]string{"A=B": "b"}}}}, "not a variable"},
		{"negative", Config{Tenant: "t", Servers: []ServerConfig{{Name: "a", Command: CommandLine{"x"}, Timeout: -1}}}, "timeout is negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.cfg, b.nc, b.state); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestACrashedServerIsUnavailableWithTheReasonAndComesBack(t *testing.T) {
	b := newBus(t)
	dir := t.TempDir()
	t.Setenv("THE_TOKEN", "hunter2-secret")
	hold := filepath.Join(dir, "hold") // while it is there, the server does not come back
	cfg := stdio("std", "standard", "NOTES", filepath.Join(dir, "notes"), "TOKEN", "${THE_TOKEN}", "HOLD", hold)
	cfg.ConnectTimeout = time.Minute
	h, _ := b.host(Config{Servers: []ServerConfig{cfg, stdio("other", "standard")}})
	before := b.awaitState(h, "std", subjects.StateReady)
	other := b.awaitState(h, "other", subjects.StateReady)
	working := b.ask("other", b.request(h, "other", "mcp__other__sleep", `{"ms":1500}`))
	long := b.ask("std", b.request(h, "std", "mcp__std__sleep", `{"ms":60000}`))
	for len(notes(filepath.Join(dir, "notes"))) == 0 {
		<-time.After(time.Millisecond)
	}
	stale := b.request(h, "std", "mcp__std__say", `{"text":"x"}`)
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.call(h, "std", "mcp__std__crash", `{}`), subjects.CodeOutcomeUnknown, "may have taken effect", "exit status 3")
	wantCode(t, long.reply(), subjects.CodeOutcomeUnknown, "may have taken effect")

	reg := b.awaitState(h, "std", subjects.StateUnavailable)
	if !strings.Contains(reg.Reason, "exit status 3") || !strings.Contains(reg.Reason, "the reactor melted") {
		t.Errorf("reason: %q", reg.Reason)
	}
	if strings.Contains(reg.Reason, "hunter2") || !strings.Contains(reg.Reason, "***") {
		t.Errorf("the reason tells a secret: %q", reg.Reason)
	}
	if reg.ToolCount != 12 || reg.DefinitionsSHA256 != before.DefinitionsSHA256 || reg.Since != before.Since {
		t.Errorf("the last known definitions must stand: %+v", reg)
	}
	data, err := json.Marshal(stale)
	if err != nil {
		t.Fatal(err)
	}
	// Work that comes before the outage is known everywhere is refused; then
	// nobody is there to take it.
	for until := time.Now().Add(20 * time.Second); ; {
		m, err := b.nc.Request(subjects.Space{}.ExecRun("t1", "mcp-std"), data, 20*time.Second)
		if errors.Is(err, nats.ErrNoResponders) {
			break
		}
		if err != nil || !strings.Contains(string(m.Data), string(subjects.CodeExecutorUnavailable)) || time.Now().After(until) {
			t.Fatalf("an unavailable toolset still takes work: %+v, %v", m, err)
		}
	}

	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	b.awaitState(h, "std", subjects.StateReady)
	wantResult(t, b.call(h, "std", "mcp__std__say", `{"text":"back"}`), `"back"`)
	wantResult(t, working.reply(), `"slept"`)
	if now := b.awaitState(h, "other", subjects.StateReady); now.Since != other.Since {
		t.Error("the other server noticed")
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	b := newBus(t)
	hang := stdio("hang", "hang-initialize")
	hang.ConnectTimeout = 3 * time.Second
	secret := stdio("secret", "standard", "TOKEN", "${NO_SUCH_TOKEN}")
	h, _ := b.host(Config{Servers: []ServerConfig{
		stdio("exit", "exit"), hang, secret,
		{Name: "missing", Command: CommandLine{"/no/such/program"}},
		{Name: "refused", URL: "http://127.0.0.1:1/mcp"},
	}})
	for server, want := range map[string]string{
		"exit":    "left-pad",
		"hang":    "no answer to initialize within 3s; its last words: waiting for a licence server",
		"secret":  "the environment variable NO_SUCH_TOKEN is not set",
		"missing": "no such file or directory",
		"refused": "connection refused",
	} {
		reg := b.awaitState(h, server, subjects.StateUnavailable)
		if !strings.Contains(reg.Reason, want) || len(reg.Reason) > maxReason {
			t.Errorf("%s: reason %q, want %q", server, reg.Reason, want)
		}
	}
	if reg := b.awaitState(h, "exit", subjects.StateUnavailable); !strings.Contains(reg.Reason, "exit status 1") {
		t.Errorf("exit: %q", reg.Reason)
	}
}
