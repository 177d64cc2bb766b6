package grades

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// gradersOf returns the graders of skills and the organisation's, by skill.
func gradersOf(ctx context.Context, q store.Querier, orgID string, skillIDs []string) (map[string]Grader, error) {
	in, list := q.Dialect().In("$2", append([]string{allSkills}, skillIDs...))
	rows, err := q.Query(ctx, `
		SELECT skill_id, enabled, expectations, sample_per_day, max_micros_per_day, threshold FROM graders
		WHERE org_id = $1 AND skill_id`+in, orgID, list)
	all := map[string]Grader{}
	err = store.Each(rows, err, func(row store.Row) error {
		var g Grader
		var id, expectations string
		var maxMicros *int64
		var threshold int64
		if err := row.Scan(&id, &g.Enabled, &expectations, &g.SamplePerDay, &maxMicros, &threshold); err != nil {
			return err
		}
		if maxMicros != nil {
			usd := float64(*maxMicros) / 1_000_000
			g.MaxCostUSD = &usd
		}
		g.Threshold = float64(threshold) / billion
		err := json.Unmarshal([]byte(expectations), &g.Expectations)
		all[id] = g
		return err
	})
	return all, err
}

// upsertGrader stores the grader of a skill, or of the organisation. The sum before
// the conversion rounds: shares are stored in billionths.
func upsertGrader(ctx context.Context, tx *store.Tx, orgID, skillID string, g Grader) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO graders (org_id, skill_id, enabled, expectations, sample_per_day, max_micros_per_day, threshold, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (org_id, skill_id) DO UPDATE SET enabled = excluded.enabled, expectations = excluded.expectations,
			sample_per_day = excluded.sample_per_day, max_micros_per_day = excluded.max_micros_per_day,
			threshold = excluded.threshold, updated_at = excluded.updated_at`,
		orgID, skillID, g.Enabled, marshal(g.Expectations), g.SamplePerDay, micros(g.MaxCostUSD), int64(g.Threshold*billion+0.5),
		store.Micros(store.Now()))
	return err
}

// hasGrader reports whether any grader of an organisation is enabled.
func hasGrader(ctx context.Context, q store.Querier, orgID string) (bool, error) {
	rows, err := q.Query(ctx, `SELECT 1 FROM graders WHERE org_id = $1 AND enabled LIMIT 1`, orgID)
	found, err := store.All(rows, err, store.Value[int])
	return len(found) > 0, err
}

// insertQueued queues sessions of skills. One that waits already goes on waiting,
// but not shorter, unless it is due at once. rank is a hash of the session and the
// skill: sorting by it is a random sample that is the same at every attempt.
func insertQueued(ctx context.Context, tx *store.Tx, orgID string, all []sessions.Use, now, due time.Time) error {
	dueAt := "excluded.due_at"
	if due.After(now) {
		dueAt = tx.Dialect().Greatest("grade_queue.due_at", "excluded.due_at")
	}
	rank := func(u sessions.Use) string { return skills.ID("", "", "sample", u.Session+"\n"+u.SkillID) }
	_, err := store.Bulk{
		Table: "grade_queue",
		Columns: []store.Column{
			store.Col("session_hash", columnOf(all, func(u sessions.Use) string { return u.Session })),
			store.Col("skill_id", columnOf(all, func(u sessions.Use) string { return u.SkillID })),
			store.Col("org_id", columnOf(all, func(sessions.Use) string { return orgID })),
			store.Col("user_id", columnOf(all, func(u sessions.Use) string { return u.UserID })),
			store.Col("rank", columnOf(all, rank)),
			store.Col("attempts", columnOf(all, func(sessions.Use) int64 { return 0 })),
			store.Col("queued_at", columnOf(all, func(sessions.Use) int64 { return store.Micros(now) })),
			store.Col("due_at", columnOf(all, func(sessions.Use) int64 { return store.Micros(due) })),
		},
		OnConflict: "ON CONFLICT (session_hash, skill_id) DO UPDATE SET due_at = " + dueAt,
	}.Insert(ctx, tx)
	return err
}

// hasten makes what waits for its first attempt due. People who wait for grades,
// e.g. after an import, should not wait for sessions to settle.
func hasten(ctx context.Context, tx *store.Tx, orgID string, now time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE grade_queue SET due_at = $2 WHERE org_id = $1 AND attempts = 0 AND due_at BETWEEN $2 AND $3`,
		orgID, store.Micros(now), store.Micros(now.Add(settle)))
	return err
}

// countWaiting counts what is due before a time, up to a limit. The limit keeps the
// count cheap where a backlog has thousands.
func countWaiting(ctx context.Context, q store.Querier, orgID string, before time.Time, limit int) (int, error) {
	return store.Count(ctx, q, `
		FROM (SELECT 1 FROM grade_queue WHERE org_id = $1 AND due_at < $2 LIMIT $3) AS waiting`,
		orgID, store.Micros(before), limit)
}

// deleteWaiting deletes the queued and the unusable sessions that match a condition on $1.
func deleteWaiting(ctx context.Context, tx *store.Tx, condition string, arg any) error {
	for _, table := range []string{"grade_queue", "grade_unusable"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE `+condition, arg); err != nil {
			return err
		}
	}
	return nil
}

// insertUnusable remembers that a session was judged in vain, so that the page can
// say so.
func insertUnusable(ctx context.Context, tx *store.Tx, w waiting, now time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO grade_unusable (session_hash, skill_id, org_id, user_id, judged_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (session_hash, skill_id) DO UPDATE SET judged_at = excluded.judged_at`,
		w.sessionHash, w.skillID, w.orgID, w.userID, store.Micros(now))
	return err
}

// deleteUnusable forgets that: the judge has given a usable verdict now.
func deleteUnusable(ctx context.Context, tx *store.Tx, w waiting) error {
	_, err := tx.Exec(ctx, `DELETE FROM grade_unusable WHERE session_hash = $1 AND skill_id = $2`, w.sessionHash, w.skillID)
	return err
}

// isUnusable reports whether the judge last gave no usable verdict on the session.
func isUnusable(ctx context.Context, q store.Querier, w waiting) (bool, error) {
	rows, err := q.Query(ctx, `SELECT 1 FROM grade_unusable WHERE session_hash = $1 AND skill_id = $2`, w.sessionHash, w.skillID)
	found, err := store.All(rows, err, store.Value[int])
	return len(found) > 0, err
}

// countUnusable counts the sessions of a skill, or with "" of all skills of an
// organisation, without a usable verdict of the judge.
func countUnusable(ctx context.Context, q store.Querier, orgID, skillID string) (int, error) {
	return store.Count(ctx, q, `
		FROM grade_unusable WHERE org_id = $1
		AND ($2 = '' OR skill_id `+strings.ReplaceAll(itsSkills, "$1", "$2")+`)`,
		orgID, skillID)
}

// orgsWithDue looks at the sessions that wait longest only, so that a large backlog
// does not make the query slow.
func orgsWithDue(ctx context.Context, q store.Querier, now time.Time) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT DISTINCT org_id FROM (
			SELECT org_id FROM grade_queue WHERE due_at <= $1 ORDER BY due_at LIMIT 10000
		) AS due`, store.Micros(now))
	return store.All(rows, err, store.Value[string])
}

// skillsWithDue returns the names of skills with sessions that are due, by id.
func skillsWithDue(ctx context.Context, q store.Querier, orgID string, now time.Time) (map[string]string, error) {
	rows, err := q.Query(ctx, `
		SELECT id, name FROM skills WHERE org_id = $1 AND id IN (
			SELECT skill_id FROM grade_queue WHERE org_id = $1 AND due_at <= $2)`, orgID, store.Micros(now))
	names := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id, name string
		err := row.Scan(&id, &name)
		names[id] = name
		return err
	})
	return names, err
}

// dueSessions returns the sessions of a skill that are due, in the order of the
// sample.
func dueSessions(ctx context.Context, q store.Querier, orgID, skillID string, now time.Time, limit int) ([]waiting, error) {
	rows, err := q.Query(ctx, `
		SELECT session_hash, skill_id, org_id, user_id, attempts, queued_at, due_at FROM grade_queue
		WHERE org_id = $1 AND skill_id = $2 AND due_at <= $3 ORDER BY rank LIMIT $4`, orgID, skillID, store.Micros(now), limit)
	return store.All(rows, err, func(row store.Row) (w waiting, err error) {
		err = row.Scan(&w.sessionHash, &w.skillID, &w.orgID, &w.userID, &w.attempts, store.Time(&w.queuedAt),
			store.Time(&w.dueAt))
		return w, err
	})
}

// claimQueued hides a session that is due from others until a time. It reports false
// if another process was faster. It is a lease: if the process dies, the session is
// due again at that time.
func claimQueued(ctx context.Context, tx *store.Tx, w waiting, now, until time.Time) (bool, error) {
	n, err := tx.Exec(ctx, `
		UPDATE grade_queue SET due_at = $4 WHERE session_hash = $1 AND skill_id = $2 AND due_at <= $3`,
		w.sessionHash, w.skillID, store.Micros(now), store.Micros(until))
	return n == 1, err
}

// requeue lets sessions be tried again later, with the number of attempts so far.
func requeue(ctx context.Context, tx *store.Tx, all []waiting, until time.Time) error {
	for _, w := range all {
		_, err := tx.Exec(ctx, `UPDATE grade_queue SET due_at = $3, attempts = $4 WHERE session_hash = $1 AND skill_id = $2`,
			w.sessionHash, w.skillID, store.Micros(until), w.attempts)
		if err != nil {
			return err
		}
	}
	return nil
}

// dequeue takes sessions off the queue for good.
func dequeue(ctx context.Context, tx *store.Tx, all []waiting) error {
	for _, w := range all {
		_, err := tx.Exec(ctx, `DELETE FROM grade_queue WHERE session_hash = $1 AND skill_id = $2`, w.sessionHash, w.skillID)
		if err != nil {
			return err
		}
	}
	return nil
}

// drop takes sessions off the queue, unless they were queued once more since they were
// read. due_at tells: queueing a session again changes it.
func drop(ctx context.Context, tx *store.Tx, all []waiting) error {
	for _, w := range all {
		_, err := tx.Exec(ctx, `DELETE FROM grade_queue WHERE session_hash = $1 AND skill_id = $2 AND due_at = $3`,
			w.sessionHash, w.skillID, store.Micros(w.dueAt))
		if err != nil {
			return err
		}
	}
	return nil
}

// addUsage adds to what a grader has used on a day, and returns what it has used: of
// money on all of its skills, of the rest on the skill of the claim. What a request
// may take is added before the judge is asked, and corrected afterwards, so that
// parallel processes cannot exceed a limit.
func addUsage(ctx context.Context, tx *store.Tx, orgID string, c claim) (total usage, err error) {
	_, err = tx.Exec(ctx, `
		INSERT INTO grader_days (org_id, grader, day, skill_id, judged, labels, calls, micros)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (org_id, grader, day, skill_id) DO UPDATE SET judged = grader_days.judged + excluded.judged,
			labels = grader_days.labels + excluded.labels, calls = grader_days.calls + excluded.calls,
			micros = grader_days.micros + excluded.micros`,
		orgID, c.grader, c.day, c.skillID, c.used.judged, c.used.labels, c.used.calls, c.used.micros)
	if err != nil {
		return total, err
	}
	rows, err := tx.Query(ctx, `
		SELECT CAST(SUM(CASE WHEN skill_id = $4 THEN judged ELSE 0 END) AS BIGINT),
			CAST(SUM(CASE WHEN skill_id = $4 THEN labels ELSE 0 END) AS BIGINT),
			CAST(SUM(CASE WHEN skill_id = $4 THEN calls ELSE 0 END) AS BIGINT), CAST(SUM(micros) AS BIGINT)
		FROM grader_days WHERE org_id = $1 AND grader = $2 AND day = $3`, orgID, c.grader, c.day, c.skillID)
	err = store.Each(rows, err, func(row store.Row) error {
		return row.Scan(&total.judged, &total.labels, &total.calls, &total.micros)
	})
	return total, err
}
