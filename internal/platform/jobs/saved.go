package jobs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Saved job is a job in a backup. It is the same for both databases.
type Saved struct {
	Kind        string          `json:"kind"`
	Args        json.RawMessage `json:"args"`
	Key         string          `json:"unique_key,omitempty"`
	Attempt     int             `json:"attempt"` // how many are used
	MaxAttempts int             `json:"max_attempts"`
	RunAt       time.Time       `json:"run_at"`
	CreatedAt   time.Time       `json:"created_at"`
	// DiscardedAt is nil for a job that waits. A running job is saved as a
	// waiting one, because it must run again where the backup is restored.
	DiscardedAt *time.Time `json:"discarded_at,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	// Org is the organisation of a run; "" for every other job, and for a run
	// saved by a version without runs.
	Org string `json:"org_id,omitempty"`
	// ForOrg is the organisation that another job works for, if it said so.
	ForOrg string `json:"for_org,omitempty"`
}

// OwnTables are the tables that a backup leaves out: Save and Restore carry
// their content, and workers and turns mean nothing elsewhere.
func OwnTables() []string { return []string{"jobs", "job_keys", "job_workers", "job_turns"} }

// Save passes every waiting, running and discarded job to fn, runs last.
func (q *Queue) Save(ctx context.Context, tx *store.Tx, fn func(Saved) error) (err error) {
	defer fault.Wrap(&err, "save jobs")
	rows, err := tx.Query(ctx, `
		SELECT kind, args, COALESCE(unique_key, ''), CASE WHEN state = 'running' THEN attempt - 1 ELSE attempt END,
			max_attempts, run_at, created_at, discarded_at, COALESCE(last_error, ''), COALESCE(org_id, ''), for_org
		FROM jobs ORDER BY org_id IS NOT NULL, id`)
	return store.Each(rows, err, func(row store.Row) error {
		var s Saved
		var args string
		err := row.Scan(&s.Kind, &args, &s.Key, &s.Attempt, &s.MaxAttempts, store.Time(&s.RunAt), store.Time(&s.CreatedAt),
			store.NullTime(&s.DiscardedAt), &s.LastError, &s.Org, &s.ForOrg)
		if err != nil {
			return err
		}
		s.Args = json.RawMessage(args)
		return fn(s)
	})
}

// Restore inserts a job that Save returned, unless a job with its unique key
// waits already.
func (q *Queue) Restore(ctx context.Context, tx *store.Tx, s Saved) (err error) {
	defer fault.Wrap(&err, "restore job %s", s.Kind)
	if s.Key != "" && s.DiscardedAt == nil {
		if n, err := tx.Exec(ctx, insertKey, s.Kind, s.Key); err != nil || n == 0 {
			return err
		}
	}
	state := "waiting"
	if s.DiscardedAt != nil {
		state = "discarded"
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO jobs (kind, args, unique_key, state, attempt, max_attempts, run_at, last_error, created_at,
			discarded_at, org_id, for_org)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		s.Kind, string(s.Args), nullable(s.Key), state, s.Attempt, s.MaxAttempts, store.Micros(s.RunAt), s.LastError,
		store.Micros(s.CreatedAt), store.NullMicros(s.DiscardedAt), nullable(s.Org), s.ForOrg)
	return err
}
