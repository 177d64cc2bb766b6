package skills

import (
	"context"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// selectSkills begins every query for skills. A skill without use has no row of
// totals yet, hence the outer join and the zeros.
func selectSkills(q store.Querier) string {
	return `SELECT s.id, s.org_id, s.name, s.created_at, COALESCE(t.unique_sessions, 0), COALESCE(t.graded_sessions, 0),
		COALESCE(t.grading_changes, 0), t.first_seen_at, t.last_seen_at, s.confirmed, s.hidden, s.merged_into
	FROM skills s` + q.Dialect().LeftLookup("skill_totals", "t", "t.subject_id = s.id") + ` `
}

func scanSkill(row store.Row) (k skill, err error) {
	err = row.Scan(&k.ID, &k.OrgID, &k.Name, store.Time(&k.CreatedAt), &k.UniqueSessions, &k.GradedEver,
		&k.GradingChanges, store.NullTime(&k.FirstSeenAt), store.NullTime(&k.LastSeenAt), &k.Confirmed, &k.Hidden, &k.MergedInto)
	return k, err
}

// skillByIDOrName prefers the id: a person can name a skill like another one's id.
func skillByIDOrName(ctx context.Context, q store.Querier, orgID, idOrName string) (skill, error) {
	rows, err := q.Query(ctx, selectSkills(q)+`
		WHERE s.org_id = $1 AND (s.id = $2 OR s.name = $2) ORDER BY s.id = $2 DESC LIMIT 1`, orgID, idOrName)
	return store.One(rows, err, "Skill", scanSkill)
}

// skillByID returns merged and hidden skills, too; callers decide.
func skillByID(ctx context.Context, q store.Querier, orgID, id string) (skill, error) {
	rows, err := q.Query(ctx, selectSkills(q)+`WHERE s.org_id = $1 AND s.id = $2`, orgID, id)
	return store.One(rows, err, "Skill", scanSkill)
}

// matches is the condition of a Filter; $2 is a LIKE pattern or empty.
const matches = `s.org_id = $1 AND ($2 = '' OR lower(s.name) LIKE lower($2) ESCAPE '\')
	AND (s.confirmed = $3 OR $4 OR $5) AND (s.hidden = $4 OR $5) AND (s.merged_into IS NOT NULL) = $5`

// args returns the parameters $1 to $5 of matches. Sorting and paging are not
// conditions, so counting uses the same ones.
func (f Filter) args(orgID string) []any {
	return []any{orgID, store.Like(f.Search), !f.Unconfirmed, f.Hidden, f.Merged}
}

func countSkills(ctx context.Context, q store.Querier, orgID string, f Filter) (int, error) {
	return store.Count(ctx, q, `FROM skills s WHERE `+matches, f.args(orgID)...)
}

// skillsOfOrg returns all skills that match, by name.
func skillsOfOrg(ctx context.Context, q store.Querier, orgID string, f Filter) ([]skill, error) {
	rows, err := q.Query(ctx, selectSkills(q)+`WHERE `+matches+` ORDER BY s.name`, f.args(orgID)...)
	return store.All(rows, err, scanSkill)
}

// sorts are the fields that the database can sort by. The others are rates, which
// are computed in Go from sums; sorting by them reads all skills (see Service.List).
var sorts = store.Sorting{"unique_sessions": "COALESCE(t.unique_sessions, 0)", "last_seen_at": "t.last_seen_at"}

// pageOfSkills is one page of skills, by name unless another order is asked for.
func pageOfSkills(ctx context.Context, q store.Querier, orgID string, f Filter) ([]skill, error) {
	rows, err := q.Query(ctx, selectSkills(q)+`WHERE `+matches+sorts.By(f.Sort, `s.name`)+` LIMIT $6 OFFSET $7`,
		append(f.args(orgID), f.Limit, f.Offset)...)
	return store.All(rows, err, scanSkill)
}

// windows sums the counters of the days in [start, end) for each subject.
func windows(ctx context.Context, q store.Querier, subjectIDs []string, start, end int64) (map[string]dayCount, error) {
	sums := map[string]dayCount{}
	if len(subjectIDs) == 0 {
		return sums, nil
	}
	columns := make([]string, len(dayColumns))
	for i, name := range dayColumns {
		// PostgreSQL sums BIGINT to NUMERIC, which does not scan into an int64.
		columns[i] = "CAST(SUM(d." + name + ") AS BIGINT)"
	}
	wanted, list := q.Dialect().List("$1", subjectIDs)
	days := q.Dialect().Lookup("skill_days", "d", "d.subject_id = wanted.value AND d.day >= $2 AND d.day < $3")
	rows, err := q.Query(ctx, `
		SELECT d.subject_id, `+strings.Join(columns, ", ")+` FROM `+wanted+days+` GROUP BY d.subject_id`, list, start, end)
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var c dayCount
		err := row.Scan(append([]any{&id}, targets(&c)...)...)
		sums[id] = c
		return err
	})
	return sums, err
}

// basesOf returns the checks of versions by the basis of their attribution. Versions
// without checks are missing from the map.
func basesOf(ctx context.Context, q store.Querier, versionIDs []string) (map[string]Bases, error) {
	bases := map[string]Bases{}
	if len(versionIDs) == 0 {
		return bases, nil
	}
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT subject_id, by_hash, by_plugin, by_installation, by_time FROM skill_totals WHERE subject_id`+in, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var b Bases
		err := row.Scan(&id, &b.Hash, &b.Plugin, &b.Installation, &b.Time)
		bases[id] = b
		return err
	})
	return bases, err
}

// namesOfOrg returns the ids and names of all listed skills, by name. It is for
// menus and suggestions, which need no rollups.
func namesOfOrg(ctx context.Context, q store.Querier, orgID string) ([]skill, error) {
	rows, err := q.Query(ctx, `SELECT id, name FROM skills WHERE org_id = $1 AND confirmed AND NOT hidden
		AND merged_into IS NULL ORDER BY name`, orgID)
	return store.All(rows, err, func(row store.Row) (k skill, err error) {
		err = row.Scan(&k.ID, &k.Name)
		return k, err
	})
}

type gradedWindows struct{ now, before dayCount } // grades of a window and of the one before it

// gradesOfOrg sums the grades of an organisation's skills in [before, start) and
// from start on. One query for both windows: it is the one behind the list of all
// skills.
func gradesOfOrg(ctx context.Context, q store.Querier, orgID string, before, start int64) (map[string]gradedWindows, error) {
	sum := func(column, when string) string { return `SUM(d.` + column + `) FILTER (WHERE d.day ` + when + ` $3)` }
	rows, err := q.Query(ctx, store.SumQuery{
		Keys: "k.id", From: "skills AS k", Where: "k.org_id = $1", Rows: "skill_days AS d",
		On: "d.subject_id = k.id AND d.day >= $2",
		Columns: []string{
			sum("graded_sessions", "<"), sum("pass_rate_sum", "<"), sum("graded_sessions", ">="),
			sum("pass_rate_sum", ">="),
		},
	}.In(q.Dialect()), orgID, before, start)
	sums := map[string]gradedWindows{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var w gradedWindows
		err := row.Scan(&id, &w.before.gradedSessions, &w.before.passRateSum, &w.now.gradedSessions, &w.now.passRateSum)
		sums[id] = w
		return err
	})
	return sums, err
}

// daysOf returns the rows of one subject from day to day, both included, by day.
func daysOf(ctx context.Context, q store.Querier, subjectID string, from, to int64) (map[int64]dayCount, error) {
	rows, err := q.Query(ctx, `
		SELECT day, `+strings.Join(dayColumns, ", ")+` FROM skill_days
		WHERE subject_id = $1 AND day BETWEEN $2 AND $3`, subjectID, from, to)
	days := map[int64]dayCount{}
	_, err = store.All(rows, err, func(row store.Row) (c dayCount, err error) {
		var day int64
		err = row.Scan(append([]any{&day}, targets(&c)...)...)
		days[day] = c
		return c, err
	})
	return days, err
}

// targets returns the counters as arguments for Scan, in the order of dayColumns.
func targets(c *dayCount) []any {
	all := make([]any, 0, len(dayColumns))
	for _, p := range c.counts() {
		all = append(all, p)
	}
	return all
}

// A Session is one of a user in which a skill was observed, graded or paid for.
type Session struct {
	SkillID string
	Hash    string // the session's pseudonym, see SessionHash
}

// SessionPairs are sessions as pairs of columns. The dialects' Pairs and ByPair take
// them.
func SessionPairs(sessions []Session) [][2]string {
	pairs := make([][2]string, len(sessions))
	for i, s := range sessions {
		pairs[i] = [2]string{s.SkillID, s.Hash}
	}
	return pairs
}

// lastActivated returns the version that each session activated last, by time; "" if no version
// is known of any activation. Sessions without an activation are not in it. The
// second subquery tells "activated at an unknown version" from "not activated": only
// the latter may be attributed to the version that was current.
func lastActivated(ctx context.Context, q store.Querier, sessions []Session) (map[Session]string, error) {
	versions := map[Session]string{}
	if len(sessions) == 0 {
		return versions, nil
	}
	pairs, list := q.Dialect().Pairs("$1", SessionPairs(sessions))
	rows, err := q.Query(ctx, `SELECT a, b, version_id FROM (
		SELECT pairs.a, pairs.b, COALESCE((
			SELECT o.version_id FROM skill_observations o
			WHERE o.skill_id = pairs.a AND o.session_hash = pairs.b AND o.triggered AND o.weight > 0 AND o.version_id IS NOT NULL
			ORDER BY o.occurred_at DESC, o.version_id DESC LIMIT 1
		), (
			SELECT '' FROM skill_observations o
			WHERE o.skill_id = pairs.a AND o.session_hash = pairs.b AND o.triggered AND o.weight > 0 LIMIT 1
		)) AS version_id FROM `+pairs+`) AS used WHERE version_id IS NOT NULL`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var of Session
		var version string
		err := row.Scan(&of.SkillID, &of.Hash, &version)
		versions[of] = version
		return err
	})
	return versions, err
}

// An activation is one whose version is known. activationsAfter pages through them
// for the backfill.
type activation struct {
	ID            string
	OrgID, UserID string
	Session       Session
	Several       bool // its session activated another version, too
}

// activationsAfter returns the next activations in the order of their ids. The id is
// the cursor. Whether the session used several versions is computed for the page
// only, which is why the page is a subquery.
func activationsAfter(ctx context.Context, q store.Querier, id string, limit int) ([]activation, error) {
	rows, err := q.Query(ctx, `
		SELECT id, org_id, user_id, skill_id, session_hash, EXISTS (
			SELECT 1 FROM skill_observations o
			WHERE o.skill_id = page.skill_id AND o.session_hash = page.session_hash AND o.triggered
			AND o.version_id <> page.version_id
		) FROM (
			SELECT id, org_id, user_id, skill_id, session_hash, version_id FROM skill_observations
			WHERE id > $1 AND triggered AND version_id IS NOT NULL AND session_hash <> '' ORDER BY id LIMIT $2
		) AS page ORDER BY id`, id, limit)
	return store.All(rows, err, func(row store.Row) (a activation, err error) {
		err = row.Scan(&a.ID, &a.OrgID, &a.UserID, &a.Session.SkillID, &a.Session.Hash, &a.Several)
		return a, err
	})
}

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

// PromptsOfSessions returns the prompt at which each session first activated one of the
// skills, as a PromptHash by the hash of the session. Of some it is unknown.
func PromptsOfSessions(ctx context.Context, q store.Querier, of []Session) (map[string]string, error) {
	from, list := q.Dialect().ByPair("skill_observations", "skill_id", "session_hash", "$1", SessionPairs(of))
	rows, err := q.Query(ctx, `
		SELECT session_hash, prompt_hash FROM `+from+` AND triggered AND prompt_hash IS NOT NULL
		ORDER BY occurred_at DESC, id`, list)
	prompts := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var session, prompt string
		err := row.Scan(&session, &prompt)
		prompts[session] = prompt // the first comes last
		return err
	})
	return prompts, err
}
