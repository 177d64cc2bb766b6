package registry

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// The bytes of archives are shared by all versions of the same content, so
// their uses are counted in registry_blobs. A push stores its bytes, and takes
// its use in the transaction that writes the version. The job that removes
// unused bytes first closes them, and leaves a note in registry_removals when
// they are gone. A push that finds them closed, or such a note, cannot know
// whether its own bytes were hit: it begins again, and takes its use first. So
// no version is ever without its bytes, and bytes of a push that died are found
// by the sweep.

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

// abandon hands bytes to the removal that a push has stored for nothing, unless
// others need them. A failure is not the caller's concern: the sweep finds them.
func (s *Service) abandon(ctx context.Context, hashes []string) {
	if err := s.adopt(ctx, hashes); err != nil {
		s.Log.Warn("an unused blob waits for the sweep", "error", err)
	}
}

// adopt begins to count the uses of bytes that were not counted, from none, so
// that they are removed.
func (s *Service) adopt(ctx context.Context, hashes []string) error {
	return s.DB.InGroup(ctx, func(tx *store.Tx) error {
		if err := insertUnused(ctx, tx, hashes); err != nil {
			return err
		}
		return s.enqueueRemoval(ctx, tx)
	})
}

// sweepChunk is how many blobs the sweep asks the database about at once.
const sweepChunk = 500

// sweepBlobs has bytes removed that no row speaks of, when they are old enough
// to belong to no push that is under way.
func (s *Service) sweepBlobs(ctx context.Context) error {
	before := time.Now().Add(-blob.OrphanAge)
	var old []string
	for info, err := range s.Blobs.List(ctx, blob.ContentPrefix) {
		if err != nil {
			return err
		}
		if hash, ok := blob.ContentSum(info.Key); ok && info.Modified.Before(before) {
			old = append(old, hash)
		}
		if len(old) == sweepChunk {
			if err := s.adoptUnknown(ctx, old); err != nil {
				return err
			}
			old = old[:0]
		}
	}
	return s.adoptUnknown(ctx, old)
}

func (s *Service) adoptUnknown(ctx context.Context, hashes []string) error {
	known, err := countedBlobs(ctx, s.DB, hashes)
	if err != nil {
		return err
	}
	unknown := slices.DeleteFunc(slices.Clone(hashes), func(hash string) bool { return slices.Contains(known, hash) })
	if len(unknown) == 0 {
		return nil
	}
	return s.adopt(ctx, unknown)
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
	return s.DB.InTx(ctx, func(tx *store.Tx) error { return noteRemoval(ctx, tx, hash, store.Now()) })
}

func (s *Service) recountBlobs(ctx context.Context) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		before := store.Now().Add(-pushGrace)
		if err := forgetRemovals(ctx, tx, before); err != nil {
			return err
		}
		if err := recountUses(ctx, tx, before); err != nil {
			return err
		}
		return s.enqueueRemoval(ctx, tx)
	})
}
