package e2e

import (
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestNothingOfToolbridgeIsImported(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		checked++
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); path == "toolbridge" || strings.HasPrefix(path, "toolbridge/") {
				t.Errorf("%s imports %s: these tests share no code with the program", f.Name(), path)
			}
		}
	}
	if checked < 5 {
		t.Errorf("only %d files were checked", checked)
	}
}
