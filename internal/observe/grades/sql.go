package grades

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// columnOf maps a function over a slice, to get a column of rows.
func columnOf[Row, T any](rows []Row, value func(Row) T) []T {
	column := make([]T, len(rows))
	for i, row := range rows {
		column[i] = value(row)
	}
	return column
}

// marshal encodes a value for a text column.
func marshal(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return string(raw)
}

// upsertGrade stores a grade. Its id contains the session, the skill and the grader,
// so grading again replaces the verdict.
func upsertGrade(ctx context.Context, tx *store.Tx, g grade, sealed *string) error {
	var record *string
	if g.judge != nil {
		text := marshal(g.judge)
		record = &text
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO grades (id, org_id, user_id, session_hash, skill_id, basis, pass_rate, passed, graded_by, reason,
		evidence, judge,
			sealed, graded_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
		ON CONFLICT (id) DO UPDATE SET pass_rate = excluded.pass_rate, passed = excluded.passed, reason = excluded.reason,
			evidence = excluded.evidence, judge = excluded.judge, sealed = excluded.sealed, graded_at = excluded.graded_at`,
		g.id, g.orgID, g.userID, g.sessionHash, g.skillID, string(g.basis), g.passRate, g.passed, g.gradedBy, g.reason,
		marshal(g.evidence), record, sealed, store.Micros(g.at))
	return err
}

// replaceFailures stores why a grade failed. The labels of reasons that it had before
// are deleted.
func replaceFailures(ctx context.Context, tx *store.Tx, g grade) error {
	if _, err := tx.Exec(ctx, `DELETE FROM grade_failures WHERE grade_id = $1`, g.id); err != nil {
		return err
	}
	// Labels are made by a model and cost money: those of reasons that stay are
	// kept.
	in, list := tx.Dialect().In("$2", columnOf(g.failures, func(f failure) string { return f.key }))
	_, err := tx.Exec(ctx, `DELETE FROM grade_failure_labels WHERE grade_id = $1 AND NOT (key`+in+`)`, g.id, list)
	if err != nil || len(g.failures) == 0 {
		return err
	}
	all, key := g.failures, skills.SessionKey(g.skillID, g.sessionHash)
	same := func(text string) []string { return columnOf(all, func(failure) string { return text }) }
	_, err = store.Bulk{
		Table: "grade_failures",
		Columns: []store.Column{
			store.Col("grade_id", same(g.id)),
			store.Col("key", columnOf(all, func(f failure) string { return f.key })),
			store.Col("label", columnOf(all, func(f failure) string { return f.label })),
			store.Col("skill_id", same(g.skillID)),
			store.Col("basis", same(string(g.basis))),
			store.Col("session_key", same(key)),
			store.Col("session_hash", same(g.sessionHash)),
			store.Col("failed_at", columnOf(all, func(failure) int64 { return store.Micros(g.at) })),
		},
		OnConflict: "ON CONFLICT DO NOTHING", // two expectations may say the same
	}.Insert(ctx, tx)
	return err
}

// deleteGrades deletes the grades that match a condition on $1, with their failures
// and then the labels that were made of these: see insertLabel.
func deleteGrades(ctx context.Context, tx *store.Tx, condition string, arg any) error {
	for _, table := range []string{"grade_failures", "grade_failure_labels"} {
		_, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE grade_id IN (SELECT id FROM grades WHERE `+condition+`)`, arg)
		if err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM grades WHERE `+condition, arg)
	return err
}

// gradedAt is fault.NotFound without a grade.
func gradedAt(ctx context.Context, q store.Querier, id string) (time.Time, error) {
	rows, err := q.Query(ctx, `SELECT graded_at FROM grades WHERE id = $1`, id)
	return store.One(rows, err, "Grade", func(row store.Row) (at time.Time, err error) {
		err = row.Scan(store.Time(&at))
		return at, err
	})
}

// evidenceOf returns the evidence of a grade, nil if there is no grade.
func evidenceOf(ctx context.Context, q store.Querier, id string) (found []evidence, err error) {
	rows, err := q.Query(ctx, `SELECT evidence FROM grades WHERE id = $1`, id)
	err = store.Each(rows, err, func(row store.Row) error {
		var raw string
		if err := row.Scan(&raw); err != nil {
			return err
		}
		return json.Unmarshal([]byte(raw), &found)
	})
	return found, err
}

// gradesOfSession returns the grades of a session by id, and their encrypted
// quotations. Without the permission to read content the caller drops the quotations
// undecrypted.
func gradesOfSession(ctx context.Context, q store.Querier, session string) (map[string]grade, map[string]string, error) {
	rows, err := q.Query(ctx, `
		SELECT id, evidence, judge, reason, graded_by, COALESCE(sealed, '') FROM grades WHERE session_hash = $1`, session)
	found, sealed := map[string]grade{}, map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var g grade
		var raw, secret string
		var record *string
		if err := row.Scan(&g.id, &raw, &record, &g.reason, &g.gradedBy, &secret); err != nil {
			return err
		}
		if record != nil {
			g.judge = &judge.Record{}
			if err := json.Unmarshal([]byte(*record), g.judge); err != nil {
				return err
			}
		}
		if err := json.Unmarshal([]byte(raw), &g.evidence); err != nil {
			return err
		}
		found[g.id], sealed[g.id] = g, secret
		return nil
	})
	return found, sealed, err
}

// itsSkills is SQL for a skill $1 and those that are merged into it.
const itsSkills = `IN (SELECT id FROM skills WHERE id = $1 OR merged_into = $1)`

// failureGroups returns the reasons of a skill's failures since a time. A grade
// counts if no other of its session has a higher precedence.
func failureGroups(ctx context.Context, q store.Querier, skillID string, since time.Time) ([]Group, error) {
	rows, err := q.Query(ctx, `
		SELECT key, MAX(label), COUNT(DISTINCT session_hash), MAX(failed_at) FROM (`+countingFailures+`) AS counting
		GROUP BY key ORDER BY COUNT(DISTINCT session_hash) DESC, MAX(failed_at) DESC, key LIMIT $3`,
		skillID, store.Micros(since), maxGroups)
	return store.All(rows, err, func(row store.Row) (g Group, err error) {
		err = row.Scan(&g.Key, &g.Reason, &g.Count, store.Time(&g.LastAt))
		return g, err
	})
}

// countingFailures is SQL for the failures of a skill $1 since $2 whose grade counts.
// The grade of a session that was moved to another skill cannot be looked up.
const countingFailures = `
	SELECT f.key, f.label, f.session_hash, f.failed_at FROM grade_failures f
	LEFT JOIN skill_session_grades g ON g.session_key = f.session_key
	WHERE f.skill_id ` + itsSkills + ` AND f.failed_at >= $2
		AND (g.session_key IS NULL OR COALESCE(g.basis, 'pushed') = f.basis)`

// failureExamples returns the pseudonyms of the newest sessions of each group. The sessions may
// have been deleted meanwhile.
func failureExamples(
	ctx context.Context, q store.Querier, skillID string, since time.Time, groups []Group,
) (map[string][]string, error) {
	in, list := q.Dialect().In("$3", columnOf(groups, func(g Group) string { return g.Key }))
	rows, err := q.Query(ctx, `
		SELECT e.key, e.session_hash FROM (
			SELECT key, session_hash, failed_at,
				ROW_NUMBER() OVER (PARTITION BY key ORDER BY failed_at DESC, session_hash) AS place FROM (
				SELECT key, session_hash, MAX(failed_at) AS failed_at FROM (`+countingFailures+`) AS counting
				WHERE key`+in+` GROUP BY key, session_hash
			) AS each_session
		) AS e WHERE e.place <= $4 ORDER BY e.key, e.place`, skillID, store.Micros(since), list, maxExamples)
	examples := map[string][]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var key, session string
		err := row.Scan(&key, &session)
		examples[key] = append(examples[key], session)
		return err
	})
	return examples, err
}

// verdictPairs counts the sessions of a skill that both a judge and people have graded.
// Of several people the mean counts. They measure how far the judge agrees with
// people, see pairs.
func verdictPairs(ctx context.Context, q store.Querier, skillID string) (p pairs, err error) {
	rows, err := q.Query(ctx, `
		SELECT COUNT(*), COUNT(CASE WHEN judge_passes AND people_pass THEN 1 END),
			COUNT(CASE WHEN NOT judge_passes AND NOT people_pass THEN 1 END), COUNT(CASE WHEN judge_passes THEN 1 END),
			COUNT(CASE WHEN people_pass THEN 1 END)
		FROM (
			SELECT j.passed AS judge_passes, p.pass_rate >= 500000000 AS people_pass FROM (
				SELECT skill_id, session_hash, AVG(pass_rate) AS pass_rate FROM grades
				WHERE skill_id `+itsSkills+` AND basis = 'person' GROUP BY skill_id, session_hash
			) AS p JOIN grades j ON j.skill_id = p.skill_id AND j.basis = 'judge' AND j.session_hash = p.session_hash
		) AS pairs`, skillID)
	err = store.Each(rows, err, func(row store.Row) error {
		return row.Scan(&p.all, &p.bothPass, &p.bothFail, &p.judgePasses, &p.peoplePass)
	})
	return p, err
}

// sealedGrades returns all quotations, for a change of the key. They are read in one
// transaction: there are far fewer than texts of sessions.
func sealedGrades(ctx context.Context, tx *store.Tx) (map[string]string, error) {
	rows, err := tx.Query(ctx, `SELECT id, sealed FROM grades WHERE sealed IS NOT NULL`+tx.Dialect().ForUpdate())
	all := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id, sealed string
		err := row.Scan(&id, &sealed)
		all[id] = sealed
		return err
	})
	return all, err
}

func updateSealed(ctx context.Context, tx *store.Tx, id, sealed string) error {
	_, err := tx.Exec(ctx, `UPDATE grades SET sealed = $2 WHERE id = $1`, id, sealed)
	return err
}

// DropQuotations implements content.Quotations. The verdicts and the reasons stay.
func (r Reasons) DropQuotations(ctx context.Context, q store.Querier, orgID string, before time.Time) error {
	_, err := q.Exec(ctx, `
		UPDATE grades SET sealed = NULL WHERE sealed IS NOT NULL AND ($1 = '' OR org_id = $1) AND graded_at < $2`,
		orgID, store.Micros(before))
	return err
}
