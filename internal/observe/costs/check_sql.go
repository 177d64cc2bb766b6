package costs

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check compares all rollups with a recount. Nothing is repaired: a difference is a
// bug whose cause a repair would hide.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "costs", []invariants.Rule{
		{Broken: wrongDays, Wrong: "days whose costs are not those of their requests", Do: invariants.Report},
		{Broken: wrongGroups, Wrong: "uses and sessions whose costs are not those of their requests", Do: invariants.Report},
		{Broken: wrongUses, Wrong: "days whose uses and sessions are counted wrong", Do: invariants.Report},
		{Broken: wrongBuckets, Wrong: "days whose histogram is not that of their uses", Do: invariants.Report},
		{Broken: wrongModels, Wrong: "days whose models are not those of their requests", Do: invariants.Report},
	})
}

// A recount adds the stored counters and subtracts the recounted ones: a group
// that does not sum to zero is wrong. It does tally.go's arithmetic in SQL.
const (
	// Every request under each of its subjects: organisation, skill and version.
	paid = `paid AS (
			SELECT org_id AS subject, id FROM cost_requests
			UNION ALL SELECT skill_id, id FROM cost_requests WHERE skill_id IS NOT NULL
			UNION ALL SELECT version_id, id FROM cost_requests WHERE version_id IS NOT NULL)`

	wrongDays = `
		WITH ` + paid + `
		SELECT COUNT(*), COALESCE(MIN(subject), '') FROM (
			SELECT subject FROM (
				SELECT subject_id AS subject, day, requests AS a, reported AS b, unpriced AS c, micros AS d, input AS e,
				output AS f,
					cache_read AS g, cache_write AS h FROM cost_days
				UNION ALL SELECT subject, occurred_at / 86400000000, -COUNT(*), -COUNT(reported_micros),
					-SUM(CASE WHEN micros IS NULL THEN 1 ELSE 0 END), -COALESCE(SUM(micros), 0), -SUM(input), -SUM(output),
					-SUM(cache_read), -SUM(cache_write)
				FROM paid JOIN cost_requests r ON r.id = paid.id GROUP BY subject, occurred_at / 86400000000
			) AS recount GROUP BY subject, day
			HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0 OR SUM(e) <> 0 OR SUM(f) <> 0 OR SUM(g) <> 0
			OR SUM(h) <> 0
		) AS wrong`

	// Uses are compared by key; sessions by what their key is a hash of.
	wrongGroups = `
		WITH grouped AS (
			SELECT use_key AS part, '' AS session_hash, '' AS version, occurred_at, occurred_at AS first_at, micros
			FROM cost_requests
			WHERE use_key IS NOT NULL
			UNION ALL SELECT skill_id, session_hash, COALESCE(version_id, ''), occurred_at, 0, micros FROM cost_requests
			WHERE skill_id IS NOT NULL AND session_hash <> ''
			UNION ALL SELECT org_id, session_hash, '', occurred_at, occurred_at, micros FROM cost_requests
			WHERE session_hash <> '')
		SELECT COUNT(*), COALESCE(MIN(part), '') FROM (
			SELECT part FROM (
				SELECT CASE WHEN kind = 'use' THEN key ELSE subject_id END AS part,
					CASE WHEN kind = 'use' THEN '' ELSE session_hash END AS session_hash,
					CASE WHEN kind = 'use' THEN '' ELSE COALESCE(version_id, '') END AS version,
					requests AS a, unpriced AS b, micros AS c, COALESCE(first_at, 0) AS d FROM cost_groups
				UNION ALL SELECT part, session_hash, version, -COUNT(*), -SUM(CASE WHEN micros IS NULL THEN 1 ELSE 0 END),
					-COALESCE(SUM(micros), 0), -MIN(first_at)
				FROM grouped GROUP BY part, session_hash, version
			) AS recount GROUP BY part, session_hash, version HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0
		) AS wrong`

	// Groups under each of their subjects. Those of the organisation have no
	// version.
	subjectsOfGroups = `counted AS (
			SELECT subject_id AS subject, kind, first_at / 86400000000 AS day, requests, unpriced, micros, grade_day, pass_rate
			FROM cost_groups
			UNION ALL SELECT version_id, kind, first_at / 86400000000, requests, unpriced, micros, grade_day, pass_rate
			FROM cost_groups WHERE version_id IS NOT NULL)`

	wrongUses = `
		WITH ` + subjectsOfGroups + `
		SELECT COUNT(*), COALESCE(MIN(subject), '') FROM (
			SELECT subject FROM (
				SELECT subject_id AS subject, day, uses AS a, use_requests AS b, sessions AS c, session_requests AS d,
					graded_sessions AS e, graded_micros AS f, pass_rate_sum AS g FROM cost_days
				UNION ALL SELECT subject, day, -COUNT(*), -SUM(requests), 0, 0, 0, 0, 0 FROM counted
				WHERE kind = 'use' GROUP BY subject, day
				UNION ALL SELECT subject, day, 0, 0, -COUNT(*), -SUM(requests), 0, 0, 0 FROM counted
				WHERE kind = 'session' AND day IS NOT NULL GROUP BY subject, day
				UNION ALL SELECT subject, grade_day, 0, 0, 0, 0, -COUNT(*), -SUM(micros), -SUM(pass_rate) FROM counted
				WHERE grade_day IS NOT NULL AND unpriced = 0 GROUP BY subject, grade_day
			) AS recount GROUP BY subject, day
			HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0 OR SUM(e) <> 0 OR SUM(f) <> 0 OR SUM(g) <> 0
		) AS wrong`

	// The bucket of a cost is not recomputed in SQL: only the sums of a day are
	// compared.
	wrongBuckets = `
		WITH ` + subjectsOfGroups + `
		SELECT COUNT(*), COALESCE(MIN(subject), '') FROM (
			SELECT subject FROM (
				SELECT subject_id AS subject, day, uses AS a, micros AS b FROM cost_buckets
				UNION ALL SELECT subject, day, -COUNT(*), -SUM(micros) FROM counted
				WHERE kind = 'use' AND unpriced = 0 GROUP BY subject, day
			) AS recount GROUP BY subject, day HAVING SUM(a) <> 0 OR SUM(b) <> 0
		) AS wrong`

	wrongModels = `
		SELECT COUNT(*), COALESCE(MIN(org_id), '') FROM (
			SELECT org_id FROM (
				SELECT org_id, day, model, requests AS a FROM cost_models
				UNION ALL SELECT org_id, occurred_at / 86400000000, model, -COUNT(*) FROM cost_requests WHERE model <> ''
				GROUP BY org_id, occurred_at / 86400000000, model
			) AS recount GROUP BY org_id, day, model HAVING SUM(a) <> 0
		) AS wrong`
)
