package check

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

func composed(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithEnv(env), cli.WithConsistency(true), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(context.Background())
}

func TestTheComposeFileLoads(t *testing.T) {
	p, err := composed(t, "TOOLBRIDGE_PASSWORD=a1b2c3")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"collector", "grafana", "mcp-host", "nats", "prometheus", "tempo", "worker"}
	if got := p.ServiceNames(); !slices.Equal(got, want) {
		t.Errorf("services: %v, want %v", got, want)
	}
	if w := p.Services["worker"]; w.Deploy == nil || w.Deploy.Replicas == nil || *w.Deploy.Replicas != 2 {
		t.Error("there are not two workers")
	}
	targets, _ := stages(t, read(t, "../Dockerfile"))
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts %v", name, err)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to other machines", name, port.Published)
			}
		}
		if s.Build != nil {
			file := s.Build.Dockerfile
			if !filepath.IsAbs(file) {
				file = filepath.Join(s.Build.Context, file)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s is built from %v", name, err)
			}
			if s.Build.Target != "" && !slices.ContainsFunc(targets, func(st instructions.Stage) bool { return st.Name == s.Build.Target }) {
				t.Errorf("%s is built to %s, which is no stage of the Dockerfile", name, s.Build.Target)
			}
		} else if tag := s.Image[strings.LastIndex(s.Image, ":")+1:]; tag == "latest" || !strings.Contains(s.Image, ":") {
			t.Errorf("%s: image %s has no fixed version", name, s.Image)
		}
	}
}

func TestComposeSaysWhichVariableIsMissing(t *testing.T) {
	_, err := composed(t)
	if err == nil || !strings.Contains(err.Error(), "TOOLBRIDGE_PASSWORD") {
		t.Errorf("without a password: %v", err)
	}
}
