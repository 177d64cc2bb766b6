package httpapi

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec

	// answers are those that were observed before: to find a metric by its
	// labels takes longer than to add to it.
	answers *sync.Map // of answer to answerMetrics
}

type answer struct {
	pattern string
	status  int
}

type answerMetrics struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

func newMetrics(registry prometheus.Registerer) metrics {
	m := metrics{
		answers: &sync.Map{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "whetstone_http_requests_total",
			Help: "Requests answered, by route and status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "whetstone_http_request_duration_seconds",
			Help:    "Time to answer, by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}
	registry.MustRegister(m.requests, m.duration)
	return m
}

func (m metrics) observe(pattern string, status int, took time.Duration) {
	of := m.of(answer{pattern, status})
	of.requests.Inc()
	of.duration.Observe(took.Seconds())
}

func (m metrics) of(a answer) answerMetrics {
	if known, ok := m.answers.Load(a); ok {
		return known.(answerMetrics)
	}
	of := answerMetrics{
		requests: m.requests.WithLabelValues(a.pattern, strconv.Itoa(a.status)),
		duration: m.duration.WithLabelValues(a.pattern),
	}
	m.answers.Store(a, of)
	return of
}
