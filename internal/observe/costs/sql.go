package costs

import (
	"context"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

const requestColumns = `id, session_hash, turn_hash, skill_name, inferred, skill_id, version_id, use_key, occurred_at, model,
	input, output, cache_read, cache_write, cache_write_hour, reported_micros, micros`

func scanRequest(row store.Row) (r request, err error) {
	var turn, skill, version, use *string
	err = row.Scan(&r.id, &r.session, &turn, &r.name, &r.inferred, &skill, &version, &use, store.Time(&r.at), &r.model,
		&r.tokens.Input, &r.tokens.Output, &r.tokens.CacheRead, &r.tokens.CacheWrite, &r.tokens.CacheWriteHour,
		&r.reported, &r.micros)
	r.turn = orEmpty(turn)
	r.attribution = attribution{orEmpty(skill), orEmpty(version), orEmpty(use)}
	return r, err
}

// requestsByID locks nothing: the requests of a user are changed under
// skills.LockUser.
func requestsByID(ctx context.Context, q store.Querier, ids []string) ([]request, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	from, list := q.Dialect().ByKey("cost_requests", "id", "$1", ids)
	rows, err := q.Query(ctx, `SELECT `+requestColumns+` FROM `+from, list)
	return store.All(rows, err, scanRequest)
}

// pairsOf are moments as store.Dialect.Pairs takes them. Their texts are cast back
// to numbers in SQL.
func pairsOf(moments []moment) [][2]string {
	return columnOf(moments, func(m moment) [2]string { return [2]string{m.session, strconv.FormatInt(m.at, 10)} })
}

// requestsAfterMarks returns the requests without a skill of their own that come
// between one of the marks and the next but one of its session. Up to the next but
// one, since the next may be a prompt that does not end the use.
func requestsAfterMarks(ctx context.Context, q store.Querier, marks []mark) ([]request, error) {
	table, list := q.Dialect().Pairs("$1", pairsOf(columnOf(marks, func(m mark) moment { return m.moment })))
	rows, err := q.Query(ctx, `
		SELECT `+requestColumns+` FROM `+table+` JOIN cost_requests ON session_hash = pairs.a AND session_hash <> ''
			AND occurred_at >= CAST(pairs.b AS BIGINT) AND occurred_at < COALESCE((
				SELECT MIN(marked_at) FROM cost_marks WHERE cost_marks.session_hash = pairs.a AND marked_at > (
					SELECT MIN(m.marked_at) FROM cost_marks m
					WHERE m.session_hash = pairs.a AND m.marked_at > CAST(pairs.b AS BIGINT))), $2)
		WHERE inferred AND skill_name = ''`, list, endOfTime)
	return store.All(rows, err, scanRequest)
}

// endOfTime is after every request, in microseconds.
const endOfTime int64 = 1 << 62

// activeMarks returns the last mark at or before each moment that is not the
// prompt of the mark before it. Moments before the first mark of their session are
// missing.
func activeMarks(ctx context.Context, q store.Querier, moments []moment) (map[moment]mark, error) {
	lasts, err := lastMarks(ctx, q, moments)
	if err != nil {
		return nil, err
	}
	var ends []moment // the last microseconds before a mark without a skill
	for _, m := range lasts {
		if m.name == "" {
			ends = append(ends, m.before())
		}
	}
	befores, err := lastMarks(ctx, q, ends)
	for at, m := range lasts {
		if before, ok := befores[m.before()]; ok && m.isPromptOf(before) {
			lasts[at] = before
		}
	}
	return lasts, err
}

// lastMarks returns the last mark at or before each moment. Of several at one time
// the one with the greatest name wins, since ids depend on which skill was heard
// of first.
func lastMarks(ctx context.Context, q store.Querier, moments []moment) (map[moment]mark, error) {
	lasts := map[moment]mark{}
	if len(moments) == 0 {
		return lasts, nil
	}
	table, list := q.Dialect().Pairs("$1", pairsOf(moments))
	rows, err := q.Query(ctx, `
		SELECT pairs.a, CAST(pairs.b AS BIGINT), marked_at, skill_name, opens_turn FROM `+table+`
		JOIN cost_marks ON session_hash = pairs.a AND marked_at = (
			SELECT MAX(m.marked_at) FROM cost_marks m WHERE m.session_hash = pairs.a AND m.marked_at <= CAST(pairs.b AS BIGINT))`,
		list)
	err = store.Each(rows, err, func(row store.Row) error {
		var at moment
		var m mark
		err := row.Scan(&at.session, &at.at, &m.at, &m.name, &m.opensTurn)
		m.session = at.session
		if last, ok := lasts[at]; !ok || m.name > last.name {
			lasts[at] = m
		}
		return err
	})
	return lasts, err
}

// insertMarks stores marks. One that is there already may learn that it opens a
// turn, and never forgets it.
func insertMarks(ctx context.Context, tx *store.Tx, marks []mark) error {
	_, err := store.Bulk{
		Table: "cost_marks",
		Columns: []store.Column{
			store.Col("session_hash", columnOf(marks, func(m mark) string { return m.session })),
			store.Col("marked_at", columnOf(marks, func(m mark) int64 { return m.at })),
			store.Col("skill_name", columnOf(marks, func(m mark) string { return m.name })),
			store.Col("opens_turn", columnOf(marks, func(m mark) bool { return m.opensTurn })),
		},
		OnConflict: `ON CONFLICT (session_hash, marked_at, skill_name) DO UPDATE SET opens_turn = excluded.opens_turn
			WHERE excluded.opens_turn`,
	}.Insert(ctx, tx)
	return err
}

// requestsOfSessions returns the requests of sessions with a skill. By the keys of
// their uses, which is the only index that leads from a skill's session to its
// requests.
func requestsOfSessions(ctx context.Context, q store.Querier, sessionKeys []string) ([]request, error) {
	if len(sessionKeys) == 0 {
		return nil, nil
	}
	in, list := q.Dialect().In("$1", sessionKeys)
	rows, err := q.Query(ctx, `
		SELECT `+requestColumns+` FROM cost_requests WHERE use_key IN (
			SELECT key FROM cost_groups WHERE session_key`+in+`)`, list)
	return store.All(rows, err, scanRequest)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// mutable returns the columns of requests that a later report may change.
func mutable(all []request) []store.Column {
	return []store.Column{
		store.Col("session_hash", columnOf(all, func(r request) string { return r.session })),
		store.Col("turn_hash", columnOf(all, func(r request) *string { return orNull(r.turn) })),
		store.Col("skill_name", columnOf(all, func(r request) string { return r.name })),
		store.Col("inferred", columnOf(all, func(r request) bool { return r.inferred })),
		store.Col("skill_id", columnOf(all, func(r request) *string { return orNull(r.skillID) })),
		store.Col("version_id", columnOf(all, func(r request) *string { return orNull(r.versionID) })),
		store.Col("use_key", columnOf(all, func(r request) *string { return orNull(r.useKey) })),
		store.Col("occurred_at", columnOf(all, func(r request) int64 { return store.Micros(r.at) })),
		store.Col("model", columnOf(all, func(r request) string { return r.model })),
		store.Col("input", columnOf(all, func(r request) int64 { return r.tokens.Input })),
		store.Col("output", columnOf(all, func(r request) int64 { return r.tokens.Output })),
		store.Col("cache_read", columnOf(all, func(r request) int64 { return r.tokens.CacheRead })),
		store.Col("cache_write", columnOf(all, func(r request) int64 { return r.tokens.CacheWrite })),
		store.Col("cache_write_hour", columnOf(all, func(r request) int64 { return r.tokens.CacheWriteHour })),
		store.Col("reported_micros", columnOf(all, func(r request) *int64 { return r.reported })),
		store.Col("micros", columnOf(all, func(r request) *int64 { return r.micros })),
	}
}

// insertRequests takes the ids as new: the caller has read all known ones under the
// lock.
func insertRequests(ctx context.Context, tx *store.Tx, orgID, userID string, fresh []request) error {
	if len(fresh) == 0 {
		return nil
	}
	_, err := store.Bulk{Table: "cost_requests", Columns: append([]store.Column{
		store.Col("id", columnOf(fresh, func(r request) string { return r.id })),
		store.Col("org_id", columnOf(fresh, func(request) string { return orgID })),
		store.Col("user_id", columnOf(fresh, func(request) string { return userID })),
	}, mutable(fresh)...)}.Insert(ctx, tx)
	return err
}

func updateRequests(ctx context.Context, tx *store.Tx, changed []request) error {
	if len(changed) == 0 {
		return nil
	}
	return store.BulkUpdate{
		Table: "cost_requests",
		Key:   store.Col("id", columnOf(changed, func(r request) string { return r.id })),
		Set:   mutable(changed),
	}.Run(ctx, tx)
}

func scanGroup(row store.Row) (g group, err error) {
	var version, sessionKey *string
	var day, passRate *int64
	err = row.Scan(&g.key, &g.kind, &g.subjectID, &version, &sessionKey, &g.session, store.NullTime(&g.firstAt),
		&g.requests, &g.unpriced, &g.micros, &day, &passRate)
	g.versionID, g.sessionKey = orEmpty(version), orEmpty(sessionKey)
	if day != nil && passRate != nil {
		g.grade = &skills.SessionGrade{Day: *day, PassRate: *passRate}
	}
	return g, err
}

// groupsByKey returns the groups that exist; one without requests has no row.
func groupsByKey(ctx context.Context, q store.Querier, keys []string) ([]group, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	from, list := q.Dialect().ByKey("cost_groups", "key", "$1", keys)
	rows, err := q.Query(ctx, `
		SELECT key, kind, subject_id, version_id, session_key, session_hash, first_at, requests, unpriced, micros, grade_day,
			pass_rate
		FROM `+from, list)
	return store.All(rows, err, scanGroup)
}

// firstRequests returns the times of the first requests of groups: uses, and
// sessions of the organisation.
func firstRequests(ctx context.Context, q store.Querier, groups []group) (map[string]time.Time, error) {
	firsts := map[string]time.Time{}
	var uses, sessions []string
	keys := map[string]string{} // by session
	for _, g := range groups {
		// Two queries: uses are found by their key, sessions by their hash.
		if g.kind == useGroup {
			uses = append(uses, g.key)
			continue
		}
		sessions = append(sessions, g.session)
		keys[g.session] = g.key
	}
	if len(uses) > 0 {
		in, list := q.Dialect().In("$1", uses)
		rows, err := q.Query(ctx, `
			SELECT use_key, MIN(occurred_at) FROM cost_requests WHERE use_key`+in+` GROUP BY use_key`, list)
		if err := eachTime(rows, err, func(key string, at time.Time) { firsts[key] = at }); err != nil {
			return nil, err
		}
	}
	if len(sessions) == 0 {
		return firsts, nil
	}
	in, list := q.Dialect().In("$1", sessions)
	rows, err := q.Query(ctx, `
		SELECT session_hash, MIN(occurred_at) FROM cost_requests WHERE session_hash`+in+` AND session_hash <> ''
		GROUP BY session_hash`, list)
	return firsts, eachTime(rows, err, func(session string, at time.Time) { firsts[keys[session]] = at })
}

// eachTime scans rows of a text and a time.
func eachTime(rows store.Rows, err error, fn func(key string, at time.Time)) error {
	return store.Each(rows, err, func(row store.Row) error {
		var key string
		var at time.Time
		err := row.Scan(&key, store.Time(&at))
		fn(key, at)
		return err
	})
}

// upsertGroups stores what changed of groups. kind and subject are not updated: they
// follow from the key.
func upsertGroups(ctx context.Context, tx *store.Tx, groups []group) error {
	if len(groups) == 0 {
		return nil
	}
	_, err := store.Bulk{
		Table: "cost_groups",
		Columns: []store.Column{
			store.Col("key", columnOf(groups, func(g group) string { return g.key })),
			store.Col("kind", columnOf(groups, func(g group) string { return g.kind })),
			store.Col("subject_id", columnOf(groups, func(g group) string { return g.subjectID })),
			store.Col("version_id", columnOf(groups, func(g group) *string { return orNull(g.versionID) })),
			store.Col("session_key", columnOf(groups, func(g group) *string { return orNull(g.sessionKey) })),
			store.Col("session_hash", columnOf(groups, func(g group) string { return g.session })),
			store.Col("first_at", columnOf(groups, func(g group) *int64 { return store.NullMicros(g.firstAt) })),
			store.Col("requests", columnOf(groups, func(g group) int64 { return g.requests })),
			store.Col("unpriced", columnOf(groups, func(g group) int64 { return g.unpriced })),
			store.Col("micros", columnOf(groups, func(g group) int64 { return g.micros })),
			store.Col("grade_day", columnOf(groups, func(g group) *int64 {
				if g.grade == nil {
					return nil
				}
				return &g.grade.Day
			})),
			store.Col("pass_rate", columnOf(groups, func(g group) *int64 {
				if g.grade == nil {
					return nil
				}
				return &g.grade.PassRate
			})),
		},
		OnConflict: `ON CONFLICT (key) DO UPDATE SET version_id = excluded.version_id, first_at = excluded.first_at,
			requests = excluded.requests, unpriced = excluded.unpriced, micros = excluded.micros,
			grade_day = excluded.grade_day, pass_rate = excluded.pass_rate`,
	}.Insert(ctx, tx)
	return err
}

// deleteGroups deletes groups of which no request is left.
func deleteGroups(ctx context.Context, tx *store.Tx, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	in, list := tx.Dialect().In("$1", keys)
	_, err := tx.Exec(ctx, `DELETE FROM cost_groups WHERE key`+in, list)
	return err
}
