//go:build unix

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// installed is the folder with node_modules; installed once a run, and kept for
// later runs under the hash of the lock file.
var installed = sync.OnceValues(func() (string, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%s is not on the PATH: install Node.js 20 or later", program)
		}
	}
	lock, err := os.ReadFile("testdata/package-lock.json")
	if err != nil {
		return "", err
	}
	root := os.Getenv("TOOLBRIDGE_E2E_NPM")
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		root = filepath.Join(cache, "toolbridge-e2e")
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(root, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, install(root, dir)
})

// install makes the folder whole or not at all.
func install(root, dir string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(root, "installing-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if err := os.Rename(work, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil { // else another run was first
			return err
		}
	}
	return nil
}

// modules is the folder with node_modules, or the reason for a skip.
func modules(t *testing.T) string {
	t.Helper()
	dir, err := installed()
	if err != nil {
		missingf(t, "the MCP servers from the npm registry can not be had: %v", err)
	}
	return dir
}

// server is the command line of one of the MCP servers.
func server(t *testing.T, name string, args ...string) []string {
	t.Helper()
	return append([]string{"node", filepath.Join(modules(t), "node_modules/@modelcontextprotocol/server-"+name+"/dist/index.js")}, args...)
}
