package installations

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// The table installation_changes is the history of registry_installations: from
// when on which content of an entry was installed. It says what was on record at
// a time, so it only ever grows at its end, and an observation of the past is
// attributed to the same version however late it arrives, or arrives again.
//
// Changes are collapsed as they are recorded: there is one timeline for each
// device of a user, and one for all of them taken together, each with a row where
// it changes. So what an ingestion reads does not grow with a user's devices.

// A place is where a timeline is about: an entry on a device.
type place struct{ entryID, device string }

// everywhere is the device that stands for all of a user's devices.
const everywhere = ""

// recordChanges appends to the history what the user's records of the entries,
// which are locked, say differently now.
func recordChanges(ctx context.Context, tx *store.Tx, userID string, entryIDs []string) error {
	if len(entryIDs) == 0 {
		return nil
	}
	records, err := recordedHashes(ctx, tx, userID, entryIDs)
	if err != nil {
		return err
	}
	last, err := lastChanges(ctx, tx, userID, entryIDs)
	if err != nil {
		return err
	}
	now := store.Now()
	var changes []change
	for at, hash := range collapse(userID, records) {
		before := last[at]
		if before.hash == hash { // also if there never was anything
			continue
		}
		c := change{place: at, hash: hash, since: now}
		if before.since.After(now) { // by another process, whose clock is ahead
			c.since = before.since
		}
		changes = append(changes, c)
	}
	return insertChanges(ctx, tx, userID, changes)
}

// collapse finds out what is installed on each device, and on all of them: the
// content that every record has that has any, or "" if they differ.
func collapse(userID string, records []Installation) map[place]string {
	installed, differs := map[place]string{}, map[place]bool{}
	for _, r := range records {
		places := []place{{r.EntryID, everywhere}}
		if r.DeviceID != "" {
			places = append(places, place{r.EntryID, skills.DeviceHash(userID, r.DeviceID)})
		}
		for _, at := range places {
			switch known := installed[at]; {
			case known == "":
				installed[at] = r.ContentHash
			case r.ContentHash != "" && r.ContentHash != known:
				differs[at] = true
			}
		}
	}
	for at := range differs {
		installed[at] = ""
	}
	return installed
}

// History reads what was installed when. Like registry.History it needs no Service.
type History struct{}

// Installed implements inuse.Installations.
func (History) Installed(
	ctx context.Context, q store.Querier, userID string, devices, skillIDs []string,
) ([]inuse.Installed, error) {
	return installedOfSkills(ctx, q, userID, append([]string{everywhere}, devices...), skillIDs)
}
