//go:build unix

package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolbridge/subjects"
)

func TestStopLeavesNoProcessOfTheGroup(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "pid")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("family", "family", "PIDFILE", file)}})
	b.awaitState(h, "family", subjects.StateReady)
	child := readPID(t, file)
	ctx, cancel := contextFor(t, 5*time.Second)
	defer cancel()
	if err := h.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, child)
}

func TestACrashTakesTheWholeGroup(t *testing.T) {
	b := newBus(t)
	file := filepath.Join(t.TempDir(), "pid")
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("family", "family", "PIDFILE", file)}})
	b.awaitState(h, "family", subjects.StateReady)
	child := readPID(t, file)
	group, err := syscall.Getpgid(child)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(group, syscall.SIGKILL); err != nil { // the leader only
		t.Fatal(err)
	}
	awaitGone(t, child)
	b.await(h, "family", "a new process", func(r subjects.Registration) bool {
		return r.State == subjects.StateReady && readPID(t, file) != child
	})
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for range 2000 {
		if !running(pid) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}

// running tells a process from a zombie that nobody has waited for: the test
// may run without an init that reaps.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	return !strings.Contains(string(stat), ") Z ")
}

func TestAServerInheritsNoSecretsOfTheHost(t *testing.T) {
	t.Setenv("HOST_SECRET", "do not pass on")
	t.Setenv("PASSED", "pass on")
	b := newBus(t)
	cfg := stdio("std", "standard", "OWN", "v")
	cfg.EnvFrom = []string{"PASSED"}
	h, _ := b.host(Config{Servers: []ServerConfig{cfg}})
	var got []string
	if err := json.Unmarshal(b.call(h, "std", "mcp__std__env", `{}`).Result, &got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"OWN=v", "PASSED=pass on", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(got, want) {
			t.Errorf("lacks %s: %v", want, got)
		}
	}
	if strings.Contains(strings.Join(got, " "), "HOST_SECRET") {
		t.Errorf("has the host's secret: %v", got)
	}
}
