package sets

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

const setColumns = `s.id, s.org_id, s.name, s.description, s.repositories, s.required, s.created_by, s.created_at, s.updated_at`

func scanSet(row store.Row) (s Set, err error) {
	var repositories string
	err = row.Scan(&s.ID, &s.OrgID, &s.Name, &s.Description, &repositories, &s.Required, &s.CreatedBy,
		store.Time(&s.CreatedAt), store.Time(&s.UpdatedAt))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(repositories), &s.Repositories)
}

// setByID returns a set with its lists. lock is "" or a locking clause.
func setByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Set, error) {
	rows, err := q.Query(ctx, `SELECT `+setColumns+` FROM sets s WHERE s.org_id = $1 AND s.id = $2`+lock, orgID, id)
	set, err := store.One(rows, err, "Set", scanSet)
	if err != nil {
		return set, err
	}
	return set, addLists(ctx, q, []*Set{&set})
}

// setsAfter returns sets by name, without their lists; those of some teams only unless of is
// nil.
func setsAfter(ctx context.Context, q store.Querier, orgID string, f Filter, of []string, limit int) ([]Set, error) {
	in, list := q.Dialect().In("$5", of)
	rows, err := q.Query(ctx, `
		SELECT `+setColumns+` FROM sets s
		WHERE s.org_id = $1 AND s.name > $2 AND ($3 = '' OR s.name = $3)
			AND ($4 OR EXISTS (SELECT 1 FROM set_teams t WHERE t.set_id = s.id AND t.team_id`+in+`))
		ORDER BY s.name LIMIT $6`, orgID, f.After, f.Name, of == nil, list, limit)
	return store.All(rows, err, scanSet)
}

// addLists reads the entries, teams and owners of sets.
func addLists(ctx context.Context, q store.Querier, all []*Set) error {
	if len(all) == 0 {
		return nil
	}
	byID, ids := map[string]*Set{}, make([]string, len(all))
	for i, s := range all {
		byID[s.ID], ids[i] = s, s.ID
		s.Entries, s.Teams, s.Owners.Users, s.Owners.Teams = nil, []string{}, []string{}, []string{}
	}
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT set_id, entry_id, version_range FROM set_entries WHERE set_id`+in+` ORDER BY set_id, position`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var e Entry
		err := row.Scan(&id, &e.EntryID, &e.Range)
		byID[id].Entries = append(byID[id].Entries, e)
		return err
	})
	if err != nil {
		return err
	}
	rows, err = q.Query(ctx, `SELECT set_id, team_id FROM set_teams WHERE set_id`+in+` ORDER BY set_id, team_id`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var id, team string
		err := row.Scan(&id, &team)
		byID[id].Teams = append(byID[id].Teams, team)
		return err
	})
	if err != nil {
		return err
	}
	rows, err = q.Query(ctx, `
		SELECT set_id, COALESCE(user_id, ''), COALESCE(team_id, '') FROM set_owners WHERE set_id`+in+`
		ORDER BY set_id, user_id, team_id`, list)
	return store.Each(rows, err, func(row store.Row) error {
		var id, user, team string
		err := row.Scan(&id, &user, &team)
		if o := &byID[id].Owners; user != "" {
			o.Users = append(o.Users, user)
		} else {
			o.Teams = append(o.Teams, team)
		}
		return err
	})
}

// insertSet refuses one too many.
func insertSet(ctx context.Context, tx *store.Tx, s Set) error {
	n, err := store.Count(ctx, tx, `FROM sets WHERE org_id = $1`, s.OrgID)
	if err != nil {
		return err
	}
	if n >= maxSets {
		return fault.New(fault.Conflict, "The organisation has %d sets, the maximum; delete some first", n)
	}
	repositories, err := json.Marshal(s.Repositories)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO sets (id, org_id, name, description, repositories, required, created_by, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, s.ID, s.OrgID, s.Name, s.Description, string(repositories), s.Required,
		s.CreatedBy, store.Micros(s.CreatedAt), store.Micros(s.UpdatedAt))
	return err
}

func updateSet(ctx context.Context, tx *store.Tx, s Set) error {
	repositories, err := json.Marshal(s.Repositories)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE sets SET name = $3, description = $4, repositories = $5, required = $6, updated_at = $7
		WHERE org_id = $1 AND id = $2`,
		s.OrgID, s.ID, s.Name, s.Description, string(repositories), s.Required, store.Micros(s.UpdatedAt))
	return err
}

// Known implements tokens.Sets: it returns which of the ids are sets of the organisation.
func (s *Service) Known(ctx context.Context, orgID string, ids []string) ([]string, error) {
	in, list := s.DB.Dialect().In("$2", ids)
	rows, err := s.DB.Query(ctx, `SELECT s.id FROM sets s WHERE s.org_id = $1 AND s.id`+in+` ORDER BY s.id`, orgID, list)
	return store.All(rows, err, store.Value[string])
}

// entriesOf returns what sets want, all together.
func entriesOf(ctx context.Context, q store.Querier, orgID string, ids []string) ([]registry.Wanted, error) {
	in, list := q.Dialect().In("$2", ids)
	rows, err := q.Query(ctx, `
		SELECT entry_id, version_range FROM set_entries WHERE org_id = $1 AND set_id`+in+`
		ORDER BY set_id, position`, orgID, list)
	return store.All(rows, err, func(row store.Row) (w registry.Wanted, err error) {
		err = row.Scan(&w.EntryID, &w.Range)
		return w, err
	})
}

// replaceLists writes the lists of a set anew.
func replaceLists(ctx context.Context, tx *store.Tx, s Set) error {
	for _, table := range []string{"set_entries", "set_teams", "set_owners"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE set_id = $1`, s.ID); err != nil {
			return err
		}
	}
	n := len(s.Entries)
	entries, ranges, positions := make([]string, n), make([]string, n), make([]int64, n)
	for i, e := range s.Entries {
		entries[i], ranges[i], positions[i] = e.EntryID, e.Range, int64(i)
	}
	_, err := store.Bulk{Table: "set_entries", Columns: []store.Column{
		store.Col("set_id", repeat(s.ID, n)), store.Col("org_id", repeat(s.OrgID, n)), store.Col("entry_id", entries),
		store.Col("position", positions), store.Col("version_range", ranges),
	}}.Insert(ctx, tx)
	if err != nil {
		return err
	}
	n = len(s.Teams)
	_, err = store.Bulk{Table: "set_teams", Columns: []store.Column{
		store.Col("set_id", repeat(s.ID, n)), store.Col("org_id", repeat(s.OrgID, n)), store.Col("team_id", s.Teams),
	}}.Insert(ctx, tx)
	if err != nil {
		return err
	}
	n = len(s.Owners.Users) + len(s.Owners.Teams)
	users, teams := make([]*string, n), make([]*string, n)
	for i := range s.Owners.Users {
		users[i] = &s.Owners.Users[i]
	}
	for i := range s.Owners.Teams {
		teams[len(s.Owners.Users)+i] = &s.Owners.Teams[i]
	}
	_, err = store.Bulk{Table: "set_owners", Columns: []store.Column{
		store.Col("set_id", repeat(s.ID, n)), store.Col("org_id", repeat(s.OrgID, n)), store.Col("user_id", users),
		store.Col("team_id", teams),
	}}.Insert(ctx, tx)
	return err
}

func repeat(v string, n int) []string { return slices.Repeat([]string{v}, n) }

// Delete removes a set. Tokens that were bound to it alone open nothing from then on.
func (s *Service) Delete(ctx context.Context, orgID, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		set, err := setByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM sets WHERE org_id = $1 AND id = $2`, orgID, id); err != nil {
			return err
		}
		if err := registry.CountRemoval(ctx, tx, orgID); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Action: "sets.set.delete", Target: set.target(), Detail: set.detail(),
		})
	})
}

// DeleteOfEntry implements registry.OnEntryDeleted.
func (s *Service) DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM set_entries WHERE entry_id = $1`, entryID)
	return err
}

// MayChange reports whether the caller may change or delete a set without being an admin: as an
// owner, or as a member of a team that is. A key with narrowed permissions gains nothing by that.
func (s *Service) MayChange(ctx context.Context, c access.Caller, id string) (bool, error) {
	if c.Narrowed() || !c.May(access.Write) || id == "" {
		return false, nil
	}
	of, err := s.Teams.TeamsOf(ctx, c.OrgID, c.UserID)
	if err != nil {
		return false, err
	}
	in, list := s.DB.Dialect().In("$4", of)
	n, err := store.Count(ctx, s.DB, `
		FROM set_owners WHERE org_id = $1 AND set_id = $2 AND (user_id = $3 OR team_id`+in+`)`, c.OrgID, id, c.UserID, list)
	return n > 0, err
}
