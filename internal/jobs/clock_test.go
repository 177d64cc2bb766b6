package jobs_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestClockSetBack has jobs on SQLite that were planned by a clock which was
// an hour fast: they come when they were meant to.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "sqlite")
	q := newQueue(t, jobs.Options{DB: db})
	ran := make(chan struct{}, 1)
	jobs.Handle(q, func(context.Context, greet) error { ran <- struct{}{}; return nil })
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		return q.Enqueue(t.Context(), tx, greet{}, jobs.At(time.Now().Add(time.Hour)))
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
		t.Error("the job waits for the time that the fast clock named")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestClockOfPostgres has a machine whose clock is three hours behind that of
// the database.
func TestClockOfPostgres(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	q := newQueue(t, jobs.Options{DB: db})
	jobs.Tick(q, time.Now().Add(3*time.Hour))
	if got := time.Until(jobs.ClockOf(q)); got < 3*time.Hour-time.Minute || got > 3*time.Hour {
		t.Errorf("the queue's clock is %v ahead of the machine's, want 3h", got)
	}
}

// TestInsertedByPostgresClock has a database whose clock is three hours behind
// the machine's: what is due now, and what is put off for an hour, is so there.
func TestInsertedByPostgresClock(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	q := newQueue(t, jobs.Options{DB: db})
	jobs.Tick(q, time.Now().Add(-3*time.Hour))
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		if err := q.Enqueue(t.Context(), tx, greet{}); err != nil {
			return err
		}
		return q.Enqueue(t.Context(), tx, greet{}, jobs.At(time.Now().Add(time.Hour)))
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(t.Context(), `
		SELECT state || ' ' || ROUND(EXTRACT(EPOCH FROM scheduled_at - now()) / 3600) FROM river_job ORDER BY id`)
	got, err := store.All(rows, err, store.Value[string])
	if want := []string{"available -3", "scheduled -2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the jobs are %q, %v, want %q", got, err, want)
	}
}
