package registry

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
)

// An indexKey names an index of discovery.
type indexKey struct {
	shelf
	old bool // in the form of version 0.1.0
}

// An index is the answer to all who ask for it, until the shelf changes.
type index struct {
	content []byte
	packed  []byte // by gzip; nil where that gains nothing
	etag    string
	changes changeCount
	fresh   time.Time // until when it is served even if the shelf has changed
}

// A changeCount differs whenever a shelf has changed.
type changeCount struct{ orgs, changes int64 }

const (
	// maxShelf and maxIndex bound an index; a larger catalogue is searched, not
	// installed.
	maxShelf = 5_000
	maxIndex = 8 << 20 // bytes of the skills in it
	// indexMemory is what making an index of that size takes.
	indexMemory = 4 * maxIndex
	// buildTimeout is for how long an index may be made.
	buildTimeout = 20 * time.Second
	// An index that takes longer than slowBuild to make is made at most every
	// buildShare times so long: somebody who pushes without end must not keep the
	// service busy with it.
	slowBuild  = 50 * time.Millisecond
	buildShare = 10
	// minPacked is the size from which on an index is compressed.
	minPacked = 1 << 10
)

// index returns the index of a shelf as it is now.
func (s *Service) index(ctx context.Context, key indexKey) (*index, error) {
	changes, err := changesOn(ctx, s.DB, key.shelf)
	if err != nil {
		return nil, err
	}
	m := s.remembered()
	if known, ok := m.indexes.Get(key); ok && (known.changes == changes || time.Now().Before(known.fresh)) {
		return known, nil
	}
	// It is made for all who wait for it, so it does not end with one of them.
	name := fmt.Sprintf("%t %t %s", key.old, key.private, key.orgName)
	made := m.building.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), buildTimeout)
		defer cancel()
		return s.build(ctx, key)
	})
	select {
	case result := <-made:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*index), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// build makes an index and keeps it, unless it is empty: anybody can ask for
// those of organisations that are not there.
func (s *Service) build(ctx context.Context, key indexKey) (*index, error) {
	release, err := s.Memory.Reserve(ctx, indexMemory)
	if err != nil {
		return nil, err
	}
	defer release()
	start := time.Now()
	// Before the shelf is read, so that a change meanwhile is noticed.
	changes, err := changesOn(ctx, s.DB, key.shelf)
	if err != nil {
		return nil, err
	}
	content, skills, err := s.indexOf(ctx, key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	built := &index{content: content, etag: hex.EncodeToString(sum[:]), changes: changes}
	if len(content) >= minPacked {
		if built.packed, err = pack(content); err != nil {
			return nil, err
		}
	}
	if took := time.Since(start); took > slowBuild {
		built.fresh = time.Now().Add(buildShare * took)
	}
	if skills > 0 {
		s.remembered().indexes.Put(key, built, int64(len(content)+len(built.packed)))
	}
	return built, nil
}

func pack(content []byte) ([]byte, error) {
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

// indexOf writes an index, and says how many skills are in it.
func (s *Service) indexOf(ctx context.Context, key indexKey) ([]byte, int, error) {
	type skill struct {
		name  string
		entry json.RawMessage
	}
	var skills []skill
	size := 0
	err := eachOnShelf(ctx, s.DB, key.shelf, func(l Listed, paths string) error {
		if !discoverable(l) {
			return nil
		}
		var entry any = oldIndexEntry{Name: l.Name, Description: summary(l), Files: json.RawMessage(paths)}
		if !key.old {
			// The digest in the address keeps index and archive from disagreeing.
			entry = indexEntry{
				Name: l.Name, Type: "archive", Description: summary(l),
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
