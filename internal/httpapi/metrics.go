package httpapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) metrics {
	m := metrics{
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
	m.requests.WithLabelValues(pattern, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(pattern).Observe(took.Seconds())
}
