package guarantees

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	row    = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|$`)
	named  = regexp.MustCompile("`(\\w+)\\.(Test\\w+)`")
	test   = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	clause = regexp.MustCompile(`(?m)^package (\w+)`)
)

func TestEveryPromiseNamesTestsThatExist(t *testing.T) {
	have := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pkg := strings.TrimSuffix(clause.FindStringSubmatch(string(text))[1], "_test")
		for _, m := range test.FindAllStringSubmatch(string(text), -1) {
			have[pkg+"."+m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "GUARANTEES.md"))
	if err != nil {
		t.Fatal(err)
	}
	promises := 0
	for _, r := range row.FindAllStringSubmatch(string(text), -1) {
		if r[1] == "promise" || strings.HasPrefix(r[1], "---") {
			continue
		}
		promises++
		tests := named.FindAllStringSubmatch(r[2], -1)
		if len(tests) == 0 {
			t.Errorf("no test holds: %s", r[1])
		}
		for _, m := range tests {
			if name := m[1] + "." + m[2]; !have[name] {
				t.Errorf("%s does not exist, which holds: %s", name, r[1])
			}
		}
	}
	if promises < 20 {
		t.Errorf("only %d promises were read", promises)
	}
}
