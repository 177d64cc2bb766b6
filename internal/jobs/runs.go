package jobs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// share is how many of this process's runs may be of one organisation.
func (o Options) share() int { return max(1, o.RunWorkers-1) }

// runLock makes the claims of all processes on PostgreSQL take turns: each
// must see what the one before has claimed.
const runLock = `SELECT pg_advisory_xact_lock(hashtextextended('whetstone runs', 0))`

// running counts the runs of each organisation, and those of this process, $1.
const running = `(
	SELECT org_id, COUNT(*) AS everywhere, COUNT(*) FILTER (WHERE owner = $1) AS here
	FROM jobs WHERE state = 'running' AND org_id IS NOT NULL GROUP BY org_id)`

// claimRun takes the next run in round robin.
func (t *table) claimRun(ctx context.Context, tx *store.Tx, kinds []string) ([]job, error) {
	if _, ok := tx.Postgres(); ok {
		if _, err := tx.Exec(ctx, runLock); err != nil {
			return nil, err
		}
	}
	in, list := tx.Dialect().In("$3", kinds)
	rows, err := tx.Query(ctx, `
		UPDATE jobs SET state = 'running', attempt = attempt + 1, owner = $1
		WHERE id = (
			SELECT j.id FROM jobs j
			LEFT JOIN `+running+` AS r ON r.org_id = j.org_id
			LEFT JOIN job_turns t ON t.org_id = j.org_id
			WHERE j.state = 'waiting' AND j.org_id IS NOT NULL AND j.run_at <= $2 AND j.kind`+in+`
				AND COALESCE(r.here, 0) < $4
			ORDER BY COALESCE(r.everywhere, 0), COALESCE(t.claimed_at, 0), j.run_at, j.id LIMIT 1)
		RETURNING `+claimedColumns, t.q.worker, store.Micros(t.time()), list, t.q.options.share())
	claimed, err := store.All(rows, err, scanJob)
	if err != nil || len(claimed) == 0 {
		return nil, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO job_turns (org_id, claimed_at) SELECT org_id, CAST($2 AS BIGINT) FROM jobs WHERE id = $1
		ON CONFLICT (org_id) DO UPDATE SET claimed_at = excluded.claimed_at`, claimed[0].id, store.Micros(t.time()))
	return claimed, err
}

// OthersWait reports whether a run of another organisation waits that has
// fewer than this one. A run that takes long asks it now and then, and gives
// its worker back with Snooze(0) if that is so: its turn comes again.
func (q *Queue) OthersWait(ctx context.Context, orgID string) (bool, error) {
	rows, err := q.db.Query(ctx, `
		WITH running AS `+running+`
		SELECT j.id FROM jobs j LEFT JOIN running r ON r.org_id = j.org_id
		WHERE j.state = 'waiting' AND j.org_id IS NOT NULL AND j.org_id <> $2 AND j.run_at <= $3
			AND COALESCE(r.everywhere, 0) < (SELECT COALESCE(MAX(everywhere), 0) FROM running WHERE org_id = $2)
		LIMIT 1`, q.worker, orgID, store.Micros(q.engine.clock()))
	waiting, err := store.All(rows, err, store.Value[int64])
	return len(waiting) > 0, err
}

// forget removes discarded jobs and turns that are of no interest any more.
func (t *table) forget(ctx context.Context, tx *store.Tx) error {
	if _, err := tx.Exec(ctx, `DELETE FROM jobs WHERE state = 'discarded' AND discarded_at < $1`,
		store.Micros(t.time().Add(-keepDiscarded))); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM job_turns WHERE claimed_at < $1`, store.Micros(t.time().Add(-keepTurns)))
	return err
}

// keepTurns is when it does not matter any more whose run was claimed last.
const keepTurns = 24 * time.Hour

// kinds are the kinds that this process runs.
func (q *Queue) kinds() (plain, runs []string) {
	for kind, h := range q.handlers {
		if h.org == nil {
			plain = append(plain, kind)
		} else {
			runs = append(runs, kind)
		}
	}
	return plain, runs
}

// adopt makes runs of what a version without runs enqueued.
func (q *Queue) adopt(ctx context.Context) error {
	_, runs := q.kinds()
	if len(runs) == 0 {
		return nil
	}
	return q.db.InTx(ctx, func(tx *store.Tx) error { return q.engine.adopt(ctx, tx, runs) })
}

// orgOf is the organisation of a run whose arguments an older version wrote.
// If they cannot be read, their handler will say so.
func (q *Queue) orgOf(kind string, args json.RawMessage) string {
	org, err := q.handlers[kind].org(args)
	if err != nil || org == "" {
		return "unknown"
	}
	return org
}
