package telemetry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Considered is a prompt that a skill was considered for, and what became
// of it.
type Considered struct {
	Ref, Text    string
	Checks       int // how often the skill was considered for it
	Missed       int // of those, how often it did not fire
	Graded       int // how often it fired in a session that was graded
	Failed       int // of those, how often the session failed
	LastMissedAt *time.Time
	LastFailedAt *time.Time
	Mode         string // how the skill was called, or ""
}

// maxConsidered is how many observations of a skill are looked at: the newest.
const maxConsidered = 20_000

// shareable is the condition on prompts whose text may leave their owner's
// hands: those that a person typed. One of the kind private is among the
// others.
const shareable = `p.kind IN ('', 'user', 'unknown') AND p.prompt_text <> ''`

// Considered returns the prompts of the newest observations of a skill, as far
// as others may read them. A graded session failed when less than half of
// what was expected of it was met.
func (s *Service) Considered(ctx context.Context, q store.Querier, orgID, skillID string) ([]Considered, error) {
	rows, err := q.Query(ctx, `
		SELECT p.hash, p.prompt_text, COUNT(*), COUNT(*) FILTER (WHERE NOT o.triggered),
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
		JOIN telemetry_prompts p ON p.hash = o.prompt_hash
		LEFT JOIN (
			SELECT session_hash, AVG(pass_rate) AS pass_rate, MAX(graded_at) AS graded_at FROM skill_gradings
			WHERE skill_id = $2 AND org_id = $1 AND pass_rate IS NOT NULL GROUP BY session_hash
		) g ON g.session_hash = o.session_hash
		WHERE `+shareable+`
		GROUP BY p.hash, p.prompt_text ORDER BY MAX(o.occurred_at) DESC, p.hash`, orgID, skillID, maxConsidered)
	return store.All(rows, err, func(row store.Row) (c Considered, err error) {
		err = row.Scan(&c.Ref, &c.Text, &c.Checks, &c.Missed, store.NullTime(&c.LastMissedAt),
			&c.Graded, &c.Failed, store.NullTime(&c.LastFailedAt), &c.Mode)
		return c, err
	})
}

// Texts returns the texts of prompts by their Ref, as far as they are still
// kept and others may read them.
func (s *Service) Texts(ctx context.Context, q store.Querier, orgID string, refs []string) (map[string]string, error) {
	in, list := q.Dialect().In("$2", refs)
	rows, err := q.Query(ctx, `
		SELECT p.hash, p.prompt_text FROM telemetry_prompts p WHERE p.org_id = $1 AND p.hash`+in+` AND `+shareable, orgID, list)
	texts := map[string]string{}
	_, err = store.All(rows, err, func(row store.Row) (struct{}, error) {
		var ref, text string
		err := row.Scan(&ref, &text)
		texts[ref] = text
		return struct{}{}, err
	})
	return texts, err
}
