package registry

import (
	"context"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// caches hold immutable data from the database, in bounded LRU caches. The zero value is
// ready to use. Whether a version may be downloaded is never cached: a version that was
// withdrawn, deleted or hidden on another replica must not be served.
type caches struct {
	once      sync.Once
	manifests *lru.Cache[string, manifest] // by version id
}

const maxManifests = 8 << 20 // bytes

// cache creates the caches on first use, so that a Service needs no constructor.
func (s *Service) cache() *caches {
	s.caches.once.Do(func() { s.caches.manifests = lru.New[string, manifest](maxManifests) })
	return &s.caches
}

// A manifest is the list of a version's files, by path.
type manifest map[string]skillpkg.ManifestEntry

// manifest returns a version's files, from the cache if possible. Versions are immutable,
// so there is nothing to invalidate.
func (s *Service) manifest(ctx context.Context, versionID string) (manifest, error) {
	manifests := s.cache().manifests
	if found, ok := manifests.Get(versionID); ok {
		return found, nil
	}
	files, err := manifestOf(ctx, s.DB, versionID)
	if err != nil {
		return nil, err
	}
	const perFile = 200 // estimated bytes per file besides its path
	found, cost := make(manifest, len(files)), int64(perFile)
	for _, f := range files {
		found[f.Path] = f
		cost += perFile + int64(len(f.Path))
	}
	manifests.Put(versionID, found, cost)
	return found, nil
}
