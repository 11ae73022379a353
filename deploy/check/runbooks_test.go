package check

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// blocks are the shell blocks of a page.
var blocks = regexp.MustCompile("(?ms)^```sh[^\n]*\n(.*?)^```$")

// Commands on the pages exist, with the flags that they are given: each is asked
// for its help.
func TestCommandsInTheRunbooksExist(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/runbooks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no runbooks: %v", err)
	}
	binaries := map[string]string{"toolbridge": build(t, "toolbridge")}
	if path, err := exec.LookPath("nats"); err == nil {
		binaries["nats"] = path
	} else {
		t.Log("nats is missing: its commands are not looked at")
	}
	checked := 0
	for _, page := range pages {
		for _, block := range blocks.FindAllStringSubmatch(string(read(t, page)), -1) {
			for line := range strings.Lines(block[1]) {
				command, _, _ := strings.Cut(strings.TrimSpace(line), " | ")
				words := split(command)
				if len(words) == 0 || binaries[words[0]] == "" {
					continue
				}
				checked++
				out, err := exec.Command(binaries[words[0]], append(words[1:], "--help")...).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %s: %v\n%s", filepath.Base(page), command, err, out)
					continue
				}
				for _, w := range words {
					flag, _, _ := strings.Cut(w, "=")
					if strings.HasPrefix(flag, "--") && !strings.Contains(strings.ReplaceAll(string(out), "[no-]", ""), flag) {
						t.Errorf("%s: %s: no flag %s", filepath.Base(page), command, flag)
					}
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no command was looked at")
	}
}

// split parts a command line at blanks outside of single quotes.
func split(command string) []string {
	var words []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}
