package catalog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/lru"
	"github.com/whetstone-dev/whetstone/internal/registry"
)

const discoverySchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// An indexKey names an index.
type indexKey struct {
	registry.Shelf
	old bool // in the format of version 0.1.0
}

// An index is cached until its shelf changes.
type index struct {
	content    []byte
	gzipped    []byte // nil where that gains nothing
	etag       string
	revision   registry.Revision
	freshUntil time.Time // until then it is served even if the shelf has changed
}

const (
	// maxSkills and maxIndex bound an index; a larger catalogue is searched, not
	// installed.
	maxSkills = 5_000
	maxIndex  = 8 << 20 // bytes of the skills in it
	// maxIndexes bounds the bytes of all cached indexes.
	maxIndexes = 32 << 20
	// indexMemory is what building an index of maxIndex bytes takes.
	indexMemory = 4 * maxIndex
	// buildTimeout bounds the building of an index.
	buildTimeout = 20 * time.Second
	// An index that takes longer than slowBuild to build is built at most once in
	// buildShare times that time, so that endless pushes do not keep the service
	// busy with it.
	slowBuild  = 50 * time.Millisecond
	buildShare = 10
	// minGzip is the size from which on an index is compressed.
	minGzip = 1 << 10
)

// index returns the index of a shelf, from the cache or newly built.
func (s *Service) index(ctx context.Context, key indexKey) (*index, error) {
	s.once.Do(func() { s.indexes = lru.New[indexKey, *index](maxIndexes) })
	revision, err := s.Registry.ShelfRevision(ctx, key.Shelf)
	if err != nil {
		return nil, err
	}
	if known, ok := s.indexes.Get(key); ok && (known.revision == revision || time.Now().Before(known.freshUntil)) {
		return known, nil
	}
	// Singleflight builds it once for all requests that wait, so it must not be
	// cancelled with one of them.
	name := fmt.Sprintf("%t %t %s", key.old, key.Private, key.OrgName)
	built := s.building.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), buildTimeout)
		defer cancel()
		return s.build(ctx, key)
	})
	select {
	case result := <-built:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*index), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// build builds an index and caches it, unless it is empty: indexes of
// organisations that do not exist would fill the cache.
func (s *Service) build(ctx context.Context, key indexKey) (*index, error) {
	release, err := s.Memory.Reserve(ctx, indexMemory)
	if err != nil {
		return nil, err
	}
	defer release()
	start := time.Now()
	// Read before the shelf is, so that a change meanwhile makes the index stale.
	revision, err := s.Registry.ShelfRevision(ctx, key.Shelf)
	if err != nil {
		return nil, err
	}
	content, skills, err := s.indexOf(ctx, key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	built := &index{content: content, etag: hex.EncodeToString(sum[:]), revision: revision}
	if len(content) >= minGzip {
		if built.gzipped, err = gzipped(content); err != nil {
			return nil, err
		}
	}
	if took := time.Since(start); took > slowBuild {
		built.freshUntil = time.Now().Add(buildShare * took)
	}
	if skills > 0 {
		s.indexes.Put(key, built, int64(len(content)+len(built.gzipped)))
	}
	return built, nil
}

func gzipped(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

type indexEntry struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
	URL         string `json:"url"`
	Digest      string `json:"digest"`
}

type oldIndexEntry struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Files       json.RawMessage `json:"files"`
}

// indexOf writes the JSON of an index, and returns how many skills are in it.
func (s *Service) indexOf(ctx context.Context, key indexKey) ([]byte, int, error) {
	type skill struct {
		name  string
		entry json.RawMessage
	}
	var skills []skill
	size := 0
	err := s.Registry.EachOnShelf(ctx, key.Shelf, maxSkills, func(l registry.Listed, paths string) error {
		if !discoverable(l) {
			return nil
		}
		var entry any = oldIndexEntry{Name: l.Name, Description: l.Summary(), Files: json.RawMessage(paths)}
		if !key.old {
			// The digest in the URL keeps a stale index consistent with its archives.
			entry = indexEntry{
				Name: l.Name, Type: "archive", Description: l.Summary(),
				URL:    path.Join(l.Name, *l.Current.CanonicalHash+".tar.gz"),
				Digest: "sha256:" + *l.Current.CanonicalHash,
			}
		}
		raw, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		if size+len(raw) <= maxIndex {
			size += len(raw)
			skills = append(skills, skill{l.Name, raw})
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(skills, func(a, b skill) int { return cmp.Compare(a.name, b.name) })
	var b bytes.Buffer
	b.Grow(size + len(skills) + 2<<10)
	b.WriteByte('{')
	if !key.old {
		fmt.Fprintf(&b, `"$schema":%q,`, discoverySchema)
	}
	b.WriteString(`"skills":[`)
	for i, s := range skills {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(s.entry)
	}
	b.WriteString(`]}`)
	return b.Bytes(), len(skills), nil
}
