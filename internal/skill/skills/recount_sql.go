package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check compares all rollups with a recount. It reads every observation: the doctor
// runs it, and tests after each scenario.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "skills", []invariants.Rule{
		{Broken: wrongDays, Wrong: "days of skills whose numbers are not those of their observations", Do: invariants.Report},
		{Broken: wrongGrades, Wrong: "days of skills whose grades are not those of their gradings", Do: invariants.Report},
		{Broken: wrongTotals, Wrong: "skills whose totals are not those of their observations", Do: invariants.Report},
		{Broken: lostAliases, Wrong: "aliases of observations that are not there", Do: invariants.Report},
	})
}

// A recount adds the stored counters and subtracts the recounted ones: a group
// that does not sum to zero is wrong. It does the arithmetic of skills' tally.go in SQL.
const (
	recountSeen = `seen AS (
			SELECT skill_id AS subject, session_hash, occurred_at / 86400000000 AS day, occurred_at, is_check, triggered,
				confidence, weight, until_at
			FROM skill_observations
			UNION ALL SELECT version_id, session_hash, occurred_at / 86400000000, occurred_at, is_check, triggered,
				confidence, weight, until_at
			FROM skill_observations WHERE version_id IS NOT NULL),
		lasts AS (
			SELECT subject, session_hash, MAX(day) AS day, MAX(CASE WHEN triggered THEN day END) AS trigger_day,
				MAX(CASE WHEN until_at IS NOT NULL THEN day END) AS offer_day
			FROM seen WHERE session_hash <> '' GROUP BY subject, session_hash)`

	wrongDays = `
		WITH ` + recountSeen + `
		SELECT COUNT(*), COALESCE(MIN(subject), '') FROM (
			SELECT subject FROM (
				SELECT subject_id AS subject, day, sessions AS a, trigger_sessions AS b, last_sessions AS c,
				last_trigger_sessions AS d,
					checks AS e, triggers AS f, confidence_sum AS g, confidence_count AS h, last_offered_sessions AS i
					FROM skill_days
				UNION ALL SELECT subject, day,
					-COUNT(DISTINCT CASE WHEN session_hash <> '' THEN session_hash END),
					-COUNT(DISTINCT CASE WHEN session_hash <> '' AND triggered THEN session_hash END), 0, 0,
					-SUM(CASE WHEN is_check THEN weight ELSE 0 END),
					-SUM(CASE WHEN is_check AND triggered THEN weight ELSE 0 END),
					-SUM(CASE WHEN is_check AND triggered AND confidence IS NOT NULL THEN weight * confidence ELSE 0 END),
					-SUM(CASE WHEN is_check AND triggered AND confidence IS NOT NULL THEN weight ELSE 0 END), 0
				FROM seen GROUP BY subject, day
				UNION ALL SELECT subject, day, 0, 0, -COUNT(*), 0, 0, 0, 0, 0, 0 FROM lasts GROUP BY subject, day
				UNION ALL SELECT subject, trigger_day, 0, 0, 0, -COUNT(*), 0, 0, 0, 0, 0 FROM lasts
				WHERE trigger_day IS NOT NULL GROUP BY subject, trigger_day
				UNION ALL SELECT subject, offer_day, 0, 0, 0, 0, 0, 0, 0, 0, -COUNT(*) FROM lasts
				WHERE offer_day IS NOT NULL GROUP BY subject, offer_day
			) AS recount GROUP BY subject, day
			HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0 OR SUM(e) <> 0 OR SUM(f) <> 0 OR SUM(g) <> 0
			OR SUM(h) <> 0
				OR SUM(i) <> 0
		) AS wrong`

	// The gradings of a session with the highest basis, as in basis.Highest.
	recountGraded = `graded AS (
			SELECT subject, session_hash, basis, MAX(day) AS day,
				(2 * CAST(SUM(pass_rate) AS BIGINT) + COUNT(*)) / (2 * COUNT(*)) AS pass_rate FROM (
				SELECT subject, session_hash, basis, day, pass_rate, RANK() OVER (PARTITION BY subject, session_hash
					ORDER BY CASE basis WHEN 'person' THEN 1 WHEN 'pushed' THEN 2 WHEN 'judge' THEN 3 ELSE 4 END) AS place FROM (
					SELECT skill_id AS subject, session_hash, COALESCE(basis, 'pushed') AS basis,
					graded_at / 86400000000 AS day, pass_rate
					FROM skill_gradings WHERE pass_rate IS NOT NULL
					UNION ALL SELECT version_id, session_hash, COALESCE(basis, 'pushed'), graded_at / 86400000000, pass_rate
					FROM skill_gradings WHERE pass_rate IS NOT NULL AND version_id IS NOT NULL
				) AS gradings
			) AS ranked WHERE place = 1 GROUP BY subject, session_hash, basis)`

	wrongGrades = `
		WITH ` + recountGraded + `
		SELECT COUNT(*), COALESCE(MIN(subject), '') FROM (
			SELECT subject FROM (
				SELECT subject_id AS subject, day, graded_sessions AS a, pass_rate_sum AS b, person_sessions AS c,
				person_sum AS d,
					judge_sessions AS e, judge_sum AS f, outcome_sessions AS g, outcome_sum AS h FROM skill_days
				UNION ALL SELECT subject, day, -COUNT(*), -SUM(pass_rate),
					-COUNT(CASE WHEN basis = 'person' THEN 1 END), -SUM(CASE WHEN basis = 'person' THEN pass_rate ELSE 0 END),
					-COUNT(CASE WHEN basis = 'judge' THEN 1 END), -SUM(CASE WHEN basis = 'judge' THEN pass_rate ELSE 0 END),
					-COUNT(CASE WHEN basis = 'outcome' THEN 1 END), -SUM(CASE WHEN basis = 'outcome' THEN pass_rate ELSE 0 END)
				FROM graded GROUP BY subject, day
			) AS recount GROUP BY subject, day
			HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0 OR SUM(e) <> 0 OR SUM(f) <> 0 OR SUM(g) <> 0
			OR SUM(h) <> 0
		) AS wrong`

	wrongTotals = `
		WITH ` + recountSeen + `, ` + recountGraded + `
		SELECT COUNT(*), COALESCE(MIN(subject), '') FROM (
			SELECT subject FROM (
				SELECT subject_id AS subject, unique_sessions AS a, graded_sessions AS b,
					COALESCE(first_seen_at, 0) AS c, COALESCE(last_seen_at, 0) AS d,
					by_hash AS e, by_plugin AS f, by_installation AS g, by_time AS h FROM skill_totals
				UNION ALL SELECT subject, -COUNT(*), 0, 0, 0, 0, 0, 0, 0 FROM lasts GROUP BY subject
				UNION ALL SELECT subject, 0, -COUNT(*), 0, 0, 0, 0, 0, 0 FROM graded GROUP BY subject
				UNION ALL SELECT skill_id, 0, 0, -MIN(occurred_at), -MAX(COALESCE(until_at, occurred_at)), 0, 0, 0, 0
				FROM skill_observations GROUP BY skill_id
				UNION ALL SELECT version_id, 0, 0, 0, 0,
					-SUM(CASE WHEN version_basis = 'hash' THEN weight ELSE 0 END),
					-SUM(CASE WHEN version_basis = 'plugin' THEN weight ELSE 0 END),
					-SUM(CASE WHEN version_basis = 'installation' THEN weight ELSE 0 END),
					-SUM(CASE WHEN version_basis IS NULL THEN weight ELSE 0 END)
				FROM skill_observations WHERE version_id IS NOT NULL AND is_check GROUP BY version_id
			) AS recount GROUP BY subject HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0
				OR SUM(e) <> 0 OR SUM(f) <> 0 OR SUM(g) <> 0 OR SUM(h) <> 0
		) AS wrong`

	// A claim names the id of its holder, which may have become an alias.
	lostAliases = `
		SELECT COUNT(*), COALESCE(MIN(a.alias), '') FROM skill_aliases a
		WHERE NOT EXISTS (SELECT 1 FROM skill_observations o WHERE o.id = a.observation_id)
			AND NOT EXISTS (SELECT 1 FROM skill_aliases b WHERE b.alias = a.observation_id)`
)

// lockBackfill returns the cursor of a step, NotFound if the step is done.
func lockBackfill(ctx context.Context, tx *store.Tx, step string) (after string, err error) {
	rows, err := tx.Query(ctx, `SELECT after_id FROM skill_backfill WHERE step = $1`+tx.Dialect().ForUpdate(), step)
	return store.One(rows, err, "Step", store.Value[string])
}

// moveBackfill moves the cursor of a step, or deletes it at the end.
func moveBackfill(ctx context.Context, tx *store.Tx, step, last string) error {
	if last == "" {
		_, err := tx.Exec(ctx, `DELETE FROM skill_backfill WHERE step = $1`, step)
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE skill_backfill SET after_id = $2 WHERE step = $1`, step, last)
	return err
}

// observationsAfter returns the next observations that are offers or have a
// version, in the order of their ids, and their owners.
func observationsAfter(ctx context.Context, q store.Querier, after string, limit int) ([]observation, []owner, error) {
	rows, err := q.Query(ctx, `
		SELECT org_id, user_id, `+observationColumns+` FROM skill_observations
		WHERE id > $1 AND (version_id IS NOT NULL OR NOT is_check) ORDER BY id LIMIT $2`, after, limit)
	return withOwners(rows, err, scanObservation)
}

func gradingsAfter(ctx context.Context, q store.Querier, after string, limit int) ([]grading, []owner, error) {
	rows, err := q.Query(ctx, `
		SELECT org_id, user_id, `+gradingColumns+` FROM skill_gradings WHERE id > $1 ORDER BY id LIMIT $2`, after, limit)
	return withOwners(rows, err, scanGrading)
}

// owner is whom a row belongs to.
type owner struct{ orgID, userID string }

// withOwners scans rows that begin with the ids of the organisation and the user.
func withOwners[T any](rows store.Rows, err error, scan func(store.Row) (T, error)) (all []T, owners []owner, _ error) {
	all, err = store.All(rows, err, func(row store.Row) (T, error) {
		return scan(rowWithOwner{row, &owners})
	})
	return all, owners, err
}

// rowWithOwner scans its first columns into owners.
type rowWithOwner struct {
	store.Row
	owners *[]owner
}

func (r rowWithOwner) Scan(targets ...any) error {
	var o owner
	err := r.Row.Scan(append([]any{&o.orgID, &o.userID}, targets...)...)
	*r.owners = append(*r.owners, o)
	return err
}
