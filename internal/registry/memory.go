package registry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whetstone-dev/whetstone/internal/lru"
)

// A memory spares questions to the database that were asked before. The zero
// value is empty.
type memory struct {
	once       sync.Once
	answers    *lru.Cache[question, answer]
	identities *lru.Cache[entryOf, identity]
	contents   *lru.Cache[versionOf, content]
	// forgotten is when contents were last found to be no longer true, in
	// nanoseconds since the epoch.
	forgotten atomic.Int64
}

// How much is remembered: answers by the items in them, the rest by number.
const (
	maxAnswers    = 50_000
	maxIdentities = 10_000
	maxContents   = 10_000
)

func (s *Service) remembered() *memory {
	s.memory.once.Do(func() {
		s.memory.answers = lru.New[question, answer](maxAnswers)
		s.memory.identities = lru.New[entryOf, identity](maxIdentities)
		s.memory.contents = lru.New[versionOf, content](maxContents)
	})
	return &s.memory
}

// An entryOf names an entry of an organisation.
type entryOf struct{ orgID, entryID string }

// An identity is what an entry is for as long as it is there.
type identity struct {
	name string
	kind Type
}

// identify tells what an entry is. It may be gone: who changes it finds out.
func (s *Service) identify(ctx context.Context, of entryOf) (identity, error) {
	identities := s.remembered().identities
	if known, ok := identities.Get(of); ok {
		return known, nil
	}
	e, err := ownEntry(ctx, s.DB, of.orgID, of.entryID)
	if err != nil {
		return identity{}, err
	}
	found := identity{e.Name, e.Type}
	identities.Put(of, found, 1)
	return found, nil
}

// A versionOf names a version that an organisation may see.
type versionOf struct{ orgID, entryID, version string }

// A content is what a download needs to know of a version.
type content struct {
	name, hash string
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
	c.asked = time.Now()
	if c.name, c.hash, err = contentOf(ctx, s.DB, of); err == nil {
		m.contents.Put(of, c, 1)
	}
	return c, err
}

func (m *memory) believes(c content) bool {
	return time.Since(c.asked) < contentAge && c.asked.UnixNano() > m.forgotten.Load()
}

// forget is for whoever has deleted an entry.
func (m *memory) forget() { m.forgotten.Store(time.Now().UnixNano()) }
