package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/datadir"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

var (
	jobsDesc = prometheus.NewDesc("whetstone_jobs",
		"Jobs in the queue, by kind and state.", []string{"kind", "state"}, nil)
	lateDesc = prometheus.NewDesc("whetstone_jobs_late_seconds",
		"How long the oldest waiting job is overdue, by kind.", []string{"kind"}, nil)
	diskDesc = prometheus.NewDesc("whetstone_disk_bytes",
		"Space of the data folder's disk: free, and the reserve for deletes and sign-ins.", []string{"what"}, nil)
	dbDesc = prometheus.NewDesc("whetstone_database_connections",
		"Connections to the database, by state.", []string{"state"}, nil)
)

// stateCollector collects the metrics of jobs, connections and disk space when they
// are scraped.
type stateCollector struct {
	db    *store.DB
	queue *jobs.Queue
	disk  *datadir.Reserve
	log   *slog.Logger
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsDesc
	ch <- lateDesc
	ch <- dbDesc
	ch <- diskDesc
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	stats := c.db.Stats()
	gauge(dbDesc, float64(stats.Open), "open")
	gauge(dbDesc, float64(stats.InUse), "in_use")
	if c.disk.Size > 0 {
		if free, reserved, err := c.disk.Usage(); err == nil {
			gauge(diskDesc, float64(free), "free")
			gauge(diskDesc, float64(reserved), "reserve")
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counts, err := c.queue.Counts(ctx)
	if err != nil {
		c.log.Warn("metrics of jobs: the queue cannot be read", "error", err)
		return
	}
	for _, n := range counts {
		gauge(jobsDesc, float64(n.Waiting), n.Kind, "waiting")
		gauge(jobsDesc, float64(n.Running), n.Kind, "running")
		gauge(jobsDesc, float64(n.Retrying), n.Kind, "retrying")
		gauge(jobsDesc, float64(n.Discarded), n.Kind, "discarded")
		gauge(lateDesc, n.Late.Seconds(), n.Kind)
	}
}
