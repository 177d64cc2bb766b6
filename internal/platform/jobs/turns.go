package jobs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Jobs that are not runs take turns by organisation (see For): a claim goes
// round the organisations that have waiting jobs, in the order of their ids,
// starting after the organisation served last, and takes the oldest job of
// each. So a job waits for one job of every other organisation, not for all
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

// claimNext claims on SQLite the next job whose turn it is.
func (t *table) claimNext(ctx context.Context, tx *store.Tx, kinds []string) ([]job, error) {
	// Transactions of a group follow each other, so each claim sees the turn of the
	// one before it. If the group fails, an organisation loses a turn.
	in, list := tx.Dialect().In("$2", kinds)
	rows, err := tx.Query(ctx, claimNext(tx.Dialect().Now(), in), t.q.worker, list, t.served, share(t.q.options.Workers))
	return store.All(rows, err, func(row store.Row) (job, error) { return scanClaimed(row, &t.served) })
}

// claimNext is SQL that claims the oldest job of the next organisation, among
// those that have less than their share $4 of the workers. It visits those after
// $3, which was served last, and then those up to it.
func claimNext(now, inKinds string) string {
	const waiting = `FROM jobs INDEXED BY jobs_turns WHERE state = 'waiting' AND org_id IS NULL AND for_org `
	first := func(orgs string) string { return `(SELECT for_org ` + waiting + orgs + ` ORDER BY for_org LIMIT 1)` }
	visit := func(from, to string) string {
		return `(
			WITH RECURSIVE visits (org) AS (
				SELECT ` + first(from) + `
				UNION ALL SELECT ` + first("> v.org") + ` FROM visits v WHERE v.org ` + to + `
			), oldest (id) AS (
				SELECT (SELECT id ` + waiting + `= v.org AND run_at <= ` + now + ` AND kind` + inKinds + ` ORDER BY run_at, id LIMIT 1)
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

// riverOrg is SQL for whom a job of River's table works.
const riverOrg = `COALESCE(metadata->>'whetstone_org', '')`

// addTurnsIndex adds the index that a claim reads. It looks first: CREATE INDEX
// IF NOT EXISTS would wait for everybody who enqueues, and they for it, at every
// start.
func addTurnsIndex(ctx context.Context, db *store.DB) error {
	rows, err := db.Query(ctx, `SELECT to_regclass('river_job_whetstone_turns') IS NOT NULL`)
	exists, err := store.One(rows, err, "Index", store.Value[bool])
	if err != nil || exists {
		return err
	}
	_, err = db.Exec(ctx, `
		CREATE INDEX IF NOT EXISTS river_job_whetstone_turns ON river_job ((`+riverOrg+`), priority, scheduled_at, id)
		WHERE state = 'available' AND queue = '`+river.QueueDefault+`'`)
	return err
}

// fairDriver is River's driver with claims in turns.
type fairDriver struct {
	*riverpgxv5.Driver
	turns *riverTurns
}

// GetExecutor implements riverdriver.Driver.
func (d fairDriver) GetExecutor() riverdriver.Executor {
	return fairExecutor{d.Driver.GetExecutor(), d}
}

type fairExecutor struct {
	riverdriver.Executor
	driver fairDriver
}

// JobGetAvailable implements riverdriver.Executor: River calls it to claim jobs.
// They are claimed and read in one transaction: what was claimed and could not
// be read would belong to this process and never run (TestTorturePostgres).
func (e fairExecutor) JobGetAvailable(
	ctx context.Context, p *riverdriver.JobGetAvailableParams,
) (*riverdriver.JobGetAvailableResult, error) {
	t := e.driver.turns
	var turns []turn
	var claimed []*rivertype.JobRow
	err := t.db.InTx(ctx, func(tx *store.Tx) (err error) {
		if err := giveBack(ctx, tx, t.doubtful, p.ClientID); err != nil {
			return err
		}
		if turns, err = t.claim(ctx, tx, p); err != nil || len(turns) == 0 {
			return err
		}
		pg, _ := tx.Postgres()
		claimed, err = e.driver.UnwrapExecutor(pg).JobGetByIDMany(ctx,
			&riverdriver.JobGetByIDManyParams{ID: idsOf(turns), Schema: p.Schema})
		return err
	})
	if err != nil { // perhaps it was committed, and only the answer was lost
		t.doubtful = append(t.doubtful, turns...)
		return &riverdriver.JobGetAvailableResult{}, err
	}
	t.doubtful = nil
	t.note(turns)
	visits := map[int64]int64{}
	for _, c := range turns {
		visits[c.id] = c.visit
	}
	slices.SortFunc(claimed, func(a, b *rivertype.JobRow) int { return cmp.Compare(visits[a.ID], visits[b.ID]) })
	return &riverdriver.JobGetAvailableResult{Jobs: claimed}, nil
}

// riverTurns is whose turn it is in a process on PostgreSQL. River claims from
// one goroutine; jobs end in others.
type riverTurns struct {
	db       *store.DB
	share    int
	doubtful []turn // claims that failed; of River's goroutine

	mu      sync.Mutex       // not held while the database is asked
	served  string           // the organisation that was served last
	running map[int64]string // organisations of the jobs that this process runs
}

// giveBack gives jobs back that the process claimed and does not know of.
func giveBack(ctx context.Context, tx *store.Tx, claimed []turn, process string) error {
	if len(claimed) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		UPDATE river_job SET state = 'available', attempt = attempt - 1
		WHERE id = ANY($1::BIGINT[]) AND state = 'running' AND attempted_by[cardinality(attempted_by)] = $2::TEXT`,
		idsOf(claimed), process)
	return err
}

// note remembers claimed jobs until they are done.
func (t *riverTurns) note(turns []turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range turns {
		t.running[c.id], t.served = c.org, c.org
	}
}

// done is called when a claimed job has run.
func (t *riverTurns) done(id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, id)
}

// now is the organisation that was served last, and of which organisations this
// process runs jobs, and how many.
func (t *riverTurns) now() (served string, orgs []string, running []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[string]int64{}
	for _, org := range t.running {
		if org != "" {
			counts[org]++
		}
	}
	for _, org := range slices.Sorted(maps.Keys(counts)) {
		orgs, running = append(orgs, org), append(running, counts[org])
	}
	return t.served, orgs, running
}

// claimInTurn goes round the organisations, twice as far as jobs are wanted,
// because one of them may have its share of the workers: no two can. The nth
// visit to an organisation claims its nth job. The last part is River's own,
// for a claimed job.
var claimInTurn = `
	WITH RECURSIVE visits (org, visit) AS (
		SELECT COALESCE(` + riverNext("> $1") + `, ` + riverNext("IS NOT NULL") + `), 1
		UNION ALL
		SELECT COALESCE(` + riverNext("> v.org") + `, ` + riverNext("IS NOT NULL") + `), v.visit + 1
		FROM visits v WHERE v.org IS NOT NULL AND v.visit < 2 * $2::BIGINT
	), seats AS (
		SELECT org, visit, ROW_NUMBER() OVER (PARTITION BY org ORDER BY visit) AS nth FROM visits WHERE org IS NOT NULL
	), chosen AS (
		SELECT j.id, s.org, s.visit FROM seats s
		LEFT JOIN unnest($4::TEXT[], $5::BIGINT[]) AS busy (org, running) ON busy.org = s.org
		CROSS JOIN LATERAL (
			SELECT id FROM river_job
			WHERE ` + riverWaiting + ` AND ` + riverOrg + ` = s.org
			ORDER BY priority, scheduled_at, id OFFSET s.nth - 1 LIMIT 1
			FOR UPDATE SKIP LOCKED) AS j
		WHERE s.org = '' OR s.nth + COALESCE(busy.running, 0) <= $6::BIGINT
		ORDER BY s.visit LIMIT $2::BIGINT
	)
	UPDATE river_job SET state = 'running', attempt = attempt + 1, attempted_at = now(),
		attempted_by = array_append(attempted_by[GREATEST(1, cardinality(attempted_by) + 2 - $8::INTEGER):], $7::TEXT)
	FROM chosen WHERE river_job.id = chosen.id
	RETURNING river_job.id, chosen.org, chosen.visit`

const riverWaiting = `state = 'available' AND queue = '` + river.QueueDefault + `'
	AND kind = ANY($3::TEXT[]) AND scheduled_at <= now()`

// riverNext is SQL for the first of some organisations with waiting jobs.
func riverNext(orgs string) string {
	return `(SELECT ` + riverOrg + ` FROM river_job WHERE ` + riverWaiting + ` AND ` + riverOrg + ` ` + orgs + `
		ORDER BY ` + riverOrg + ` LIMIT 1)`
}

// A turn is the claim of one job.
type turn struct {
	id    int64
	org   string
	visit int64
}

func idsOf(turns []turn) []int64 {
	ids := make([]int64, len(turns))
	for i, c := range turns {
		ids[i] = c.id
	}
	return ids
}

// claim claims the jobs whose turn it is, in that order, at most as many as
// River has workers for.
func (t *riverTurns) claim(ctx context.Context, tx *store.Tx, p *riverdriver.JobGetAvailableParams) ([]turn, error) {
	served, orgs, running := t.now()
	rows, err := tx.Query(ctx, claimInTurn,
		served, p.MaxToLock, p.Kind, orgs, running, t.share, p.ClientID, p.MaxAttemptedBy)
	turns, err := store.All(rows, err, func(row store.Row) (c turn, err error) {
		err = row.Scan(&c.id, &c.org, &c.visit)
		return c, err
	})
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.visit, b.visit) })
	return turns, err
}
