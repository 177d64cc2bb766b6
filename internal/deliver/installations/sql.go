package installations

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// installationColumns name the version that is installed. Several may have the
// same content: then it is the current one, or else the one pushed last.
const installationColumns = `
	SELECT i.id, i.entry_id, i.user_id, i.device_id, i.install_path, i.content_hash, i.client, i.installed_at, i.last_seen_at,
		e.name, e.current_version, e.current_hash,
		(SELECT v.version FROM registry_versions v
			WHERE v.entry_id = i.entry_id AND v.content_hash = i.content_hash
			ORDER BY v.id = e.current_version_id DESC, v.pushed_at DESC LIMIT 1)
	FROM registry_installations i
	JOIN registry_entries e ON e.id = i.entry_id `

// selectInstallations adds the names of users, who may have been removed.
func selectInstallations(ctx context.Context, q store.Querier, where string, args ...any) ([]State, error) {
	rows, err := q.Query(ctx, installationColumns+where, args...)
	all, err := store.All(rows, err, func(row store.Row) (i State, err error) {
		err = row.Scan(&i.ID, &i.EntryID, &i.UserID, &i.DeviceID, &i.InstallPath, &i.ContentHash, &i.Client,
			store.Time(&i.InstalledAt), store.Time(&i.LastSeenAt),
			&i.EntryName, &i.LatestVersion, &i.LatestHash, &i.Version)
		return i, err
	})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i, state := range all {
		ids[i] = state.UserID
	}
	users, err := auth.UsersByID(ctx, q, ids)
	for i := range all {
		u := users[all[i].UserID]
		all[i].UserName, all[i].UserEmail = u.Name, u.Email
	}
	return all, err
}

// installationByID is for a record that the transaction has just written.
func installationByID(ctx context.Context, q store.Querier, id string) (State, error) {
	all, err := selectInstallations(ctx, q, `WHERE i.id = $1`, id)
	if err == nil && len(all) == 0 {
		err = fault.New(fault.NotFound, "Installation not found")
	}
	if err != nil {
		return State{}, err
	}
	return all[0], nil
}

// installationsOfEntry leaves out those of other organisations, of a public entry.
func installationsOfEntry(ctx context.Context, q store.Querier, orgID, entryID string) ([]State, error) {
	return selectInstallations(ctx, q, `WHERE i.entry_id = $1 AND i.org_id = $2 ORDER BY i.id`, entryID, orgID)
}

func installationsOfUser(ctx context.Context, q store.Querier, c access.Caller) ([]State, error) {
	return selectInstallations(ctx, q, `WHERE i.org_id = $1 AND i.user_id = $2 ORDER BY i.id`, c.OrgID, c.UserID)
}

// recordsOfUser is installationsOfUser without the current versions: all that a
// sync needs, at a fraction of the cost.
func recordsOfUser(ctx context.Context, q store.Querier, userID string) ([]Installation, error) {
	rows, err := q.Query(ctx, `
		SELECT id, entry_id, device_id, install_path, content_hash, installed_at, last_seen_at
		FROM registry_installations WHERE user_id = $1`, userID)
	return store.All(rows, err, func(row store.Row) (i Installation, err error) {
		err = row.Scan(&i.ID, &i.EntryID, &i.DeviceID, &i.InstallPath, &i.ContentHash,
			store.Time(&i.InstalledAt), store.Time(&i.LastSeenAt))
		return i, err
	})
}

// upsertInstallation writes the record, and reports whether it is the user's
// first of the entry, and the devices of
// records that it displaced. The entry is locked.
func upsertInstallation(ctx context.Context, tx *store.Tx, c access.Caller, n New) (
	_ string, first bool, dropped []string, err error,
) {
	id, at := store.NewID(), store.Micros(store.Now())
	rows, err := tx.Query(ctx, `
		INSERT INTO registry_installations (id, entry_id, org_id, user_id, device_id, install_path, content_hash,
			client, installed_at, last_seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
		ON CONFLICT (entry_id, user_id, device_id, install_path)
		DO UPDATE SET content_hash = excluded.content_hash, client = excluded.client, installed_at = excluded.installed_at,
			last_seen_at = excluded.last_seen_at
		RETURNING id`, id, n.EntryID, c.OrgID, c.UserID, n.DeviceID, n.InstallPath, n.ContentHash, n.Client, at)
	// Another id than ours means that the record was there: it was replaced, and is
	// not new.
	written, err := store.One(rows, err, "Installation", store.Value[string])
	if err != nil || written != id {
		return written, false, dropped, err
	}
	// A client that makes up a device every time must not fill the table.
	rows, err = tx.Query(ctx, `
		DELETE FROM registry_installations WHERE id = (
			SELECT id FROM registry_installations WHERE entry_id = $1 AND user_id = $2 AND id <> $3
			ORDER BY last_seen_at DESC, id DESC LIMIT 1 OFFSET $4)
		RETURNING device_id`, n.EntryID, c.UserID, id, maxInstallations-1)
	dropped, err = store.All(rows, err, store.Value[string])
	if err != nil {
		return written, false, dropped, err
	}
	if err := forgetDevices(ctx, tx, c.UserID, n.EntryID, dropped); err != nil {
		return written, false, dropped, err
	}
	rows, err = tx.Query(ctx, `
		SELECT NOT EXISTS (SELECT 1 FROM registry_installations WHERE entry_id = $1 AND user_id = $2 AND id <> $3)`,
		n.EntryID, c.UserID, id)
	first, err = store.One(rows, err, "Installation", store.Value[bool])
	return written, first, dropped, err
}

// DeleteOfEntry implements registry.OnEntryDeleted. It leaves last reports alone: they name no
// entry, and a report of one that is gone is ignored.
func (s *Service) DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	if _, err := tx.Exec(ctx, `DELETE FROM installation_changes WHERE entry_id = $1`, entryID); err != nil {
		return err
	}
	if err := awaitMachines(ctx, tx, entryID); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM registry_installations WHERE entry_id = $1`, entryID); err != nil {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, recountMachines{}, jobs.Unique("machines"))
}

// updateInstallations writes all records in one statement: a fleet reports
// hundreds of installations at once.
func updateInstallations(ctx context.Context, tx *store.Tx, changed []Installation) error {
	ids, hashes, times := make([]string, len(changed)), make([]string, len(changed)), make([]int64, len(changed))
	for i, c := range changed {
		ids[i], hashes[i], times[i] = c.ID, c.ContentHash, store.Micros(c.LastSeenAt)
	}
	return store.BulkUpdate{
		Table: "registry_installations", Key: store.Col("id", ids),
		Set: []store.Column{store.Col("content_hash", hashes), store.Col("last_seen_at", times)},
	}.Run(ctx, tx)
}

// The table registry_sayings has the last reports.

// reportedRecently reports whether a client has reported the same within
// reportEvery, and no other report has changed the user's installations since.
func reportedRecently(ctx context.Context, q store.Querier, r lastReport) (bool, error) {
	rows, err := q.Query(ctx, `SELECT 1 FROM registry_sayings WHERE user_id = $1 AND sum = $2 AND heard_at > $3`,
		r.userID, r.digest, store.Micros(r.at.Add(-reportEvery)))
	found, err := store.All(rows, err, store.Value[int])
	return len(found) > 0, err
}

// upsertReport renews a report that was made before.
func upsertReport(ctx context.Context, tx *store.Tx, r lastReport) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO registry_sayings (user_id, sum, heard_at) VALUES ($1, $2, $3)
		ON CONFLICT (user_id, sum) DO UPDATE SET heard_at = excluded.heard_at`, r.userID, r.digest, store.Micros(r.at))
	return err
}

// deleteReports must be called by whatever changes the user's installations.
func deleteReports(ctx context.Context, tx *store.Tx, userID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM registry_sayings WHERE user_id = $1`, userID)
	return err
}

// expireReports deletes the reports of before a time.
func expireReports(ctx context.Context, q store.Querier, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM registry_sayings WHERE heard_at < $1`, store.Micros(before))
	return err
}

// rules are what must hold between the tables. Nothing is repaired, so that the
// cause can be found.
func rules() []invariants.Rule {
	return []invariants.Rule{{
		Broken: `
			SELECT COUNT(*), COALESCE(MIN(e.name), '') FROM registry_entries e WHERE e.installation_count <> (
				SELECT COUNT(DISTINCT i.user_id) FROM registry_installations i WHERE i.entry_id = e.id)`,
		Wrong: "entries whose count of installations is wrong", Do: invariants.Report,
	}, {
		Broken: `
			SELECT COUNT(*), COALESCE(MIN(m.device_id), '') FROM installation_machines m WHERE NOT EXISTS (
				SELECT 1 FROM registry_installations i WHERE i.user_id = m.user_id AND i.device_id = m.device_id)`,
		Wrong: "machines without an installation", Do: invariants.Report,
	}}
}
