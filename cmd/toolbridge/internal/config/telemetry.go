package config

import (
	"net"
	"strconv"
)

// Telemetry is the section telemetry. OpenTelemetry's environment variables win
// over Endpoint and Protocol, flags over Metrics and LogLevel.
type Telemetry struct {
	Endpoint string // of an OTLP receiver; "" for none
	Protocol string // http/protobuf (default) or grpc
	Trace    string // continue (default) the caller's trace, or link: own traces with a link to it
	Content  bool   // arguments and results as attributes, redacted and cut
	Metrics  string // address of the HTTP server for metrics and probes; "" for none
	LogLevel string // debug, info, warn or error; "" is the program's default
}

func (t *Telemetry) read(r *reader, n *node, key string) {
	r.mapping(n, key, []field{
		{"endpoint", func(n *node, key string) { r.url(n, key, &t.Endpoint, "http", "https") }},
		{"protocol", func(n *node, key string) { r.choice(n, key, &t.Protocol, "http/protobuf", "grpc") }},
		{"trace", func(n *node, key string) { r.choice(n, key, &t.Trace, "continue", "link") }},
		{"content", func(n *node, key string) { r.boolean(n, key, &t.Content) }},
		{"metrics", func(n *node, key string) {
			var s string
			before := len(r.problems)
			if r.text(n, key, &s); len(r.problems) > before {
				return
			}
			if _, port, err := net.SplitHostPort(s); err != nil || !portNumber(port) {
				r.reportf(n.line, n.column, key, "an address HOST:PORT is expected, such as 127.0.0.1:9464 or :9464")
				return
			}
			t.Metrics = s
		}},
		{"log_level", func(n *node, key string) { r.choice(n, key, &t.LogLevel, "debug", "info", "warn", "error") }},
	})
}

func portNumber(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n <= 65535
}
