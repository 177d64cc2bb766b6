package jobs

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Jobs that are not runs are claimed fairly, round robin by organisation (tenant), so
// that none starves the others (see For; runs.go has the runs): a claim goes
// round the organisations that have waiting jobs, in the order of their ids,
// starting after the organisation served last, and takes the oldest job of
// the first. So a job waits for one job of every other organisation, not for all
// that they have enqueued before it. What the service does for itself takes
// turns like one more organisation. A step is a probe of an index, however many
// jobs are due, or wait for a retry (jobstest: Turns, Share; TestClaimPlans).
//
// Each process goes round by itself.

// For names the organisation that a job works for, or who else must not keep
// others waiting. The jobs of organisations take turns, and those of one
// organisation get at most three quarters of a process's workers, so that slow
// ones leave some for others.
func For(orgID string) Option { return func(s *spec) { s.forOrg = orgID } }

// share is how many of a process's workers the jobs of one organisation get.
func share(workers int) int { return max(1, workers-max(1, workers/4)) }

// claimNext claims the next job whose turn it is.
func (q *Queue) claimNext(ctx context.Context, tx *store.Tx, kinds []string) ([]job, error) {
	// Claims of a process follow each other, so each sees the turn of the one before
	// it. If its transaction fails, an organisation loses a turn.
	in, list := tx.Dialect().In("$2", kinds)
	rows, err := tx.Query(ctx, claimNextSQL(tx.Dialect(), in), q.worker, list, q.served, share(q.options.Workers))
	return store.All(rows, err, func(row store.Row) (job, error) { return scanClaimed(row, &q.served) })
}

// claimNextSQL is SQL that claims the oldest job of the next organisation, among
// those that have less than their share $4 of the workers. It visits those after
// $3, which was served last, and then those up to it. A job that another process
// claims meanwhile is passed over.
func claimNextSQL(d store.Dialect, inKinds string) string {
	waiting := `FROM jobs` + d.IndexedBy("jobs_turns") + ` WHERE state = 'waiting' AND org_id IS NULL AND for_org `
	first := func(orgs string) string { return `(SELECT for_org ` + waiting + orgs + ` ORDER BY for_org LIMIT 1)` }
	visit := func(from, to string) string {
		return `(
			WITH RECURSIVE visits (org) AS (
				SELECT ` + first(from) + `
				UNION ALL SELECT ` + first("> v.org") + ` FROM visits v WHERE v.org ` + to + `
			), oldest (id) AS (
				SELECT (
					SELECT id ` + waiting + `= v.org AND run_at <= ` + due(d) + ` AND kind` + inKinds + `
					ORDER BY run_at, id LIMIT 1` + d.SkipLocked() + `)
				FROM visits v
				WHERE v.org ` + to + ` AND v.org NOT IN (
					SELECT for_org FROM jobs WHERE state = 'running' AND org_id IS NULL AND owner = $1 AND for_org <> ''
					GROUP BY for_org HAVING COUNT(*) >= $4)
			)
			SELECT id FROM oldest WHERE id IS NOT NULL LIMIT 1)`
	}
	return `
		UPDATE jobs SET state = 'running', attempt = attempt + 1, owner = $1
		WHERE id = COALESCE(` + visit("> $3", "> $3") + `, ` + visit(">= ''", "<= $3") + `)
		RETURNING ` + claimedColumns + `, for_org`
}
