package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// dashboard is the part of Grafana's form that is checked here.
type dashboard struct {
	file          string
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	SchemaVersion int      `json:"schemaVersion"`
	Panels        []panel  `json:"panels"`
	Templating    struct {
		List []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Datasource  datasource `json:"datasource"`
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		RefID      string     `json:"refId"`
		Datasource datasource `json:"datasource"`
		Expr       string     `json:"expr"`
		Query      string     `json:"query"`
	} `json:"targets"`
}

type datasource struct{ Type, UID string }

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob("../grafana/dashboards/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	var all []dashboard
	for _, f := range files {
		d := dashboard{file: filepath.Base(f)}
		if err := json.Unmarshal(read(t, f), &d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all = append(all, d)
	}
	return all
}

// query is one expression of a panel or an alert.
type query struct{ where, expr string }

// filled puts values in place of Grafana's variables, as it does before it asks.
func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$instance", ".*").Replace(expr)
}

func panelQueries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				if p.Datasource.Type == "prometheus" {
					all = append(all, query{fmt.Sprintf("%s, %q, %s", d.file, p.Title, target.RefID), filled(target.Expr)})
				}
			}
		}
	}
	return all
}

func TestDashboardsAreWhole(t *testing.T) {
	uids := map[string]string{}
	for _, d := range dashboards(t) {
		where := d.file
		if other := uids[d.UID]; other != "" || d.UID == "" {
			t.Errorf("%s: uid %q is that of %q too", where, d.UID, other)
		}
		uids[d.UID] = where
		if d.Title == "" || d.Description == "" || d.SchemaVersion < 36 || !slices.Contains(d.Tags, "toolbridge") {
			t.Errorf("%s: title, description, tag or schema version is missing", where)
		}
		sources := map[string]string{}
		for _, v := range d.Templating.List {
			if v.Type == "datasource" {
				sources["${"+v.Name+"}"] = v.Name
			}
		}
		if len(sources) == 0 {
			t.Errorf("%s: no variable for the data source", where)
		}
		ids := map[int]bool{}
		var places []panel
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: panel id %d twice", where, p.ID)
			}
			ids[p.ID] = true
			if p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %q stands outside the grid", where, p.Title)
			}
			for _, o := range places {
				a, b := p.GridPos, o.GridPos
				if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Errorf("%s: %q covers %q", where, p.Title, o.Title)
				}
			}
			places = append(places, p)
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: %q has no title, description or unit", where, p.Title)
			}
			if len(p.Targets) == 0 {
				t.Errorf("%s: %q asks nothing", where, p.Title)
			}
			for _, target := range p.Targets {
				if sources[target.Datasource.UID] == "" || target.Datasource != p.Datasource {
					t.Errorf("%s: %q has the fixed data source %q", where, p.Title, target.Datasource.UID)
				}
				if p.Datasource.Type == "tempo" && !strings.HasPrefix(target.Query, "{") {
					t.Errorf("%s: %q: query %q", where, p.Title, target.Query)
				}
			}
		}
	}
}

// rules are the alerts of a Prometheus rule file.
func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	if err := yaml.UnmarshalStrict(read(t, "../prometheus/alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func TestAlertsHaveARunbookThatSaysWhatToDo(t *testing.T) {
	names, used := map[string]bool{}, map[string]bool{}
	for _, a := range alerts(t) {
		if names[a.Alert] {
			t.Errorf("%s twice", a.Alert)
		}
		names[a.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: no summary or description", a.Alert)
		}
		book := a.Annotations["runbook_url"]
		used[filepath.Base(book)] = true
		text, err := os.ReadFile(filepath.Join(root, book))
		if err != nil {
			t.Errorf("%s: its runbook: %v", a.Alert, err)
			continue
		}
		for _, part := range []string{a.Alert, "\n## What it means\n", "\n## How to see it\n", "\n## What to do\n", "\n```sh\n"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: %s has no %q", a.Alert, book, part)
			}
		}
	}
	books, err := filepath.Glob(root + "/docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range books {
		if name := filepath.Base(b); !used[name] && name != "README.md" {
			t.Errorf("no alert leads to docs/runbooks/%s", name)
		}
	}
}

// documented are the metrics of docs/telemetry.md, with their labels.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `(toolbridge_[a-z_]+)` \\| [^|]*\\| ([^|]*)\\| [^|]*\\| ([^|]*)\\|")
	code := regexp.MustCompile("`([a-z_]+)`")
	metrics := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(read(t, root+"/docs/telemetry.md")), -1) {
		var names []string
		for _, l := range code.FindAllStringSubmatch(m[3], -1) {
			names = append(names, l[1])
		}
		if strings.HasPrefix(m[2], "histogram") {
			for _, s := range []string{"_bucket", "_sum", "_count"} {
				metrics[m[1]+s] = append(slices.Clone(names), "le")
			}
			continue
		}
		metrics[m[1]] = names
	}
	if len(metrics) < 30 {
		t.Fatalf("only %d metrics are documented", len(metrics))
	}
	return metrics
}

// selectors are the metrics that an expression reads.
func selectors(t *testing.T, q query) []*parser.VectorSelector {
	t.Helper()
	e, err := parser.ParseExpr(q.expr)
	if err != nil {
		t.Errorf("%s: %v\n%s", q.where, err, q.expr)
		return nil
	}
	var all []*parser.VectorSelector
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			all = append(all, s)
		}
		return nil
	})
	return all
}

func allQueries(t *testing.T) []query {
	t.Helper()
	all := panelQueries(t)
	for _, a := range alerts(t) {
		all = append(all, query{"alert " + a.Alert, a.Expr})
	}
	return append(all, scalingQueries(t)...)
}

// scalingQueries are those of the autoscalers: KEDA's, and the adapter's for the
// HorizontalPodAutoscaler.
func scalingQueries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, o := range render(t, chartDir+"/ci/keda.yaml") {
		if o.gvk.Kind != "ScaledObject" {
			continue
		}
		var so struct {
			Spec struct {
				Triggers []struct{ Metadata map[string]string }
			}
		}
		if err := yaml.Unmarshal([]byte(o.body), &so); err != nil {
			t.Fatal(err)
		}
		all = append(all, query{"KEDA", so.Spec.Triggers[0].Metadata["query"]})
	}
	var adapter struct {
		Rules struct {
			External []struct{ SeriesQuery, MetricsQuery string }
		}
	}
	if err := yaml.Unmarshal(read(t, "../prometheus/adapter.yaml"), &adapter); err != nil {
		t.Fatal(err)
	}
	for _, r := range adapter.Rules.External {
		all = append(all, query{"adapter, series", r.SeriesQuery}, query{"adapter", strings.NewReplacer(
			"<<.Series>>", "toolbridge_queue_depth", "<<.LabelMatchers>>", `namespace="toolbridge"`).Replace(r.MetricsQuery)})
	}
	if len(all) != 3 {
		t.Fatalf("%d queries of autoscalers, 3 are expected", len(all))
	}
	return all
}

// Whatever is asked is written down in docs/telemetry.md, with the labels it is
// asked by.
func TestQueriesReadDocumentedMetrics(t *testing.T) {
	known := documented(t)
	process := regexp.MustCompile(`^(go_|process_|up$|target_info$)`)
	always := []string{labels.MetricName, "instance", "job", "namespace"}
	seen := map[string]bool{}
	for _, q := range allQueries(t) {
		for _, s := range selectors(t, q) {
			if process.MatchString(s.Name) {
				continue
			}
			allowed, ok := known[s.Name]
			if !ok {
				t.Errorf("%s asks for %s, which is not documented", q.where, s.Name)
				continue
			}
			seen[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(s.Name, "_bucket"), "_sum"), "_count")] = true
			for _, m := range s.LabelMatchers {
				if !slices.Contains(allowed, m.Name) && !slices.Contains(always, m.Name) {
					t.Errorf("%s: %s has no label %s", q.where, s.Name, m.Name)
				}
			}
		}
	}
	for name := range known {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !seen[name] {
			t.Errorf("no panel and no alert shows %s", name)
		}
	}
}

func TestPrometheusTakesItsConfigurationAndRules(t *testing.T) {
	promtool := program(t, "promtool", "prometheus")
	runs(t, promtool, "check", "config", "../prometheus/prometheus.yml")
	runs(t, promtool, "check", "rules", "../prometheus/alerts.yaml")
}
