package jobs_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

type benchJob struct{ N int }

func (benchJob) Kind() string { return "bench.job" }

// BenchmarkRun enqueues jobs in transactions of a hundred and runs them.
func BenchmarkRun(b *testing.B) {
	eachDatabase(b, func(b *testing.B, enqueue func(n int), ran <-chan struct{}) {
		for left := b.N; left > 0; left -= 100 {
			enqueue(min(left, 100))
		}
		for range b.N {
			<-ran
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	})
}

// BenchmarkLatency is the time from an Enqueue, its commit included, to the
// start of the job on an idle queue.
func BenchmarkLatency(b *testing.B) {
	eachDatabase(b, func(b *testing.B, enqueue func(n int), ran <-chan struct{}) {
		for range b.N {
			enqueue(1)
			<-ran
		}
	})
}

// eachDatabase calls fn with a function that enqueues n jobs in a transaction,
// and a channel that gets a value when one has run.
func eachDatabase(b *testing.B, fn func(b *testing.B, enqueue func(n int), ran <-chan struct{})) {
	for _, database := range []string{"sqlite", "postgres"} {
		b.Run(database, func(b *testing.B) {
			db := storetest.Open(b, database)
			q, err := jobs.New(jobs.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			ran := make(chan struct{}, b.N)
			jobs.Handle(q, func(context.Context, benchJob) error { ran <- struct{}{}; return nil })
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error)
			b.ResetTimer()
			go func() { ended <- q.Run(ctx) }()
			fn(b, func(n int) {
				err := db.InTx(ctx, func(tx *store.Tx) error {
					for i := range n {
						if err := q.Enqueue(ctx, tx, benchJob{i}); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}, ran)
			b.StopTimer()
			stop()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}
