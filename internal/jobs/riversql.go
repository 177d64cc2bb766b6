package jobs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

func (*riverQueue) now() string { return `(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT` }

// look reads PostgreSQL's clock, unless that was done a moment ago.
func (r *riverQueue) look(ctx context.Context, q store.Querier) error {
	if last := r.time.last.Load(); last != nil && time.Since(last.at) < staleReading {
		return nil
	}
	rows, err := q.Query(ctx, `SELECT `+r.now())
	now, err := store.One(rows, err, "Time", store.Value[int64])
	if err == nil {
		r.tick(time.UnixMicro(now))
	}
	return err
}

// keyLock is SQL for the number of a key's lock.
const keyLock = `hashtextextended($1::TEXT || ' ' || $2::TEXT, 0)`

// hold also makes the start of a job that has the key wait for the end of
// this transaction. Otherwise that job could start now, not see what this
// transaction changes, and be the reason why no other is enqueued for it.
// Transactions that hold do not wait for each other, unless they are the first.
func (*riverQueue) hold(ctx context.Context, tx *store.Tx, kind, key string) (bool, error) {
	n, err := tx.Exec(ctx, `
		WITH lock AS (SELECT pg_advisory_xact_lock_shared(`+keyLock+`))
		INSERT INTO job_keys (kind, unique_key) SELECT $1, $2 FROM lock
		ON CONFLICT DO NOTHING`, kind, key)
	return n == 1, err
}

// release waits for the transactions that hold the key.
func (*riverQueue) release(ctx context.Context, tx *store.Tx, j job) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+keyLock+`)`, j.kind, j.key); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, deleteKey, j.kind, j.key)
	return err
}

// releaseFirst frees the key of a job that River has claimed.
func (r *riverQueue) releaseFirst(ctx context.Context, j job) error {
	if j.key == "" {
		return nil
	}
	return r.q.db.InTx(ctx, func(tx *store.Tx) error { return r.release(ctx, tx, j) })
}

// holdAgain takes the key back for a job that will run again. It reports false
// if another one waits that has it.
func (r *riverQueue) holdAgain(ctx context.Context, j job) bool {
	if j.key == "" {
		return true
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	n, err := r.q.db.Exec(ctx, insertKey, j.kind, j.key)
	if err != nil {
		r.q.log.WarnContext(ctx, "a job waits without its unique key", "kind", j.kind, "job", j.id, "err", err)
		return true
	}
	return n == 1
}

// waits is SQL for the states of jobs that will start.
const waits = `state IN ('available', 'pending', 'retryable', 'scheduled')`

func (r *riverQueue) remove(ctx context.Context, tx *store.Tx, kind, key string) (int64, error) {
	meta, err := keyed(key)
	if err != nil {
		return 0, err
	}
	n, err := tx.Exec(ctx, `DELETE FROM river_job WHERE kind = $1 AND metadata @> $2::JSONB AND `+waits, kind, meta)
	if err != nil {
		return 0, err
	}
	runs, err := r.runs.remove(ctx, tx, kind, key)
	return n + runs, err
}

// adopt takes runs from River.
func (r *riverQueue) adopt(ctx context.Context, tx *store.Tx, kinds []string) error {
	in, list := tx.Dialect().In("$1", kinds)
	rows, err := tx.Query(ctx, `DELETE FROM river_job WHERE kind`+in+` AND `+waits+` RETURNING `+riverSaved, list)
	strays, err := store.All(rows, err, scanSaved)
	if err != nil {
		return err
	}
	for _, s := range strays {
		s.Org = r.q.orgOf(s.Kind, s.Args)
		if err := r.runs.restore(ctx, tx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *riverQueue) live(ctx context.Context, tx *store.Tx, kind, key string) (bool, error) {
	meta, err := keyed(key)
	if err != nil {
		return false, err
	}
	rows, err := tx.Query(ctx, `
		SELECT id FROM river_job
		WHERE kind = $1 AND metadata @> $2::JSONB AND (state = 'running' OR `+waits+`) LIMIT 1`, kind, meta)
	all, err := store.All(rows, err, store.Value[int64])
	if err != nil || len(all) > 0 {
		return len(all) > 0, err
	}
	return r.runs.live(ctx, tx, kind, key)
}

func (r *riverQueue) rescue(ctx context.Context, tx *store.Tx) ([]rescued, error) {
	rows, err := tx.Query(ctx, `
		UPDATE river_job SET
			state = CASE WHEN attempt < max_attempts THEN 'available' ELSE 'discarded' END::river_job_state,
			finalized_at = CASE WHEN attempt < max_attempts THEN NULL ELSE now() END,
			scheduled_at = now(),
			errors = array_append(errors, jsonb_build_object('at', now(), 'attempt', attempt, 'error', $1::TEXT, 'trace', ''))
		WHERE state = 'running' AND attempted_by[cardinality(attempted_by)] NOT IN (SELECT id FROM job_workers)
		RETURNING kind, state = 'discarded'`, deadWorker)
	all, err := store.All(rows, err, scanRescued)
	if err != nil {
		return nil, err
	}
	runs, err := r.runs.rescue(ctx, tx)
	return append(all, runs...), err
}

// tidy leaves River's old jobs to its cleaner.
func (r *riverQueue) tidy(ctx context.Context, tx *store.Tx) error {
	if err := r.runs.forget(ctx, tx); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		DELETE FROM job_keys WHERE NOT EXISTS (
			SELECT 1 FROM river_job j
			WHERE j.kind = job_keys.kind AND j.metadata->>'whetstone_key' = job_keys.unique_key
				AND (state = 'running' OR `+waits+`))
		AND NOT EXISTS (
			SELECT 1 FROM jobs j
			WHERE j.kind = job_keys.kind AND j.unique_key = job_keys.unique_key AND j.state <> 'discarded')`)
	return err
}

func (r *riverQueue) counts(ctx context.Context) ([]Count, error) {
	rows, err := r.q.db.Query(ctx, `
		SELECT kind,
			COUNT(*) FILTER (WHERE `+waits+` AND attempt = 0),
			COUNT(*) FILTER (WHERE state = 'running'),
			COUNT(*) FILTER (WHERE `+waits+` AND attempt > 0),
			COUNT(*) FILTER (WHERE state = 'discarded'),
			COALESCE((EXTRACT(EPOCH FROM clock_timestamp() - MIN(scheduled_at) FILTER (WHERE `+waits+`)) * 1000000)::BIGINT, 0)
		FROM river_job WHERE state IN ('running', 'discarded') OR `+waits+`
		GROUP BY kind`)
	all, err := store.All(rows, err, scanCount)
	if err != nil {
		return nil, err
	}
	runs, err := r.runs.counts(ctx)
	return merged(append(all, runs...)), err
}

// merged sorts counts by their kinds. A kind may have two: waiting runs that an
// older version enqueued are River's at first.
func merged(counts []Count) (all []Count) {
	slices.SortFunc(counts, func(a, b Count) int { return strings.Compare(a.Kind, b.Kind) })
	for _, c := range counts {
		last := len(all) - 1
		if last < 0 || all[last].Kind != c.Kind {
			all = append(all, c)
			continue
		}
		sum := &all[last]
		sum.Waiting, sum.Running, sum.Retrying = sum.Waiting+c.Waiting, sum.Running+c.Running, sum.Retrying+c.Retrying
		sum.Discarded, sum.Late = sum.Discarded+c.Discarded, max(sum.Late, c.Late)
	}
	return all
}
