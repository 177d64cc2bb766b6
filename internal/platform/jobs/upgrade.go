package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Versions before kept all jobs but runs in the tables of River on PostgreSQL. While
// processes of such a version run beside this one, in a rolling upgrade, each side only
// claims from its own table. So jobs move: to ours while a process of this version runs
// jobs, and back when the last of them ends and others are left. Both can go with the
// release after this one, and River's tables with them.

// riverless is the first schema whose binaries keep no jobs in River's tables.
const riverless = 170

// hasRiver reports whether there is River's table.
func (q *Queue) hasRiver(ctx context.Context, db store.Querier) (bool, error) {
	if db.Dialect().OneWriter() {
		return false, nil
	}
	rows, err := db.Query(ctx, `SELECT to_regclass('river_job') IS NOT NULL`)
	return store.One(rows, err, "Table", store.Value[bool])
}

// adopted is how many jobs move in one transaction.
const adopted = 1_000

// adopt moves jobs from River's table to ours: those that wait, those that were given up,
// and those whose process is dead.
func (q *Queue) adopt(ctx context.Context) error {
	// It must not be interrupted halfway, and then be committed after disown.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer stop()
	if has, err := q.hasRiver(ctx, q.db); err != nil || !has {
		return err
	}
	for {
		n, err := q.db.Exec(ctx, `
			WITH taken AS (
				DELETE FROM river_job WHERE id IN (
					SELECT id FROM river_job
					WHERE state IN ('available', 'pending', 'retryable', 'scheduled', 'discarded')
						OR state = 'running' AND attempted_by[cardinality(attempted_by)] NOT IN (SELECT id FROM job_workers)
					ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
				RETURNING *, state = 'discarded' OR state = 'running' AND attempt >= max_attempts AS given_up
			)
			INSERT INTO jobs
				(kind, args, unique_key, state, attempt, max_attempts, run_at, created_at, discarded_at, last_error, for_org, trace)
			SELECT kind, args::TEXT, metadata->>'whetstone_key', CASE WHEN given_up THEN 'discarded' ELSE 'waiting' END,
				attempt, max_attempts, (EXTRACT(EPOCH FROM scheduled_at) * 1000000)::BIGINT,
				(EXTRACT(EPOCH FROM created_at) * 1000000)::BIGINT,
				CASE WHEN given_up THEN (EXTRACT(EPOCH FROM COALESCE(finalized_at, now())) * 1000000)::BIGINT END,
				CASE WHEN state = 'running' THEN $2::TEXT ELSE errors[cardinality(errors)]->>'error' END,
				COALESCE(metadata->>'whetstone_org', ''), COALESCE(metadata->>'whetstone_trace', '')
			FROM taken`, adopted, deadWorker)
		if err != nil || n < adopted {
			return err
		}
	}
}

// disown moves waiting jobs back to River's table if only processes of versions before
// are left to run them. This process is no longer among the workers.
func (q *Queue) disown(ctx context.Context, tx *store.Tx) error {
	if has, err := q.hasRiver(ctx, tx); err != nil || !has {
		return err
	}
	_, err := tx.Exec(ctx, `
		WITH given AS (
			DELETE FROM jobs
			WHERE state = 'waiting' AND org_id IS NULL
				AND (SELECT MAX(schema_version) FROM job_workers WHERE seen_at > `+due(tx.Dialect())+` - $1) < $2
			RETURNING *
		)
		INSERT INTO river_job (kind, args, metadata, state, attempt, max_attempts, scheduled_at, created_at, errors)
		SELECT kind, args::JSONB, jsonb_strip_nulls(jsonb_build_object(
				'whetstone_key', unique_key, 'whetstone_org', for_org, 'whetstone_trace', trace)),
			CASE WHEN run_at <= `+due(tx.Dialect())+` THEN 'available' ELSE 'scheduled' END::river_job_state, attempt, max_attempts,
			to_timestamp(run_at / 1000000.0), to_timestamp(created_at / 1000000.0),
			CASE WHEN last_error <> '' THEN ARRAY[
				jsonb_build_object('at', now(), 'attempt', attempt, 'error', last_error, 'trace', '')] END
		FROM given`, q.options.Lease.Microseconds(), riverless)
	return err
}

// assignOrgs makes runs of those waiting jobs that a version without runs has
// enqueued as plain jobs.
func (q *Queue) assignOrgs(ctx context.Context) error {
	_, kinds := q.kinds()
	type stray struct {
		id         int64
		kind, args string
	}
	return q.db.InTx(ctx, func(tx *store.Tx) error {
		in, list := tx.Dialect().In("$1", kinds)
		rows, err := tx.Query(ctx, `
			SELECT id, kind, args FROM jobs WHERE state = 'waiting' AND org_id IS NULL AND kind`+in, list)
		strays, err := store.All(rows, err, func(row store.Row) (s stray, err error) {
			err = row.Scan(&s.id, &s.kind, &s.args)
			return s, err
		})
		for _, s := range strays {
			org, unreadable := q.handlers[s.kind].org([]byte(s.args))
			if unreadable != nil || org == "" {
				org = "unknown" // the handler will fail with the reason
			}
			_, updated := tx.Exec(ctx, `UPDATE jobs SET org_id = $2 WHERE id = $1`, s.id, org)
			err = errors.Join(err, updated)
		}
		return err
	})
}
