package jobs_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestClaimPlans checks that a claim reads no more when many jobs wait: each of
// its steps is a probe of an index.
func TestClaimPlans(t *testing.T) {
	const insert = `INSERT INTO jobs (kind, args, state, attempt, max_attempts, run_at, created_at, for_org)
		SELECT 'test.greet', '{}', 'waiting', 0, 1, i, i, CASE WHEN i % 100 = 0 THEN 'org ' || i ELSE 'big' END FROM `
	for database, fill := range map[string]string{
		"sqlite":   `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) ` + insert + `n`,
		"postgres": insert + `generate_series(1, 20000) i`,
	} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t, database)
			for _, statement := range []string{fill, "ANALYZE"} {
				if _, err := db.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			steps, err := jobs.ClaimPlan(t.Context(), newQueue(t, jobs.Options{DB: db}), []string{"test.greet"})
			if err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(steps, "\n")
			if whole := regexp.MustCompile(`Seq Scan on jobs|SCAN jobs|TEMP B-TREE FOR ORDER BY`); whole.MatchString(plan) {
				t.Errorf("a claim reads all jobs:\n%s", plan)
			}
			if !regexp.MustCompile(`jobs_turns \(for_org=\? AND run_at<\?\)|jobs_turns on jobs.*\n +Index Cond: \(\(for_org = v\S*org\) AND \(run_at <= `).MatchString(plan) {
				t.Errorf("a claim does not go by turns:\n%s", plan)
			}
		})
	}
}

// TestClaimInDoubt has a claim that was committed, but its answer was lost: the job
// runs all the same, and its first attempt is not used up.
func TestClaimInDoubt(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	q := newQueue(t, jobs.Options{DB: db})
	ran := make(chan struct{})
	jobs.Handle(q, func(context.Context, greet) error { close(ran); return nil })
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		return q.Enqueue(t.Context(), tx, greet{}, jobs.Attempts(1), jobs.Unique("k"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if claimed, err := jobs.ClaimInDoubt(t.Context(), q); err != nil || claimed != 1 {
		t.Fatalf("%d jobs were claimed: %v", claimed, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	select {
	case <-ran:
	case <-time.After(time.Minute):
		t.Error("the job does not run")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
