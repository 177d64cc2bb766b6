package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

const (
	// maxContents bounds the bytes of all cached contents.
	maxContents = 64 << 20
	// maxContent is the size up to which the files of a skill are cached.
	maxContent = 512 << 10
	// maxReads is how many archives are read at once.
	maxReads = 4
)

// A content has the objects of one skill. It never changes.
type content struct {
	objects []packed
	data    []byte // nil if it is large, and read again for every client
}

// A packed object stands somewhere in the data.
type packed struct {
	hash     gittree.Hash
	from, to int
}

// content returns the objects of a plugin's skill, from memory or from its archive.
func (s *Service) content(ctx context.Context, p *plugin) (c content, err error) {
	key := p.versionID
	// A version never changes, so the entry is never stale.
	if c, ok := s.contents.Get(key); ok {
		return c, nil
	}
	err = s.open(ctx, p, func(pkg *skillpkg.Package, folder gittree.Folder) error {
		var data bytes.Buffer
		// Of a large skill only the hashes are kept, which counting needs.
		whole := pkg.UnpackedSize <= maxContent
		err := eachObject(pkg, folder, func(h gittree.Hash, put func(*bytes.Buffer, io.Writer) error) error {
			o := packed{hash: h, from: data.Len()}
			if whole {
				if err := put(&data, &data); err != nil {
					return err
				}
			}
			o.to = data.Len()
			c.objects = append(c.objects, o)
			return nil
		})
		if whole {
			// A clone has no spare capacity, which the size in the cache would not
			// count.
			c.data = bytes.Clone(data.Bytes())
		}
		return err
	})
	if err == nil {
		s.contents.Put(key, c, int64(len(c.data)+100*len(c.objects)+200))
	}
	return c, err
}

// sendContent writes the objects of a plugin's skill that are neither in seen nor in
// sent.
func (s *Service) sendContent(ctx context.Context, w io.Writer, p *plugin, seen, sent map[gittree.Hash]bool) error {
	fresh := func(h gittree.Hash) bool {
		if seen[h] || sent[h] {
			return false
		}
		sent[h] = true
		return true
	}
	c, err := s.content(ctx, p)
	if err != nil {
		return err
	}
	if c.data != nil {
		for _, o := range c.objects {
			if fresh(o.hash) {
				if _, err := w.Write(c.data[o.from:o.to]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return s.open(ctx, p, func(pkg *skillpkg.Package, folder gittree.Folder) error {
		return eachObject(pkg, folder, func(h gittree.Hash, put func(*bytes.Buffer, io.Writer) error) error {
			if !fresh(h) {
				return nil
			}
			return put(&bytes.Buffer{}, w)
		})
	})
}

// open reads the archive of a plugin's skill.
func (s *Service) open(ctx context.Context, p *plugin, use func(*skillpkg.Package, gittree.Folder) error) (err error) {
	defer fault.Wrap(&err, "objects of version %s", p.versionID)
	pkg, folder, err := s.openPackage(ctx, p)
	if err != nil {
		return err
	}
	defer pkg.Close()
	return use(pkg, folder)
}

// openPackage waits for its turn: a slow client that gets the files must not keep
// others from reading theirs.
func (s *Service) openPackage(ctx context.Context, p *plugin) (_ *skillpkg.Package, folder gittree.Folder, err error) {
	select {
	// Held while the archive is opened and hashed, not while it is sent.
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-ctx.Done():
		return nil, folder, ctx.Err()
	}
	r := s.Catalog.Registry
	v, err := r.VersionByID(ctx, r.DB, registry.Entry{OrgID: p.ownerID, ID: p.entryID}, p.versionID)
	if err != nil {
		return nil, folder, err
	}
	pkg, err := r.Open(ctx, v)
	if err != nil {
		return nil, folder, err
	}
	folder, err = gittree.Of(pkg)
	// The commit promises this tree: other files under its hash would corrupt
	// clones.
	if err == nil && folder.Root != p.tree {
		err = fmt.Errorf("the files have the tree %s, not %s", folder.Root, p.tree)
	}
	if err != nil {
		_ = pkg.Close() // it was only read
	}
	return pkg, folder, err
}

// eachObject calls fn with the objects of a skill, always in the same order. put
// writes one: its header and what is small through a buffer, a file as a stream. The
// order must not change between counting and sending.
func eachObject(
	pkg *skillpkg.Package, folder gittree.Folder, fn func(h gittree.Hash, put func(b *bytes.Buffer, w io.Writer) error) error,
) error {
	order := func(a, b gittree.Hash) int { return bytes.Compare(a[:], b[:]) }
	for _, h := range slices.SortedFunc(maps.Keys(folder.Trees), order) {
		err := fn(h, func(b *bytes.Buffer, w io.Writer) error {
			appendHeader(b, byte(gittree.Tree), int64(len(folder.Trees[h])))
			deflate(b, folder.Trees[h])
			return flush(b, w)
		})
		if err != nil {
			return err
		}
	}
	files := slices.SortedFunc(maps.Keys(folder.Files), func(a, b gittree.Hash) int {
		return cmp.Or(cmp.Compare(folder.Files[a].Path, folder.Files[b].Path), order(a, b))
	})
	for _, h := range files {
		f := folder.Files[h]
		err := fn(h, func(b *bytes.Buffer, w io.Writer) error {
			r, err := pkg.Open(f.Path)
			if err != nil {
				return err
			}
			appendHeader(b, byte(gittree.Blob), f.Size)
			if err := flush(b, w); err != nil {
				return err
			}
			// A file is streamed: it may have 10 MiB, and many clients may fetch at
			// once.
			z := newDeflater(w)
			defer deflaters.Put(z)
			if _, err := spool.Copy(z, r); err != nil {
				return err
			}
			return z.Close()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// flush writes a buffer, unless it is the destination.
func flush(b *bytes.Buffer, w io.Writer) error {
	if w == io.Writer(b) {
		return nil
	}
	_, err := b.WriteTo(w)
	return err
}
