package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaries are built once, into a folder that TestMain removes.
var binaries struct {
	dir string
	mu  sync.Mutex
}

func TestMain(m *testing.M) {
	if mcpMain() {
		return
	}
	dir, err := os.MkdirTemp("", "toolbridge-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// sources of the programs: the folder to build in, and the package.
var sources = map[string][2]string{
	"toolbridge":  {root, "./cmd/toolbridge"},
	"gateway":     {root, "./test/gateway"},
	"nats-server": {".", "github.com/nats-io/nats-server/v2"},
	"collector":   {"collector", "."},
}

// build builds a program and returns its path. Where TOOLBRIDGE_DEPLOY_BIN names a
// folder that has it, it is taken from there.
func build(t *testing.T, name string) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if given := filepath.Join(os.Getenv("TOOLBRIDGE_DEPLOY_BIN"), name); filepath.IsAbs(given) {
		if _, err := os.Stat(given); err == nil {
			return given
		}
	}
	path := filepath.Join(binaries.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	source := sources[name]
	cmd := exec.Command("go", "build", "-o", path, source[1])
	cmd.Dir = source[0]
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
	return path
}
