package registry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/whetstone-dev/whetstone/internal/lru"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// A memory spares questions to the database that were asked before. The zero
// value is empty.
type memory struct {
	once      sync.Once
	answers   *lru.Cache[question, answer]
	contents  *lru.Cache[versionOf, content]
	manifests *lru.Cache[string, manifest] // by version, which never changes
	indexes   *lru.Cache[indexKey, *index]
	building  singleflight.Group // of indexes
	// forgotten is when contents were last found to be no longer true, in
	// nanoseconds since the epoch.
	forgotten atomic.Int64
}

// How much is remembered: answers by the items in them, manifests and indexes by
// their bytes, the rest by number.
const (
	maxAnswers   = 50_000
	maxContents  = 10_000
	maxManifests = 8 << 20
	maxIndexes   = 32 << 20
)

func (s *Service) remembered() *memory {
	s.memory.once.Do(func() {
		s.memory.answers = lru.New[question, answer](maxAnswers)
		s.memory.contents = lru.New[versionOf, content](maxContents)
		s.memory.manifests = lru.New[string, manifest](maxManifests)
		s.memory.indexes = lru.New[indexKey, *index](maxIndexes)
	})
	return &s.memory
}

// A versionOf names a version that an organisation may see.
type versionOf struct{ orgID, entryID, version string }

// A content is what a download needs to know of a version.
type content struct {
	name       string // of the entry
	versionID  string
	hash       string
	archiveKey string
	asked      time.Time
}

// contentAge is for how long a download goes by what was true: an entry that
// another replica deletes is gone here so much later.
const contentAge = 2 * time.Second

// content finds what a download needs.
func (s *Service) content(ctx context.Context, of versionOf) (c content, err error) {
	m := s.remembered()
	if known, ok := m.contents.Get(of); ok && m.believes(known) {
		return known, nil
	}
	asked := time.Now()
	if c, err = contentOf(ctx, s.DB, of); err == nil {
		c.asked = asked
		m.contents.Put(of, c, 1)
	}
	return c, err
}

// A manifest has the files of a version by path.
type manifest map[string]skillpkg.ManifestEntry

// manifest returns the files of a version.
func (s *Service) manifest(ctx context.Context, versionID string) (manifest, error) {
	manifests := s.remembered().manifests
	if known, ok := manifests.Get(versionID); ok {
		return known, nil
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

func (m *memory) believes(c content) bool {
	return time.Since(c.asked) < contentAge && c.asked.UnixNano() > m.forgotten.Load()
}

// forget is for whoever has deleted an entry.
func (m *memory) forget() { m.forgotten.Store(time.Now().UnixNano()) }
