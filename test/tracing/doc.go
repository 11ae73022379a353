// Package tracing runs real programs and a real OpenTelemetry Collector: a batch
// with an approval, whose worker is killed in between, must come out as one
// connected trace. The collector takes minutes to build, so that it runs with
// TOOLBRIDGE_LONG=1 only; TOOLBRIDGE_COLLECTOR names one that is built already.
package tracing
