package tracing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics are Toolbridge's instruments. A nil *Metrics records nothing.
//
// The values of labels are given in the order of the instrument's labels. However
// many different values come, few series are made: a label takes the first 200
// (tool) or 64 (any other) and calls the rest "other".
type Metrics struct {
	meter      metric.Meter
	counters   [len(counters)]metric.Int64Counter
	histograms [len(histograms)]metric.Float64Histogram
	gauges     [len(gauges)]metric.Int64ObservableGauge
	totals     [len(totals)]metric.Int64ObservableCounter

	bounds map[string]*bound // by label
	mu     sync.RWMutex
	series map[series]*options
}

// maxLabels is how many labels an instrument has at most.
const maxLabels = 3

type series struct {
	labels *string // the first of an instrument's labels, which names the instrument
	values [maxLabels]string
}

type options struct {
	set    attribute.Set
	add    []metric.AddOption
	record []metric.RecordOption
}

// NewMetrics makes the instruments; nil without a provider.
func NewMetrics(provider metric.MeterProvider, version string) (*Metrics, error) {
	if provider == nil {
		return nil, nil //nolint:nilnil // nil is a valid Metrics
	}
	m := &Metrics{
		meter:  provider.Meter(Scope, metric.WithInstrumentationVersion(version)),
		bounds: map[string]*bound{}, series: map[series]*options{},
	}
	fail := func(i instrument, err error) error { return fmt.Errorf("making instrument %s: %w", i.name, err) }
	var err error
	for n, i := range counters {
		if m.counters[n], err = m.meter.Int64Counter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.about)); err != nil {
			return nil, fail(i, err)
		}
	}
	for n, i := range histograms {
		if m.histograms[n], err = m.meter.Float64Histogram(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.about), metric.WithExplicitBucketBoundaries(i.buckets...)); err != nil {
			return nil, fail(i, err)
		}
	}
	for n, i := range gauges {
		if m.gauges[n], err = m.meter.Int64ObservableGauge(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.about)); err != nil {
			return nil, fail(i, err)
		}
	}
	for n, i := range totals {
		if m.totals[n], err = m.meter.Int64ObservableCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.about)); err != nil {
			return nil, fail(i, err)
		}
	}
	for _, table := range [][]instrument{counters[:], histograms[:], gauges[:], totals[:]} {
		for _, i := range table {
			for _, label := range i.labels {
				most := otherValues
				if label == "tool" {
					most = toolValues
				}
				m.bounds[label] = &bound{most: most}
			}
		}
	}
	return m, nil
}

// Count adds to a counter.
func (m *Metrics) Count(c Counter, n int64, values ...string) {
	if m == nil {
		return
	}
	i := &counters[c]
	if len(i.labels) == 0 {
		m.counters[c].Add(context.Background(), n)
		return
	}
	m.counters[c].Add(context.Background(), n, m.options(i, values).add...)
}

// Record adds a value to a histogram.
func (m *Metrics) Record(h Histogram, value float64, values ...string) {
	if m == nil {
		return
	}
	i := &histograms[h]
	if len(i.labels) == 0 {
		m.histograms[h].Record(context.Background(), value)
		return
	}
	m.histograms[h].Record(context.Background(), value, m.options(i, values).record...)
}

// Time adds a duration to a histogram of seconds.
func (m *Metrics) Time(h Histogram, d time.Duration, values ...string) {
	if m == nil {
		return
	}
	m.Record(h, d.Seconds(), values...)
}

// options returns what belongs to one series, made once.
func (m *Metrics) options(i *instrument, values []string) *options {
	s := series{labels: &i.labels[0]}
	for n := range min(len(values), len(i.labels)) {
		s.values[n] = m.bounds[i.labels[n]].value(values[n])
	}
	m.mu.RLock()
	o := m.series[s]
	m.mu.RUnlock()
	if o != nil {
		return o
	}
	list := make([]attribute.KeyValue, 0, maxLabels)
	for n := range min(len(values), len(i.labels)) {
		list = append(list, attribute.String(i.labels[n], s.values[n]))
	}
	set := attribute.NewSet(list...)
	o = &options{set: set, add: []metric.AddOption{metric.WithAttributeSet(set)}, record: []metric.RecordOption{metric.WithAttributeSet(set)}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series[s] = o
	return o
}

// Readings takes what gauges and totals show.
type Readings struct {
	m *Metrics
	o metric.Observer
}

// Gauge sets a gauge.
func (r Readings) Gauge(g Gauge, value int64, values ...string) {
	r.o.ObserveInt64(r.m.gauges[g], value, r.m.observe(&gauges[g], values)...)
}

// Total sets a total.
func (r Readings) Total(t Total, value int64, values ...string) {
	r.o.ObserveInt64(r.m.totals[t], value, r.m.observe(&totals[t], values)...)
}

func (m *Metrics) observe(i *instrument, values []string) []metric.ObserveOption {
	if len(i.labels) == 0 {
		return nil
	}
	return []metric.ObserveOption{metric.WithAttributeSet(m.options(i, values).set)}
}

// Watch has read called whenever gauges are asked for, until stop is called. read
// must return soon and not ask others.
func (m *Metrics) Watch(read func(Readings)) (stop func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	all := make([]metric.Observable, 0, len(m.gauges)+len(m.totals))
	for _, g := range m.gauges {
		all = append(all, g)
	}
	for _, t := range m.totals {
		all = append(all, t)
	}
	registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		read(Readings{m, o})
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("watching gauges: %w", err)
	}
	return func() { _ = registration.Unregister() }, nil
}
