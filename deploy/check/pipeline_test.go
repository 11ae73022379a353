package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// callSlots of a worker in the run.
const callSlots = 8

// TestThePipelineOnOneMachine runs three NATS servers, two workers and an MCP host
// as the chart renders them, a simulated gateway, the collector with the shipped
// configuration, and Prometheus with the shipped rules; it makes load, then asks every query of every
// panel and alert.
func TestThePipelineOnOneMachine(t *testing.T) {
	if os.Getenv("TOOLBRIDGE_LONG") == "" {
		t.Skip("runs nine processes for a minute; TOOLBRIDGE_LONG=1 runs it")
	}
	prometheus := program(t, "prometheus", "prometheus")
	collector := build(t, "collector")
	spans := newSink(t)
	net := newNetwork(t)
	hosted := startGateway(t, net.host(ipGateway)+":8080")
	values := map[string]any{
		"telemetry": map[string]any{"endpoint": "http://" + net.host(ipCollector) + ":4317", "samplerArg": "1.0"},
		"config": map[string]any{
			"bus": map[string]any{"call_slots": callSlots, "call_lease": "2s"},
			"approvals": map[string]any{"rules": []any{
				map[string]any{"match": "mcp__check__break", "action": "ask"},
				map[string]any{"match": "mcp__check__linger", "action": "ask"},
				map[string]any{"match": "*", "action": "allow"},
			}},
			"hooks": []any{map[string]any{"name": "budget", "match": "mcp__check__say", "phase": "pre"}},
		},
	}
	gatewayValues(values, hosted)
	in := installAt(t, net, 2, values)
	at := in.net.host(ipCollector)
	start(t, "collector", collector, []string{"--config=../collector.yaml"}, []string{
		"OTLP_GRPC=" + at + ":4317", "OTLP_HTTP=" + at + ":4318", "METRICS_HOST=" + at, "TRACES_ENDPOINT=" + spans.address,
	})
	p := startPrometheus(t, prometheus, in)
	load(t, in, hosted)
	p.seen(t, in)
	for _, q := range allQueries(t) {
		p.check(t, q)
	}
	p.rules(t)
	spans.check(t)
}

// prom is a running Prometheus.
type prom struct {
	url string
	all map[string]bool // metrics that it has
}

// startPrometheus runs it with the shipped configuration. Changed are where it
// looks, how often, and where it is.
func startPrometheus(t *testing.T, binary string, in *installation) *prom {
	t.Helper()
	var cfg map[string]any
	if err := yaml.Unmarshal(read(t, "../prometheus/prometheus.yml"), &cfg); err != nil {
		t.Fatal(err)
	}
	targets := []any{in.host.host + ":9464"}
	for _, w := range in.workers {
		targets = append(targets, w.host+":9464")
	}
	scrapes, ok := cfg["scrape_configs"].([]any)
	if !ok {
		t.Fatal("no scrape_configs")
	}
	for _, s := range scrapes {
		job, ok := s.(map[string]any)
		if !ok {
			t.Fatal("a scrape configuration is no object")
		}
		found := []any{in.net.host(ipCollector) + ":8888"}
		if job["job_name"] == "toolbridge" {
			found = targets
		}
		delete(job, "dns_sd_configs")
		job["static_configs"] = []any{map[string]any{"targets": found, "labels": map[string]any{"namespace": "toolbridge"}}}
	}
	cfg["global"] = map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"}
	body, err := yaml.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"prometheus.yml": body, "alerts.yaml": read(t, "../prometheus/alerts.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := in.net.host(ipPrometheus) + ":9090"
	start(t, "prometheus", binary, []string{
		"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + at, "--log.level=warn",
	}, []string{})
	p := &prom{url: "http://" + at}
	await(t, "Prometheus", 30*time.Second, func(ctx context.Context) error { return p.get(ctx, "/-/ready", nil, nil) })
	return p
}

func (p *prom) get(ctx context.Context, path string, args url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+args.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if into == nil {
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// values are those of an instant query's answer.
func (p *prom) values(ctx context.Context, expr string) ([]string, error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := p.get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	if data.ResultType == "scalar" {
		return []string{"scalar"}, nil
	}
	var series []struct{ Value []any }
	if err := json.Unmarshal(data.Result, &series); err != nil {
		return nil, err
	}
	var all []string
	for _, s := range series {
		all = append(all, fmt.Sprint(s.Value[1]))
	}
	return all, nil
}

// seen waits until Prometheus has what the processes say, then notes its metrics.
func (p *prom) seen(t *testing.T, in *installation) {
	t.Helper()
	await(t, "all targets", 30*time.Second, func(ctx context.Context) error {
		up, err := p.values(ctx, "up == 1")
		if want := len(in.workers) + 2; err == nil && len(up) != want {
			err = fmt.Errorf("%d targets are up, want %d", len(up), want)
		}
		return err
	})
	var names []string
	if err := p.get(t.Context(), "/api/v1/label/__name__/values", nil, &names); err != nil {
		t.Fatal(err)
	}
	p.all = map[string]bool{}
	for _, n := range names {
		p.all[n] = true
	}
}

// check asks a query: every metric in it exists with the labels it is asked by,
// and a panel's answer holds at least one number.
func (p *prom) check(t *testing.T, q query) {
	t.Helper()
	for _, s := range selectors(t, q) {
		if !p.all[s.Name] {
			t.Errorf("%s: Prometheus has no %s", q.where, s.Name)
			return
		}
		var has []string
		for _, m := range s.LabelMatchers {
			if m.Name != "__name__" {
				has = append(has, m.Name+`!=""`)
			}
		}
		if found, err := p.values(t.Context(), s.Name+"{"+strings.Join(has, ",")+"}"); err != nil || len(found) == 0 {
			t.Errorf("%s: no series of %s has the labels %v: %v", q.where, s.Name, has, err)
		}
	}
	found, err := p.values(t.Context(), q.expr)
	switch {
	case err != nil:
		t.Errorf("%s: %v\n%s", q.where, err, q.expr)
	case strings.HasPrefix(q.where, "alert "): // empty when all is well
	case len(found) == 0:
		t.Errorf("%s: nothing came back\n%s", q.where, q.expr)
	case strings.Count(strings.Join(found, " "), "NaN") == len(found):
		t.Errorf("%s: no number came back\n%s", q.where, q.expr)
	}
}

// rules wants every alert evaluated without an error, and none that says the fleet
// is gone.
func (p *prom) rules(t *testing.T) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	if err := p.get(t.Context(), "/api/v1/rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("%s: health %s: %s", r.Name, r.Health, r.LastError)
			}
			if r.Name == "ToolbridgeNoWorkers" && r.State != "inactive" {
				t.Errorf("%s is %s while workers run", r.Name, r.State)
			}
		}
	}
	if want := len(alerts(t)); n != want {
		t.Errorf("Prometheus has %d rules, want %d", n, want)
	}
}

// TestTheAutoscalerAsksForADocumentedMetric holds the chart and the adapter
// together.
func TestTheAutoscalerAsksForADocumentedMetric(t *testing.T) {
	var adapter struct {
		Rules struct {
			External []struct {
				SeriesQuery string
				Name        struct{ Matches, As string }
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "../prometheus/adapter.yaml"), &adapter); err != nil {
		t.Fatal(err)
	}
	for _, r := range adapter.Rules.External {
		if !regexp.MustCompile(r.Name.Matches).MatchString(r.Name.As) || documented(t)[r.Name.As] == nil {
			t.Errorf("the adapter's metric %q is not documented", r.Name.As)
		}
	}
}
