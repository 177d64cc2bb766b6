package blob

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// Sweep deletes orphaned blobs: it is the garbage collection of one owner. An owner stores a
// blob before it commits the row that refers to it, and deletes the blob after
// the row. A crash in between leaves an orphan: a blob without a row, which
// only a sweep finds.
type Sweep struct {
	Bucket Bucket

	// Prefix begins the keys of the owner's blobs, e.g. "registry/".
	Prefix string

	// MinAge is the age below which a blob is kept, because the row that refers
	// to it may not be committed yet. 0 means OrphanAge.
	MinAge time.Duration

	// Alive returns those of the keys that a row refers to. It is called with
	// at most sweepBatch keys, so that one query answers for all of them. Nil
	// means that no row refers to anything older than MinAge.
	Alive func(ctx context.Context, keys []string) ([]string, error)
}

// sweepBatch is how many keys Alive is asked about at once.
const sweepBatch = 500

// Run deletes the orphans and returns how many there were. After an error some
// may be left: run it again.
func (s Sweep) Run(ctx context.Context) (deleted int, err error) {
	defer fault.Wrap(&err, "sweep blobs below %s", s.Prefix)
	if s.MinAge == 0 {
		s.MinAge = OrphanAge
	}
	before := time.Now().Add(-s.MinAge)
	batch := make([]string, 0, sweepBatch)
	for info, err := range s.Bucket.List(ctx, s.Prefix) {
		if err != nil {
			return deleted, err
		}
		if info.Modified.After(before) {
			continue
		}
		if batch = append(batch, info.Key); len(batch) < sweepBatch {
			continue
		}
		n, err := s.deleteOrphans(ctx, batch, before)
		deleted += n
		if err != nil {
			return deleted, err
		}
		batch = batch[:0]
	}
	n, err := s.deleteOrphans(ctx, batch, before)
	return deleted + n, err
}

// deleteOrphans deletes those of the keys that no row refers to. The rows are
// read after the blobs were listed, so a row that was committed meanwhile
// counts. Where the same key can be stored again (one that names its content),
// the new blob is younger than before: it is spared, too.
func (s Sweep) deleteOrphans(ctx context.Context, keys []string, before time.Time) (deleted int, err error) {
	alive := map[string]bool{}
	if s.Alive != nil && len(keys) > 0 {
		found, err := s.Alive(ctx, keys)
		if err != nil {
			return 0, err
		}
		for _, key := range found {
			alive[key] = true
		}
	}
	for _, key := range keys {
		if alive[key] {
			continue
		}
		info, err := s.Bucket.Stat(ctx, key)
		if fault.Is(err, fault.NotFound) || err == nil && info.Modified.After(before) {
			continue
		}
		if err != nil {
			return deleted, err
		}
		if err := s.Bucket.Delete(ctx, key); err != nil {
			return deleted, err
		}
		deleted++
	}
	return deleted, nil
}
