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

// unpin gives uses back that came to nothing. A failure is not the caller's
// concern: the recount finds it.
func (s *Service) unpin(ctx context.Context, hashes []string) {
	err := s.DB.InGroup(ctx, func(tx *store.Tx) error {
		for _, hash := range hashes {
			if err := unpinOne(ctx, tx, hash); err != nil {
				return err
			}
		}
		return s.enqueueRemoval(ctx, tx)
	})
	if err != nil {
		s.Log.Warn("an unused blob waits for the recount", "error", err)
	}
}

// unpinEntry gives back the uses of all versions of an entry.
func (s *Service) unpinEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	if err := unpinVersions(ctx, tx, entryID); err != nil {
		return err
	}
	return s.enqueueRemoval(ctx, tx)
}

// removeBlobs removes the bytes of every content without a use, and finishes
// removals that a crash cut short.
func (s *Service) removeBlobs(ctx context.Context) error {
	for {
		hashes, err := removableBlobs(ctx, s.DB, store.Now().Add(-removalGrace))
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
	closed, err := closeBlob(ctx, s.DB, hash, at)
	if err != nil || !closed {
		return err
	}
	err = s.Blobs.Delete(ctx, blob.ContentKey(hash))
	if errors.Is(err, blob.ErrUnreached) {
		// Nothing is on its way to the bucket, so pushes need not wait for it.
		return errors.Join(err, reopenBlob(ctx, s.DB, hash, at))
	}
	if err != nil {
		return err
	}
	return deleteBlob(ctx, s.DB, hash)
}

func (s *Service) recountBlobs(ctx context.Context) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := recountUses(ctx, tx, store.Now().Add(-pushGrace)); err != nil {
			return err
		}
		return s.enqueueRemoval(ctx, tx)
	})
}
