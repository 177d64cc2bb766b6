package skills

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A knownSkill is a skill that a report names.
type knownSkill struct {
	id, name  string
	countsFor string // its own id, or that of the skill that it is merged into
	confirmed bool
}

func scanKnownSkill(row store.Row) (k knownSkill, err error) {
	err = row.Scan(&k.id, &k.name, &k.countsFor, &k.confirmed)
	return k, err
}

// ensureSkills returns the skills by name, and creates those that are new. The
// names map to whether the report confirms them.
func ensureSkills(ctx context.Context, tx *store.Tx, orgID string, names map[string]bool) (map[string]knownSkill, error) {
	// Sorted, so that concurrent reports insert in one order and cannot deadlock.
	sorted := slices.Sorted(maps.Keys(names))
	known, err := skillsByName(ctx, tx, orgID, sorted)
	if err != nil {
		return nil, err
	}
	var fresh, unconfirmed []string
	for _, name := range sorted {
		switch k, ok := known[name]; {
		case !ok:
			fresh = append(fresh, name)
		case names[name] && !k.confirmed:
			unconfirmed = append(unconfirmed, k.id)
		}
	}
	if err := confirmSkills(ctx, tx, unconfirmed); err != nil || len(fresh) == 0 {
		return known, err
	}
	_, err = store.Bulk{
		Table: "skills",
		Columns: []store.Column{
			store.Col("id", columnsOf(fresh, func(string) string { return store.NewID() })),
			store.Col("org_id", slices.Repeat([]string{orgID}, len(fresh))),
			store.Col("name", fresh),
			store.Col("confirmed", columnsOf(fresh, func(name string) bool { return names[name] })),
			store.Col("created_at", slices.Repeat([]int64{store.Micros(time.Now())}, len(fresh))),
		},
		// A concurrent transaction may have created some of them first.
		OnConflict: "ON CONFLICT (org_id, name) DO UPDATE SET confirmed = skills.confirmed OR excluded.confirmed",
	}.Insert(ctx, tx)
	if err != nil {
		return nil, err
	}
	// Read again rather than returned: the winner of a race has another id than
	// ours.
	return skillsByName(ctx, tx, orgID, sorted)
}

// confirmSkills lists skills from now on. Their age counts from then: alerts on
// disuse must not count the time during which the name was only called in vain.
func confirmSkills(ctx context.Context, tx *store.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	in, list := tx.Dialect().In("$1", ids)
	_, err := tx.Exec(ctx, `
		UPDATE skills SET confirmed = TRUE, created_at = $2 WHERE NOT confirmed AND id`+in, list, store.Micros(time.Now()))
	return err
}

// skillsByName and skillsByID lock the skills, so that none is merged before the
// transaction ends: what it counts would be left behind.

// skillsByName returns the skills of an organisation by name. Unknown names are
// missing.
func skillsByName(ctx context.Context, q store.Querier, orgID string, names []string) (map[string]knownSkill, error) {
	in, list := q.Dialect().In("$2", names)
	rows, err := q.Query(ctx, `
		SELECT id, name, COALESCE(merged_into, id), confirmed FROM skills
		WHERE org_id = $1 AND name`+in+` ORDER BY id`+q.Dialect().ForKeyShare(), orgID, list)
	all, err := store.All(rows, err, scanKnownSkill)
	known := make(map[string]knownSkill, len(all))
	for _, k := range all {
		known[k.name] = k
	}
	return known, err
}

// skillsByID takes ids that stored rows refer to, which are therefore known to be of
// the caller's organisation.
func skillsByID(ctx context.Context, q store.Querier, ids []string) ([]knownSkill, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT id, name, COALESCE(merged_into, id), confirmed FROM skills
		WHERE id`+in+` ORDER BY id`+q.Dialect().ForKeyShare(), list)
	return store.All(rows, err, scanKnownSkill)
}

// Names returns the names of skills by id.
func Names(ctx context.Context, q store.Querier, ids []string) (map[string]string, error) {
	in, list := q.Dialect().In("$1", ids)
	return namesByID(q.Query(ctx, `SELECT id, name FROM skills WHERE id`+in, list))
}

// AllNames returns the names of all skills of an organisation by id, also of hidden and merged ones.
func AllNames(ctx context.Context, q store.Querier, orgID string) (map[string]string, error) {
	return namesByID(q.Query(ctx, `SELECT id, name FROM skills WHERE org_id = $1`, orgID))
}

func namesByID(rows store.Rows, err error) (map[string]string, error) {
	names := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id, name string
		err := row.Scan(&id, &name)
		names[id] = name
		return err
	})
	return names, err
}

// Lock locks a skill of the organisation until the transaction ends.
func Lock(ctx context.Context, tx *store.Tx, orgID, id string) error {
	rows, err := tx.Query(ctx, `SELECT id FROM skills WHERE org_id = $1 AND id = $2`+tx.Dialect().ForUpdate(), orgID, id)
	_, err = store.One(rows, err, "Skill", store.Value[string])
	return err
}

// LockUser serialises the reports of one user until the transaction ends: the
// rows that a report reads and rewrites are all of its user. The rollups that
// users share are only ever incremented, in the order of their ids. The lock is
// the user's row in skill_totals, which counts nothing.
func LockUser(ctx context.Context, tx *store.Tx, userID string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO skill_totals (subject_id, unique_sessions, graded_sessions) VALUES ($1, 0, 0)
		ON CONFLICT (subject_id) DO UPDATE SET unique_sessions = 0`, userID)
	return err
}

// observationColumns are the columns that scanObservation reads. A missing origin_id
// means that the skill is not merged: the column is only written where it differs,
// see unless.
const observationColumns = `id, skill_id, COALESCE(origin_id, skill_id), plugin, version_id, version_basis, session_hash,
	device_hash, prompt_hash, version_hash,
	version_name, is_check, triggered, confidence, weight, mode, occurred_at, until_at, normalized_at, ages`

func scanObservation(row store.Row) (o observation, err error) {
	var ages *string
	err = row.Scan(&o.id, &o.skillID, &o.originID, &o.plugin, &o.versionID, &o.basis, &o.sessionHash, &o.device,
		&o.promptHash, &o.versionHash,
		&o.versionName, &o.isCheck, &o.triggered, &o.confidence, &o.weight, &o.mode, store.Time(&o.at), store.NullTime(&o.until),
		store.Time(&o.normalizedAt), &ages)
	if err == nil && ages != nil {
		err = json.Unmarshal([]byte(*ages), &o.ages)
	}
	return o, err
}

// observationsByID returns the observations that exist, by id.
func observationsByID(ctx context.Context, q store.Querier, ids []string) (map[string]observation, error) {
	if len(ids) == 0 {
		return map[string]observation{}, nil
	}
	from, list := q.Dialect().ByKey("skill_observations", "id", "$1", ids)
	rows, err := q.Query(ctx, `SELECT `+observationColumns+` FROM `+from, list)
	all, err := store.All(rows, err, scanObservation)
	byID := make(map[string]observation, len(all))
	for _, o := range all {
		byID[o.id] = o
	}
	return byID, err
}

// observationsOfPlugins reads the observations of plugins' skills in sessions. Those
// of other skills do not depend on which plugins a session has loaded.
func observationsOfPlugins(ctx context.Context, q store.Querier, sessions []string) ([]observation, error) {
	in, list := q.Dialect().In("$1", sessions)
	rows, err := q.Query(ctx, `
		SELECT `+observationColumns+` FROM skill_observations WHERE plugin IS NOT NULL AND session_hash`+in, list)
	return store.All(rows, err, scanObservation)
}

// deleteObservations deletes observations and returns those that existed. The caller
// needs their values to take them out of the rollups.
func deleteObservations(ctx context.Context, tx *store.Tx, ids []string) (map[string]observation, error) {
	deleted, err := observationsByID(ctx, tx, ids)
	if err != nil || len(deleted) == 0 {
		return deleted, err
	}
	in, list := tx.Dialect().In("$1", ids)
	_, err = tx.Exec(ctx, `DELETE FROM skill_observations WHERE id`+in, list)
	return deleted, err
}

// columnsOf maps a function over a slice, e.g. to get a column of rows.
func columnsOf[Row, T any](rows []Row, value func(Row) T) []T {
	column := make([]T, len(rows))
	for i, row := range rows {
		column[i] = value(row)
	}
	return column
}

// mutable returns the columns of observations that a later report may change.
func mutable(all []observation) []store.Column {
	return []store.Column{
		store.Col("skill_id", columnsOf(all, func(o observation) string { return o.skillID })),
		store.Col("origin_id", columnsOf(all, func(o observation) *string { return unless(o.originID, o.skillID) })),
		store.Col("plugin", columnsOf(all, func(o observation) *string { return o.plugin })),
		store.Col("version_id", columnsOf(all, func(o observation) *string { return o.versionID })),
		store.Col("version_basis", columnsOf(all, func(o observation) *string { return o.basis })),
		store.Col("session_hash", columnsOf(all, func(o observation) string { return o.sessionHash })),
		store.Col("device_hash", columnsOf(all, func(o observation) *string { return o.device })),
		store.Col("prompt_hash", columnsOf(all, func(o observation) *string { return o.promptHash })),
		store.Col("version_hash", columnsOf(all, func(o observation) *string { return o.versionHash })),
		store.Col("version_name", columnsOf(all, func(o observation) *string { return o.versionName })),
		store.Col("is_check", columnsOf(all, func(o observation) bool { return o.isCheck })),
		store.Col("triggered", columnsOf(all, func(o observation) bool { return o.triggered })),
		store.Col("confidence", columnsOf(all, func(o observation) *int64 { return o.confidence })),
		store.Col("weight", columnsOf(all, func(o observation) int64 { return o.weight })),
		store.Col("mode", columnsOf(all, func(o observation) *string { return o.mode })),
		store.Col("occurred_at", columnsOf(all, func(o observation) int64 { return store.Micros(o.at) })),
		store.Col("until_at", columnsOf(all, func(o observation) *int64 { return store.NullMicros(o.until) })),
		store.Col("normalized_at", columnsOf(all, func(o observation) int64 { return store.Micros(o.normalizedAt) })),
		store.Col("ages", columnsOf(all, func(o observation) *string { return o.ages.marshal() })),
	}
}

// unless returns an id, or nil if it is the same as the other one. Columns that
// nearly always repeat another one stay NULL that way.
func unless(id, other string) *string {
	if id == other {
		return nil
	}
	return &id
}

// insertObservations inserts the new observations of a report. The ids are new:
// LockUser excludes another report of the user, and ids contain the user, so there
// is no conflict to handle.
func insertObservations(ctx context.Context, tx *store.Tx, r Report, fresh []observation) error {
	if len(fresh) == 0 {
		return nil
	}
	_, err := store.Bulk{Table: "skill_observations", Columns: append([]store.Column{
		store.Col("id", columnsOf(fresh, func(o observation) string { return o.id })),
		store.Col("org_id", slices.Repeat([]string{r.OrgID}, len(fresh))),
		store.Col("user_id", slices.Repeat([]string{r.UserID}, len(fresh))),
	}, mutable(fresh)...)}.Insert(ctx, tx)
	return err
}

func updateObservations(ctx context.Context, tx *store.Tx, changed []observation) error {
	if len(changed) == 0 {
		return nil
	}
	return store.BulkUpdate{
		Table: "skill_observations",
		Key:   store.Col("id", columnsOf(changed, func(o observation) string { return o.id })),
		Set:   mutable(changed),
	}.Run(ctx, tx)
}

// sessionDay is a row of skill_session_days. It counts observations of one subject
// in one session on one day. seen falls to zero when an observation moves to another
// day, skill or version.
type sessionDay struct {
	key string
	day int64
	// skillKey is the session key of the skill if this is the row of a version.
	skillKey, versionID string
	seenCount
}

// sessionDays returns the rows of session keys (see SessionKey), by key and day.
func sessionDays(ctx context.Context, q store.Querier, keys []string) (map[string]map[int64]seenCount, error) {
	found := map[string]map[int64]seenCount{}
	if len(keys) == 0 {
		return found, nil
	}
	from, list := q.Dialect().ByKey("skill_session_days", "session_key", "$1", keys)
	rows, err := q.Query(ctx, `SELECT session_key, day, seen, triggers, offers FROM `+from, list)
	_, err = store.All(rows, err, func(row store.Row) (s sessionDay, err error) {
		if err := row.Scan(&s.key, &s.day, &s.seen, &s.triggers, &s.offers); err != nil {
			return s, err
		}
		if found[s.key] == nil {
			found[s.key] = map[int64]seenCount{}
		}
		found[s.key][s.day] = s.seenCount
		return s, nil
	})
	return found, err
}

// writeSessionDays upserts rows, and deletes those whose count fell to zero.
func writeSessionDays(ctx context.Context, tx *store.Tx, changed []sessionDay) error {
	var gone []sessionDay
	changed = slices.DeleteFunc(changed, func(s sessionDay) bool {
		if s.seen <= 0 {
			gone = append(gone, s)
		}
		return s.seen <= 0
	})
	// Rarely more than a few: only moved and withdrawn observations get here.
	for _, s := range gone {
		_, err := tx.Exec(ctx, `DELETE FROM skill_session_days WHERE session_key = $1 AND day = $2`, s.key, s.day)
		if err != nil {
			return err
		}
	}
	if len(changed) == 0 {
		return nil
	}
	_, err := store.Bulk{
		Table: "skill_session_days",
		Columns: []store.Column{
			store.Col("session_key", columnsOf(changed, func(s sessionDay) string { return s.key })),
			store.Col("day", columnsOf(changed, func(s sessionDay) int64 { return s.day })),
			store.Col("seen", columnsOf(changed, func(s sessionDay) int64 { return s.seen })),
			store.Col("triggers", columnsOf(changed, func(s sessionDay) int64 { return s.triggers })),
			store.Col("offers", columnsOf(changed, func(s sessionDay) int64 { return s.offers })),
			store.Col("skill_key", columnsOf(changed, func(s sessionDay) *string { return orNull(s.skillKey) })),
			store.Col("version_id", columnsOf(changed, func(s sessionDay) *string { return orNull(s.versionID) })),
		},
		OnConflict: `ON CONFLICT (session_key, day) DO UPDATE SET
			seen = excluded.seen, triggers = excluded.triggers, offers = excluded.offers,
			skill_key = excluded.skill_key, version_id = excluded.version_id`,
	}.Insert(ctx, tx)
	return err
}

// aliasesOf returns which observation each alias stands for. Unknown ones are
// missing.
func aliasesOf(ctx context.Context, q store.Querier, names []string) (map[string]string, error) {
	known := map[string]string{}
	if len(names) == 0 {
		return known, nil
	}
	from, list := q.Dialect().ByKey("skill_aliases", "alias", "$1", names)
	rows, err := q.Query(ctx, `SELECT alias, observation_id FROM `+from, list)
	_, err = store.All(rows, err, func(row store.Row) (struct{}, error) {
		var alias, id string
		err := row.Scan(&alias, &id)
		known[alias] = id
		return struct{}{}, err
	})
	return known, err
}

// insertAliases stores which observation new aliases stand for. Claims of two
// reports cannot race, since a user's reports are serialised: DO NOTHING only skips
// those that are stored already.
func insertAliases(ctx context.Context, tx *store.Tx, aliases map[string]string) error {
	if len(aliases) == 0 {
		return nil
	}
	var names, ids []string
	for name, id := range aliases {
		names, ids = append(names, name), append(ids, id)
	}
	_, err := store.Bulk{
		Table:      "skill_aliases",
		Columns:    []store.Column{store.Col("alias", names), store.Col("observation_id", ids)},
		OnConflict: "ON CONFLICT (alias) DO NOTHING",
	}.Insert(ctx, tx)
	return err
}
