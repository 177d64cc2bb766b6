package sessions

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check compares the figures of sessions with a recount.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "sessions", []invariants.Rule{
		{Broken: wrongCounts, Wrong: "sessions whose figures are not those of their events", Do: invariants.Report},
		{Broken: wrongGrades, Wrong: "sessions whose grade or start is not that of their skills", Do: invariants.Report},
		{Broken: lostRows, Wrong: "events and skills of sessions that are not there", Do: invariants.Report},
	})
}

const (
	wrongCounts = `
		SELECT COUNT(*), COALESCE(MIN(id), '') FROM (
			SELECT id FROM (
				SELECT id, 1 AS stored, turns AS a, tool_calls AS b, tool_errors AS c, events AS d, unnamed_turns AS e,
					call_facts AS f, fact_calls AS g, error_facts AS h, fact_errors AS i FROM agent_sessions
				UNION ALL SELECT session_id, 0, -COUNT(CASE WHEN kind = 'prompt' THEN 1 END), -COUNT(CASE
					WHEN kind = 'tool' THEN 1 END),
					-COUNT(CASE WHEN kind = 'tool' AND NOT ok THEN 1 END), -COUNT(*), -COUNT(CASE
						WHEN kind = 'unnamed_prompt' THEN 1 END),
					-COUNT(CASE WHEN kind = 'fact' AND name NOT LIKE '/%' THEN 1 END),
					-COALESCE(SUM(CASE WHEN kind = 'fact' AND name NOT LIKE '/%'
						THEN CAST(SUBSTR(name, 1, 10) AS BIGINT) END), 0),
					-COUNT(CASE WHEN kind = 'fact' AND name NOT LIKE '%/' THEN 1 END),
					-COALESCE(SUM(CASE WHEN kind = 'fact' AND name NOT LIKE '%/'
						THEN CAST(SUBSTR(name, LENGTH(name) - 9) AS BIGINT) END), 0)
				FROM agent_session_events GROUP BY session_id
			) AS recount GROUP BY id HAVING SUM(stored) = 1 AND (SUM(a) <> 0 OR SUM(b) <> 0 OR SUM(c) <> 0 OR SUM(d) <> 0
				OR SUM(e) <> 0 OR SUM(f) <> 0 OR SUM(g) <> 0 OR SUM(h) <> 0 OR SUM(i) <> 0)
		) AS wrong`

	wrongGrades = `
		SELECT COUNT(*), COALESCE(MIN(id), '') FROM (
			SELECT s.id FROM agent_sessions s LEFT JOIN agent_session_skills k ON k.session_id = s.id
			GROUP BY s.id, s.pass_rate, s.started_at
			HAVING COALESCE(s.pass_rate, -1) <> COALESCE(
					(2 * CAST(SUM(k.pass_rate) AS BIGINT) + COUNT(k.pass_rate)) / NULLIF(2 * COUNT(k.pass_rate), 0), -1)
				OR COALESCE(MIN(k.started_at), s.started_at) <> s.started_at
				OR COALESCE(MAX(k.started_at), s.started_at) <> s.started_at
		) AS wrong`

	lostRows = `
		SELECT COUNT(*), COALESCE(MIN(session_id), '') FROM (
			SELECT session_id FROM agent_session_events UNION SELECT session_id FROM agent_session_skills
		) AS named WHERE NOT EXISTS (SELECT 1 FROM agent_sessions s WHERE s.id = named.session_id)`
)
