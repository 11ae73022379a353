// Package setup makes the OpenTelemetry SDK of a process: exporters, resource,
// sampling, the Prometheus endpoint's content.
//
// It follows OpenTelemetry's environment variables: OTEL_SDK_DISABLED,
// OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_EXPORTER and
// OTEL_METRICS_EXPORTER (lists of otlp, console, none; metrics also prometheus),
// OTEL_EXPORTER_OTLP_* with PROTOCOL http/protobuf (the default) or grpc,
// OTEL_TRACES_SAMPLER(_ARG), and those of the SDK's batching and limits
// (OTEL_BSP_*, OTEL_SPAN_*, OTEL_METRIC_EXPORT_*). They win over Config.
// OTEL_PROPAGATORS has no effect: the bus contract names the headers.
//
// Unlike OpenTelemetry's default, nothing is exported while neither an exporter nor
// an endpoint is named: then there is no SDK, and Tracer and Metrics are nil.
package setup
