package installations

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// A change is a row of installation_changes. It says which content was there from a
// time on; "" if that is not known.
type change struct {
	place
	hash  string
	since time.Time
}

// lockRecords locks the user's records of entries, so that the changes of two
// devices are recorded one after the other. By id, since two reports of a user may
// name the same entries in different order.
func lockRecords(ctx context.Context, tx *store.Tx, userID string, entryIDs []string) error {
	in, list := tx.Dialect().In("$2", entryIDs)
	_, err := tx.Exec(ctx, `
		SELECT 1 FROM registry_installations WHERE user_id = $1 AND entry_id`+in+` ORDER BY id`+tx.Dialect().ForUpdate(),
		userID, list)
	return err
}

// recordedHashes reads which contents of entries are installed on which devices.
// Several paths on one device may have different contents: then there are several
// rows.
func recordedHashes(ctx context.Context, q store.Querier, userID string, entryIDs []string) ([]Installation, error) {
	in, list := q.Dialect().In("$2", entryIDs)
	rows, err := q.Query(ctx, `
		SELECT DISTINCT entry_id, device_id, content_hash FROM registry_installations
		WHERE user_id = $1 AND entry_id`+in, userID, list)
	return store.All(rows, err, func(row store.Row) (i Installation, err error) {
		err = row.Scan(&i.EntryID, &i.DeviceID, &i.ContentHash)
		return i, err
	})
}

// lastChanges reads the newest change of each place. Places without a change are
// missing.
func lastChanges(ctx context.Context, q store.Querier, userID string, entryIDs []string) (map[place]change, error) {
	in, list := q.Dialect().In("$2", entryIDs)
	rows, err := q.Query(ctx, `
		SELECT entry_id, device_hash, content_hash, since FROM installation_changes c
		WHERE user_id = $1 AND entry_id`+in+` AND since = (
			SELECT MAX(since) FROM installation_changes l
			WHERE l.user_id = c.user_id AND l.entry_id = c.entry_id AND l.device_hash = c.device_hash)`, userID, list)
	last := map[place]change{}
	err = store.Each(rows, err, func(row store.Row) error {
		var c change
		err := row.Scan(&c.entryID, &c.device, &c.hash, store.Time(&c.since))
		last[c.place] = c
		return err
	})
	return last, err
}

// insertChanges records changes, and drops the oldest ones of their places. Two
// changes at the same microsecond are one: the later one wins.
func insertChanges(ctx context.Context, tx *store.Tx, userID string, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	slices.SortFunc(changes, func(a, b change) int {
		return strings.Compare(a.entryID+a.device, b.entryID+b.device)
	})
	entryIDs, devices := make([]string, len(changes)), make([]string, len(changes))
	hashes, times := make([]string, len(changes)), make([]int64, len(changes))
	for i, c := range changes {
		entryIDs[i], devices[i], hashes[i], times[i] = c.entryID, c.device, c.hash, store.Micros(c.since)
	}
	_, err := store.Bulk{
		Table: "installation_changes",
		Columns: []store.Column{
			store.Col("user_id", slices.Repeat([]string{userID}, len(changes))), store.Col("entry_id", entryIDs),
			store.Col("device_hash", devices), store.Col("since", times), store.Col("content_hash", hashes),
		},
		OnConflict: `ON CONFLICT (user_id, entry_id, device_hash, since) DO UPDATE SET content_hash = excluded.content_hash`,
	}.Insert(ctx, tx)
	if err != nil {
		return err
	}
	return dropOldChanges(ctx, tx, userID, entryIDs, devices)
}

// dropOldChanges keeps the newest maxChanges of entries on devices. A device that
// flips between two versions must not fill the table.
func dropOldChanges(ctx context.Context, tx *store.Tx, userID string, entryIDs, devices []string) error {
	ofEntries, entryList := tx.Dialect().In("$2", entryIDs)
	ofDevices, deviceList := tx.Dialect().In("$3", devices)
	_, err := tx.Exec(ctx, `
		DELETE FROM installation_changes WHERE (user_id, entry_id, device_hash, since) IN (
			SELECT user_id, entry_id, device_hash, since FROM (
				SELECT user_id, entry_id, device_hash, since,
					ROW_NUMBER() OVER (PARTITION BY entry_id, device_hash ORDER BY since DESC) AS n
				FROM installation_changes WHERE user_id = $1 AND entry_id`+ofEntries+` AND device_hash`+ofDevices+`) AS numbered
			WHERE n > $4)`, userID, entryList, deviceList, maxChanges)
	return err
}

// forgetDevices deletes the history of devices of which no record is left. Only the
// hash of a device is in the history, which is why the ids are passed in.
func forgetDevices(ctx context.Context, tx *store.Tx, userID, entryID string, deviceIDs []string) error {
	for _, id := range deviceIDs {
		_, err := tx.Exec(ctx, `
			DELETE FROM installation_changes
			WHERE user_id = $1 AND entry_id = $2 AND device_hash = $3 AND NOT EXISTS (
				SELECT 1 FROM registry_installations WHERE user_id = $1 AND entry_id = $2 AND device_id = $4)`,
			userID, entryID, skills.DeviceHash(userID, id), id)
		if err != nil {
			return err
		}
	}
	return nil
}

// installedOfSkills reads the history by skill: the attribution of uses knows
// skills, not entries. Oldest first.
func installedOfSkills(
	ctx context.Context, q store.Querier, userID string, devices, skillIDs []string,
) ([]inuse.Installed, error) {
	ofDevices, deviceList := q.Dialect().In("$2", devices)
	ofSkills, skillList := q.Dialect().In("$3", skillIDs)
	rows, err := q.Query(ctx, `
		SELECT e.skill_id, c.device_hash, c.content_hash, c.since
		FROM registry_entries e JOIN installation_changes c ON c.user_id = $1 AND c.entry_id = e.id AND c.device_hash`+ofDevices+`
		WHERE e.skill_id`+ofSkills+` ORDER BY c.since`, userID, deviceList, skillList)
	return store.All(rows, err, func(row store.Row) (i inuse.Installed, err error) {
		err = row.Scan(&i.SkillID, &i.Device, &i.Hash, store.Time(&i.Since))
		return i, err
	})
}
