package check

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// The collector itself reads the file; nothing is started.
func TestTheCollectorTakesItsConfiguration(t *testing.T) {
	binary := build(t, "collector")
	t.Setenv("TRACES_ENDPOINT", "127.0.0.1:4317")
	runs(t, binary, "validate", "--config=../collector.yaml")
	wrong := t.TempDir() + "/collector.yaml"
	text := regexp.MustCompile(`check_interval`).ReplaceAll(read(t, "../collector.yaml"), []byte("check_intervall"))
	if err := os.WriteFile(wrong, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "validate", "--config="+wrong).CombinedOutput(); err == nil {
		t.Errorf("a misspelt key was taken: %s", out)
	}
}
