package setup_test

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"toolbridge/tracing"
	"toolbridge/tracing/setup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environment sets variables for our own look-up and for the exporters', and clears
// what the machine may have set.
func environment(t *testing.T, pairs ...string) func(string) (string, bool) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		t.Setenv(pairs[i], pairs[i+1])
	}
	return os.LookupEnv
}

func start(t *testing.T, cfg setup.Config) *setup.Telemetry {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	telemetry, err := setup.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = telemetry.Stop(ctx) // what can not be sent is no fault of the test
	})
	return telemetry
}

func TestTheEnvironmentSaysWhatIsExported(t *testing.T) {
	const nowhere = "http://127.0.0.1:1"
	for name, c := range map[string]struct {
		env             []string
		cfg             setup.Config
		traces, metrics bool
		page            bool
		listen, fails   string
	}{
		"nothing":                   {},
		"an endpoint":               {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", nowhere}, traces: true, metrics: true},
		"the traces' endpoint only": {env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", nowhere}, traces: true},
		"the file's endpoint":       {cfg: setup.Config{Endpoint: nowhere}, traces: true, metrics: true},
		"named exporters":           {env: []string{"OTEL_TRACES_EXPORTER", "otlp"}, traces: true},
		"none wins over the file":   {env: []string{"OTEL_TRACES_EXPORTER", "none", "OTEL_METRICS_EXPORTER", "none"}, cfg: setup.Config{Endpoint: nowhere}},
		"disabled":                  {env: []string{"OTEL_SDK_DISABLED", "true", "OTEL_TRACES_EXPORTER", "otlp"}, cfg: setup.Config{Endpoint: nowhere}},
		"disabled, with the page":   {env: []string{"OTEL_SDK_DISABLED", "TRUE"}, cfg: setup.Config{Prometheus: true}, page: true},
		"the page":                  {cfg: setup.Config{Prometheus: true}, metrics: true, page: true},
		"the page by environment":   {env: []string{"OTEL_METRICS_EXPORTER", "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT", "9999"}, metrics: true, page: true, listen: "localhost:9999"},
		"over gRPC":                 {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", nowhere, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, traces: true, metrics: true},
		"an unknown exporter":       {env: []string{"OTEL_TRACES_EXPORTER", "zipkin"}, fails: "zipkin"},
		"an unknown protocol":       {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", nowhere, "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, fails: "http/json"},
		"no address":                {cfg: setup.Config{Endpoint: "collector:4317"}, fails: "http://"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Lookup = environment(t, c.env...)
			if c.fails != "" {
				if _, err := setup.Start(t.Context(), c.cfg); err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v, want one that names %s", err, c.fails)
				}
				return
			}
			got := start(t, c.cfg)
			if (got.Tracer != nil) != c.traces || (got.Metrics != nil) != c.metrics || (got.Handler() != nil) != c.page || got.Listen != c.listen {
				t.Errorf("traces %v, metrics %v, page %v, listen %q", got.Tracer != nil, got.Metrics != nil, got.Handler() != nil, got.Listen)
			}
		})
	}
}

// received is an OTLP receiver.
type received struct {
	collectortrace.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string]string // service.name by the spans' names
	paths []string
}

func (r *received) take(request *collectortrace.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range request.GetResourceSpans() {
		service := ""
		for _, kv := range rs.GetResource().GetAttributes() {
			if kv.GetKey() == "service.name" || kv.GetKey() == "deployment.environment.name" {
				service += kv.GetValue().GetStringValue() + " "
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				r.spans[s.GetName()] = service
			}
		}
	}
}

func (r *received) Export(_ context.Context, request *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	r.take(request)
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func (r *received) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var body io.Reader = q.Body
	if q.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(q.Body)
	}
	data, _ := io.ReadAll(body)
	var request collectortrace.ExportTraceServiceRequest
	r.mu.Lock()
	r.paths = append(r.paths, q.URL.Path+" "+q.Header.Get("X-Key"))
	r.mu.Unlock()
	if strings.HasSuffix(q.URL.Path, "/traces") && proto.Unmarshal(data, &request) == nil {
		r.take(&request)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func TestSpansReachAReceiverOverHTTPAndGRPC(t *testing.T) {
	for _, protocol := range []string{"", "http/protobuf", "grpc"} {
		for _, byFile := range []bool{false, true} {
			r := &received{spans: map[string]string{}}
			var address string
			if protocol == "grpc" {
				listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				server := grpc.NewServer()
				collectortrace.RegisterTraceServiceServer(server, r)
				go func() { _ = server.Serve(listener) }()
				t.Cleanup(server.Stop)
				address = "http://" + listener.Addr().String()
			} else {
				server := httptest.NewServer(r)
				t.Cleanup(server.Close)
				address = server.URL
			}
			pairs := []string{
				"OTEL_SERVICE_NAME", "my-worker", "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test", "OTEL_METRICS_EXPORTER", "none",
				"OTEL_EXPORTER_OTLP_HEADERS", "x-key=k1",
			}
			cfg := setup.Config{Service: "toolbridge-worker"}
			if byFile {
				cfg.Endpoint, cfg.Protocol = address, protocol
			} else {
				pairs = append(pairs, "OTEL_EXPORTER_OTLP_ENDPOINT", address, "OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			}
			cfg.Lookup = environment(t, pairs...)
			telemetry := start(t, cfg)
			_, span := telemetry.Tracer.Start(t.Context(), "hello", trace.SpanKindInternal)
			span.End()
			if err := telemetry.Flush(t.Context()); err != nil {
				t.Fatalf("%q: %v", protocol, err)
			}
			r.mu.Lock()
			if got := r.spans["hello"]; !strings.Contains(got, "my-worker") || !strings.Contains(got, "test") {
				t.Errorf("%q: spans %v", protocol, r.spans)
			}
			if protocol != "grpc" && (len(r.paths) == 0 || r.paths[0] != "/v1/traces k1") {
				t.Errorf("%q: paths %v", protocol, r.paths)
			}
			r.mu.Unlock()
		}
	}
}

func TestTheSamplerOfTheEnvironmentIsFollowed(t *testing.T) {
	for sampler, want := range map[string]bool{"always_off": false, "always_on": true, "parentbased_traceidratio": false, "": true} {
		lookup := environment(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1", "OTEL_TRACES_SAMPLER", sampler, "OTEL_TRACES_SAMPLER_ARG", "0")
		telemetry := start(t, setup.Config{Lookup: lookup})
		_, span := telemetry.Tracer.Start(t.Context(), "x", trace.SpanKindInternal)
		if span.Recording() != want || !span.Context().IsValid() {
			t.Errorf("%s: recording %v, %v", sampler, span.Recording(), span.Context())
		}
	}
}

// A receiver that is away holds nobody up and takes no more than its time at the
// end.
func TestAReceiverThatIsAwayCostsNothingButItsSpans(t *testing.T) {
	telemetry := start(t, setup.Config{Lookup: environment(t), Endpoint: "http://127.0.0.1:1"})
	began := time.Now()
	for range 5000 {
		_, span := telemetry.Tracer.Start(t.Context(), "x", trace.SpanKindInternal)
		span.End()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_ = telemetry.Stop(ctx)
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %s", d)
	}
}

// The names on the page are those of the table in docs/telemetry.md.
func TestThePageForPrometheusHasTheDocumentedNames(t *testing.T) {
	telemetry := start(t, setup.Config{Lookup: environment(t), Prometheus: true, Version: "1.2.3", Commit: "abc", Role: "worker"})
	m := telemetry.Metrics
	for c := tracing.Requests; c <= tracing.MCPCalls; c++ {
		m.Count(c, 1, "a", "b", "c")
	}
	for h := tracing.RequestDuration; h <= tracing.MCPCallDuration; h++ {
		m.Record(h, 1, "a", "b", "c")
	}
	stop, err := m.Watch(func(r tracing.Readings) {
		for g := tracing.RequestsInFlight; g <= tracing.NATSConnected; g++ {
			r.Gauge(g, 1, "a", "b", "c")
		}
		for n := tracing.NATSReconnects; n <= tracing.NATSBytes; n++ {
			r.Total(n, 1, "a", "b", "c")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	page := httptest.NewRecorder()
	telemetry.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	documented, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(toolbridge_[a-z_]+)` \\| `[^`]+` \\| (counter|histogram|gauge)").FindAllStringSubmatch(string(documented), -1) {
		listed[row[1]] = row[2]
	}
	served := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (toolbridge_\w+) (\w+)$`).FindAllStringSubmatch(page.Body.String(), -1) {
		served[line[1]] = line[2]
	}
	for name, kind := range listed {
		if served[name] != kind {
			t.Errorf("%s is documented as a %s and served as %q", name, kind, served[name])
		}
	}
	if len(listed) != len(served) || len(listed) < 50 {
		t.Errorf("%d are documented, %d served", len(listed), len(served))
	}
	for _, want := range []string{
		`toolbridge_build_info{commit="abc",role="worker",version="1.2.3"} 1`, `toolbridge_requests_total{code="b",operation="a"} 1`,
		`toolbridge_request_duration_seconds_bucket{operation="a",le="0.25"}`, "go_goroutines", "target_info{",
	} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page.Body.String(), "otel_scope") {
		t.Error("scope labels are on the page")
	}
}
