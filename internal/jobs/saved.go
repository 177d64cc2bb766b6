package jobs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Saved job is one as a backup keeps it, the same on both databases.
type Saved struct {
	Kind        string          `json:"kind"`
	Args        json.RawMessage `json:"args"`
	Key         string          `json:"unique_key,omitempty"`
	Attempt     int             `json:"attempt"` // how many are used
	MaxAttempts int             `json:"max_attempts"`
	RunAt       time.Time       `json:"run_at"`
	CreatedAt   time.Time       `json:"created_at"`
	// DiscardedAt is when it was given up; nil if it waits. What runs now will
	// have to run again where the backup is restored, so it waits, too.
	DiscardedAt *time.Time `json:"discarded_at,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	// Org is whose run it is; "" for every other job, and for a run that a
	// version without runs has saved.
	Org string `json:"org_id,omitempty"`
}

// OwnTables are the tables that a backup leaves out: Save and Restore carry
// what is in them, and a worker of another place is none of this one's.
func OwnTables() []string { return []string{"jobs", "job_keys", "job_workers", "job_turns"} }

// Save hands the jobs that wait, run or were given up to fn.
func (q *Queue) Save(ctx context.Context, tx *store.Tx, fn func(Saved) error) (err error) {
	defer fault.Wrap(&err, "save jobs")
	rows, err := tx.Query(ctx, q.engine.selectSaved())
	return store.Each(rows, err, func(row store.Row) error {
		job, err := scanSaved(row)
		if err != nil {
			return err
		}
		return fn(job)
	})
}

func scanSaved(row store.Row) (s Saved, err error) {
	var args string
	err = row.Scan(&s.Kind, &args, &s.Key, &s.Attempt, &s.MaxAttempts, store.Time(&s.RunAt), store.Time(&s.CreatedAt),
		store.NullTime(&s.DiscardedAt), &s.LastError, &s.Org)
	s.Args = json.RawMessage(args)
	return s, err
}

// Restore takes in a job that Save gave away. One whose unique key another
// holds is left out: they are as good as each other.
func (q *Queue) Restore(ctx context.Context, tx *store.Tx, s Saved) (err error) {
	defer fault.Wrap(&err, "restore job %s", s.Kind)
	if s.Key != "" && s.DiscardedAt == nil {
		if n, err := tx.Exec(ctx, insertKey, s.Kind, s.Key); err != nil || n == 0 {
			return err
		}
	}
	return q.engine.restore(ctx, tx, s)
}

// tableSaved and riverSaved are the columns of a Saved.
const (
	tableSaved = `
		kind, args, COALESCE(unique_key, ''), CASE WHEN state = 'running' THEN attempt - 1 ELSE attempt END,
		max_attempts, run_at, created_at, discarded_at, COALESCE(last_error, ''), COALESCE(org_id, '')`
	riverSaved = `
		kind, args::TEXT, COALESCE(metadata->>'whetstone_key', ''),
		(CASE WHEN state = 'running' THEN attempt - 1 ELSE attempt END)::BIGINT, max_attempts::BIGINT,
		(EXTRACT(EPOCH FROM scheduled_at) * 1000000)::BIGINT, (EXTRACT(EPOCH FROM created_at) * 1000000)::BIGINT,
		(EXTRACT(EPOCH FROM finalized_at) * 1000000)::BIGINT,
		COALESCE(errors[cardinality(errors)]->>'error', ''), ''`
)

func (*table) selectSaved() string { return `SELECT ` + tableSaved + ` FROM jobs ORDER BY id` }

func (*riverQueue) selectSaved() string {
	return `
		(SELECT ` + riverSaved + ` FROM river_job WHERE state IN ('running', 'discarded') OR ` + waits + ` ORDER BY id)
		UNION ALL (SELECT ` + tableSaved + ` FROM jobs ORDER BY id)`
}

func (*table) restore(ctx context.Context, tx *store.Tx, s Saved) error {
	state := "waiting"
	if s.DiscardedAt != nil {
		state = "discarded"
	}
	// The schema may be an older one that knows no runs.
	column, value, args := "", "", []any{
		s.Kind, string(s.Args), null(s.Key), state, s.Attempt, s.MaxAttempts,
		store.Micros(s.RunAt), s.LastError, store.Micros(s.CreatedAt), store.NullMicros(s.DiscardedAt),
	}
	if s.Org != "" {
		column, value, args = ", org_id", ", $11", append(args, s.Org)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO jobs (kind, args, unique_key, state, attempt, max_attempts, run_at, last_error, created_at, discarded_at`+column+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10`+value+`)`, args...)
	return err
}

func (r *riverQueue) restore(ctx context.Context, tx *store.Tx, s Saved) error {
	if s.Org != "" {
		return r.runs.restore(ctx, tx, s)
	}
	meta, err := keyed(s.Key)
	if err != nil {
		return err
	}
	state := "available"
	if s.RunAt.After(time.Now()) {
		state = "scheduled"
	}
	if s.DiscardedAt != nil {
		state = "discarded"
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO river_job (kind, args, metadata, state, attempt, max_attempts, scheduled_at, created_at, finalized_at, errors)
		VALUES ($1, $2::TEXT::JSONB, $3::TEXT::JSONB, $4::TEXT::river_job_state, $5::BIGINT, $6::BIGINT,
			to_timestamp($7::BIGINT / 1000000.0), to_timestamp($8::BIGINT / 1000000.0), to_timestamp($9::BIGINT / 1000000.0),
			CASE WHEN $10::TEXT = '' THEN NULL ELSE ARRAY[jsonb_build_object('at', now(), 'attempt', $5::BIGINT, 'error', $10::TEXT, 'trace', '')] END)`,
		s.Kind, string(s.Args), meta, state, s.Attempt, s.MaxAttempts,
		store.Micros(s.RunAt), store.Micros(s.CreatedAt), store.NullMicros(s.DiscardedAt), s.LastError)
	return err
}
