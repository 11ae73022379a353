package tracing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The page that operators, dashboards and alerts go by lists what there is.

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheMetricsOfThePageAreTheInstruments(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `(toolbridge_[a-z_]+)` \\| `(toolbridge[a-z_.]+)` \\| (counter|histogram|gauge)[^|]* \\|[^|]*\\| *([^|]*?) *\\|")
	type line struct{ prometheus, kind, labels string }
	listed := map[string]line{}
	for _, m := range row.FindAllStringSubmatch(page(t), -1) {
		if _, twice := listed[m[2]]; twice {
			t.Errorf("%s stands there twice", m[2])
		}
		listed[m[2]] = line{m[1], m[3], strings.NewReplacer("`", "", " ", "").Replace(m[4])}
	}
	known := 0
	for kind, tables := range map[string][][]instrument{"counter": {counters[:], totals[:]}, "histogram": {histograms[:]}, "gauge": {gauges[:]}} {
		for _, table := range tables {
			for _, i := range table {
				known++
				if i.name == "" {
					t.Errorf("a %s has no name", kind)
					continue
				}
				want := line{prometheusName(i, kind), kind, strings.Join(i.labels, ",")}
				if got := listed[i.name]; got != want {
					t.Errorf("%s: the page says %+v, want %+v", i.name, got, want)
				}
			}
		}
	}
	if len(listed) != known {
		t.Errorf("the page lists %d, there are %d", len(listed), known)
	}
}

// prometheusName is the name by Prometheus' rules; the exporter's own rendering is
// tested with the set-up.
func prometheusName(i instrument, kind string) string {
	name := strings.ReplaceAll(i.name, ".", "_")
	for unit, word := range map[string]string{"s": "_seconds", "By": "_bytes"} {
		if i.unit == unit && !strings.HasSuffix(name, word) {
			name += word
		}
	}
	if kind == "counter" {
		name += "_total"
	}
	return name
}

func TestTheAttributesOfThePageAreOurs(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, _ := strconv.Unquote(lit.Value); strings.HasPrefix(s, "toolbridge.") {
				ours = append(ours, s)
			}
		}
		return true
	})
	_, traces, _ := strings.Cut(page(t), "## Traces")
	var listed []string
	for _, l := range strings.Split(traces, "\n") {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(l, "| "), " |"); ok && strings.HasPrefix(l, "| `toolbridge.") {
			for _, name := range strings.Split(cell, ", ") {
				listed = append(listed, strings.Trim(name, "`"))
			}
		}
	}
	slices.Sort(ours)
	slices.Sort(listed)
	if !slices.Equal(ours, listed) {
		t.Errorf("in the program: %v\non the page:    %v", ours, listed)
	}
}
