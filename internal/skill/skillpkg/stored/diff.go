package stored

import (
	"context"
	"fmt"
	"maps"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// A Tree is an archive with its manifest. The zero Tree is empty.
type Tree struct {
	Archive
	Manifest []skillpkg.ManifestEntry
}

type diffKey struct{ before, after string } // digests of archives

// Diff returns the unified diff between two trees, within the limits of
// compare.Plan. It waits like File.
func (f *Files) Diff(ctx context.Context, before, after Tree) ([]byte, error) {
	key := diffKey{before.Hash, after.Hash}
	if known, ok := f.diffs.Get(key); ok {
		return known, nil
	}
	// Memory first, then the turn to read: a request that waits for memory must not
	// keep one of the few turns.
	release, err := f.memory.Reserve(ctx, compare.MaxMemory)
	if err != nil {
		return nil, err
	}
	defer release()
	done, err := f.acquireRead(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if known, ok := f.diffs.Get(key); ok { // made meanwhile by another request
		return known, nil
	}
	plan := compare.NewPlan(before.Manifest, after.Manifest)
	contents := map[string][]byte{}
	if err := before.readInto(ctx, contents, plan.Before); err != nil {
		return nil, unreadable(ctx, err)
	}
	if err := after.readInto(ctx, contents, plan.After); err != nil {
		return nil, unreadable(ctx, err)
	}
	diff, err := plan.Diff(ctx, contents)
	if err == nil {
		// Digests never change, so the entry never becomes stale. An empty diff
		// costs one byte, or the cache would hold any number of them.
		f.diffs.Put(key, diff, int64(len(diff)+1))
	}
	return diff, err
}

// readInto reads the wanted files into contents, both by digest. Files of other
// sizes are skipped.
func (a Archive) readInto(ctx context.Context, contents map[string][]byte, wanted map[string]int64) error {
	if len(wanted) == 0 {
		return nil
	}
	// The digest of a file is known only after it was read, its size before: reading
	// those of a wanted size finds all wanted ones at little more than their cost.
	left, sizes := maps.Clone(wanted), map[int64]bool{}
	for _, size := range wanted {
		sizes[size] = true
	}
	err := a.pick(ctx, func(size int64) skillpkg.Choice {
		switch {
		case len(left) == 0:
			return skillpkg.Stop
		case sizes[size]:
			return skillpkg.Take
		}
		return skillpkg.Skip
	}, func(sum string, content []byte) {
		if _, ok := left[sum]; ok {
			delete(left, sum)
			contents[sum] = content
		}
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("archive %s lacks %d files of its manifest", a.Hash, len(left))
	}
	return err
}
