package registry

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// A Wanted is an entry in a range of versions, as metadata.requires writes them; "" means its
// current version.
type Wanted struct{ EntryID, Range string }

// A Pick is the version of an entry that a range gives.
type Pick struct {
	EntryID, Name string
	// VersionID and what follows are "" if nothing is published in the range.
	VersionID, Version, Hash string
	// CanonicalHash is that of the archive that catalogs serve; "" if they serve none.
	CanonicalHash string
}

// PicksOf returns the newest published version in each range, of entries of the organisation.
// Versions that were rolled back count only where they are current. Entries that don't exist
// are missing.
func PicksOf(ctx context.Context, q store.Querier, orgID string, all []Wanted) (map[Wanted]Pick, error) {
	ids, ranged := map[string]bool{}, map[string]bool{}
	for _, w := range all {
		ids[w.EntryID] = true
		if w.Range != "" {
			ranged[w.EntryID] = true
		}
	}
	current, err := currentPicks(ctx, q, orgID, slices.Sorted(maps.Keys(ids)))
	if err != nil {
		return nil, err
	}
	published, err := publishedPicks(ctx, q, orgID, slices.Sorted(maps.Keys(ranged)))
	if err != nil {
		return nil, err
	}
	picks := make(map[Wanted]Pick, len(all))
	for _, w := range all {
		pick, known := current[w.EntryID]
		if !known {
			continue
		}
		if w.Range != "" {
			pick = Pick{EntryID: pick.EntryID, Name: pick.Name}
			for _, p := range published[w.EntryID] {
				allowed := requires.Requirement{Range: w.Range}.Allows(p.Version)
				if allowed && (pick.VersionID == "" || Newer(p.Version, pick.Version)) {
					pick = p
				}
			}
		}
		picks[w] = pick
	}
	return picks, nil
}

// Newer reports whether a comes after b in the order of SemVer. What is no SemVer comes before
// all that is, and equals the others.
func Newer(a, b string) bool {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	if errX != nil || errY != nil {
		return errX == nil && errY != nil
	}
	return cmp.Or(x.Compare(y), cmp.Compare(x.Metadata(), y.Metadata())) > 0
}

// CountRemoval invalidates all that is cached of the organisation's shelves. It must be called
// in the transaction of what changes a shelf without changing an entry.
func CountRemoval(ctx context.Context, tx *store.Tx, orgID string) error {
	return countRemoval(ctx, tx, orgID)
}
