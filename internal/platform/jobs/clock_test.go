package jobs_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestClockSetBack has a job on SQLite that was scheduled by a clock an hour
// fast. When the clock is corrected, the job must not wait for that hour.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "sqlite")
	q := newQueue(t, jobs.Options{DB: db})
	ran := make(chan struct{}, 1)
	jobs.Handle(q, func(context.Context, greet) error { ran <- struct{}{}; return nil })
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		return q.Restore(t.Context(), tx, jobs.Saved{
			Kind: greet{}.Kind(), Args: json.RawMessage(`{}`), MaxAttempts: 1, RunAt: time.Now().Add(time.Hour), CreatedAt: time.Now(),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	jobs.SetBack(t.Context(), q, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	select {
	case <-ran:
	case <-time.After(30 * time.Second):
		t.Error("the job waits for the time by the fast clock")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
