package skills

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// dayColumns are the counters of skill_days in the order of dayCount.counts.
var dayColumns = append([]string{
	"sessions", "trigger_sessions", "last_sessions", "last_trigger_sessions", "last_offered_sessions", "checks", "triggers",
	"confidence_sum", "confidence_count", "graded_sessions", "pass_rate_sum",
}, basis.Columns...)

// counts returns pointers, so that one list serves for reading and writing. The
// order must be that of dayColumns; checkRollups would find a mistake.
func (d *dayCount) counts() []*int64 {
	return append([]*int64{
		&d.sessions, &d.triggerSessions, &d.lastSessions, &d.lastTriggerSessions, &d.lastOfferedSessions, &d.checks, &d.triggers,
		&d.confidenceSum, &d.confidenceCount, &d.gradedSessions, &d.passRateSum,
	}, d.byBasis.Counters()...)
}

// incrementDays adds the increments to skill_days (an upsert). The keys are
// sorted so that concurrent reports lock in one order.
func incrementDays(ctx context.Context, tx *store.Tx, changes map[dayKey]*dayCount) error {
	keys := slices.SortedFunc(maps.Keys(changes), func(a, b dayKey) int {
		if c := strings.Compare(a.subject, b.subject); c != 0 {
			return c
		}
		return int(a.day - b.day)
	})
	// An observation that was removed and added again cancels out: no row is locked
	// for it.
	keys = slices.DeleteFunc(keys, func(k dayKey) bool { return *changes[k] == dayCount{} })
	if len(keys) == 0 {
		return nil
	}
	columns := []store.Column{
		store.Col("subject_id", columnsOf(keys, func(k dayKey) string { return k.subject })),
		store.Col("day", columnsOf(keys, func(k dayKey) int64 { return k.day })),
	}
	sums := make([]string, len(dayColumns))
	for i, name := range dayColumns {
		columns = append(columns, store.Col(name, columnsOf(keys, func(k dayKey) int64 { return *changes[k].counts()[i] })))
		// Increments are added in the database: a value read before could be stale,
		// since other users add to the same row.
		sums[i] = name + " = skill_days." + name + " + excluded." + name
	}
	_, err := store.Bulk{
		Table: "skill_days", Columns: columns,
		OnConflict: "ON CONFLICT (subject_id, day) DO UPDATE SET " + strings.Join(sums, ", "),
	}.Insert(ctx, tx)
	return err
}

// incrementTotals adds the increments to skill_totals (an upsert).
func incrementTotals(ctx context.Context, tx *store.Tx, changes map[string]*totalCount) error {
	// Sorted for the same reason as the days: one lock order.
	subjects := slices.Sorted(maps.Keys(changes))
	if len(subjects) == 0 {
		return nil
	}
	// LEAST of SQLite is NULL if an argument is, hence each side stands in for the
	// other.
	least := tx.Dialect().Least("COALESCE(skill_totals.first_seen_at, excluded.first_seen_at)",
		"COALESCE(excluded.first_seen_at, skill_totals.first_seen_at)")
	greatest := tx.Dialect().Greatest("COALESCE(skill_totals.last_seen_at, excluded.last_seen_at)",
		"COALESCE(excluded.last_seen_at, skill_totals.last_seen_at)")
	_, err := store.Bulk{
		Table: "skill_totals",
		Columns: []store.Column{
			store.Col("subject_id", subjects),
			store.Col("unique_sessions", columnsOf(subjects, func(s string) int64 { return changes[s].uniqueSessions })),
			store.Col("graded_sessions", columnsOf(subjects, func(s string) int64 { return changes[s].gradedSessions })),
			store.Col("grading_changes", columnsOf(subjects, func(s string) int64 { return changes[s].gradingChanges })),
			store.Col("by_hash", columnsOf(subjects, func(s string) int64 { return changes[s].checks.hash })),
			store.Col("by_plugin", columnsOf(subjects, func(s string) int64 { return changes[s].checks.plugin })),
			store.Col("by_installation", columnsOf(subjects, func(s string) int64 { return changes[s].checks.installation })),
			store.Col("by_time", columnsOf(subjects, func(s string) int64 { return changes[s].checks.time })),
			store.Col("first_seen_at", columnsOf(subjects, func(s string) *int64 { return store.NullMicros(changes[s].first) })),
			store.Col("last_seen_at", columnsOf(subjects, func(s string) *int64 { return store.NullMicros(changes[s].last) })),
		},
		OnConflict: `ON CONFLICT (subject_id) DO UPDATE SET
			unique_sessions = skill_totals.unique_sessions + excluded.unique_sessions,
			graded_sessions = skill_totals.graded_sessions + excluded.graded_sessions,
			grading_changes = skill_totals.grading_changes + excluded.grading_changes,
			by_hash = skill_totals.by_hash + excluded.by_hash, by_plugin = skill_totals.by_plugin + excluded.by_plugin,
			by_installation = skill_totals.by_installation + excluded.by_installation,
			by_time = skill_totals.by_time + excluded.by_time,
			first_seen_at = ` + least + `, last_seen_at = ` + greatest,
	}.Insert(ctx, tx)
	if err != nil {
		return err
	}
	// The extremes of what was added are in the row by now, but those of what was
	// removed cannot be taken out of a minimum or maximum.
	for _, subject := range subjects {
		if !changes[subject].moved {
			continue
		}
		if err := recomputeSeen(ctx, tx, subject); err != nil {
			return err
		}
	}
	return nil
}

// recomputeSeen reads the first and last time of a skill from its observations,
// after one of them changed its time. It is rare, and three index lookups.
func recomputeSeen(ctx context.Context, q store.Querier, skillID string) error {
	_, err := q.Exec(ctx, `
		UPDATE skill_totals SET
			first_seen_at = (SELECT MIN(occurred_at) FROM skill_observations WHERE skill_id = $1),
			last_seen_at = (SELECT MAX(last) FROM (
				SELECT MAX(occurred_at) AS last FROM skill_observations WHERE skill_id = $1
				UNION ALL SELECT MAX(until_at) FROM skill_observations WHERE skill_id = $1 AND until_at IS NOT NULL) AS seen)
		WHERE subject_id = $1`, skillID)
	return err
}

func scanGrading(row store.Row) (g grading, err error) {
	var rated *time.Time
	var of *string
	err = row.Scan(&g.id, &g.skillID, &g.originID, &g.versionID, &g.sessionHash, &of, &g.passRate,
		store.Time(&g.at), store.NullTime(&rated))
	g.basis = basis.Parse(of)
	// Rows from before rated_at existed were rated when they were graded.
	if g.ratedAt = g.at; rated != nil {
		g.ratedAt = *rated
	}
	return g, err
}

const gradingColumns = `id, skill_id, COALESCE(origin_id, skill_id), version_id, session_hash, basis, pass_rate, graded_at,
	rated_at`

// gradingsByID returns the gradings that exist, by id.
func gradingsByID(ctx context.Context, q store.Querier, ids []string) (map[string]grading, error) {
	if len(ids) == 0 {
		return map[string]grading{}, nil
	}
	from, list := q.Dialect().ByKey("skill_gradings", "id", "$1", ids)
	rows, err := q.Query(ctx, `SELECT `+gradingColumns+` FROM `+from, list)
	all, err := store.All(rows, err, scanGrading)
	byID := make(map[string]grading, len(all))
	for _, g := range all {
		byID[g.id] = g
	}
	return byID, err
}

// gradingsOfSessions returns all gradings of sessions, also those of earlier
// reports: a session's grade is computed from all of them.
func gradingsOfSessions(ctx context.Context, q store.Querier, wanted map[Session]bool) ([]grading, error) {
	pairs := make([][2]string, 0, len(wanted))
	for w := range wanted {
		pairs = append(pairs, [2]string{w.SkillID, w.Hash})
	}
	from, list := q.Dialect().ByPair("skill_gradings", "skill_id", "session_hash", "$1", pairs)
	rows, err := q.Query(ctx, `SELECT `+gradingColumns+` FROM `+from, list)
	return store.All(rows, err, scanGrading)
}

// writeGradings upserts gradings. The organisation and the user never change, since
// the id contains them.
func writeGradings(ctx context.Context, tx *store.Tx, r Report, gradings []grading) error {
	slices.SortFunc(gradings, func(a, b grading) int { return strings.Compare(a.id, b.id) })
	_, err := store.Bulk{
		Table: "skill_gradings",
		Columns: []store.Column{
			store.Col("id", columnsOf(gradings, func(g grading) string { return g.id })),
			store.Col("org_id", slices.Repeat([]string{r.OrgID}, len(gradings))),
			store.Col("user_id", slices.Repeat([]string{r.UserID}, len(gradings))),
			store.Col("skill_id", columnsOf(gradings, func(g grading) string { return g.skillID })),
			store.Col("origin_id", columnsOf(gradings, func(g grading) *string { return unless(g.originID, g.skillID) })),
			store.Col("version_id", columnsOf(gradings, func(g grading) *string { return g.versionID })),
			store.Col("session_hash", columnsOf(gradings, func(g grading) string { return g.sessionHash })),
			store.Col("basis", columnsOf(gradings, func(g grading) *string { return g.basis.Column() })),
			store.Col("pass_rate", columnsOf(gradings, func(g grading) *int64 { return g.passRate })),
			store.Col("graded_at", columnsOf(gradings, func(g grading) int64 { return store.Micros(g.at) })),
			store.Col("rated_at", columnsOf(gradings, func(g grading) int64 { return store.Micros(g.ratedAt) })),
		},
		OnConflict: `ON CONFLICT (id) DO UPDATE SET skill_id = excluded.skill_id, origin_id = excluded.origin_id,
			version_id = excluded.version_id,
			session_hash = excluded.session_hash, pass_rate = excluded.pass_rate, graded_at = excluded.graded_at,
			rated_at = excluded.rated_at`,
	}.Insert(ctx, tx)
	return err
}

func deleteGradings(ctx context.Context, tx *store.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	in, list := tx.Dialect().In("$1", ids)
	_, err := tx.Exec(ctx, `DELETE FROM skill_gradings WHERE id`+in, list)
	return err
}

func sessionGrades(ctx context.Context, q store.Querier, keys []string) (map[string]*SessionGrade, error) {
	from, list := q.Dialect().ByKey("skill_session_grades", "session_key", "$1", keys)
	rows, err := q.Query(ctx, `SELECT session_key, day, pass_rate, basis FROM `+from, list)
	found := map[string]*SessionGrade{}
	_, err = store.All(rows, err, func(row store.Row) (g SessionGrade, err error) {
		var key string
		var of *string
		err = row.Scan(&key, &g.Day, &g.PassRate, &of)
		g.Basis = basis.Parse(of)
		found[key] = &g
		return g, err
	})
	return found, err
}

func writeSessionGrades(ctx context.Context, tx *store.Tx, grades map[string]*SessionGrade) error {
	var keys, gone []string
	for _, key := range slices.Sorted(maps.Keys(grades)) {
		if grades[key] == nil {
			gone = append(gone, key)
			continue
		}
		keys = append(keys, key)
	}
	if len(gone) > 0 {
		in, list := tx.Dialect().In("$1", gone)
		if _, err := tx.Exec(ctx, `DELETE FROM skill_session_grades WHERE session_key`+in, list); err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := store.Bulk{
		Table: "skill_session_grades",
		Columns: []store.Column{
			store.Col("session_key", keys),
			store.Col("day", columnsOf(keys, func(k string) int64 { return grades[k].Day })),
			store.Col("pass_rate", columnsOf(keys, func(k string) int64 { return grades[k].PassRate })),
			store.Col("basis", columnsOf(keys, func(k string) *string { return grades[k].Basis.Column() })),
		},
		OnConflict: `ON CONFLICT (session_key) DO UPDATE SET day = excluded.day, pass_rate = excluded.pass_rate,
			basis = excluded.basis`,
	}.Insert(ctx, tx)
	return err
}
