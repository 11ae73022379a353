package mcp

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

// manage sends a worker's request to one host.
func (b *bus) manage(h *Host, action subjects.MCPAction, server string) (subjects.MCPReply, *subjects.Error) {
	b.t.Helper()
	return b.manageOn(subjects.Space{}.MCPManage("t1", h.Executor()), action, server)
}

func (b *bus) manageOn(subject string, action subjects.MCPAction, server string) (r subjects.MCPReply, e *subjects.Error) {
	b.t.Helper()
	body, err := subjects.Encode(subjects.MCPRequest{Action: action, Server: server, User: "ann"})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	msg, err := b.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{subjects.HeaderKind: {subjects.KindExec}}})
	if err != nil {
		b.t.Fatalf("%s %s: %v", action, server, err)
	}
	if e := subjects.ErrorFromReply(msg.Header, msg.Data); e != nil {
		return r, e
	}
	if err := subjects.Decode(msg.Data, &r); err != nil {
		b.t.Fatal(err)
	}
	return r, nil
}

// untilReady asks for a server's status until it is ready.
func (b *bus) untilReady(h *Host, server string) subjects.ManagedMCP {
	b.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		r, e := b.manage(h, subjects.MCPStatus, server)
		if e == nil && len(r.Servers) == 1 && r.Servers[0].State == subjects.StateReady {
			return r.Servers[0]
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not get ready: %+v, %v", server, r, e)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (b *bus) chosen() jetstream.KeyValue {
	b.t.Helper()
	js, err := jetstream.New(b.nc)
	if err != nil {
		b.t.Fatal(err)
	}
	kv, err := state.OpenServers(b.t.Context(), js, state.Config{})
	if err != nil {
		b.t.Fatal(err)
	}
	return kv
}

func TestAServerOfTheCatalogRunsOnceItIsInstalledAndAgainAfterARestart(t *testing.T) {
	b := newBus(t)
	ran := filepath.Join(t.TempDir(), "ran")
	never := ServerConfig{Name: "never", Command: CommandLine{"touch", ran}}
	cfg := Config{
		Servers: []ServerConfig{stdio("one", "standard")},
		Catalog: []Offer{{Server: stdio("Linear", "standard"), Description: "Issues\nand projects"}, {Server: never}},
		Chosen:  b.chosen(),
	}
	h, _ := b.host(cfg)
	list, e := b.manageOn(subjects.Space{}.MCPList("t1"), subjects.MCPList, "")
	if e != nil || len(list.Servers) != 3 || list.Executor != h.Executor() {
		t.Fatalf("list: %+v, %v", list, e)
	}
	if s := list.Servers[1]; s.State != subjects.ServerOffered || s.Description != "Issues and projects" {
		t.Errorf("the offer is shown as %+v", s)
	}
	if _, _, found := b.registration(h, "Linear"); found {
		t.Error("a server of the catalog is registered before it is installed")
	}
	if r, e := b.manage(h, subjects.MCPEnable, "linear"); e == nil {
		t.Errorf("a server that is not installed was enabled: %+v", r)
	}
	if r, e := b.manage(h, subjects.MCPInstall, "linear"); e != nil || len(r.Servers) != 1 {
		t.Fatalf("install: %+v, %v", r, e)
	}
	if s := b.untilReady(h, "linear"); len(s.Tools) == 0 || s.Tools[0].Name == "" {
		t.Errorf("an installed server shows no tools: %+v", s)
	}
	b.awaitState(h, "Linear", subjects.StateReady)
	if r, e := b.manage(h, subjects.MCPInstall, "linear"); e != nil || r.Servers[0].State != subjects.StateReady {
		t.Errorf("installing it again: %+v, %v", r, e)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := h.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	again, _ := b.host(cfg)
	b.awaitState(again, "Linear", subjects.StateReady)
	if _, err := os.Stat(ran); err == nil {
		t.Error("a server that nobody installed was run")
	}
}

func TestOnlyNamesOfTheOperatorsFilesAreRun(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Catalog: []Offer{{Server: stdio("linear", "standard")}}})
	for _, name := range []string{"other", "", "linear --flag", "../linear", "sh -c true"} {
		for _, action := range []subjects.MCPAction{subjects.MCPInstall, subjects.MCPEnable, subjects.MCPAuthorize, subjects.MCPStatus} {
			if r, e := b.manage(h, action, name); e == nil && len(r.Servers) > 0 {
				t.Errorf("%s of %q: %+v", action, name, r)
			}
		}
	}
	if r, e := b.manage(h, "uninstall", "linear"); e == nil {
		t.Errorf("an unknown action was taken: %+v", r)
	}
	if n := len(h.Status()); n != 0 {
		t.Errorf("%d servers run", n)
	}
}

func TestADisabledServerIsConnectedOnceItIsEnabled(t *testing.T) {
	b := newBus(t)
	off := stdio("off", "standard")
	off.Disabled = true
	h, _ := b.host(Config{Servers: []ServerConfig{off}})
	if r, e := b.manage(h, subjects.MCPStatus, "off"); e != nil || r.Servers[0].State != subjects.ServerDisabled {
		t.Fatalf("status: %+v, %v", r, e)
	}
	if _, e := b.manage(h, subjects.MCPAuthorize, "off"); e == nil {
		t.Error("a server that does not run was authorized")
	}
	if _, e := b.manage(h, subjects.MCPEnable, "off"); e != nil {
		t.Fatal(e)
	}
	b.untilReady(h, "off")
}

func TestAuthorizeConnectsAtOnceWhatIsNotConnected(t *testing.T) {
	b := newBus(t)
	gate := filepath.Join(t.TempDir(), "gate")
	late := ServerConfig{Name: "late", Command: CommandLine{"sh", "-c", `test -e "$GATE" && exec "$0"`, os.Args[0]}, Env: map[string]string{"GATE": gate, actAs: "standard"}, ConnectTimeout: 20 * time.Second, TerminateGrace: 300 * time.Millisecond}
	h, _ := b.host(Config{Servers: []ServerConfig{late}, Backoff: time.Hour, MaxBackoff: time.Hour})
	b.awaitState(h, "late", subjects.StateUnavailable)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, e := b.manage(h, subjects.MCPAuthorize, "late"); e != nil || r.Servers[0].State != subjects.StateConnecting {
		t.Fatalf("authorize: %+v, %v", r, e)
	}
	b.untilReady(h, "late")
	if r, e := b.manage(h, subjects.MCPAuthorize, "late"); e != nil || r.Servers[0].State != subjects.StateReady {
		t.Errorf("authorize of a server that answers: %+v, %v", r, e)
	}
}
