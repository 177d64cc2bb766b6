package registry

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// pinAll takes the uses; the hashes are sorted, and one that is used twice
// stands there twice. A removal that died does not keep it from them; it may
// have hit the bytes, so it is noted as if it had ended.
func pinAll(ctx context.Context, tx *store.Tx, hashes []string) error {
	now := store.Now()
	dead := now.Add(-removalGrace)
	in, list := tx.Dialect().In("$3", hashes)
	_, err := tx.Exec(ctx, `
		INSERT INTO registry_removals (hash, removed_at)
		SELECT hash, $1 FROM registry_blobs WHERE deleting AND touched_at < $2 AND hash`+in+`
		ON CONFLICT (hash) DO UPDATE SET removed_at = excluded.removed_at`, store.Micros(now), store.Micros(dead), list)
	if err != nil {
		return err
	}
	return useAll(ctx, tx, hashes, dead)
}

// takeAll is pinAll for bytes that were stored already: it refuses them if a
// removal may have hit them since.
func takeAll(ctx context.Context, tx *store.Tx, hashes []string) error {
	if err := useAll(ctx, tx, hashes, time.UnixMicro(0)); err != nil {
		return err
	}
	// A statement of its own: one that waited for the end of a removal would
	// not see what that wrote.
	in, list := tx.Dialect().In("$1", hashes)
	rows, err := tx.Query(ctx, `SELECT hash FROM registry_removals WHERE hash`+in+` LIMIT 1`, list)
	removed, err := store.All(rows, err, store.Value[string])
	if err == nil && len(removed) > 0 {
		return errBeingRemoved
	}
	return err
}

// useAll adds uses to contents that are not being removed; a removal that began
// before a time is dead.
func useAll(ctx context.Context, tx *store.Tx, hashes []string, dead time.Time) error {
	at := store.Now()
	for len(hashes) > 0 {
		hash, uses := hashes[0], 1
		for uses < len(hashes) && hashes[uses] == hash {
			uses++
		}
		hashes = hashes[uses:]
		n, err := tx.Exec(ctx, `
			INSERT INTO registry_blobs (hash, refs, deleting, touched_at) VALUES ($1, $2, FALSE, $3)
			ON CONFLICT (hash) DO UPDATE SET refs = registry_blobs.refs + $2, deleting = FALSE, touched_at = excluded.touched_at
			WHERE NOT registry_blobs.deleting OR registry_blobs.touched_at < $4`,
			hash, uses, store.Micros(at), store.Micros(dead))
		if err != nil {
			return err
		}
		if n == 0 {
			return errBeingRemoved
		}
	}
	return nil
}

// insertUnused counts no uses of contents that are not counted yet.
func insertUnused(ctx context.Context, tx *store.Tx, hashes []string) error {
	at := store.Micros(store.Now())
	for _, hash := range slices.Compact(slices.Sorted(slices.Values(hashes))) {
		_, err := tx.Exec(ctx, `
			INSERT INTO registry_blobs (hash, refs, deleting, touched_at) VALUES ($1, 0, FALSE, $2) ON CONFLICT DO NOTHING`, hash, at)
		if err != nil {
			return err
		}
	}
	return nil
}

// countedBlobs finds which of these contents are counted.
func countedBlobs(ctx context.Context, q store.Querier, hashes []string) ([]string, error) {
	in, list := q.Dialect().In("$1", hashes)
	rows, err := q.Query(ctx, `SELECT hash FROM registry_blobs WHERE hash`+in, list)
	return store.All(rows, err, store.Value[string])
}

func unpinOne(ctx context.Context, tx *store.Tx, hash string) error {
	_, err := tx.Exec(ctx, `UPDATE registry_blobs SET refs = refs - 1 WHERE hash = $1`, hash)
	return err
}

// unpinVersions gives back the uses of all versions of an entry. It locks the
// contents in the order in which pushes do.
func unpinVersions(ctx context.Context, tx *store.Tx, entryID string) error {
	const those = `hash IN (
		SELECT content_hash FROM registry_versions WHERE entry_id = $1
		UNION SELECT canonical_hash FROM registry_versions WHERE entry_id = $1)`
	rows, err := tx.Query(ctx, `SELECT hash FROM registry_blobs WHERE `+those+` ORDER BY hash`+tx.Dialect().ForUpdate(), entryID)
	if _, err := store.All(rows, err, store.Value[string]); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE registry_blobs SET refs = refs
			- (SELECT COUNT(*) FROM registry_versions v WHERE v.entry_id = $1 AND v.content_hash = registry_blobs.hash)
			- (SELECT COUNT(*) FROM registry_versions v WHERE v.entry_id = $1 AND v.canonical_hash = registry_blobs.hash)
		WHERE `+those, entryID)
	return err
}

// removable is the condition on content that nobody needs and nobody else is
// removing now; its parameter is the time before which a removal is dead. The
// versions are asked, too: the count is too low when a push was told that its
// commit failed and it had not.
const removable = `refs = 0 AND (NOT deleting OR touched_at < $1)
	AND NOT EXISTS (SELECT 1 FROM registry_versions v WHERE v.content_hash = registry_blobs.hash)
	AND NOT EXISTS (SELECT 1 FROM registry_versions v WHERE v.canonical_hash = registry_blobs.hash)`

func removableBlobs(ctx context.Context, q store.Querier, dead time.Time) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT hash FROM registry_blobs WHERE `+removable+` LIMIT 100`, store.Micros(dead))
	return store.All(rows, err, store.Value[string])
}

// closeBlob keeps pushes and other removals from a content, and reports false
// if somebody needs it or removes it already.
func closeBlob(ctx context.Context, q store.Querier, hash string, at time.Time) (bool, error) {
	n, err := q.Exec(ctx, `UPDATE registry_blobs SET deleting = TRUE, touched_at = $2 WHERE hash = $3 AND `+removable,
		store.Micros(at.Add(-removalGrace)), store.Micros(at), hash)
	return n > 0, err
}

// reopenBlob takes back what closeBlob did at that time.
func reopenBlob(ctx context.Context, q store.Querier, hash string, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE registry_blobs SET deleting = FALSE WHERE hash = $1 AND touched_at = $2`, hash, store.Micros(at))
	return err
}

// noteRemoval ends a removal. A push that stored the same bytes in the meantime
// must know that they may have been hit.
func noteRemoval(ctx context.Context, tx *store.Tx, hash string, at time.Time) error {
	if _, err := tx.Exec(ctx, `DELETE FROM registry_blobs WHERE hash = $1 AND deleting`, hash); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO registry_removals (hash, removed_at) VALUES ($1, $2)
		ON CONFLICT (hash) DO UPDATE SET removed_at = excluded.removed_at`, hash, store.Micros(at))
	return err
}

// forgetRemovals removes the notes that no push needs any more.
func forgetRemovals(ctx context.Context, tx *store.Tx, before time.Time) error {
	_, err := tx.Exec(ctx, `DELETE FROM registry_removals WHERE removed_at < $1`, store.Micros(before))
	return err
}

// recountUses counts the uses of what no push has touched since a time.
func recountUses(ctx context.Context, tx *store.Tx, before time.Time) error {
	const uses = `(SELECT COUNT(*) FROM registry_versions v WHERE v.content_hash = registry_blobs.hash)
		+ (SELECT COUNT(*) FROM registry_versions v WHERE v.canonical_hash = registry_blobs.hash)`
	_, err := tx.Exec(ctx, `
		UPDATE registry_blobs SET refs = `+uses+`
		WHERE touched_at < $1 AND NOT deleting AND refs <> `+uses, store.Micros(before))
	return err
}
