package registry

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// The bytes of archives are shared by all versions of the same content, so
// their uses are counted in registry_blobs. A push takes its use before it
// stores the bytes; the job that removes unused bytes first closes them to
// pushes and to other removals, whose delete could come after a later push.
// So no version is ever without its bytes.

const (
	// pushGrace is longer than any push takes.
	pushGrace = time.Hour
	// removalTime is what one removal may take.
	removalTime = 20 * time.Second
	// removalGrace is much longer than any removal takes: the job that began one
	// and did not end it is dead.
	removalGrace = time.Minute
	// pinPatience is how long a push waits for a removal of the same content.
	pinPatience = 2 * time.Second
	pinPause    = 20 * time.Millisecond
)

func (s *Service) enqueueRemoval(ctx context.Context, tx *store.Tx) error {
	return s.Jobs.Enqueue(ctx, tx, removeBlobs{}, jobs.Unique("all"))
}

var errBeingRemoved = errors.New("the content is being removed")

// pin takes a use of each content, so that it is not removed meanwhile. It
// waits for a removal that is under way.
func (s *Service) pin(ctx context.Context, hashes []string) error {
	patience, cancel := context.WithTimeout(ctx, pinPatience)
	defer cancel()
	for {
		err := s.DB.InGroup(ctx, func(tx *store.Tx) error { return pinAll(ctx, tx, hashes) })
		if !errors.Is(err, errBeingRemoved) {
			return err
		}
		select {
		case <-time.After(pinPause):
		case <-patience.Done():
			return fault.New(fault.Unavailable, "This content is being removed; try again").After(time.Second).Because(err)
		}
	}
}

// pinAll takes the uses; the hashes are sorted, and one that is used twice
// stands there twice.
func pinAll(ctx context.Context, tx *store.Tx, hashes []string) error {
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
			hash, uses, store.Micros(at), store.Micros(at.Add(-removalGrace)))
		if err != nil {
			return err
		}
		if n == 0 {
			return errBeingRemoved
		}
	}
	return nil
}

// unpin gives uses back that came to nothing. A failure is not the caller's
// concern: the recount finds it.
func (s *Service) unpin(ctx context.Context, hashes []string) {
	err := s.DB.InGroup(ctx, func(tx *store.Tx) error {
		for _, hash := range hashes {
			if _, err := tx.Exec(ctx, `UPDATE registry_blobs SET refs = refs - 1 WHERE hash = $1`, hash); err != nil {
				return err
			}
		}
		return s.enqueueRemoval(ctx, tx)
	})
	if err != nil {
		s.Log.Warn("an unused blob waits for the recount", "error", err)
	}
}

// unpinEntry gives back the uses of all versions of an entry. It locks the
// contents in the order in which pushes do.
func (s *Service) unpinEntry(ctx context.Context, tx *store.Tx, entryID string) error {
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
	if err != nil {
		return err
	}
	return s.enqueueRemoval(ctx, tx)
}

// removable is the condition on content that nobody needs and nobody else is
// removing now; its parameter is the time before which a removal is dead. The
// versions are asked, too: the count is too low when a push was told that its
// commit failed and it had not.
const removable = `refs = 0 AND (NOT deleting OR touched_at < $1)
	AND NOT EXISTS (SELECT 1 FROM registry_versions v WHERE v.content_hash = registry_blobs.hash)
	AND NOT EXISTS (SELECT 1 FROM registry_versions v WHERE v.canonical_hash = registry_blobs.hash)`

// removeBlobs removes the bytes of every content without a use, and finishes
// removals that a crash cut short.
func (s *Service) removeBlobs(ctx context.Context) error {
	for {
		rows, err := s.DB.Query(ctx, `SELECT hash FROM registry_blobs WHERE `+removable+` LIMIT 100`,
			store.Micros(store.Now().Add(-removalGrace)))
		hashes, err := store.All(rows, err, store.Value[string])
		if err != nil || len(hashes) == 0 {
			return err
		}
		for _, hash := range hashes {
			if err := s.removeBlob(ctx, hash); err != nil {
				return err
			}
		}
	}
}

func (s *Service) removeBlob(ctx context.Context, hash string) error {
	ctx, cancel := context.WithTimeout(ctx, removalTime)
	defer cancel()
	at := store.Now()
	n, err := s.DB.Exec(ctx, `UPDATE registry_blobs SET deleting = TRUE, touched_at = $2 WHERE hash = $3 AND `+removable,
		store.Micros(at.Add(-removalGrace)), store.Micros(at), hash)
	if err != nil || n == 0 {
		return err
	}
	err = s.Blobs.Delete(ctx, blob.ContentKey(hash))
	if errors.Is(err, blob.ErrUnreached) {
		// Nothing is on its way to the bucket, so pushes need not wait for it.
		_, reopened := s.DB.Exec(ctx, `UPDATE registry_blobs SET deleting = FALSE WHERE hash = $1 AND touched_at = $2`, hash, store.Micros(at))
		return errors.Join(err, reopened)
	}
	if err != nil {
		return err
	}
	_, err = s.DB.Exec(ctx, `DELETE FROM registry_blobs WHERE hash = $1 AND deleting`, hash)
	return err
}

func (s *Service) recountBlobs(ctx context.Context) error {
	const uses = `(SELECT COUNT(*) FROM registry_versions v WHERE v.content_hash = registry_blobs.hash)
		+ (SELECT COUNT(*) FROM registry_versions v WHERE v.canonical_hash = registry_blobs.hash)`
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE registry_blobs SET refs = `+uses+`
			WHERE touched_at < $1 AND NOT deleting AND refs <> `+uses, store.Micros(store.Now().Add(-pushGrace)))
		if err != nil {
			return err
		}
		return s.enqueueRemoval(ctx, tx)
	})
}
