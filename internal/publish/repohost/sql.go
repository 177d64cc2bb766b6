package repohost

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

// modeOf returns ModeOff for an organisation without settings.
func modeOf(ctx context.Context, q store.Querier, orgID string) (Mode, error) {
	rows, err := q.Query(ctx, `SELECT write_back_mode FROM repohost_settings WHERE org_id = $1`, orgID)
	mode, err := store.One(rows, err, "Settings", store.Value[Mode])
	if fault.Is(err, fault.NotFound) {
		return ModeOff, nil
	}
	return mode, err
}

// gatesPullsSince is when the settings that decide about gating pull requests may last
// have changed. Pull requests opened before that are left alone.
func gatesPullsSince(ctx context.Context, q store.Querier, c Connection) (time.Time, error) {
	rows, err := q.Query(ctx, `SELECT COALESCE(MAX(updated_at), 0) FROM repohost_settings WHERE org_id = $1`, c.OrgID)
	changed, err := store.One(rows, err, "Settings", store.Value[int64])
	return time.UnixMicro(max(changed, store.Micros(c.UpdatedAt))).UTC(), err
}

func upsertMode(ctx context.Context, q store.Querier, orgID string, m Mode) error {
	_, err := q.Exec(ctx, `
		INSERT INTO repohost_settings (org_id, write_back_mode, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (org_id) DO UPDATE SET write_back_mode = excluded.write_back_mode, updated_at = excluded.updated_at`,
		orgID, m, store.Micros(store.Now()))
	return err
}

const installationColumns = `i.id, i.org_id, i.installation_id, i.account_login, i.account_type, i.suspended, i.token,
	i.created_at, i.updated_at, ` + claims.Claimed

func scanInstallation(row store.Row) (i Installation, err error) {
	err = row.Scan(&i.ID, &i.OrgID, &i.InstallationID, &i.AccountLogin, &i.AccountType, &i.Suspended, &i.Token,
		store.Time(&i.CreatedAt), store.Time(&i.UpdatedAt), &i.Claimed)
	return i, err
}

// upsertInstallation does nothing if another organisation has bound the installation.
// keepToken keeps the stored token if the account is the same.
func upsertInstallation(ctx context.Context, tx *store.Tx, i Installation, keepToken bool) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO repohost_installations (id, org_id, installation_id, account_login, account_key, account_type,
			suspended, token,
			created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
		ON CONFLICT (installation_id) DO UPDATE SET account_login = excluded.account_login, account_key = excluded.account_key,
			account_type = excluded.account_type, suspended = excluded.suspended, updated_at = excluded.updated_at,
			token = CASE WHEN $10 AND repohost_installations.account_key = excluded.account_key THEN repohost_installations.token
				ELSE excluded.token END
		WHERE repohost_installations.org_id = excluded.org_id`,
		i.ID, i.OrgID, i.InstallationID, i.AccountLogin, host.AccountKey(i.AccountLogin), i.AccountType, i.Suspended, i.Token,
		store.Micros(i.CreatedAt), keepToken)
	return err
}

// deleteUnclaimed removes the installation from another organisation that bound it
// without holding the claim on its account.
func deleteUnclaimed(ctx context.Context, tx *store.Tx, i Installation) error {
	_, err := tx.Exec(ctx, `DELETE FROM repohost_installations WHERE installation_id = $1 AND account_key = $2 AND org_id <> $3`,
		i.InstallationID, host.AccountKey(i.AccountLogin), i.OrgID)
	return err
}

// Installations returns the organisation's installations, oldest first.
func (s *Service) Installations(ctx context.Context, orgID string) ([]Installation, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+installationColumns+` FROM repohost_installations i WHERE i.org_id = $1 ORDER BY i.id`, orgID)
	return store.All(rows, err, scanInstallation)
}

func installationOfOrg(ctx context.Context, q store.Querier, orgID string, installationID int64) (Installation, error) {
	rows, err := q.Query(ctx, `
		SELECT `+installationColumns+` FROM repohost_installations i WHERE i.org_id = $1 AND i.installation_id = $2`,
		orgID, installationID)
	return store.One(rows, err, "Installation", scanInstallation)
}

// installationsWithToken reads all organisations' installations, to reseal their tokens.
func installationsWithToken(ctx context.Context, q store.Querier) ([]Installation, error) {
	rows, err := q.Query(ctx,
		`SELECT `+installationColumns+` FROM repohost_installations i WHERE i.token IS NOT NULL ORDER BY i.id`)

	return store.All(rows, err, scanInstallation)
}

func updateToken(ctx context.Context, tx *store.Tx, id, sealed string) error {
	_, err := tx.Exec(ctx, `UPDATE repohost_installations SET token = $2 WHERE id = $1`, id, sealed)
	return err
}

// setSuspended updates an installation of any organisation: the webhook only has the code
// host's id.
func setSuspended(ctx context.Context, tx *store.Tx, installationID int64, suspended bool) (Installation, error) {
	_, err := tx.Exec(ctx, `UPDATE repohost_installations SET suspended = $2, updated_at = $3 WHERE installation_id = $1`,
		installationID, suspended, store.Micros(store.Now()))
	if err != nil {
		return Installation{}, err
	}
	rows, err := tx.Query(ctx, `
		SELECT `+installationColumns+` FROM repohost_installations i WHERE i.installation_id = $1`, installationID)
	return store.One(rows, err, "Installation", scanInstallation)
}

// chosen_by is null in rows from before the column, whose creator chose everything.
const connectionColumns = `c.id, c.org_id, c.entry_id, c.entry_name, c.installation_id, c.repo_id, c.repo_full_name,
	c.default_branch, c.skill_path, c.auto_publish, c.write_back_enabled, c.tag_pattern, c.created_by, c.created_at,
	c.updated_at, c.configured_at, c.publish_unchanged, c.open_issues, c.host_default, c.pull_requests,
	c.codeowners, COALESCE(c.chosen_by, c.created_by), c.chosen_at`

func scanConnection(row store.Row) (c Connection, err error) {
	err = row.Scan(&c.ID, &c.OrgID, &c.EntryID, &c.EntryName, &c.InstallationID, &c.RepoID, &c.RepoFullName, &c.DefaultBranch,
		&c.SkillPath, &c.AutoPublish, &c.WriteBackEnabled, &c.TagPattern, &c.CreatedBy,
		store.Time(&c.CreatedAt), store.Time(&c.UpdatedAt), store.Time(&c.ConfiguredAt),
		&c.PublishUnchanged, &c.OpenIssues, &c.HostDefault, &c.PullRequests, &c.Codeowners, &c.ChosenBy, store.Time(&c.ChosenAt))
	return c, err
}

func insertConnection(ctx context.Context, q store.Querier, c Connection) error {
	_, err := q.Exec(ctx, `
		INSERT INTO repohost_connections (id, org_id, entry_id, entry_name, installation_id, repo_id, repo_full_name, repo_key,
			default_branch, skill_path, auto_publish, write_back_enabled, tag_pattern, created_by, created_at, updated_at,
			configured_at, held_until, publish_unchanged, open_issues, host_default, pull_requests, codeowners,
				chosen_by, chosen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $15, 0, $16, $17, $18, $19,
			$20, $14, $15)`,
		c.ID, c.OrgID, c.EntryID, c.EntryName, c.InstallationID, c.RepoID, c.RepoFullName, repoKey(c.RepoFullName),
		c.DefaultBranch, c.SkillPath, c.AutoPublish, c.WriteBackEnabled, c.TagPattern, c.CreatedBy, store.Micros(c.CreatedAt),
		c.PublishUnchanged, c.OpenIssues, c.HostDefault, c.PullRequests, c.Codeowners)
	return err
}

func updateConnection(ctx context.Context, q store.Querier, c Connection) error {
	_, err := q.Exec(ctx, `
		UPDATE repohost_connections SET repo_full_name = $2, repo_key = $3, default_branch = $4, skill_path = $5,
			auto_publish = $6, write_back_enabled = $7, tag_pattern = $8, updated_at = $9, configured_at = $10,
			publish_unchanged = $11, open_issues = $12, host_default = $13, pull_requests = $14, codeowners = $15,
				chosen_by = $16,
			chosen_at = $17
		WHERE id = $1`, c.ID, c.RepoFullName, repoKey(c.RepoFullName), c.DefaultBranch, c.SkillPath, c.AutoPublish,
		c.WriteBackEnabled, c.TagPattern, store.Micros(c.UpdatedAt), store.Micros(c.ConfiguredAt),
		c.PublishUnchanged, c.OpenIssues, c.HostDefault, c.PullRequests, c.Codeowners, c.ChosenBy, store.Micros(c.ChosenAt))
	return err
}

// deleteConnection leaves deliveries alone: other connections may share them.
func deleteConnection(ctx context.Context, q store.Querier, id string) error {
	if _, err := q.Exec(ctx, `DELETE FROM repohost_attempts WHERE connection_id = $1`, id); err != nil {
		return err
	}
	_, err := q.Exec(ctx, `DELETE FROM repohost_connections WHERE id = $1`, id)
	return err
}

// connectionOfOrg takes the lock clause of its query: "" or e.g. Dialect.ForUpdate.
func connectionOfOrg(ctx context.Context, q store.Querier, orgID, id, lock string) (Connection, error) {
	rows, err := q.Query(ctx, `
		SELECT `+connectionColumns+` FROM repohost_connections c WHERE c.org_id = $1 AND c.id = $2`+lock, orgID, id)
	return store.One(rows, err, "Connection", scanConnection)
}

// connectionByID doesn't check the organisation: it's for jobs.
func connectionByID(ctx context.Context, q store.Querier, id string) (Connection, error) {
	rows, err := q.Query(ctx, `SELECT `+connectionColumns+` FROM repohost_connections c WHERE c.id = $1`, id)
	return store.One(rows, err, "Connection", scanConnection)
}

func connectionsOfOrg(ctx context.Context, q store.Querier, orgID string) ([]Connection, error) {
	rows, err := q.Query(ctx, `SELECT `+connectionColumns+` FROM repohost_connections c WHERE c.org_id = $1 ORDER BY c.id`, orgID)
	return store.All(rows, err, scanConnection)
}

// Jobs and webhooks have no caller, so the queries below that don't name an organisation
// take it from the connection. All that lead to a request to the code host go through
// usable or Service.installation, which check the claim.

// usable joins connections c with their installation i, if it's bound by the same
// organisation, not suspended, and claimed.
const usable = `repohost_connections c
	JOIN repohost_installations i ON i.installation_id = c.installation_id AND i.org_id = c.org_id
		AND NOT i.suspended AND ` + claims.Claimed

// maxReconciled is the batch size of the scheduled job; the next run continues.
const maxReconciled = 1000

// A key identifies a connection and its organisation.
type key struct{ id, orgID string }

func scanKey(row store.Row) (k key, err error) {
	err = row.Scan(&k.id, &k.orgID)
	return k, err
}

// takeDue returns connections whose reconciliation is due, and schedules their next one:
// after the interval, or after up to four intervals if nothing has happened for long (an
// eighth of the idle time). The interval is shortened by a tenth, because the job itself
// only runs once per interval and would otherwise miss some by a moment.
func takeDue(ctx context.Context, tx *store.Tx, now time.Time, interval time.Duration) ([]key, error) {
	d := tx.Dialect()
	const (
		at, every = `CAST($1 AS BIGINT)`, `CAST($2 AS BIGINT)`
		last      = `COALESCE((SELECT MAX(a.queued_at) FROM repohost_attempts a
			WHERE a.connection_id = repohost_connections.id), 0)`
	)
	idle := `(` + at + ` - ` + d.Greatest(`updated_at`, last) + `)`
	rows, err := tx.Query(ctx, `
		UPDATE repohost_connections SET reconcile_at = `+at+` + `+d.Least(d.Greatest(idle+` / 8`, every), `4 * `+every)+`
		WHERE id IN (SELECT id FROM repohost_connections WHERE reconcile_at <= `+at+` ORDER BY reconcile_at, id LIMIT $3)
		RETURNING id`, store.Micros(now), (interval - interval/10).Microseconds(), maxReconciled)
	due, err := store.All(rows, err, store.Value[string])
	if err != nil || len(due) == 0 {
		return nil, err
	}
	in, list := d.In("$1", due)
	rows, err = tx.Query(ctx, `SELECT c.id, c.org_id FROM `+usable+` WHERE c.id`+in+` ORDER BY c.id`, list)
	return store.All(rows, err, scanKey)
}

// connectionsOfEvent returns the connections of an event's repository: by id if the code
// host has ids, which survive renames, else by its old or new name; and only those of the
// event's installation if it names one. The repository must belong to the installation's
// account, or have belonged to it until this event, so that an organisation doesn't learn
// what happens in a repository that moved to another account.
func connectionsOfEvent(ctx context.Context, q store.Querier, e host.Event, lock string) ([]Connection, error) {
	rows, err := q.Query(ctx, `
		SELECT `+connectionColumns+` FROM `+usable+`
		WHERE (c.repo_id = $1 AND $1 <> 0 OR c.repo_key = $2 OR c.repo_key = $3) AND (c.installation_id = $4 OR $4 = 0)
			AND (`+claims.OwnedBy("c.repo_key", "i.account_key")+` OR `+claims.OwnedBy("$2", "i.account_key")+`)
		ORDER BY c.id`+lock, e.Repository.ID, repoKey(e.Repository.FullName), repoKey(e.Repository.OldName), e.Installation)
	return store.All(rows, err, scanConnection)
}

func connectionsOfInstallation(ctx context.Context, q store.Querier, installationID int64) ([]key, error) {
	rows, err := q.Query(ctx, `SELECT c.id, c.org_id FROM `+usable+` WHERE c.installation_id = $1 ORDER BY c.id`, installationID)
	return store.All(rows, err, scanKey)
}

// connectedElsewhere returns which of the repositories other organisations are connected
// to.
func connectedElsewhere(ctx context.Context, q store.Querier, orgID string, keys []string) (map[string]bool, error) {
	in, list := q.Dialect().In("$2", keys)
	rows, err := q.Query(ctx, `SELECT DISTINCT repo_key FROM repohost_connections WHERE org_id <> $1 AND repo_key`+in,
		orgID, list)
	found, err := store.All(rows, err, store.Value[string])
	elsewhere := map[string]bool{}
	for _, key := range found {
		elsewhere[key] = true
	}
	return elsewhere, err
}
