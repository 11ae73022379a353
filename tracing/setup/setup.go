package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"toolbridge/tracing"
)

// Config is what a process tells about itself, and where to. The environment wins
// over it, see the package.
type Config struct {
	Service string // service.name; "" means toolbridge
	Version string
	Commit  string
	Role    string // worker, mcp_host, dev, …

	Endpoint string // of an OTLP receiver, e.g. http://collector:4318; "" for none
	Protocol string // http/protobuf ("") or grpc

	Link    bool // see tracing.Config
	Content bool

	Prometheus bool // Handler is wanted

	Lookup func(string) (string, bool) // of the environment; nil means os.LookupEnv
	Logger *slog.Logger                // of failing exports; nil means slog.Default
}

// Telemetry is what Start made. Its fields are nil where nothing is exported.
type Telemetry struct {
	Tracer  *tracing.Tracer
	Metrics *tracing.Metrics
	// Listen is the address of the Prometheus endpoint that the environment asks
	// for; "" for none.
	Listen string

	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
	handler http.Handler
	unwatch func()
}

// Start makes what the environment and cfg ask for. An error says what of it can
// not be done; nothing runs then.
func Start(ctx context.Context, cfg Config) (*Telemetry, error) {
	if cfg.Lookup == nil {
		cfg.Lookup = os.LookupEnv
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	e := environment{cfg.Lookup}
	t := &Telemetry{unwatch: func() {}}
	plan, err := e.plan(cfg)
	if err != nil {
		return nil, fmt.Errorf("setting telemetry up: %w", err)
	}
	t.Listen = plan.listen
	registry := prometheus.NewRegistry()
	if plan.prometheus {
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		t.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	}
	if plan.disabled || len(plan.traces) == 0 && len(plan.metrics) == 0 && !plan.prometheus {
		return t, nil
	}
	res, err := describe(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("setting telemetry up: %w", err)
	}
	otel.SetErrorHandler(&complaints{log: cfg.Logger})
	if err := t.startTraces(ctx, cfg, e, plan, res); err != nil {
		return nil, fmt.Errorf("setting traces up: %w", err)
	}
	if err := t.startMetrics(ctx, cfg, e, plan, res, registry); err != nil {
		return nil, fmt.Errorf("setting metrics up: %w", errors.Join(err, t.Stop(ctx)))
	}
	return t, nil
}

// maxScrapes is how many scrapes are answered at once.
const maxScrapes = 4

func (t *Telemetry) startTraces(ctx context.Context, cfg Config, e environment, plan plan, res *resource.Resource) error {
	if len(plan.traces) == 0 {
		return nil
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithIDGenerator(tracing.IDs{})}
	for _, name := range plan.traces {
		exporter, err := e.spanExporter(ctx, name, cfg)
		if err != nil {
			return fmt.Errorf("exporter %s: %w", name, err)
		}
		options = append(options, sdktrace.WithBatcher(exporter))
	}
	t.traces = sdktrace.NewTracerProvider(options...)
	t.Tracer = tracing.New(tracing.Config{Provider: t.traces, Link: cfg.Link, Content: cfg.Content, Version: cfg.Version})
	return nil
}

func (t *Telemetry) startMetrics(ctx context.Context, cfg Config, e environment, plan plan, res *resource.Resource, registry *prometheus.Registry) error {
	if len(plan.metrics) == 0 && !plan.prometheus {
		return nil
	}
	options := []sdkmetric.Option{
		sdkmetric.WithResource(res), sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter), sdkmetric.WithCardinalityLimit(maxSeries),
	}
	if plan.prometheus {
		reader, err := prometheusexporter.New(
			prometheusexporter.WithRegisterer(registry), prometheusexporter.WithoutScopeInfo(),
			prometheusexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
		if err != nil {
			return fmt.Errorf("exporter prometheus: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	for _, name := range plan.metrics {
		exporter, err := e.metricExporter(ctx, name, cfg)
		if err != nil {
			return fmt.Errorf("exporter %s: %w", name, err)
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	t.metrics = sdkmetric.NewMeterProvider(options...)
	var err error
	if t.Metrics, err = tracing.NewMetrics(t.metrics, cfg.Version); err != nil {
		return err
	}
	t.unwatch, err = t.Metrics.Watch(func(r tracing.Readings) {
		r.Gauge(tracing.BuildInfo, 1, cfg.Version, cfg.Commit, cfg.Role)
	})
	return err
}

// maxSeries is the SDK's own bound of an instrument's series: above what the
// labels' bounds let through, as a last line.
const maxSeries = 10_000

// describe is the resource. It names no schema: resources of different schemas do
// not merge.
func describe(ctx context.Context, cfg Config) (*resource.Resource, error) {
	name := cfg.Service
	if name == "" {
		name = "toolbridge"
	}
	host, _ := os.Hostname() // "" tells as much
	found, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", name),
		attribute.String("service.version", cfg.Version),
		attribute.String("host.name", host),
		attribute.Int("process.pid", os.Getpid()),
	), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("reading the resource: %w", err)
	}
	return resource.NewSchemaless(found.Attributes()...), nil
}

// Handler serves the metrics for Prometheus; nil when they are not wanted.
func (t *Telemetry) Handler() http.Handler { return t.handler }

// Flush exports what has been ended until now.
func (t *Telemetry) Flush(ctx context.Context) error {
	var errs []error
	if t.traces != nil {
		errs = append(errs, t.traces.ForceFlush(ctx))
	}
	if t.metrics != nil {
		errs = append(errs, t.metrics.ForceFlush(ctx))
	}
	return errors.Join(errs...)
}

// Stop exports the rest until ctx ends, and ends everything. It comes last, after
// all that is traced.
func (t *Telemetry) Stop(ctx context.Context) error {
	t.unwatch()
	var errs []error
	if t.traces != nil {
		errs = append(errs, t.traces.Shutdown(ctx))
	}
	if t.metrics != nil {
		errs = append(errs, t.metrics.Shutdown(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sending the last telemetry: %w", err)
	}
	return nil
}

func list(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.ToLower(strings.TrimSpace(part)); part != "" {
			out = append(out, part)
		}
	}
	return out
}
