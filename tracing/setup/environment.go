package setup

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Names of exporters.
const (
	exportNone       = "none"
	exportOTLP       = "otlp"
	exportConsole    = "console"
	exportPrometheus = "prometheus"
)

// The protocols of OTLP.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// environment is what the variables say.
type environment struct {
	lookup func(string) (string, bool)
}

// first is the first of the variables that is set and not empty.
func (e environment) first(names ...string) string {
	for _, n := range names {
		if v, ok := e.lookup(n); ok && strings.TrimSpace(v) != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// plan is what is to be made.
type plan struct {
	disabled   bool
	traces     []string // exporters
	metrics    []string // of these, all but prometheus
	prometheus bool
	listen     string
}

func (e environment) plan(cfg Config) (p plan, err error) {
	p.prometheus = cfg.Prometheus
	if strings.EqualFold(e.first("OTEL_SDK_DISABLED"), "true") {
		p.disabled = true
		return p, nil
	}
	common := e.first("OTEL_EXPORTER_OTLP_ENDPOINT")
	usual := func(own string) []string {
		if common != "" || e.first(own) != "" || cfg.Endpoint != "" {
			return []string{exportOTLP}
		}
		return nil
	}
	if p.traces, err = e.exporters("OTEL_TRACES_EXPORTER", usual("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), exportOTLP, exportConsole); err != nil {
		return p, err
	}
	names, err := e.exporters("OTEL_METRICS_EXPORTER", usual("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"), exportOTLP, exportConsole, exportPrometheus)
	if err != nil {
		return p, err
	}
	for _, n := range names {
		if n != exportPrometheus {
			p.metrics = append(p.metrics, n)
			continue
		}
		host, port := e.first("OTEL_EXPORTER_PROMETHEUS_HOST"), e.first("OTEL_EXPORTER_PROMETHEUS_PORT")
		if host == "" {
			host = "localhost"
		}
		if port == "" {
			port = "9464"
		}
		p.prometheus, p.listen = true, net.JoinHostPort(host, port)
	}
	return p, nil
}

// exporters reads a list of exporters.
func (e environment) exporters(name string, usual []string, known ...string) ([]string, error) {
	value := e.first(name)
	if value == "" {
		return usual, nil
	}
	var out []string
next:
	for _, n := range list(value) {
		if n == "logging" { // the console's old name
			n = exportConsole
		}
		if n == exportNone {
			continue
		}
		for _, k := range known {
			if n == k {
				out = append(out, n)
				continue next
			}
		}
		return nil, fmt.Errorf("%s: %q is not known: %s or none", name, n, strings.Join(known, ", "))
	}
	return out, nil
}

// protocol of one signal.
func (e environment) protocol(signal string, cfg Config) (string, error) {
	p := e.first("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if p == "" {
		p = cfg.Protocol
	}
	switch p {
	case "", protocolHTTP:
		return protocolHTTP, nil
	case protocolGRPC:
		return protocolGRPC, nil
	}
	return "", fmt.Errorf("OTLP protocol %q is not known: %s or %s", p, protocolHTTP, protocolGRPC)
}

// endpoint is the configuration's, where the environment names none; path is where
// the signal is taken over HTTP.
func (e environment) endpoint(signal, path string, cfg Config) (string, error) {
	if cfg.Endpoint == "" || e.first("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
		return "", nil
	}
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("endpoint %q: an address that begins with http:// or https:// is expected", cfg.Endpoint)
	}
	return u.JoinPath(path).String(), nil
}

func (e environment) spanExporter(ctx context.Context, name string, cfg Config) (sdktrace.SpanExporter, error) {
	if name == exportConsole {
		return stdouttrace.New(stdouttrace.WithWriter(os.Stderr))
	}
	const signal = "TRACES"
	protocol, err := e.protocol(signal, cfg)
	if err != nil {
		return nil, err
	}
	if protocol == protocolGRPC {
		endpoint, err := e.endpoint(signal, "", cfg)
		if err != nil {
			return nil, err
		}
		var options []otlptracegrpc.Option
		if endpoint != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(endpoint))
		}
		return otlptracegrpc.New(ctx, options...)
	}
	endpoint, err := e.endpoint(signal, "/v1/traces", cfg)
	if err != nil {
		return nil, err
	}
	var options []otlptracehttp.Option
	if endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(endpoint))
	}
	return otlptracehttp.New(ctx, options...)
}

func (e environment) metricExporter(ctx context.Context, name string, cfg Config) (sdkmetric.Exporter, error) {
	if name == exportConsole {
		return stdoutmetric.New(stdoutmetric.WithWriter(os.Stderr))
	}
	const signal = "METRICS"
	protocol, err := e.protocol(signal, cfg)
	if err != nil {
		return nil, err
	}
	if protocol == protocolGRPC {
		endpoint, err := e.endpoint(signal, "", cfg)
		if err != nil {
			return nil, err
		}
		var options []otlpmetricgrpc.Option
		if endpoint != "" {
			options = append(options, otlpmetricgrpc.WithEndpointURL(endpoint))
		}
		return otlpmetricgrpc.New(ctx, options...)
	}
	endpoint, err := e.endpoint(signal, "/v1/metrics", cfg)
	if err != nil {
		return nil, err
	}
	var options []otlpmetrichttp.Option
	if endpoint != "" {
		options = append(options, otlpmetrichttp.WithEndpointURL(endpoint))
	}
	return otlpmetrichttp.New(ctx, options...)
}

// complaints tells the log of exports that fail; the same one once a minute.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last string
	at   time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err.Error() == c.last && time.Since(c.at) < time.Minute {
		return
	}
	c.last, c.at = err.Error(), time.Now()
	c.log.Warn("telemetry", "error", err)
}
