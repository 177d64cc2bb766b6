package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs/jobstest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	jobstest.Run(t, "sqlite")
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	jobstest.Run(t, "postgres")
}

func TestWorkerProcess(t *testing.T) { jobstest.Child(t) }

func TestExponential(t *testing.T) {
	for attempt, want := range map[int]time.Duration{
		1: time.Second, 2: 3 * time.Second, 3: 9 * time.Second, 9: time.Hour, 1000: time.Hour,
	} {
		if got := jobs.Exponential(attempt); got < want*4/5 || got > want*6/5 {
			t.Errorf("Exponential(%d) = %v, want %v give or take a fifth", attempt, got, want)
		}
	}
}

// greet is a job that fails if it is told to.
type greet struct{ Fail bool }

func (greet) Kind() string { return "test.greet" }

func run(_ context.Context, g greet) error {
	if g.Fail {
		return errors.New("boom")
	}
	return nil
}

func newQueue(t *testing.T, o jobs.Options) *jobs.Queue {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	q, err := jobs.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestMetrics(t *testing.T) {
	db := storetest.Open(t, "sqlite")
	registry := prometheus.NewRegistry()
	q := newQueue(t, jobs.Options{DB: db, Metrics: registry})
	jobs.Handle(q, run)
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		return errors.Join(
			q.Enqueue(t.Context(), tx, greet{}),
			q.Enqueue(t.Context(), tx, greet{}),
			q.Enqueue(t.Context(), tx, greet{Fail: true}, jobs.Attempts(1)))
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	want := map[string]float64{"succeeded": 2, "discarded": 1}
	for deadline := time.Now().Add(2 * time.Minute); !cmp.Equal(want, runs(t, registry)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(cmp.Diff(want, runs(t, registry)))
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := jobs.New(jobs.Options{DB: db, Metrics: registry}); err == nil {
		t.Error("two queues share the metrics of one registry")
	}
}

// chain is a job that enqueues the next of its kind.
type chain struct{ Left int }

func (chain) Kind() string { return "chain" }

// TestTraces: a job is in the trace of what enqueues it, unless that is of its kind: a
// chain would be a trace without end.
func TestTraces(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		tracer := trace.New(trace.Sampler{Ratio: 1}, nil)
		q := newQueue(t, jobs.Options{DB: db, Tracer: tracer})
		ids := make(chan string, 3)
		enqueue := func(ctx context.Context, args jobs.Args) error {
			return db.InTx(ctx, func(tx *store.Tx) error { return q.Enqueue(ctx, tx, args) })
		}
		jobs.Handle(q, func(ctx context.Context, _ greet) error {
			ids <- trace.ID(ctx)
			return enqueue(ctx, chain{Left: 1})
		})
		jobs.Handle(q, func(ctx context.Context, c chain) error {
			ids <- trace.ID(ctx)
			if c.Left == 0 {
				return nil
			}
			return enqueue(ctx, chain{})
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		request, span := tracer.Root(ctx, "request", trace.Server)
		if err := enqueue(request, greet{}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- q.Run(ctx) }()
		job, caused, next := <-ids, <-ids, <-ids
		if job != span.TraceID() || caused != span.TraceID() {
			t.Errorf("the request has the trace %s, its job %s, and the job of that %s", span.TraceID(), job, caused)
		}
		if next == caused || len(next) != 32 {
			t.Errorf("the next of the same kind has the trace %q", next)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// runs are the counted runs by outcome.
func runs(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "whetstone_job_runs_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "outcome" {
					got[label.GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	return got
}

// impossible is a job that JSON cannot carry.
type impossible struct{ C chan int }

func (impossible) Kind() string { return "test.impossible" }

// nameless is a job without a kind.
type nameless struct{}

func (nameless) Kind() string { return "" }

func TestEnqueueRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		q := newQueue(t, jobs.Options{DB: db})
		for _, args := range []jobs.Args{impossible{}, nameless{}} {
			err := db.InTx(t.Context(), func(tx *store.Tx) error { return q.Enqueue(t.Context(), tx, args) })
			if err == nil {
				t.Errorf("a %T was enqueued", args)
			}
		}
	})
}

func TestRegisteredTwice(t *testing.T) {
	q := newQueue(t, jobs.Options{DB: storetest.Open(t, "sqlite")})
	for name, register := range map[string]func(){
		"Handle": func() { jobs.Handle(q, run) },
		"Every":  func() { q.Every(time.Hour, greet{}) },
	} {
		register()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a second %s of one kind did not panic", name)
				}
			}()
			register()
		}()
	}
}
