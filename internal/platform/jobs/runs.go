package jobs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Runs are claimed fairly by organisation, over all processes (jobstest: RunsInTurn,
// RunsShared, RunsOfReplicas).

// runningRuns is SQL for the running runs of each organisation, in all
// processes and in the one whose worker id is $1.
const runningRuns = `(
	SELECT org_id, COUNT(*) AS everywhere, COUNT(*) FILTER (WHERE owner = $1) AS here
	FROM jobs WHERE state = 'running' AND org_id IS NOT NULL GROUP BY org_id)`

// claimRun claims the next run: of the organisation with the fewest running
// ones, and among equals of the one served least recently.
//
// Each claim must see those before it. On PostgreSQL an advisory lock makes
// them take turns; FOR UPDATE SKIP LOCKED would let two processes count the
// same running runs and both serve the same organisation.
func (q *Queue) claimRun(ctx context.Context, tx *store.Tx, kinds []string) ([]job, error) {
	if !tx.Dialect().OneWriter() {
		lock := `SELECT pg_advisory_xact_lock(hashtextextended('whetstone runs', 0))`
		if _, err := tx.Exec(ctx, lock); err != nil {
			return nil, err
		}
	}
	share := max(1, q.options.RunWorkers-1) // of this process's workers, for one organisation
	in, list := tx.Dialect().In("$2", kinds)
	rows, err := tx.Query(ctx, `
		UPDATE jobs SET state = 'running', attempt = attempt + 1, owner = $1
		WHERE id = (
			SELECT j.id FROM jobs j
			LEFT JOIN `+runningRuns+` AS r ON r.org_id = j.org_id
			LEFT JOIN job_turns t ON t.org_id = j.org_id
			WHERE j.state = 'waiting' AND j.org_id IS NOT NULL AND j.run_at <= `+due(tx.Dialect())+`
				AND j.kind`+in+` AND COALESCE(r.here, 0) < $3
			ORDER BY COALESCE(r.everywhere, 0), COALESCE(t.claimed_at, 0), j.run_at, j.id LIMIT 1)
		RETURNING `+claimedColumns, q.worker, list, share)
	claimed, err := store.All(rows, err, func(row store.Row) (job, error) { return scanClaimed(row) })
	if err != nil || len(claimed) == 0 {
		return nil, err
	}
	// Two claims may fall into one tick of the database's clock, which must not
	// make their organisations equals.
	turn := tx.Dialect().Greatest(tx.Dialect().Now(), `(SELECT COALESCE(MAX(claimed_at), 0) + 1 FROM job_turns)`)
	_, err = tx.Exec(ctx, `
		INSERT INTO job_turns (org_id, claimed_at) SELECT org_id, `+turn+` FROM jobs WHERE id = $1
		ON CONFLICT (org_id) DO UPDATE SET claimed_at = excluded.claimed_at`, claimed[0].id)
	return claimed, err
}

// OthersWait reports whether a run of another organisation waits that has
// fewer running ones than this one. A long run asks now and then, and if so
// gives up its worker with Snooze(0): it continues when it is its turn again.
func (q *Queue) OthersWait(ctx context.Context, orgID string) (bool, error) {
	rows, err := q.db.Query(ctx, `
		WITH running AS `+runningRuns+`
		SELECT j.id FROM jobs j LEFT JOIN running r ON r.org_id = j.org_id
		WHERE j.state = 'waiting' AND j.org_id IS NOT NULL AND j.org_id <> $2 AND j.run_at <= `+due(q.db.Dialect())+`
			AND COALESCE(r.everywhere, 0) < (SELECT COALESCE(MAX(everywhere), 0) FROM running WHERE org_id = $2)
		LIMIT 1`, q.worker, orgID)
	waiting, err := store.All(rows, err, store.Value[int64])
	return len(waiting) > 0, err
}

// DropRuns deletes the runs of an organisation that wait.
func (q *Queue) DropRuns(ctx context.Context, tx *store.Tx, orgID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM jobs WHERE org_id = $1 AND state = 'waiting'`, orgID)
	return err
}

// keepTurns is after what time it no longer matters which organisation was
// served last.
const keepTurns = 24 * time.Hour
