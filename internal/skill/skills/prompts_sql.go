package skills

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// PromptStats is the outcomes of one prompt in the sessions of a skill. The prompt
// itself is unknown here, only its pseudonym: content is stored elsewhere, if at
// all, and may have expired.
type PromptStats struct {
	PromptHash   string // see skills.PromptHash
	Checks       int    // how often the skill was considered for it
	Missed       int    // of those, how often it was not activated
	Graded       int    // how often it was activated in a graded session
	Failed       int    // of those, how often the session failed
	LastMissedAt *time.Time
	LastFailedAt *time.Time
	Mode         string // how the skill was called, or ""
}

// PromptStatsOf returns the outcomes of the prompts in a skill's newest observations, the
// newest prompt first. A graded session failed if its pass rate is below one half.
// The limit on observations bounds the query for skills with millions of them. As
// everywhere, of several gradings of a session only those with the highest basis
// count.
func PromptStatsOf(ctx context.Context, q store.Querier, orgID, skillID string, observations int) ([]PromptStats, error) {
	rows, err := q.Query(ctx, `
		SELECT o.prompt_hash, COUNT(*), COUNT(*) FILTER (WHERE NOT o.triggered),
			MAX(o.occurred_at) FILTER (WHERE NOT o.triggered),
			COUNT(g.pass_rate) FILTER (WHERE o.triggered),
			COUNT(g.pass_rate) FILTER (WHERE o.triggered AND g.pass_rate < 500000000),
			MAX(g.graded_at) FILTER (WHERE o.triggered AND g.pass_rate < 500000000),
			COALESCE(MAX(o.mode), '')
		FROM (
			SELECT prompt_hash, session_hash, triggered, occurred_at, mode FROM skill_observations
			WHERE org_id = $1 AND skill_id = $2 AND is_check AND prompt_hash IS NOT NULL
			ORDER BY occurred_at DESC LIMIT $3
		) o
		LEFT JOIN (
			SELECT session_hash, AVG(pass_rate) AS pass_rate, MAX(graded_at) AS graded_at FROM (
				SELECT session_hash, pass_rate, graded_at,
				RANK() OVER (PARTITION BY session_hash ORDER BY CASE COALESCE(basis, 'pushed')
					WHEN 'person' THEN 1 WHEN 'pushed' THEN 2 WHEN 'judge' THEN 3 ELSE 4 END) AS place
				FROM skill_gradings WHERE skill_id = $2 AND org_id = $1 AND pass_rate IS NOT NULL
			) AS ranked WHERE place = 1 GROUP BY session_hash
		) g ON g.session_hash = o.session_hash
		GROUP BY o.prompt_hash ORDER BY MAX(o.occurred_at) DESC, o.prompt_hash`, orgID, skillID, observations)
	return store.All(rows, err, func(row store.Row) (p PromptStats, err error) {
		err = row.Scan(&p.PromptHash, &p.Checks, &p.Missed, store.NullTime(&p.LastMissedAt),
			&p.Graded, &p.Failed, store.NullTime(&p.LastFailedAt), &p.Mode)
		return p, err
	})
}
