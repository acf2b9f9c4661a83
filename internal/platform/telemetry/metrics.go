package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

// Metrics are the service's own, in base units; no label has unbounded values. Their names are part of the interface.
type Metrics struct {
	Registry *prometheus.Registry

	Messages         *prometheus.CounterVec   // topic, outcome
	Charges          *prometheus.CounterVec   // outcome
	MessageDuration  *prometheus.HistogramVec // topic: from poll to durable fate
	ProviderDuration *prometheus.HistogramVec // code
	RetryLateness    *prometheus.HistogramVec // topic: start of the attempt less its due time
	Lost             *prometheus.CounterVec   // topic: records deleted by retention before they were handled
	Inflight         *prometheus.GaugeVec     // topic
	Hold             *prometheus.GaugeVec     // reason
	Breaker          *prometheus.GaugeVec     // state
}

// NewMetrics registers them in a registry of their own, beside Go's and the process's.
func NewMetrics(version, commit string) *Metrics {
	r := prometheus.NewRegistry()
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		r.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		r.MustRegister(v)
		return v
	}
	m := &Metrics{
		Registry:         r,
		Messages:         counter("billing_messages_total", "Messages by topic and what became of them.", "topic", "outcome"),
		Charges:          counter("billing_charges_total", "Attempts to charge by the state they left the order in.", "outcome"),
		MessageDuration:  histogram("billing_message_duration_seconds", "From the first handling of a message to its durable fate.", durationBuckets, "topic"),
		ProviderDuration: histogram("billing_provider_request_duration_seconds", "Requests to the provider by status code.", durationBuckets, "code"),
		RetryLateness:    histogram("billing_retry_lateness_seconds", "Start of a retried attempt less its due time.", latenessBuckets, "topic"),
		Lost:             counter("billing_records_lost_total", "Records deleted by retention before they were handled; any is an incident.", "topic"),
		Inflight:         gauge("billing_inflight", "Messages being handled.", "topic"),
		Hold:             gauge("billing_hold", "1 while the line is held for the reason.", "reason"),
		Breaker:          gauge("billing_breaker_state", "1 for the state that the provider's breaker is in.", "state"),
	}
	build := gauge("billing_build_info", "Always 1; the labels tell the build.", "version", "commit")
	build.WithLabelValues(version, commit).Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

var (
	durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	latenessBuckets = []float64{0, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 300}
)

// Gauge is one value of a gauge that is read when it is scraped.
type Gauge struct {
	Labels []string
	Value  float64
}

// GaugeFunc registers a gauge whose values are read at each scrape.
func (m *Metrics) GaugeFunc(name, help string, labels []string, read func() []Gauge) {
	m.Registry.MustRegister(&gaugeFunc{prometheus.NewDesc(name, help, labels, nil), read})
}

type gaugeFunc struct {
	desc *prometheus.Desc
	read func() []Gauge
}

func (g *gaugeFunc) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

func (g *gaugeFunc) Collect(ch chan<- prometheus.Metric) {
	for _, v := range g.read() {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v.Value, v.Labels...)
	}
}

// MessageCount reads billing_messages_total.
func (m *Metrics) MessageCount(topic, outcome string) float64 {
	var v dto.Metric
	if err := m.Messages.WithLabelValues(topic, outcome).Write(&v); err != nil {
		return 0 // a counter always writes
	}
	return v.GetCounter().GetValue()
}
