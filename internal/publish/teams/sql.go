package teams

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// teamColumns counts only members who are still users, as membersOf lists them.
const teamColumns = `t.id, t.org_id, t.name, t.slug, t.description, t.created_by, t.created_at, t.updated_at,
	(SELECT COUNT(*) FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = t.id AND u.removed_at IS NULL)`

func scanTeam(row store.Row) (t Team, err error) {
	err = row.Scan(&t.ID, &t.OrgID, &t.Name, &t.Slug, &t.Description, &t.CreatedBy, store.Time(&t.CreatedAt),
		store.Time(&t.UpdatedAt), &t.Size)
	return t, err
}

func insertTeam(ctx context.Context, tx *store.Tx, t Team) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO teams (id, org_id, name, slug, description, created_by, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.OrgID, t.Name, t.Slug, t.Description, t.CreatedBy, store.Micros(t.CreatedAt), store.Micros(t.UpdatedAt))
	return err
}

func updateTeam(ctx context.Context, tx *store.Tx, t Team) error {
	_, err := tx.Exec(ctx, `
		UPDATE teams SET name = $3, slug = $4, description = $5, updated_at = $6 WHERE org_id = $1 AND id = $2`,
		t.OrgID, t.ID, t.Name, t.Slug, t.Description, store.Micros(t.UpdatedAt))
	return err
}

func deleteTeam(ctx context.Context, tx *store.Tx, t Team) error {
	_, err := tx.Exec(ctx, `DELETE FROM teams WHERE org_id = $1 AND id = $2`, t.OrgID, t.ID)
	return err
}

var listed = store.List[Team]{
	Columns: teamColumns, From: `FROM teams t WHERE t.org_id = $1`, Order: `t.slug`, Scan: scanTeam,
	Sorts: store.Sorting{"name": "lower(t.name)", "created_at": "t.created_at"},
}

// teamByID takes the lock clause of its query: "" or e.g. Dialect.ForUpdate.
func teamByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Team, error) {
	rows, err := q.Query(ctx, `SELECT `+teamColumns+` FROM teams t WHERE t.org_id = $1 AND t.id = $2`+lock, orgID, id)
	return store.One(rows, err, "Team", scanTeam)
}

// teamsBySlug ignores slugs that no team has.
func teamsBySlug(ctx context.Context, q store.Querier, orgID string, slugs []string) ([]Team, error) {
	in, arg := q.Dialect().In("$2", slugs)
	rows, err := q.Query(ctx, `
		SELECT `+teamColumns+` FROM teams t WHERE t.org_id = $1 AND t.slug`+in+` ORDER BY t.slug`, orgID, arg)
	return store.All(rows, err, scanTeam)
}

// knownTeams returns which of the ids are teams of the organisation.
func knownTeams(ctx context.Context, q store.Querier, orgID string, ids []string) ([]string, error) {
	in, arg := q.Dialect().In("$2", ids)
	rows, err := q.Query(ctx, `SELECT id FROM teams WHERE org_id = $1 AND id`+in+` ORDER BY id`, orgID, arg)
	return store.All(rows, err, store.Value[string])
}

// lockTeams returns the ids that still exist, and keeps those teams from being deleted
// until the transaction ends. Sorting by id gives all transactions the same lock order,
// so they can't deadlock.
func lockTeams(ctx context.Context, tx *store.Tx, orgID string, ids []string) ([]string, error) {
	in, arg := tx.Dialect().In("$2", ids)
	rows, err := tx.Query(ctx, `
		SELECT id FROM teams WHERE org_id = $1 AND id`+in+` ORDER BY id`+tx.Dialect().ForKeyShare(), orgID, arg)
	return store.All(rows, err, store.Value[string])
}

// membersOf returns the members of any of the teams, each once, without removed users.
func membersOf(ctx context.Context, q store.Querier, orgID string, teams []string) ([]Person, error) {
	in, arg := q.Dialect().In("$2", teams)
	rows, err := q.Query(ctx, `
		SELECT id, name, email FROM users
		WHERE org_id = $1 AND removed_at IS NULL AND id IN (SELECT user_id FROM team_members WHERE team_id`+in+`)
		ORDER BY email, id`, orgID, arg)
	return store.All(rows, err, scanPerson)
}

// MemberIDs returns the ids of everyone in any of the teams, each once, in their order. Removed
// users are left out.
func (s *Service) MemberIDs(ctx context.Context, orgID string, teams []string) ([]string, error) {
	in, arg := s.DB.Dialect().In("$2", teams)
	rows, err := s.DB.Query(ctx, `
		SELECT DISTINCT m.user_id FROM team_members m JOIN users u ON u.id = m.user_id
		WHERE m.team_id`+in+` AND m.org_id = $1 AND u.org_id = $1 AND u.removed_at IS NULL ORDER BY m.user_id`, orgID, arg)
	return store.All(rows, err, store.Value[string])
}

// TeamsOf returns the ids of the teams that a user is in.
func (s *Service) TeamsOf(ctx context.Context, orgID, userID string) ([]string, error) {
	rows, err := s.DB.Query(ctx, `SELECT team_id FROM team_members WHERE user_id = $1 AND org_id = $2`, userID, orgID)
	return store.All(rows, err, store.Value[string])
}

func scanPerson(row store.Row) (p Person, err error) {
	err = row.Scan(&p.ID, &p.Name, &p.Email)
	return p, err
}

// replaceMembers deletes and inserts only the difference, so that added_at of the members
// who stay is kept.
func replaceMembers(ctx context.Context, tx *store.Tx, t Team, users []string) error {
	if _, err := tx.Exec(ctx, `UPDATE teams SET updated_at = $3 WHERE org_id = $1 AND id = $2`,
		t.OrgID, t.ID, store.Micros(t.UpdatedAt)); err != nil {
		return err
	}
	in, arg := tx.Dialect().In("$3", users)
	if _, err := tx.Exec(ctx, `
		DELETE FROM team_members WHERE org_id = $1 AND team_id = $2 AND NOT (user_id`+in+`)`, t.OrgID, t.ID, arg); err != nil {
		return err
	}
	_, err := store.Bulk{
		Table: "team_members",
		Columns: []store.Column{
			store.Col("team_id", repeat(t.ID, len(users))), store.Col("org_id", repeat(t.OrgID, len(users))),
			store.Col("user_id", users), store.Col("added_at", repeat(store.Micros(t.UpdatedAt), len(users))),
		},
		OnConflict: "ON CONFLICT DO NOTHING",
	}.Insert(ctx, tx)
	return err
}

// repeat fills a column of a bulk insert.
func repeat[T any](v T, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// countOwned counts ownerships set by hand; those by CODEOWNERS files aren't stored per
// team.
func countOwned(ctx context.Context, q store.Querier, t Team) (int, error) {
	return store.Count(ctx, q, `FROM entry_owners WHERE org_id = $1 AND team_id = $2`, t.OrgID, t.ID)
}

// manualUsers returns the people set as owners by hand, without removed users.
func manualUsers(ctx context.Context, q store.Querier, orgID, entryID string) ([]Person, error) {
	rows, err := q.Query(ctx, `
		SELECT u.id, u.name, u.email FROM entry_owners o JOIN users u ON u.id = o.user_id
		WHERE o.org_id = $1 AND o.entry_id = $2 AND u.org_id = $1 AND u.removed_at IS NULL
		ORDER BY u.email, u.id`, orgID, entryID)
	return store.All(rows, err, scanPerson)
}

// manualTeams returns the teams set as owners by hand.
func manualTeams(ctx context.Context, q store.Querier, orgID, entryID string) ([]Team, error) {
	rows, err := q.Query(ctx, `
		SELECT `+teamColumns+` FROM entry_owners o JOIN teams t ON t.id = o.team_id
		WHERE o.org_id = $1 AND o.entry_id = $2 AND t.org_id = $1
		ORDER BY t.slug`, orgID, entryID)
	return store.All(rows, err, scanTeam)
}

// peopleByEmail finds members by address, without the holders of machine keys.
func peopleByEmail(ctx context.Context, q store.Querier, orgID string, emails []string) (people []Person, err error) {
	in, arg := q.Dialect().In("$2", emails)
	rows, err := q.Query(ctx, `
		SELECT id, name, email, role FROM users
		WHERE org_id = $1 AND email`+in+` AND removed_at IS NULL ORDER BY email`, orgID, arg)
	users, err := store.All(rows, err, func(row store.Row) (u auth.User, err error) {
		err = row.Scan(&u.ID, &u.Name, &u.Email, &u.Role)
		return u, err
	})
	for _, u := range users {
		if !u.Machine() {
			people = append(people, Person{u.ID, u.Name, u.Email})
		}
	}
	return people, err
}

// replaceOwners writes users and teams into one table; exactly one of the two columns of
// a row is set.
func replaceOwners(ctx context.Context, tx *store.Tx, orgID, entryID string, n Selection) error {
	if _, err := tx.Exec(ctx, `DELETE FROM entry_owners WHERE org_id = $1 AND entry_id = $2`, orgID, entryID); err != nil {
		return err
	}
	now, count := store.Micros(store.Now()), len(n.Users)+len(n.Teams)
	users, teams := make([]*string, count), make([]*string, count)
	for i := range n.Users {
		users[i] = &n.Users[i]
	}
	for i := range n.Teams {
		teams[len(n.Users)+i] = &n.Teams[i]
	}
	_, err := store.Bulk{
		Table: "entry_owners",
		Columns: []store.Column{
			store.Col("entry_id", repeat(entryID, count)), store.Col("org_id", repeat(orgID, count)),
			store.Col("user_id", users), store.Col("team_id", teams), store.Col("set_at", repeat(now, count)),
		},
	}.Insert(ctx, tx)
	return err
}

// codeownersColumns are used for reading and inserting.
const codeownersColumns = `connection_id, org_id, entry_id, repository, commit_sha, path, line, pattern, owners, read_at`

func scanCodeowners(row store.Row) (c Codeowners, err error) {
	var owners string
	if err = row.Scan(&c.ConnectionID, &c.OrgID, &c.EntryID, &c.Repository, &c.Commit, &c.Path, &c.Line, &c.Pattern, &owners,
		store.Time(&c.ReadAt)); err != nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(owners), &c.Owners)
}

// codeownersOf returns the file that applies to an entry. An entry with several
// connections uses the one read last. A file counts only if its connection has code
// owners switched on, and if it was read after the connection last changed where it
// publishes from (chosen_at): the file of another branch or folder would name the wrong
// owners.
func codeownersOf(ctx context.Context, q store.Querier, orgID, entryID string) (Codeowners, error) {
	rows, err := q.Query(ctx, `
		SELECT `+codeownersColumns+` FROM entry_codeowners o
		WHERE org_id = $1 AND entry_id = $2 AND EXISTS (
			SELECT 1 FROM repohost_connections c WHERE c.id = o.connection_id AND c.codeowners AND o.read_at >= c.chosen_at)
		ORDER BY read_at DESC, connection_id LIMIT 1`, orgID, entryID)
	return store.One(rows, err, "CODEOWNERS", scanCodeowners)
}

// codeownersOfConnection ignores whether the file counts: it's for comparing before and
// after.
func codeownersOfConnection(ctx context.Context, q store.Querier, orgID, connectionID string) (Codeowners, error) {
	rows, err := q.Query(ctx, `
		SELECT `+codeownersColumns+` FROM entry_codeowners WHERE org_id = $1 AND connection_id = $2`, orgID, connectionID)
	return store.One(rows, err, "CODEOWNERS", scanCodeowners)
}

func upsertCodeowners(ctx context.Context, tx *store.Tx, c Codeowners) error {
	owners, err := json.Marshal(c.Owners)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO entry_codeowners (`+codeownersColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (connection_id) DO UPDATE SET entry_id = excluded.entry_id, repository = excluded.repository,
			commit_sha = excluded.commit_sha, path = excluded.path, line = excluded.line, pattern = excluded.pattern,
			owners = excluded.owners, read_at = excluded.read_at`,
		c.ConnectionID, c.OrgID, c.EntryID, c.Repository, c.Commit, c.Path, c.Line, c.Pattern, string(owners),
		store.Micros(c.ReadAt))
	return err
}

func deleteCodeowners(ctx context.Context, tx *store.Tx, c Codeowners) error {
	_, err := tx.Exec(ctx, `DELETE FROM entry_codeowners WHERE org_id = $1 AND connection_id = $2`, c.OrgID, c.ConnectionID)
	return err
}
