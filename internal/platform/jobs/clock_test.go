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

// TestRiverClock has a database whose clock is three hours ahead of the
// machine's. Retries must be scheduled by the database's clock.
func TestRiverClock(t *testing.T) {
	t.Parallel()
	q := newQueue(t, jobs.Options{DB: storetest.Open(t, "postgres")})
	jobs.SetDatabaseClock(q, time.Now().Add(3*time.Hour))
	if got := time.Until(jobs.DatabaseClock(q)); got < 3*time.Hour-time.Minute || got > 3*time.Hour {
		t.Errorf("the queue's clock is %v ahead of the machine's, want 3h", got)
	}
}

// TestEnqueueByDatabaseClock checks that PostgreSQL, not this process, sets the
// time at which a new job is due: it is then exactly its transaction's time.
func TestEnqueueByDatabaseClock(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	q := newQueue(t, jobs.Options{DB: db})
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		if err := q.Enqueue(t.Context(), tx, greet{}); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), `SELECT COUNT(*) FROM river_job WHERE scheduled_at = now() AND created_at = now()`)
		if n, err := store.One(rows, err, "Count", store.Value[int]); err != nil || n != 1 {
			t.Errorf("%d jobs are due by PostgreSQL's clock, want 1; %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
