// Package metrics has the metrics of what the service does: requests that it
// answers, statements of its database, requests that it makes, and blobs that it
// keeps. Labels have few values: a route's pattern, a kind, an outcome, and never an
// id, a name or an address. A nil metric counts nothing. It owns no tables.
package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// Observe observes a value, with the context's trace as its exemplar if the trace is
// recorded.
func Observe(ctx context.Context, to prometheus.Observer, value float64) {
	if id := trace.SampledID(ctx); id != "" {
		if e, ok := to.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(value, prometheus.Labels{"trace_id": id})
			return
		}
	}
	to.Observe(value)
}

// Requests counts the requests that the service answers.
type Requests struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

// NewRequests returns the metrics of requests.
func NewRequests(registry prometheus.Registerer) *Requests {
	m := &Requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "whetstone_http_requests_total",
			Help: "Requests answered, by route and status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "whetstone_http_request_duration_seconds",
			Help:    "Time to answer, by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "whetstone_http_requests_in_flight",
			Help: "Requests that are being answered.",
		}),
	}
	registry.MustRegister(m.total, m.duration, m.inFlight)
	return m
}

// Began counts a request that arrived.
func (m *Requests) Began() { m.inFlight.Inc() }

// Ended counts an answer.
func (m *Requests) Ended(ctx context.Context, route string, status int, took time.Duration) {
	m.inFlight.Dec()
	m.total.WithLabelValues(route, strconv.Itoa(status)).Inc()
	Observe(ctx, m.duration.WithLabelValues(route), took.Seconds())
}

// Statements counts the statements of the database.
type Statements struct {
	duration prometheus.Histogram
	errors   prometheus.Counter
}

// NewStatements returns the metrics of statements.
func NewStatements(registry prometheus.Registerer) *Statements {
	m := &Statements{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "whetstone_database_statement_duration_seconds",
			Help:    "Time of a statement, until its last row is read.",
			Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "whetstone_database_statement_errors_total",
			Help: "Statements that failed, whose context ended included.",
		}),
	}
	registry.MustRegister(m.duration, m.errors)
	return m
}

// Ended counts a statement.
func (m *Statements) Ended(ctx context.Context, took time.Duration, failed bool) {
	if m == nil {
		return
	}
	Observe(ctx, m.duration, took.Seconds())
	if failed {
		m.errors.Inc()
	}
}

// Replica is the state of a replica of the database, and who reads from it.
type Replica struct {
	reads  *prometheus.CounterVec
	lag    prometheus.Gauge
	usable prometheus.Gauge
}

// NewReplica returns the metrics of a replica.
func NewReplica(registry prometheus.Registerer) *Replica {
	m := &Replica{
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "whetstone_database_replica_reads_total",
			Help: "Requests that may read from the replica, by the server that they read from; " +
				"retried ones read from the primary once more after an error.",
		}, []string{"from"}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "whetstone_database_replica_lag_seconds",
			Help: "How long the replica took to replay what the primary had committed, or since when it has not.",
		}),
		usable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "whetstone_database_replica_usable",
			Help: "1 if the replica is read from, 0 if it is away or too far behind.",
		}),
	}
	registry.MustRegister(m.reads, m.lag, m.usable)
	for _, from := range []string{"replica", "primary", "retried"} {
		m.reads.WithLabelValues(from)
	}
	return m
}

// Read counts a request.
func (m *Replica) Read(from string) {
	if m != nil {
		m.reads.WithLabelValues(from).Inc()
	}
}

// Lag sets how far the replica is behind.
func (m *Replica) Lag(behind time.Duration) {
	if m != nil {
		m.lag.Set(behind.Seconds())
	}
}

// Usable sets whether the replica is read from.
func (m *Replica) Usable(usable bool) {
	switch {
	case m == nil:
	case usable:
		m.usable.Set(1)
	default:
		m.usable.Set(0)
	}
}

// Outbound counts the requests that the service makes.
type Outbound struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewOutbound returns the metrics of outbound requests.
func NewOutbound(registry prometheus.Registerer) *Outbound {
	m := &Outbound{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "whetstone_outbound_requests_total",
			Help: "Requests made to others, by kind of server and outcome: the class of the status, or failed.",
		}, []string{"kind", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "whetstone_outbound_request_duration_seconds",
			Help:    "Time until the header of the answer, by kind of server.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 10, 30, 120},
		}, []string{"kind"}),
	}
	registry.MustRegister(m.total, m.duration)
	return m
}

// A Peer counts the requests to one kind of server.
type Peer struct {
	Kind     string
	outbound *Outbound
}

// To returns the metrics of the requests to a kind of server, e.g. "webhook". They
// are shown as 0 before the first one.
func (m *Outbound) To(kind string) *Peer {
	if m == nil {
		return nil
	}
	for _, outcome := range []string{"2xx", "failed"} {
		m.total.WithLabelValues(kind, outcome)
	}
	m.duration.WithLabelValues(kind)
	return &Peer{Kind: kind, outbound: m}
}

// Ended counts a request; its status is 0 if there was no answer.
func (p *Peer) Ended(ctx context.Context, status int, took time.Duration) {
	if p == nil {
		return
	}
	outcome := "failed"
	if status >= 100 && status < 600 {
		outcome = strconv.Itoa(status/100) + "xx"
	}
	p.outbound.total.WithLabelValues(p.Kind, outcome).Inc()
	Observe(ctx, p.outbound.duration.WithLabelValues(p.Kind), took.Seconds())
}

// Blobs counts the operations on blobs.
type Blobs struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewBlobs returns the metrics of blobs.
func NewBlobs(registry prometheus.Registerer) *Blobs {
	m := &Blobs{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "whetstone_blob_operations_total",
			Help: "Operations on blobs, by kind and outcome: ok, missing or failed.",
		}, []string{"operation", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "whetstone_blob_operation_duration_seconds",
			Help:    "Time of operations on blobs; of get until its first byte.",
			Buckets: []float64{.0005, .001, .005, .025, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"operation"}),
	}
	registry.MustRegister(m.total, m.duration)
	for _, operation := range []string{"put", "get", "stat", "delete"} {
		m.total.WithLabelValues(operation, "ok")
		m.total.WithLabelValues(operation, "failed")
		m.duration.WithLabelValues(operation)
	}
	return m
}

// Ended counts an operation.
func (m *Blobs) Ended(ctx context.Context, operation, outcome string, took time.Duration) {
	m.total.WithLabelValues(operation, outcome).Inc()
	Observe(ctx, m.duration.WithLabelValues(operation), took.Seconds())
}
