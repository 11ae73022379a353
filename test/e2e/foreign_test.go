//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nuid"
)

// output runs a foreign program and returns its standard output.
func output(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func testNode(t *testing.T, d *development) {
	out := output(t, []string{"MODULES=" + modules(t)}, "node", "testdata/agent.mjs", d.url, "s-"+nuid.Next())
	v := decode(t, []byte(out))
	if !strings.Contains(encode(at(v, "search", "result", "results", 0)), "mcp__everything__get-sum") {
		t.Errorf("search = %s", encode(v["search"]))
	}
	if got, _ := at(v, "call", "result").(string); !strings.Contains(got, "42") || at(v, "call", "is_error") != false {
		t.Errorf("call = %s", encode(v["call"]))
	}
}

func TestStockNATSCommandLineSeesAndDrivesTheService(t *testing.T) {
	nats, err := exec.LookPath("nats")
	if err != nil {
		t.Skip("skipped: the NATS command line is not on the PATH: go install github.com/nats-io/natscli/nats@v0.5.0")
	}
	url := run(t, nil, "dev", "--nats-port", "0", "--store", t.TempDir()).ready()
	info := output(t, nil, nats, "-s", url, "micro", "info", "toolbridge")
	for _, want := range []string{"assemble", "bridge", "preflight", "workers", "toolbridge.v1.*.*.assemble", "toolbridge.v1.*.*.bridge"} {
		if !strings.Contains(info, want) {
			t.Errorf("nats micro info does not show %s:\n%s", want, info)
		}
	}
	for _, verb := range []string{"ls", "stats"} {
		args := []string{"-s", url, "micro", verb}
		if verb == "stats" {
			args = append(args, "toolbridge")
		}
		if shown := output(t, nil, nats, args...); !strings.Contains(shown, "toolbridge") && !strings.Contains(shown, "assemble") {
			t.Errorf("nats micro %s:\n%s", verb, shown)
		}
	}
	session := "s-" + nuid.Next()
	ask := func(verb, body string) map[string]any {
		return decode(t, []byte(output(t, nil, nats, "-s", url, "req", "--raw", "--timeout", "30s", "toolbridge.v1.default."+session+"."+verb, body)))
	}
	assembled := ask("assemble", `{"tools":[{"name":"mcp__mail__send","description":"Send an email.","inputSchema":{"type":"object"}}],"config":{"enabled":true}}`)
	if encode(assembled["deferred_count"]) != "1" || len(assembled["tools"].([]any)) != 3 {
		t.Errorf("assembled: %s", encode(assembled))
	}
	ref, _ := assembled["catalog"].(string)
	search := ask("bridge", `{"id":"c1","name":"tool_search","arguments":{"queries":["send email"]},"catalog":"`+ref+`"}`)
	if got := encode(at(search, "result", "results", 0, "matches")); got != `["mcp__mail__send"]` {
		t.Errorf("search = %s", encode(search))
	}
}

func testVerbs(t *testing.T, d *development) {
	verb := func(args ...string) string { return output(t, nil, binary, append(args, "--nats", d.url)...) }
	assembled := decode(t, []byte(verb("assemble", "--json")))
	if assembled["catalog"] == nil {
		t.Errorf("assemble --json = %s", encode(assembled))
	}
	if got := verb("search", "echo a message"); !strings.Contains(got, "mcp__everything__echo") {
		t.Errorf("search = %s", got)
	}
	if got := verb("describe", "mcp__everything__echo"); !strings.Contains(got, "message") {
		t.Errorf("describe = %s", got)
	}
	if got := verb("call", "mcp__everything__echo", `{"message":"hello"}`); !strings.Contains(got, "Echo: hello") {
		t.Errorf("call = %s", got)
	}
	var reply map[string]any
	if err := json.Unmarshal([]byte(verb("call", "mcp__everything__echo", `{"message":"hello"}`, "--json")), &reply); err != nil || reply["result"] != "Echo: hello" {
		t.Errorf("call --json = %v (%v)", reply, err)
	}
	for args, want := range map[string]int{"call mcp__everything__echo {}": 1, "call": 2, "nonsense": 2} {
		cmd := exec.CommandContext(t.Context(), binary, append(strings.Fields(args), "--nats", d.url)...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("toolbridge %s exits with %d, want %d", args, got, want)
		}
	}
}
