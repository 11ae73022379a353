package check

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// A release for this machine: its files, its program, and the same bytes again.
func TestAReleaseForThisMachineIsWholeAndReproducible(t *testing.T) {
	if os.Getenv("TOOLBRIDGE_LONG") == "" {
		t.Skip("builds the program twice; TOOLBRIDGE_LONG=1 runs it")
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	var sums []string
	var dir string
	for range 2 {
		dir = t.TempDir()
		cmd := exec.Command(root+"/deploy/release.sh", "9.8.7", dir)
		cmd.Env = append(os.Environ(), "RELEASE_PLATFORMS="+platform, "RELEASE_DIRTY=yes")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the release: %v\n%s", err, out)
		}
		sums = append(sums, string(read(t, filepath.Join(dir, "SHA256SUMS"))))
	}
	if sums[0] != sums[1] {
		t.Errorf("two releases of one commit differ:\n%s\n%s", sums[0], sums[1])
	}
	name := "toolbridge-9.8.7-" + runtime.GOOS + "-" + runtime.GOARCH
	for _, file := range []string{name + ".tar.gz", name + ".cdx.json", "toolbridge-9.8.7.tgz"} {
		if !strings.Contains(sums[0], "  "+file+"\n") {
			t.Errorf("%s is missing in\n%s", file, sums[0])
		}
	}
	unpack(t, filepath.Join(dir, name+".tar.gz"), dir)
	out, err := exec.Command(filepath.Join(dir, name, "toolbridge"), "--version").CombinedOutput()
	commit := regexp.MustCompile(`^toolbridge 9\.8\.7 \(commit [0-9a-f]{40}(-dirty)? of \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, go`)
	if err != nil || !commit.Match(out) {
		t.Errorf("--version: %v: %s", err, out)
	}
	list := string(read(t, filepath.Join(dir, name+".cdx.json")))
	for _, want := range []string{`"pkg:golang/github.com/nats-io/nats.go@v`, `"9.8.7"`, `"SHA-256"`} {
		if !strings.Contains(list, want) {
			t.Errorf("the list of modules has no %s", want)
		}
	}
	unpack(t, filepath.Join(dir, "toolbridge-9.8.7.tgz"), dir)
	if chart := string(read(t, filepath.Join(dir, "toolbridge", "Chart.yaml"))); !strings.Contains(chart, "\nversion: 9.8.7\nappVersion: 9.8.7\n") {
		t.Errorf("the chart's version:\n%s", chart)
	}
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		body, err := io.ReadAll(r)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, body, os.FileMode(h.Mode)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
