package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

const discoverySchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// An indexFormat is a version of the discovery draft.
type indexFormat string

const (
	newIndex indexFormat = "0.2.0"
	oldIndex indexFormat = "0.1.0"
)

const (
	// maxIndexes bounds the bytes of all cached indexes.
	maxIndexes = 32 << 20
	// indexMemory is what building an index of maxIndex bytes takes.
	indexMemory = 4 * maxIndex
)

// index returns the index of a shelf, from memory while that has not changed.
func (s *Service) index(ctx context.Context, sh registry.Shelf, f indexFormat) (*Document, error) {
	s.once.Do(s.init)
	return s.indexes.Get(ctx, sh, string(f), func(ctx context.Context) (*Document, int64, error) {
		release, err := s.Memory.Reserve(ctx, indexMemory)
		if err != nil {
			return nil, 0, err
		}
		defer release()
		var skills indexed
		// Row by row, so that the manifests of all skills are never in memory at
		// once.
		if err := s.each(ctx, sh, func(l registry.Listed, paths string) error {
			return skills.add(f, l, paths)
		}); err != nil {
			return nil, 0, err
		}
		d, err := NewDocument(skills.encode(f))
		// An empty index has the size 0, and is not cached.
		if err != nil || len(skills.entries) == 0 {
			return d, 0, err
		}
		return d, d.Size(), nil
	})
}

// indexOfOne returns the index of one skill, which lies a folder below that of its
// shelf.
func indexOfOne(l registry.Listed) (*Document, error) {
	entry := newEntry(l)
	// Relative, so that it works below any base and with any token in the path.
	entry.URL = "../../../.well-known/agent-skills/" + entry.URL
	raw, err := json.Marshal(entry)
	if err != nil {
		return nil, err
	}
	skills := indexed{entries: []namedEntry{{l.Name, raw}}, size: len(raw)}
	return NewDocument(skills.encode(newIndex))
}

// indexEntry and oldIndexEntry have the fields of the discovery draft in versions
// 0.2.0 and 0.1.0.
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

// newEntry describes a skill in version 0.2.0. The digest in the URL keeps a stale
// index consistent with its archives.
func newEntry(l registry.Listed) indexEntry {
	return indexEntry{
		Name: l.Name, Type: "archive", Description: l.Summary(),
		URL:    path.Join(l.Name, *l.Current.CanonicalHash+".tar.gz"),
		Digest: "sha256:" + *l.Current.CanonicalHash,
	}
}

// indexed are the entries of an index.
type indexed struct {
	entries []namedEntry
	size    int
}

type namedEntry struct {
	name  string
	entry json.RawMessage
}

// add adds a skill with the JSON array of its files' paths, if installers would
// take it and there is room.
func (x *indexed) add(f indexFormat, l registry.Listed, paths string) error {
	l.Current.Description = l.Summary() // once: it is asked for again below
	if !discoverable(l) {
		return nil
	}
	var entry any = oldIndexEntry{Name: l.Name, Description: l.Summary(), Files: json.RawMessage(paths)}
	if f == newIndex {
		entry = newEntry(l)
	}
	raw, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	// Skills beyond the limit are left out: an index that is cut off would not
	// parse.
	if x.size+len(raw) <= maxIndex {
		x.size += len(raw)
		x.entries = append(x.entries, namedEntry{l.Name, raw})
	}
	return nil
}

// encode writes the JSON of the index.
func (x *indexed) encode(f indexFormat) []byte {
	slices.SortFunc(x.entries, func(a, b namedEntry) int { return cmp.Compare(a.name, b.name) })
	var b bytes.Buffer
	// The entries were encoded when they were added; here they are only joined.
	b.Grow(x.size + len(x.entries) + 2<<10)
	b.WriteByte('{')
	if f == newIndex {
		fmt.Fprintf(&b, `"$schema":%q,`, discoverySchema)
	}
	b.WriteString(`"skills":[`)
	for i, e := range x.entries {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(e.entry)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}
