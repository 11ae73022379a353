package check

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// TestTheNewcomersPathRuns runs the services of the compose file that are ours, and
// NATS, as processes with the commands, environments and files that stand there,
// then every command of docs/operate.md that is marked for it.
func TestTheNewcomersPathRuns(t *testing.T) {
	if os.Getenv("TOOLBRIDGE_LONG") == "" {
		t.Skip("fetches an MCP server and runs four processes; TOOLBRIDGE_LONG=1 runs it")
	}
	program(t, "npx", "npm")
	natsTool := program(t, "nats", "of github.com/nats-io/natscli")
	const password = "a1b2c3d4"
	p, err := composed(t, "TOOLBRIDGE_PASSWORD="+password)
	if err != nil {
		t.Fatal(err)
	}
	c := &composition{net: newNetwork(t), dir: t.TempDir(), binary: build(t, "toolbridge")}
	c.run(t, p.Services["nats"], build(t, "nats-server"), ipNATS, func(s string) string {
		return strings.NewReplacer("\nport: 4222", "\nlisten: \""+c.net.host(ipNATS)+":4222\"", "\nhttp_port: 8222", "\nhttp: \""+c.net.host(ipNATS)+":8222\"").Replace(s)
	})
	c.await(t, "NATS", "http://"+c.net.host(ipNATS)+":8222/healthz")
	for i := range *p.Services["worker"].Deploy.Replicas {
		c.run(t, p.Services["worker"], c.binary, ipWorker+i, unchanged)
	}
	c.await(t, "a worker", "http://"+c.net.host(ipWorker)+":9464/readyz")
	c.run(t, p.Services["mcp-host"], c.binary, ipHost, unchanged)
	c.await(t, "the MCP host", "http://"+c.net.host(ipHost)+":9464/readyz")
	await(t, "the demonstration server", 3*time.Minute, func(ctx context.Context) error {
		return get(ctx, "http://"+c.net.host(ipHost)+":9464/metrics", `toolbridge_mcp_servers\{[^}]*state="ready"[^}]*\} 1`)
	})
	page := string(read(t, root+"/docs/operate.md"))
	marked := regexp.MustCompile("(?ms)^```sh ci\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	if len(marked) < 3 {
		t.Fatalf("%d blocks of docs/operate.md are marked", len(marked))
	}
	for i, block := range marked {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(block[1], "127.0.0.1:4222", c.net.host(ipNATS)+":4222"))
		cmd.Env = []string{
			"TOOLBRIDGE_PASSWORD=" + password, "HOME=" + c.dir,
			"PATH=" + filepath.Dir(c.binary) + ":" + filepath.Dir(natsTool) + ":" + os.Getenv("PATH"),
		}
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("block %d of docs/operate.md: %v\n%s\n%s", i+1, err, block[1], out)
		}
		t.Logf("%s\n%s", block[1], out)
	}
}

func unchanged(s string) string { return s }

// composition is a compose file as processes.
type composition struct {
	net    network
	dir    string
	binary string
}

// run starts one container of a service. Changed are places of files, addresses,
// and names of services.
func (c *composition) run(t *testing.T, s types.ServiceConfig, binary string, ip int, edit func(string) string) {
	t.Helper()
	own := filepath.Join(c.dir, fmt.Sprintf("%s-%d", s.Name, ip))
	var places []string
	for _, v := range s.Volumes {
		place := filepath.Join(own, v.Target)
		places = append(places, v.Target, place)
		if v.Type == types.VolumeTypeBind {
			copyAll(t, v.Source, place, edit)
		} else if err := os.MkdirAll(place, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	where := strings.NewReplacer(append(places, "@nats:", "@"+c.net.host(ipNATS)+":", "=:9464", "="+c.net.host(ip)+":9464")...)
	var args []string
	for _, a := range s.Command {
		args = append(args, where.Replace(a))
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")} // of the image
	for name, value := range s.Environment {
		if value != nil && name != "OTEL_EXPORTER_OTLP_ENDPOINT" {
			env = append(env, name+"="+where.Replace(*value))
		}
	}
	start(t, fmt.Sprintf("%s-%d", s.Name, ip), binary, args, env)
}

// copyAll copies a file or the files of a folder.
func copyAll(t *testing.T, from, to string, edit func(string) string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if !info.IsDir() {
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(edit(string(read(t, from)))), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		copyAll(t, filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), edit)
	}
}

func (c *composition) await(t *testing.T, what, url string) {
	t.Helper()
	await(t, what, time.Minute, func(ctx context.Context) error { return get(ctx, url, "") })
}

// get wants status 200 and a body that matches.
func get(ctx context.Context, url, pattern string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || !regexp.MustCompile(pattern).Match(body) {
		return fmt.Errorf("%s: %s: %.300s", url, res.Status, body)
	}
	return nil
}
