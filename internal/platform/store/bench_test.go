package store_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// BenchmarkCommit inserts single rows on SQLite from 32 goroutines, each row in
// a transaction of its own and in group commits.
func BenchmarkCommit(b *testing.B) {
	for name, inTx := range map[string]func(*store.DB, context.Context, func(*store.Tx) error) error{
		"InTx": (*store.DB).InTx, "InGroup": (*store.DB).InGroup,
	} {
		b.Run(name, func(b *testing.B) {
			db := storetest.Open(b, "sqlite")
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range 32 {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						err := inTx(db, b.Context(), func(tx *store.Tx) error {
							_, err := tx.Exec(b.Context(), insertOrg, fmt.Sprintf("org-%d", n), "free", store.Micros(time.Now()))
							return err
						})
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
