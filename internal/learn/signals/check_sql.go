package signals

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check compares the counters of the upper levels with a recount of the signals. Weeks are left
// out, as they follow from the days, and so are the classes of sessions, which are inside JSON.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "signals", []invariants.Rule{
		{Broken: wrongCells, Wrong: "cells that do not count the signals that are there", Do: invariants.Report},
	})
}

// wrongCells adds the stored counts and subtracts the recounted ones: a group
// that does not sum to zero is wrong.
const wrongCells = `
	WITH sent AS (
		SELECT org_id, skill_name, CASE WHEN session IS NULL THEN 'event' ELSE 'session' END AS form, signal_type, day,
			contributor, COALESCE(confidence, 0) AS confidence FROM signals)
	SELECT COUNT(*), COALESCE(MIN(place), '') FROM (
		SELECT org_id || ' ' || level || ' ' || skill_name AS place FROM (
			SELECT org_id, level, skill_name, form, signal_type, CASE WHEN level = 'day' THEN last_day ELSE 0 END AS day,
				signals AS a, contributors AS b, confidence_sum AS c
			FROM signal_cells WHERE level IN ('org', 'skill', 'kind', 'day')
			UNION ALL SELECT org_id, 'org', '', '', '', 0, -COUNT(*), -COUNT(DISTINCT contributor), -SUM(confidence)
			FROM sent GROUP BY org_id
			UNION ALL SELECT org_id, 'skill', skill_name, '', '', 0, -COUNT(*), -COUNT(DISTINCT contributor), -SUM(confidence)
			FROM sent GROUP BY org_id, skill_name
			UNION ALL SELECT org_id, 'kind', skill_name, form, signal_type, 0, -COUNT(*), -COUNT(DISTINCT contributor),
				-SUM(confidence)
			FROM sent GROUP BY org_id, skill_name, form, signal_type
			UNION ALL SELECT org_id, 'day', skill_name, form, signal_type, day, -COUNT(*), -COUNT(DISTINCT contributor),
				-SUM(confidence)
			FROM sent GROUP BY org_id, skill_name, form, signal_type, day
		) AS recount GROUP BY org_id, level, skill_name, form, signal_type, day
		HAVING SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0
	) AS wrong`
