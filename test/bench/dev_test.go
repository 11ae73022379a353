//go:build unix

package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkDevStart is toolbridge dev without MCP servers from its start to its
// ready line, on a new store each time; to be at most 1 s.
func BenchmarkDevStart(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "toolbridge")
	if out, err := exec.Command("go", "build", "-o", binary, "toolbridge/cmd/toolbridge").CombinedOutput(); err != nil {
		b.Fatalf("building the binary: %v\n%s", err, out)
	}
	var starts []time.Duration
	for b.Loop() {
		cmd := exec.Command(binary, "dev", "--nats-port", "0", "--store", b.TempDir())
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 256)); err != nil {
			b.Fatalf("dev was not ready: %v", err)
		}
		starts = append(starts, time.Since(begin))
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			b.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatalf("dev ended with %v", err)
		}
	}
	b.ReportMetric(float64(median(starts))/1e6, "ready-p50-ms")
	b.ReportMetric(0, "ns/op")
}
