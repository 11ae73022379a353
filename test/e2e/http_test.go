//go:build unix

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
)

func TestAServerBehindStreamableHTTPIsHosted(t *testing.T) {
	command := server(t, "everything", "streamableHttp")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	serve := func() *exec.Cmd {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", address.Port))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		eventually(t, "the server listens", func() bool {
			c, err := net.Dial("tcp", address.String())
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
		return cmd
	}
	first := serve()
	p := run(t, nil, "dev", "--nats-port", "0", "--store", t.TempDir(), "--mcp", fmt.Sprintf("web=http://127.0.0.1:%d/mcp", address.Port))
	a := newAgent(t, p.ready(), "default")
	v := a.assemble()
	ref := v["catalog"].(string)
	if got := encode(v["deferred_count"]); got != "13" {
		t.Errorf("%s tools: %s", got, encode(v["warnings"]))
	}
	if got := a.result(ref, "mcp__web__echo", `{"message":"over HTTP"}`); got != "Echo: over HTTP" {
		t.Errorf("call = %v", got)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	eventually(t, "the outage shows", func() bool { return a.call(ref, "mcp__web__echo", `{"message":"x"}`)["is_error"] == true })
	serve()
	eventually(t, "the server is callable again", func() bool { return a.call(ref, "mcp__web__echo", `{"message":"x"}`)["is_error"] == false })
}
