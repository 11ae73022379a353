//go:build unix

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// binary is the built program.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("e2e: skipped: -short")
		return
	}
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "toolbridge-e2e-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary = filepath.Join(dir, "toolbridge")
	args := []string{"build", "-o", binary}
	if raceDetector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "toolbridge/cmd/toolbridge")...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("building the binary: %w\n%s", err, out)
	}
	if code = m.Run(); code == 0 {
		err = goleak.Find()
	}
	return code, err
}

// missingf skips a test for what the machine lacks, or fails it where that is
// required.
func missingf(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("TOOLBRIDGE_E2E") == "require" {
		t.Fatalf("TOOLBRIDGE_E2E=require: "+format, args...)
	}
	t.Skipf("skipped: "+format, args...)
}
