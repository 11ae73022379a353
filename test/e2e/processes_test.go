//go:build unix

package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// descendant is the id of a process below the program whose command line holds the
// words; 0 when there is none.
func (p *program) descendant(t *testing.T, words string) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "pid=,ppid=,args=").Output()
	if err != nil {
		t.Fatalf("ps: %v", err)
	}
	below := map[int]bool{p.cmd.Process.Pid: true}
	for range 8 { // as deep as a tree may be that is not sorted
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) < 3 {
				continue
			}
			pid, _ := strconv.Atoi(f[0])
			parent, _ := strconv.Atoi(f[1])
			if !below[parent] {
				continue
			}
			if strings.Contains(line, words) {
				return pid
			}
			below[pid] = true
		}
	}
	return 0
}
