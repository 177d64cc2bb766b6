package app

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/whetstone-dev/whetstone/internal/platform/datadir"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// Names and labels are an interface: dashboards and alerts of operators rely on them.
var (
	jobsDesc = prometheus.NewDesc("whetstone_jobs",
		"Jobs in the queue, by kind and state.", []string{"kind", "state"}, nil)
	lateDesc = prometheus.NewDesc("whetstone_jobs_late_seconds",
		"How long the oldest waiting job is overdue, by kind.", []string{"kind"}, nil)
	diskDesc = prometheus.NewDesc("whetstone_disk_bytes",
		"Space of the data folder's disk: free, and the reserve for deletes and sign-ins.", []string{"what"}, nil)
	memoryDesc = prometheus.NewDesc("whetstone_request_memory_bytes",
		"Memory of requests, by budget: used, and its limit.", []string{"budget", "what"}, nil)
	memoryWaitsDesc = prometheus.NewDesc("whetstone_request_memory_waiting",
		"Requests that wait for memory, by budget.", []string{"budget"}, nil)
	dbWaitsDesc = prometheus.NewDesc("whetstone_database_waits_total",
		"How often a statement or a transaction waited for a connection.", nil, nil)
	dbWaitedDesc = prometheus.NewDesc("whetstone_database_wait_seconds_total",
		"How long they waited.", nil, nil)
	dbWritersDesc = prometheus.NewDesc("whetstone_database_writers_waiting",
		"Transactions that wait to write: to SQLite, which has one writer, or for a connection to ingest.", nil, nil)
	spansDesc = prometheus.NewDesc("whetstone_trace_spans_total",
		"Spans of our own traces that were sent to the collector, or dropped.", []string{"outcome"}, nil)
	dbDesc = prometheus.NewDesc("whetstone_database_connections",
		"Connections to the database, by state.", []string{"state"}, nil)
)

// newRegistry returns the metrics of the process itself. It is not
// prometheus.DefaultRegisterer, so that a test can run two servers in a process.
func newRegistry(version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "whetstone_build_info", Help: "1, with the version of the binary.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	build.Set(1)
	registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// stateCollector collects the metrics of jobs, connections, memory and disk space
// when they are scraped. Collecting at the scrape keeps the figures exact and costs nothing in
// between.
type stateCollector struct {
	db     *store.DB
	queue  *jobs.Queue
	memory budgets
	disk   *datadir.Reserve
	tracer *trace.Tracer // may be nil
	log    *slog.Logger
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsDesc
	ch <- lateDesc
	ch <- dbDesc
	ch <- dbWaitsDesc
	ch <- dbWaitedDesc
	ch <- dbWritersDesc
	ch <- memoryDesc
	ch <- memoryWaitsDesc
	ch <- diskDesc
	ch <- spansDesc
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	counter := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
	}
	stats := c.db.Stats()
	gauge(dbDesc, float64(stats.Open), "open")
	gauge(dbDesc, float64(stats.InUse), "in_use")
	gauge(dbDesc, float64(stats.Max), "max")
	counter(dbWaitsDesc, float64(stats.Waits))
	counter(dbWaitedDesc, stats.Waited.Seconds())
	gauge(dbWritersDesc, float64(stats.Writers))
	for name, budget := range map[string]*httpapi.Budget{
		"bodies": c.memory.bodies, "public_bodies": c.memory.publicBodies, "work": c.memory.work,
	} {
		held, capacity, waiting := budget.Usage()
		gauge(memoryDesc, float64(held), name, "used")
		gauge(memoryDesc, float64(capacity), name, "limit")
		gauge(memoryWaitsDesc, float64(waiting), name)
	}
	if c.tracer != nil {
		counter(spansDesc, float64(c.tracer.Sent.Load()), "sent")
		counter(spansDesc, float64(c.tracer.Dropped.Load()), "dropped")
	}
	if c.disk.Size > 0 {
		if free, reserved, err := c.disk.Usage(); err == nil {
			gauge(diskDesc, float64(free), "free")
			gauge(diskDesc, float64(reserved), "reserve")
		}
	}

	// The interface has no context. Prometheus gives up after 10 seconds by default.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counts, err := c.queue.Counts(ctx)
	if err != nil {
		c.log.Warn("metrics of jobs: the queue cannot be read", "error", err)
		return
	}
	for _, kind := range c.queue.Kinds() {
		// A kind without jobs is reported as 0: an absent series would make an alert on it
		// silent.
		if !slices.ContainsFunc(counts, func(n jobs.Count) bool { return n.Kind == kind }) {
			counts = append(counts, jobs.Count{Kind: kind})
		}
	}
	for _, n := range counts {
		gauge(jobsDesc, float64(n.Waiting), n.Kind, "waiting")
		gauge(jobsDesc, float64(n.Running), n.Kind, "running")
		gauge(jobsDesc, float64(n.Retrying), n.Kind, "retrying")
		gauge(jobsDesc, float64(n.Discarded), n.Kind, "discarded")
		gauge(lateDesc, n.Late.Seconds(), n.Kind)
	}
}
