package registry

import (
	"context"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// caches keep answers of the database in memory that never change. They are LRU, and
// bounded. The zero value is empty. Which versions may be downloaded is not kept: one that
// was withdrawn, deleted or hidden on another replica must not be sent.
type caches struct {
	once      sync.Once
	manifests *lru.Cache[string, manifest] // by version id
}

const maxManifests = 8 << 20 // bytes

func (s *Service) cache() *caches {
	s.caches.once.Do(func() { s.caches.manifests = lru.New[string, manifest](maxManifests) })
	return &s.caches
}

// A manifest has the files of a version by path.
type manifest map[string]skillpkg.ManifestEntry

// manifest returns the files of a version. They never change, so what is cached
// is always right.
func (s *Service) manifest(ctx context.Context, versionID string) (manifest, error) {
	manifests := s.cache().manifests
	if found, ok := manifests.Get(versionID); ok {
		return found, nil
	}
	files, err := manifestOf(ctx, s.DB, versionID)
	if err != nil {
		return nil, err
	}
	const perFile = 200 // bytes of an entry without its path, about
	found, cost := make(manifest, len(files)), int64(perFile)
	for _, f := range files {
		found[f.Path] = f
		cost += perFile + int64(len(f.Path))
	}
	manifests.Put(versionID, found, cost)
	return found, nil
}
