package sessions

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

const sessionColumns = `s.id, s.org_id, s.user_id, s.session_id, s.agent, s.started_at, s.last_at, s.provisional,
	s.ended_at, s.turns,
	s.tool_calls, s.tool_errors, s.events, s.truncated, s.pass_rate, s.basis, s.outcome, s.reported_at, s.unnamed_turns,
	s.call_facts, s.fact_calls, s.error_facts, s.fact_errors`

func scanSession(row store.Row) (s Session, err error) {
	err = row.Scan(&s.ID, &s.OrgID, &s.UserID, &s.SessionID, &s.Agent, store.Time(&s.StartedAt), store.Time(&s.LastAt),
		&s.Provisional, store.NullTime(&s.EndedAt), &s.Turns, &s.ToolCalls, &s.ToolErrors, &s.Events, &s.Truncated, &s.PassRate,
		&s.Basis, &s.Outcome, store.Time(&s.ReportedAt), &s.UnnamedTurns, &s.CallFacts, &s.FactCalls, &s.ErrorFacts,
		&s.FactErrors)
	return s, err
}

// sessionsByID takes ids that are hashes of the user and the agent's id, so they
// cannot name a session of another organisation.
func sessionsByID(ctx context.Context, q store.Querier, ids []string) (map[string]Session, error) {
	from, list := q.Dialect().ByKey("agent_sessions", "id", "$1", ids)
	rows, err := q.Query(ctx, `SELECT `+sessionColumns+` FROM (SELECT * FROM `+from+`) AS s`, list)
	all, err := store.All(rows, err, scanSession)
	byID := make(map[string]Session, len(all))
	for _, s := range all {
		byID[s.ID] = s
	}
	return byID, err
}

// sessionOf returns the session with the agent's own id. Ids of two people may be
// equal: then the caller's own comes first, then the newest.
func sessionOf(ctx context.Context, q store.Querier, orgID, userID, sessionID string) (Session, error) {
	ids := []string{sessionID}
	// The hash includes the user, so it is computed for every user of the
	// organisation.
	if !idShape.MatchString(sessionID) { // it is not stored, only its hash
		users, err := auth.UserIDs(ctx, q, orgID)
		if err != nil {
			return Session{}, err
		}
		ids = columnsOf(users, func(id string) string { return skills.SessionHash(id, sessionID) })
	}
	in, list := q.Dialect().In("$2", ids)
	rows, err := q.Query(ctx, `
		SELECT `+sessionColumns+` FROM agent_sessions s WHERE s.org_id = $1 AND s.session_id`+in+`
		ORDER BY s.user_id = $3 DESC, s.started_at DESC, s.id LIMIT 1`, orgID, list, userID)
	return store.One(rows, err, "Session", scanSession)
}

// columnsOf maps a function over a slice, to get a column of rows.
func columnsOf[Row, T any](rows []Row, value func(Row) T) []T {
	column := make([]T, len(rows))
	for i, row := range rows {
		column[i] = value(row)
	}
	return column
}

// counted returns the columns that most reports of a session change. No index has
// them.
func counted(all []Session) []store.Column {
	return []store.Column{
		store.Col("last_at", columnsOf(all, func(s Session) int64 { return store.Micros(s.LastAt) })),
		store.Col("provisional", columnsOf(all, func(s Session) bool { return s.Provisional })),
		store.Col("ended_at", columnsOf(all, func(s Session) *int64 { return store.NullMicros(s.EndedAt) })),
		store.Col("turns", columnsOf(all, func(s Session) int64 { return s.Turns })),
		store.Col("tool_calls", columnsOf(all, func(s Session) int64 { return s.ToolCalls })),
		store.Col("unnamed_turns", columnsOf(all, func(s Session) int64 { return s.UnnamedTurns })),
		store.Col("call_facts", columnsOf(all, func(s Session) int64 { return s.CallFacts })),
		store.Col("fact_calls", columnsOf(all, func(s Session) int64 { return s.FactCalls })),
		store.Col("error_facts", columnsOf(all, func(s Session) int64 { return s.ErrorFacts })),
		store.Col("events", columnsOf(all, func(s Session) int64 { return s.Events })),
		store.Col("truncated", columnsOf(all, func(s Session) bool { return s.Truncated })),
		store.Col("pass_rate", columnsOf(all, func(s Session) *int64 { return s.PassRate })),
		store.Col("basis", columnsOf(all, func(s Session) string { return string(s.Basis) })),
	}
}

// listed returns the columns by which sessions are listed. They are indexed, so they
// are only written when one of them changed.
func listed(all []Session) []store.Column {
	return []store.Column{
		store.Col("agent", columnsOf(all, func(s Session) string { return s.Agent })),
		store.Col("started_at", columnsOf(all, func(s Session) int64 { return store.Micros(s.StartedAt) })),
		store.Col("tool_errors", columnsOf(all, func(s Session) int64 { return s.ToolErrors })),
		store.Col("fact_errors", columnsOf(all, func(s Session) int64 { return s.FactErrors })),
		store.Col("outcome", columnsOf(all, func(s Session) string { return string(s.Outcome) })),
		store.Col("reported_at", columnsOf(all, func(s Session) int64 { return store.Micros(s.ReportedAt) })),
	}
}

func insertSessions(ctx context.Context, tx *store.Tx, fresh []Session) error {
	if len(fresh) == 0 {
		return nil
	}
	_, err := store.Bulk{Table: "agent_sessions", Columns: slices.Concat([]store.Column{
		store.Col("id", columnsOf(fresh, func(s Session) string { return s.ID })),
		store.Col("org_id", columnsOf(fresh, func(s Session) string { return s.OrgID })),
		store.Col("user_id", columnsOf(fresh, func(s Session) string { return s.UserID })),
		store.Col("session_id", columnsOf(fresh, func(s Session) string { return s.SessionID })),
	}, counted(fresh), listed(fresh))}.Insert(ctx, tx)
	return err
}

// updateSessions writes some of the columns, see counted and listed.
func updateSessions(ctx context.Context, tx *store.Tx, changed []Session, columns func([]Session) []store.Column) error {
	if len(changed) == 0 {
		return nil
	}
	return store.BulkUpdate{
		Table: "agent_sessions",
		Key:   store.Col("id", columnsOf(changed, func(s Session) string { return s.ID })),
		Set:   columns(changed),
	}.Run(ctx, tx)
}

const eventColumns = `e.session_id, e.id, e.kind, e.at, e.name, e.duration, e.ok`

func scanEvent(row store.Row) (e event, err error) {
	var duration *int64
	err = row.Scan(&e.session, &e.id, &e.kind, store.Time(&e.at), &e.name, &duration, &e.ok)
	if duration != nil {
		d := time.Duration(*duration) * time.Microsecond
		e.duration = &d
	}
	return e, err
}

// eventsByKey returns the events that exist.
func eventsByKey(ctx context.Context, q store.Querier, keys []eventKey) (map[eventKey]event, error) {
	found := map[eventKey]event{}
	if len(keys) == 0 {
		return found, nil
	}
	from, list := q.Dialect().ByPair("agent_session_events", "session_id", "id", "$1",
		columnsOf(keys, func(k eventKey) [2]string { return [2]string{k.session, k.id} }))
	rows, err := q.Query(ctx, `SELECT `+eventColumns+` FROM (SELECT * FROM `+from+`) AS e`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		e, err := scanEvent(row)
		found[e.key()] = e
		return err
	})
	return found, err
}

// eventsAfter returns the next events of a session by time, except those of a kind
// and facts. Facts are counters of an agent, which no person wants in a timeline.
func eventsAfter(
	ctx context.Context, q store.Querier, sessionID string, after position, except Kind, limit int,
) ([]event, error) {
	rows, err := q.Query(ctx, `
		SELECT `+eventColumns+` FROM agent_session_events e
		WHERE e.session_id = $1 AND (e.at, e.id) > ($2, $3) AND e.kind NOT IN ($4, $5)
		ORDER BY e.at, e.id LIMIT $6`, sessionID, after.micros, after.id, string(Fact), string(except), limit)
	return store.All(rows, err, scanEvent)
}

// writeEvents inserts events, or replaces those that are there. The kind of an id
// never changes.
func writeEvents(ctx context.Context, tx *store.Tx, all []event) error {
	if len(all) == 0 {
		return nil
	}
	_, err := store.Bulk{
		Table: "agent_session_events",
		Columns: []store.Column{
			store.Col("session_id", columnsOf(all, func(e event) string { return e.session })),
			store.Col("id", columnsOf(all, func(e event) string { return e.id })),
			store.Col("kind", columnsOf(all, func(e event) string { return string(e.kind) })),
			store.Col("at", columnsOf(all, func(e event) int64 { return store.Micros(e.at) })),
			store.Col("name", columnsOf(all, func(e event) string { return e.name })),
			store.Col("duration", columnsOf(all, func(e event) *int64 {
				if e.duration == nil {
					return nil
				}
				n := e.duration.Microseconds()
				return &n
			})),
			store.Col("ok", columnsOf(all, func(e event) *bool { return e.ok })),
		},
		OnConflict: `ON CONFLICT (session_id, id) DO UPDATE SET at = excluded.at, name = excluded.name,
			duration = excluded.duration, ok = excluded.ok`,
	}.Insert(ctx, tx)
	return err
}

func deleteEvents(ctx context.Context, tx *store.Tx, keys []eventKey) error {
	for _, key := range keys { // rarely any: an activation that another report replaced
		_, err := tx.Exec(ctx, `DELETE FROM agent_session_events WHERE session_id = $1 AND id = $2`, key.session, key.id)
		if err != nil {
			return err
		}
	}
	return nil
}

// skillsOfSessions returns the skills of sessions, without their names.
func skillsOfSessions(ctx context.Context, q store.Querier, ids []string) ([]Skill, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	from, list := q.Dialect().ByKey("agent_session_skills", "session_id", "$1", ids)
	rows, err := q.Query(ctx, `
		SELECT k.session_id, k.skill_id, k.activated, k.offered, k.version_id, k.pass_rate, k.basis, k.outcome
		FROM (SELECT * FROM `+from+`) AS k`, list)
	return store.All(rows, err, func(row store.Row) (k Skill, err error) {
		err = row.Scan(&k.SessionID, &k.SkillID, &k.Activated, &k.Offered, &k.VersionID, &k.PassRate, &k.Basis,
			&k.Outcome)
		return k, err
	})
}

// writeSkills upserts skills of the sessions. started_at repeats that of the
// session, since the list of a skill's sessions is sorted by an index of this table.
func writeSkills(ctx context.Context, tx *store.Tx, all []Skill, of map[string]*Session) error {
	if len(all) == 0 {
		return nil
	}
	_, err := store.Bulk{
		Table: "agent_session_skills",
		Columns: []store.Column{
			store.Col("session_id", columnsOf(all, func(k Skill) string { return k.SessionID })),
			store.Col("skill_id", columnsOf(all, func(k Skill) string { return k.SkillID })),
			store.Col("started_at", columnsOf(all, func(k Skill) int64 { return store.Micros(of[k.SessionID].StartedAt) })),
			store.Col("activated", columnsOf(all, func(k Skill) bool { return k.Activated })),
			store.Col("offered", columnsOf(all, func(k Skill) bool { return k.Offered })),
			store.Col("version_id", columnsOf(all, func(k Skill) *string { return k.VersionID })),
			store.Col("pass_rate", columnsOf(all, func(k Skill) *int64 { return k.PassRate })),
			store.Col("basis", columnsOf(all, func(k Skill) string { return string(k.Basis) })),
			store.Col("outcome", columnsOf(all, func(k Skill) string { return string(k.Outcome) })),
		},
		OnConflict: `ON CONFLICT (session_id, skill_id) DO UPDATE SET started_at = excluded.started_at,
			activated = excluded.activated, offered = excluded.offered, version_id = excluded.version_id,
			pass_rate = excluded.pass_rate, basis = excluded.basis, outcome = excluded.outcome`,
	}.Insert(ctx, tx)
	return err
}

// moveSkills gives the skills of sessions that began earlier than was known the
// new time, by which they are listed.
func moveSkills(ctx context.Context, tx *store.Tx, moved []Session) error {
	if len(moved) == 0 {
		return nil
	}
	return store.BulkUpdate{
		Table: "agent_session_skills",
		Key:   store.Col("session_id", columnsOf(moved, func(s Session) string { return s.ID })),
		Set: []store.Column{store.Col("started_at",
			columnsOf(moved, func(s Session) int64 { return store.Micros(s.StartedAt) }))},
	}.Run(ctx, tx)
}

func deleteSkills(ctx context.Context, tx *store.Tx, keys [][2]string) error {
	for _, key := range keys { // rarely any, as with events
		_, err := tx.Exec(ctx, `DELETE FROM agent_session_skills WHERE session_id = $1 AND skill_id = $2`, key[0], key[1])
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteSessions deletes the sessions that match a condition on $1, with their
// events and skills. The condition is text of this package, never of a request.
func deleteSessions(ctx context.Context, tx *store.Tx, condition string, arg any) error {
	for _, table := range []string{"agent_session_events", "agent_session_skills"} {
		_, err := tx.Exec(ctx, `
			DELETE FROM `+table+` WHERE session_id IN (SELECT id FROM agent_sessions WHERE `+condition+`)`, arg)
		if err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM agent_sessions WHERE `+condition, arg)
	return err
}

// expiredSessions returns the next sessions without a report since a time. Oldest
// first, by the index, so that a chunk costs the same however many there are.
func expiredSessions(ctx context.Context, q store.Querier, before time.Time, limit int) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT id FROM agent_sessions WHERE reported_at < $1 ORDER BY reported_at LIMIT $2`, store.Micros(before), limit)
	return store.All(rows, err, store.Value[string])
}
