package jobs

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type queueMetrics struct {
	runs     *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) (*queueMetrics, error) {
	m := &queueMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "whetstone_job_runs_total",
			Help: "Runs of jobs by kind and outcome; rescued ones were taken from a dead process.",
		}, []string{"kind", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "whetstone_job_run_seconds",
			Help:    "How long runs of jobs took.",
			Buckets: []float64{.005, .025, .1, .5, 2.5, 10, 60, 300, 1800},
		}, []string{"kind"}),
	}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(registry.Register(m.runs), registry.Register(m.duration))
}

// expect shows a kind before its first run: of a counter that appears with its first
// failure, Prometheus does not see an increase.
func (m *queueMetrics) expect(kind string) {
	for _, o := range []outcome{succeeded, discarded} {
		m.runs.WithLabelValues(kind, string(o))
	}
}
