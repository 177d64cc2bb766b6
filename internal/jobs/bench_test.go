package jobs_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

type benchJob struct{ N int }

func (benchJob) Kind() string { return "bench.job" }

// BenchmarkRun enqueues jobs in transactions of a hundred and runs them.
func BenchmarkRun(b *testing.B) {
	for _, database := range []string{"sqlite", "postgres"} {
		b.Run(database, func(b *testing.B) { benchmarkRun(b, database) })
	}
}

func benchmarkRun(b *testing.B, database string) {
	db := storetest.Open(b, database)
	q, err := jobs.New(jobs.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	var ran atomic.Int64
	all := make(chan struct{})
	jobs.Handle(q, func(context.Context, benchJob) error {
		if ran.Add(1) == int64(b.N) {
			close(all)
		}
		return nil
	})
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	b.ResetTimer()
	go func() { ended <- q.Run(ctx) }()
	for left := b.N; left > 0; left -= 100 {
		err := db.InTx(ctx, func(tx *store.Tx) error {
			for n := range min(left, 100) {
				if err := q.Enqueue(ctx, tx, benchJob{n}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	<-all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
