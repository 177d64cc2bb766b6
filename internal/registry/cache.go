package registry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whetstone-dev/whetstone/internal/lru"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// caches keep answers of the database in memory. All of them are LRU, and
// bounded. The zero value is empty.
type caches struct {
	once      sync.Once
	downloads *lru.Cache[downloadKey, download]
	manifests *lru.Cache[string, manifest] // by version id
	// invalidated is when an entry was last deleted by this process, in
	// nanoseconds since the epoch: downloads from before are stale.
	invalidated atomic.Int64
}

const (
	maxDownloads = 10_000
	maxManifests = 8 << 20 // bytes
)

func (s *Service) cache() *caches {
	s.caches.once.Do(func() {
		s.caches.downloads = lru.New[downloadKey, download](maxDownloads)
		s.caches.manifests = lru.New[string, manifest](maxManifests)
	})
	return &s.caches
}

// A downloadKey names a version and the organisation that wants to read it.
type downloadKey struct{ orgID, entryID, version string }

// A download is what is needed to send an archive or a file of it.
type download struct {
	entryName string
	version   Version // ID, Version, ContentHash and archiveKey only
	readAt    time.Time
}

// downloadTTL is how long a download is served without asking the database.
// An entry that is deleted on another replica can be downloaded here for so
// long; one that is deleted here is gone at once.
const downloadTTL = 2 * time.Second

// findDownload looks up a version that the organisation may see, in the cache
// (+36 % requests a second by the API route, bench download) or the database.
func (s *Service) findDownload(ctx context.Context, key downloadKey) (d download, err error) {
	c := s.cache()
	d, ok := c.downloads.Get(key)
	if ok && time.Since(d.readAt) < downloadTTL && d.readAt.UnixNano() > c.invalidated.Load() {
		return d, nil
	}
	readAt := time.Now()
	if d, err = downloadByKey(ctx, s.DB, key); err == nil {
		d.readAt = readAt
		c.downloads.Put(key, d, 1)
	}
	return d, err
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
