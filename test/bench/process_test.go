//go:build unix

package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// roleVariable names the part that a process of the test binary plays; unset in the
// one that runs the benchmarks.
const roleVariable = "TOOLBRIDGE_BENCH_ROLE"

func TestMain(m *testing.M) {
	role, ok := map[string]func() error{"server": runServer, "service": runService, "gateway": runGateway}[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, os.Getenv(roleVariable)+":", err)
		os.Exit(1)
	}
}

// announce tells the parent that the process is ready, and waits until the parent
// closes its end or dies.
func announce(what string) {
	fmt.Println("ready", what)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// start runs the test binary in a role until the benchmark ends, and returns what
// it announced.
func start(b testing.TB, role string, env ...string) (announced string, process *os.Process) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return run(b, exec.Command(self), append(env, roleVariable+"="+role)...)
}

func run(b testing.TB, cmd *exec.Cmd, env ...string) (announced string, process *os.Process) {
	b.Helper()
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatalf("starting %s: %v", cmd.Path, err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			b.Errorf("%s ended with %v", strings.Join(cmd.Args, " "), err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("%s was not ready: %v", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimPrefix(strings.TrimSpace(line), "ready "), cmd.Process
}
