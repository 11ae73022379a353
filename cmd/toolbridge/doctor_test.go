package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolbridge/test/bus"
	"toolbridge/test/gateway/sim"
)

func TestTheDoctorLooksAtTheGatewayThatItIsTold(t *testing.T) {
	ns := bus.Server(t)
	s, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	origin, err := s.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tokens := write("tokens.json", `{"default":{"ada":"ada-token","eve":"stolen"}}`)
	file := write("toolbridge.yaml", fmt.Sprintf("bus: {url: %q}\ngateway: {url: %q, credentials: {file: %q}}\n", ns.ClientURL(), origin, tokens))
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"nothing named":  {[]string{"--nats", ns.ClientURL()}, []string{`"check":"gateway","status":"skipped"`}},
		"by the flag":    {[]string{"--nats", ns.ClientURL(), "--gateway", origin}, []string{`"check":"gateway","status":"ok"`, `"check":"gateway identity","status":"warning"`, "$TOOLBRIDGE_GATEWAY_TOKEN"}},
		"by the file":    {[]string{"--config", file, "--user", "ada"}, []string{`"check":"gateway","status":"ok"`, `"check":"gateway identity","status":"ok"`, "user ada", "tokens.json"}},
		"a user refused": {[]string{"--config", file, "--user", "eve"}, []string{`"check":"gateway","status":"ok"`, `"check":"gateway identity","status":"failed"`, "refuses the token of user eve"}},
		"flag over file": {[]string{"--config", file, "--gateway", "http://127.0.0.1:1"}, []string{`"check":"gateway"`, "127.0.0.1:1"}},
		"a lost gateway": {[]string{"--config", file, "--user", "ada", "--gateway", "http://127.0.0.1:1"}, []string{`"check":"gateway","status":"failed"`, "can not be reached"}},
	} {
		status, stdout, stderr := command(t, append([]string{"doctor", "--json", "--timeout", "500ms"}, c.args...)...)
		if status != 1 { // there is no worker
			t.Errorf("%s: status %d: %s", name, status, stderr)
		}
		for _, w := range c.want {
			if !strings.Contains(stdout, w) {
				t.Errorf("%s: %q is not in %s", name, w, stdout)
			}
		}
		if strings.Contains(stdout+stderr, "ada-token") || strings.Contains(stdout+stderr, "stolen") {
			t.Errorf("%s: a token is shown", name)
		}
	}
	for _, args := range [][]string{{"--gateway", "gateway.example"}, {"--user", "a b"}} {
		if status, _, stderr := command(t, append([]string{"doctor", "--nats", ns.ClientURL()}, args...)...); status != exitUsage || !strings.Contains(stderr, args[0]) {
			t.Errorf("%v: %d %s", args, status, stderr)
		}
	}
}
