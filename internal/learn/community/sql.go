package community

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// insertSubmission stores a submission, deduplicated by its digest, and returns
// its id or that of the stored duplicate. Its last query finds the row either way; reading after
// the insert avoids an upsert that would overwrite the first submission.
func insertSubmission(ctx context.Context, tx *store.Tx, s Submission) (string, error) {
	m := s.Summary
	_, err := tx.Exec(ctx, `
		INSERT INTO community_bundles (id, org_id, creator_id, skill_name, digest, contributor_hash, schema_version,
			tool_version, agent_type, sanitization_level, positive_queries, eval_entries, total_sessions, graded_sessions,
			average_pass_rate, deployed_proposals, bundle, created_at, submitted_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
		ON CONFLICT (org_id, digest) DO NOTHING`,
		s.ID, s.OrgID, s.CreatorID, s.SkillName, s.Digest, s.ContributorHash, m.SchemaVersion,
		m.ToolVersion, m.AgentType, m.SanitizationLevel, m.PositiveQueries, m.EvalEntries, m.TotalSessions, m.GradedSessions,
		m.AveragePassRate, m.DeployedProposals, s.Bundle, store.Micros(m.CreatedAt), store.Micros(s.SubmittedAt))
	if err != nil {
		return "", err
	}
	rows, err := tx.Query(ctx, `SELECT id FROM community_bundles WHERE org_id = $1 AND digest = $2`, s.OrgID, s.Digest)
	return store.One(rows, err, "Submission", store.Value[string])
}

// Stored returns the query that recounts the bytes of organisations' bundles. octet_length counts
// bytes in both dialects; LENGTH would count characters.
func Stored() quota.Count {
	return quota.Count{Kind: quota.Community, SQL: `
		SELECT org_id, CAST(SUM(octet_length(bundle)) AS BIGINT) AS bytes FROM community_bundles GROUP BY org_id`}
}

func totals(ctx context.Context, q store.Querier, creatorID string) (submissions, contributors int, err error) {
	rows, err := q.Query(ctx, `
		SELECT COUNT(*), COUNT(DISTINCT contributor_hash) FROM community_bundles WHERE creator_id = $1`, creatorID)
	_, err = store.One(rows, err, "Totals", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(&submissions, &contributors)
	})
	return submissions, contributors, err
}

// skillCounts counts the submissions of each skill, the newest first. MAX(id) makes the order total
// where two came in one microsecond.
func skillCounts(ctx context.Context, q store.Querier, creatorID string) ([]SkillCount, error) {
	rows, err := q.Query(ctx, `
		SELECT skill_name, COUNT(*), COUNT(DISTINCT contributor_hash), MAX(submitted_at) AS latest
		FROM community_bundles WHERE creator_id = $1
		GROUP BY skill_name ORDER BY latest DESC, MAX(id) DESC`, creatorID)
	return store.All(rows, err, func(row store.Row) (c SkillCount, err error) {
		err = row.Scan(&c.SkillName, &c.Submissions, &c.Contributors, store.Time(&c.Latest))
		return c, err
	})
}

// skillReport aggregates the bundles of one skill. The mean is weighted by graded sessions; NULLIF
// makes it NULL, and not a division by zero, where none is graded.
func skillReport(ctx context.Context, q store.Querier, creatorID, name string) (SkillReport, error) {
	rows, err := q.Query(ctx, `
		SELECT skill_name, COUNT(*), COUNT(DISTINCT contributor_hash), MAX(submitted_at),
			CAST(SUM(total_sessions) AS BIGINT), CAST(SUM(graded_sessions) AS BIGINT),
			SUM(average_pass_rate * graded_sessions)
				/ NULLIF(SUM(CASE WHEN average_pass_rate IS NULL THEN 0 ELSE graded_sessions END), 0)
		FROM community_bundles WHERE creator_id = $1 AND skill_name = $2 GROUP BY skill_name`, creatorID, name)
	return store.One(rows, err, "Skill", func(row store.Row) (r SkillReport, err error) {
		err = row.Scan(&r.SkillName, &r.Submissions, &r.Contributors, store.Time(&r.Latest), &r.TotalSessions,
			&r.GradedSessions, &r.PassRate)
		return r, err
	})
}

// halves returns the pass rates of the earlier and the later half of the graded
// bundles of a skill, nil for an empty half. NTILE(2) puts the larger half first if their number is
// odd.
func halves(ctx context.Context, q store.Querier, creatorID, name string) (earlier, later *float64, err error) {
	rows, err := q.Query(ctx, `
		SELECT half, SUM(average_pass_rate * graded_sessions) / SUM(graded_sessions) FROM (
			SELECT average_pass_rate, graded_sessions, NTILE(2) OVER (ORDER BY created_at, id) AS half
			FROM community_bundles
			WHERE creator_id = $1 AND skill_name = $2 AND graded_sessions > 0 AND average_pass_rate IS NOT NULL) AS graded
		GROUP BY half`, creatorID, name)
	_, err = store.All(rows, err, func(row store.Row) (rate float64, err error) {
		var half int
		err = row.Scan(&half, &rate)
		if half == 1 {
			earlier = &rate
		} else {
			later = &rate
		}
		return rate, err
	})
	return earlier, later, err
}

// recentSubmissions returns the newest submissions, of one skill or, if that is
// "", of all.
func recentSubmissions(ctx context.Context, q store.Querier, creatorID, skill string, limit int) ([]Submission, error) {
	rows, err := q.Query(ctx, `
		SELECT id, skill_name, contributor_hash, submitted_at FROM community_bundles
		WHERE creator_id = $1 AND ($2 = '' OR skill_name = $2) ORDER BY id DESC LIMIT $3`, creatorID, skill, limit)
	return store.All(rows, err, func(row store.Row) (s Submission, err error) {
		err = row.Scan(&s.ID, &s.SkillName, &s.ContributorHash, store.Time(&s.SubmittedAt))
		return s, err
	})
}
