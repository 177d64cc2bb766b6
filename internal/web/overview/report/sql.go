package report

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
)

// entry is a skill of the registry with the head of its SKILL.md. ownPolicy is found
// by its path in the manifest: the file itself is in the archive.
type entry struct {
	id, skillID, name, version, description string
	createdAt                               time.Time
	head                                    []byte
	bytes                                   *int // of the whole SKILL.md; nil if it is too long to be kept
	ownPolicy                               bool
}

// headSize is how much is read of a SKILL.md: its frontmatter is at the beginning.
const headSize = 8 << 10

// eachEntry calls fn for the skills of an organisation's registry that have a current
// version, by name. The version's own description wins, since that is what agents
// read.
func eachEntry(ctx context.Context, q store.Querier, orgID string, limit int, fn func(e entry) error) error {
	rows, err := q.Query(ctx, `
		SELECT e.id, COALESCE(e.skill_id, ''), e.name, e.current_version, COALESCE(NULLIF(v.description, ''),
			e.description), e.created_at,
			substr(v.skill_md, 1, $3), length(v.skill_md), v.file_paths LIKE '%"agents/openai.yaml"%'
		FROM registry_entries e JOIN registry_versions v ON v.id = e.current_version_id
		WHERE e.org_id = $1 AND e.entry_type = 'skill' ORDER BY e.name LIMIT $2`, orgID, limit, headSize)
	return store.Each(rows, err, func(row store.Row) error {
		var e entry
		err := row.Scan(&e.id, &e.skillID, &e.name, &e.version, &e.description, store.Time(&e.createdAt), &e.head, &e.bytes, &e.ownPolicy)
		if err != nil {
			return err
		}
		return fn(e)
	})
}

// eachVersion is eachEntry for versions by their ids, whether they are current or not.
func eachVersion(
	ctx context.Context, q store.Querier, orgID string, versionIDs []string, fn func(versionID string, e entry) error,
) error {
	if len(versionIDs) == 0 {
		return nil
	}
	in, list := q.Dialect().In("$2", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT v.id, e.id, COALESCE(e.skill_id, ''), e.name, COALESCE(NULLIF(v.description, ''), e.description),
			substr(v.skill_md, 1, $3)
		FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
		WHERE e.org_id = $1 AND e.entry_type = 'skill' AND v.id`+in, orgID, list, headSize)
	return store.Each(rows, err, func(row store.Row) error {
		var id string
		var e entry
		if err := row.Scan(&id, &e.id, &e.skillID, &e.name, &e.description, &e.head); err != nil {
			return err
		}
		return fn(id, e)
	})
}

// counts are what agents reported of a skill in the window.
type counts struct {
	skillID, name string
	createdAt     time.Time
	listed        bool // see skills.Standing
	seen          int64
	offered       int64 // sessions, like the next
	used          int64
	checks        int64
	triggers      int64
	confidence    int64 // sum, in billionths
	confidences   int64
}

// countsOfOrg sums the counters of an organisation's skills from a day on. Merged
// skills are left out: what is reported of them counts for others.
func countsOfOrg(ctx context.Context, q store.Querier, orgID string, since int64) ([]counts, error) {
	rows, err := q.Query(ctx, `
		SELECT k.id, k.name, k.created_at, k.confirmed AND NOT k.hidden, CAST(SUM(d.last_sessions) AS BIGINT),
			CAST(SUM(d.last_offered_sessions) AS BIGINT), CAST(SUM(d.last_trigger_sessions) AS BIGINT),
				CAST(SUM(d.checks) AS BIGINT),
			CAST(SUM(d.triggers) AS BIGINT), CAST(SUM(d.confidence_sum) AS BIGINT), CAST(SUM(d.confidence_count) AS BIGINT)
		FROM skills k JOIN skill_days d ON d.subject_id = k.id AND d.day >= $2
		WHERE k.org_id = $1 AND k.merged_into IS NULL
		GROUP BY k.id, k.name, k.created_at, k.confirmed, k.hidden ORDER BY k.name`, orgID, since)
	return store.All(rows, err, func(row store.Row) (c counts, err error) {
		err = row.Scan(&c.skillID, &c.name, store.Time(&c.createdAt), &c.listed, &c.seen, &c.offered, &c.used,
			&c.checks, &c.triggers,
			&c.confidence, &c.confidences)
		return c, err
	})
}

// testRun is the newest run of a suite, with the skill that it is about.
type testRun struct{ id, skill, suiteID, suite string }

// newestRuns returns the newest run of each suite since a time, the newest first. Runs
// with more trials than maxTrials are left out. Runs that serve a purpose, e.g. of a
// gate or an improve run, and runs on an agent's catalog are left out: they do not
// show how the whole registry routes.
func newestRuns(ctx context.Context, q store.Querier, orgID string, since time.Time, maxTrials, limit int) ([]testRun, error) {
	rows, err := q.Query(ctx, `
		SELECT r.id, r.subject, s.id, s.name FROM (
			SELECT r.id, ROW_NUMBER() OVER (PARTITION BY r.suite_id ORDER BY r.id DESC) AS place
			FROM eval_suites s JOIN eval_runs r ON r.suite_id = s.id
			WHERE s.org_id = $1 AND r.org_id = $1 AND r.status = 'succeeded' AND r.finished_at >= $2 AND r.total <= $3
				AND NOT EXISTS (SELECT 1 FROM eval_run_purposes p WHERE p.run_id = r.id)
				AND NOT EXISTS (SELECT 1 FROM eval_run_catalogs c WHERE c.run_id = r.id)
		) newest JOIN eval_runs r ON r.id = newest.id JOIN eval_suites s ON s.id = r.suite_id
		WHERE newest.place = 1 ORDER BY r.id DESC LIMIT $4`, orgID, store.Micros(since), maxTrials, limit)
	return store.All(rows, err, func(row store.Row) (r testRun, err error) {
		var pinned subject.Pinned
		var raw string
		if err = row.Scan(&r.id, &raw, &r.suiteID, &r.suite); err == nil {
			err = json.Unmarshal([]byte(raw), &pinned)
		}
		r.skill = pinned.Name
		return r, err
	})
}

// catalogPair is a pair of runs, and the model that chose.
type catalogPair struct {
	RunPair
	judge string
}

// catalogPairs returns for each suite the newest run on the agent's catalogue that has a
// partner with whole descriptions, the newest first.
func catalogPairs(ctx context.Context, q store.Querier, orgID string, o Options, since time.Time,
	limit int,
) ([]catalogPair, error) {
	rows, err := q.Query(ctx, `
		SELECT s.id, s.name, r.subject, r.judge, newest.full_id, newest.id FROM (
			SELECT r.id, r.suite_id, f.id AS full_id, ROW_NUMBER() OVER (PARTITION BY r.suite_id
				ORDER BY r.id DESC, f.id DESC) AS place
			FROM eval_run_catalogs c JOIN eval_runs r ON r.id = c.run_id
				JOIN eval_run_catalogs w ON w.org_id = $1 AND w.pair = c.pair AND w.catalog = $2 JOIN eval_runs f
					ON f.id = w.run_id
			WHERE c.org_id = $1 AND c.catalog = $3 AND c.context_window = $4 AND r.status = 'succeeded' AND r.finished_at >= $5
				AND f.status = 'succeeded' AND f.suite_id = r.suite_id
		) newest JOIN eval_runs r ON r.id = newest.id JOIN eval_suites s ON s.id = newest.suite_id
		WHERE newest.place = 1 ORDER BY r.id DESC LIMIT $6`, orgID, catalogue.Full, o.Agent, o.Window, store.Micros(since), limit)
	return store.All(rows, err, func(row store.Row) (p catalogPair, err error) {
		var raw, by string
		if err = row.Scan(&p.SuiteID, &p.Suite, &raw, &by, &p.FullID, &p.CutID); err != nil {
			return p, err
		}
		var pinned subject.Pinned
		var about judge.Description
		err = errors.Join(json.Unmarshal([]byte(raw), &pinned), json.Unmarshal([]byte(by), &about))
		p.Skill, p.judge = pinned.Name, about.Model
		return p, err
	})
}

// recallOf returns, by run and case, whether the cases that should trigger their skill did
// so; cases without a verdict are missing.
func recallOf(ctx context.Context, q store.Querier, runIDs []string) (map[string]map[string]bool, error) {
	in, list := q.Dialect().In("$1", runIDs)
	rows, err := q.Query(ctx, `
		SELECT run_id, case_id, verdict = 'pass' FROM eval_run_cases
		WHERE run_id`+in+` AND should_trigger AND verdict IN ('pass', 'fail')`, list)
	all := map[string]map[string]bool{}
	err = store.Each(rows, err, func(row store.Row) error {
		var run, id string
		var pass bool
		err := row.Scan(&run, &id, &pass)
		if all[run] == nil {
			all[run] = map[string]bool{}
		}
		all[run][id] = pass
		return err
	})
	return all, err
}

// choice is which skill a trial of a trigger case chose; "" for none.
type choice struct {
	runID  string
	chosen string
	passed bool
}

// choicesOf returns the choices of the skill's own trials in runs.
func choicesOf(ctx context.Context, q store.Querier, runIDs []string) (all []choice, err error) {
	in, list := q.Dialect().In("$1", runIDs)
	rows, err := q.Query(ctx, `
		SELECT run_id, verdict = 'pass', evidence FROM eval_run_trials
		WHERE run_id`+in+` AND variant = 'skill' AND verdict IN ('pass', 'fail') AND evidence LIKE '%"chosen":%'
		ORDER BY run_id, case_index, n`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var c choice
		var raw string
		var evidence struct {
			Chosen *string `json:"chosen"`
		}
		if err := row.Scan(&c.runID, &c.passed, &raw); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(raw), &evidence); err != nil || evidence.Chosen == nil {
			return err
		}
		c.chosen = *evidence.Chosen
		all = append(all, c)
		return nil
	})
	return all, err
}

// request is what a case asks that should trigger a skill.
type request struct{ runID, query string }

// requestsOf returns the queries of cases, those of the newest runs first.
func requestsOf(ctx context.Context, q store.Querier, runIDs []string, limit int) ([]request, error) {
	in, list := q.Dialect().In("$1", runIDs)
	rows, err := q.Query(ctx, `
		SELECT run_id, query FROM eval_run_cases
		WHERE run_id`+in+` AND should_trigger AND query IS NOT NULL ORDER BY run_id DESC, case_id LIMIT $2`, list, limit)
	return store.All(rows, err, func(row store.Row) (r request, err error) {
		err = row.Scan(&r.runID, &r.query)
		return r, err
	})
}

// pair is two skills in the same sessions. taken and together are numbers of
// sessions.
type pair struct {
	skill, other    string // names
	taken, together int
}

// sample is the newest sessions of an organisation. A page of each outcome comes from
// the index that lists of sessions use. Figures of a sample, so that the cost does
// not grow with history.
func sample() string {
	var parts []string
	for _, outcome := range []string{"", "pass", "fail"} {
		parts = append(parts, `SELECT id FROM (SELECT id FROM agent_sessions
			WHERE org_id = $1 AND outcome = '`+outcome+`' AND started_at >= $2 ORDER BY started_at DESC, id DESC LIMIT $3) page_`+outcome)
	}
	return "WITH sample AS (" + strings.Join(parts, " UNION ALL ") + ") "
}

// pairsOf returns which skills were activated in the newest sessions beside skills that
// were activated, too, or considered in vain, the most frequent first.
func pairsOf(ctx context.Context, q store.Querier, orgID string, since time.Time, sessions, limit int) ([]pair, error) {
	// The pairs are counted before they get names: planners that know nothing of the
	// tables would pair all skills of the organisation first.
	rows, err := q.Query(ctx, sample()+`
		SELECT k.name, o.name, pairs.taken, pairs.together FROM (
			SELECT a.skill_id, b.skill_id AS other_id, COUNT(*) FILTER (WHERE NOT a.activated) AS taken,
				COUNT(*) FILTER (WHERE a.activated) AS together
			FROM sample JOIN agent_session_skills b ON b.session_id = sample.id AND b.activated
				JOIN agent_session_skills a ON a.session_id = sample.id AND a.skill_id <> b.skill_id AND (a.activated
					OR NOT a.offered)
			GROUP BY a.skill_id, b.skill_id
		) pairs JOIN skills k ON k.id = pairs.skill_id JOIN skills o ON o.id = pairs.other_id
		WHERE k.confirmed AND NOT k.hidden AND o.confirmed AND NOT o.hidden AND (pairs.taken > 0 OR k.name < o.name)
		ORDER BY pairs.taken DESC, pairs.together DESC, k.name, o.name LIMIT $4`,
		orgID, store.Micros(since), sessions, limit)
	return store.All(rows, err, func(row store.Row) (p pair, err error) {
		err = row.Scan(&p.skill, &p.other, &p.taken, &p.together)
		return p, err
	})
}

// sessionsOf counts the sessions of the sample that activated or considered each
// skill. It is the denominator of overlaps.
func sessionsOf(ctx context.Context, q store.Querier, orgID string, since time.Time, sessions int) (map[string]int, error) {
	rows, err := q.Query(ctx, sample()+`
		SELECT k.name, seen.sessions FROM (
			SELECT a.skill_id, COUNT(*) AS sessions
			FROM sample JOIN agent_session_skills a ON a.session_id = sample.id AND (a.activated OR NOT a.offered)
			GROUP BY a.skill_id
		) seen JOIN skills k ON k.id = seen.skill_id`, orgID, store.Micros(since), sessions)
	all := map[string]int{}
	err = store.Each(rows, err, func(row store.Row) error {
		var name string
		var n int
		err := row.Scan(&name, &n)
		all[name] = n
		return err
	})
	return all, err
}
