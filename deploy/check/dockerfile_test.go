package check

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func stages(t *testing.T, dockerfile []byte) ([]instructions.Stage, []string) {
	t.Helper()
	tree, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		t.Fatalf("the Dockerfile: %v", err)
	}
	var warnings []string
	for _, w := range tree.Warnings {
		warnings = append(warnings, w.Short)
	}
	l := linter.New(&linter.Config{ExperimentalAll: true, Warn: func(rule, _, _, message string, _ []parser.Range) {
		warnings = append(warnings, rule+": "+message)
	}})
	all, _, err := instructions.Parse(tree.AST, l)
	if err != nil {
		t.Fatalf("the Dockerfile: %v", err)
	}
	return all, warnings
}

func TestTheDockerfileIsBuildKitsWithoutAWarning(t *testing.T) {
	all, warnings := stages(t, read(t, "../Dockerfile"))
	for _, w := range warnings {
		t.Error(w)
	}
	last := all[len(all)-1]
	if !strings.Contains(last.BaseName, "distroless/static") {
		t.Errorf("the image is made from %s, not from distroless/static", last.BaseName)
	}
	for _, s := range all[1:] {
		user, entry := "", false
		for _, c := range s.Commands {
			switch c := c.(type) {
			case *instructions.UserCommand:
				user = c.User
			case *instructions.EntrypointCommand:
				entry = len(c.CmdLine) > 0 && !c.PrependShell
			case *instructions.RunCommand:
				t.Errorf("stage from %s runs a command, and the image has no shell", s.BaseName)
			case *instructions.CopyCommand:
				if c.From != "" && !slices.ContainsFunc(all, func(o instructions.Stage) bool { return o.Name == c.From }) {
					t.Errorf("COPY --from=%s: there is no such stage", c.From)
				}
			}
		}
		if user == "" || user == "root" || strings.HasPrefix(user, "0") {
			t.Errorf("stage from %s runs as %q", s.BaseName, user)
		}
		if !entry {
			t.Errorf("stage from %s has no entry point without a shell", s.BaseName)
		}
	}
}

func TestTheBuildInTheDockerfileIsStaticAndFindsItsSources(t *testing.T) {
	all, _ := stages(t, read(t, "../Dockerfile"))
	var run string
	for _, c := range all[0].Commands {
		switch c := c.(type) {
		case *instructions.RunCommand:
			run += strings.Join(c.CmdLine, " ") + "\n"
		case *instructions.CopyCommand:
			for _, path := range c.SourcePaths {
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("COPY %s: %v", path, err)
				}
			}
		}
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "./cmd/toolbridge", "-X main.release=", "-X main.commit=", "-X main.date="} {
		if !strings.Contains(run, want) {
			t.Errorf("the build has no %s:\n%s", want, run)
		}
	}
	for line := range strings.Lines(string(read(t, "../Dockerfile.dockerignore"))) {
		if dir := strings.TrimSpace(line); dir == "cmd" || dir == "LICENSE" || dir == "go.mod" {
			t.Errorf("%s is kept out of the build, which needs it", dir)
		}
	}
}
