package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var at = time.Unix(1_800_000_000, 0).UTC()

func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "toolbridge-1.2.3")
	for name, mode := range map[string]os.FileMode{"toolbridge": 0o755, "LICENSE": 0o600, "deploy/nats/server.conf": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestArchivesOfEqualFilesAreEqual(t *testing.T) {
	for _, name := range []string{"a.tar.gz", "a.tgz", "a.zip"} {
		var one, two bytes.Buffer
		if err := archive(&one, name, folder(t), at); err != nil {
			t.Fatal(err)
		}
		if err := archive(&two, name, folder(t), at); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("%s: the same files gave other bytes", name)
		}
	}
}

func TestArchivesHoldTheFilesBelowOneFolder(t *testing.T) {
	want := []string{"toolbridge-1.2.3/LICENSE 644", "toolbridge-1.2.3/deploy/nats/server.conf 644", "toolbridge-1.2.3/toolbridge 755"}
	var packed bytes.Buffer
	if err := archive(&packed, "a.tar.gz", folder(t), at); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(at) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s: time %s, owner %d %q", h.Name, h.ModTime, h.Uid, h.Uname)
		}
		got = append(got, h.Name+" "+map[int64]string{0o644: "644", 0o755: "755"}[h.Mode])
	}
	if !slices.Equal(got, want) {
		t.Errorf("tar: %v, want %v", got, want)
	}
	packed.Reset()
	if err := archive(&packed, "a.zip", folder(t), at); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, f := range r.File {
		got = append(got, f.Name+" "+map[os.FileMode]string{0o644: "644", 0o755: "755"}[f.Mode().Perm()])
	}
	if !slices.Equal(got, want) {
		t.Errorf("zip: %v, want %v", got, want)
	}
}

// This test's own program is one that the Go linker made.
func TestTheListNamesEveryModuleOfTheProgram(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := sbom(&out, program, "1.2.3", "../../docs/dependencies.md", at); err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(out.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Spec != "1.6" || b.Metadata.Component.Version != "1.2.3" || b.Metadata.Timestamp != "2027-01-15T08:00:00Z" {
		t.Errorf("head: %+v", b)
	}
	if !strings.HasPrefix(b.Serial, "urn:uuid:") || len(b.Serial) != len("urn:uuid:")+36 {
		t.Errorf("serial number %q", b.Serial)
	}
	if !slices.ContainsFunc(b.Components, func(c component) bool { return c.Name == "std" }) {
		t.Error("the standard library is missing")
	}
	if len(b.Dependencies) != 1 || len(b.Dependencies[0].DependsOn) != len(b.Components) {
		t.Errorf("dependencies: %+v", b.Dependencies)
	}
}

func TestLicencesAreReadFromThePageOfDependencies(t *testing.T) {
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	known := licencesOf(string(page))
	for module, want := range map[string]string{
		"github.com/nats-io/nats.go":               "Apache-2.0",
		"golang.org/x/text":                        "BSD-3-Clause",
		"github.com/modelcontextprotocol/go-sdk":   "Apache-2.0 AND MIT",
		"pgregory.net/rapid":                       "MPL-2.0",
		"github.com/santhosh-tekuri/jsonschema/v5": "Apache-2.0",
		"github.com/go-json-experiment/json":       "BSD-3-Clause",
		"github.com/nats-io/nats-server/v2":        "Apache-2.0",
		"github.com/example/that-does-not-exist":   "",
	} {
		if known[module] != want {
			t.Errorf("%s: licence %q, want %q", module, known[module], want)
		}
	}
}

func TestSumsAreThoseOfTheFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"toolbridge-1.tgz", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("abc"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "SHA256SUMS")
	if err := sums(out, dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  toolbridge-1.tgz\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWrongUsageIsToldAndLeavesNoFile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x")
	for _, args := range [][]string{nil, {"pack"}, {"archive"}, {"sbom", "-out", out, "/nowhere"}, {"pack", "-out", out, "y"}} {
		if err := run(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was left behind")
	}
}
