package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// Open reads a version's archive. The caller closes it.
func (s *Service) Open(ctx context.Context, v Version) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "archive of version %s", v.ID)
	body, _, err := s.Blobs.Get(ctx, blob.ContentKey(v.ContentHash))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return skillpkg.Read(ctx, body, skillpkg.DefaultLimits())
}

// File returns the content of one file of a version.
func (s *Service) File(ctx context.Context, v Version, path string) ([]byte, error) {
	if !hasFile(v, path) {
		return nil, fault.New(fault.NotFound, "Version %s has no file %s", v.Version, path)
	}
	pkg, err := s.Open(ctx, v)
	if err != nil {
		return nil, err
	}
	defer pkg.Close()
	return pkg.ReadFile(path)
}

func hasFile(v Version, path string) bool {
	for _, f := range v.Manifest {
		if f.Path == path {
			return true
		}
	}
	return false
}

// Diff returns the unified diff between two versions of an entry. An empty
// from means the version pushed before; before the first there was nothing.
func (s *Service) Diff(ctx context.Context, to Version, from string) (_ []byte, err error) {
	defer fault.Wrap(&err, "diff of version %s", to.ID)
	var old Version
	if from == "" {
		old, err = versionBefore(ctx, s.DB, to)
		if fault.Is(err, fault.NotFound) {
			old, err = Version{}, nil
		}
	} else {
		old, err = versionByName(ctx, s.DB, to.EntryID, from)
	}
	if err != nil {
		return nil, err
	}
	paths := changedPaths(old, to)
	before, err := s.contents(ctx, old, paths)
	if err != nil {
		return nil, err
	}
	after, err := s.contents(ctx, to, paths)
	if err != nil {
		return nil, err
	}
	return diffFiles(paths, before, after), nil
}

// changedPaths lists the files that are not the same in both versions.
func changedPaths(old, to Version) []string {
	hashes := map[string][2]string{}
	for i, v := range []Version{old, to} {
		for _, f := range v.Manifest {
			pair := hashes[f.Path]
			pair[i] = f.Hash
			hashes[f.Path] = pair
		}
	}
	var paths []string
	for path, pair := range hashes {
		if pair[0] != pair[1] {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// maxShown is the largest file whose changes are shown.
const maxShown = 1 << 20

// contents reads the files of a version at the paths; nil stands for one that
// is too large to show. The zero Version has no files.
func (s *Service) contents(ctx context.Context, v Version, paths []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	if v.ID == "" {
		return files, nil
	}
	pkg, err := s.Open(ctx, v)
	if err != nil {
		return nil, err
	}
	defer pkg.Close()
	err = pkg.Walk(ctx, func(f skillpkg.File, r io.Reader) (err error) {
		if _, wanted := slices.BinarySearch(paths, f.Path); !wanted {
			return nil
		}
		files[f.Path] = nil
		if f.Size <= maxShown {
			files[f.Path], err = io.ReadAll(r)
		}
		return err
	})
	return files, err
}

func diffFiles(paths []string, before, after map[string][]byte) []byte {
	var b bytes.Buffer
	for _, path := range paths {
		old, had := before[path]
		now, has := after[path]
		oldName, newName := nameInDiff("a/", path, had), nameInDiff("b/", path, has)
		if had && !text(old) || has && !text(now) {
			fmt.Fprintf(&b, "Binary files %s and %s differ\n", oldName, newName)
			continue
		}
		if bytes.Equal(old, now) { // an empty file came or went
			fmt.Fprintf(&b, "diff %s %s\n", oldName, newName)
		}
		b.Write(diff.Diff(oldName, old, newName, now))
	}
	return b.Bytes()
}

// nameInDiff is /dev/null for a file that is not there, as patch expects.
func nameInDiff(prefix, path string, there bool) string {
	if !there {
		return "/dev/null"
	}
	return prefix + path
}

// text reports whether a diff or a browser can show the content.
func text(content []byte) bool {
	return content != nil && utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}

// mediaType is the type under which a file is shown. It is never HTML: a file
// that somebody pushed must not run in our origin.
func mediaType(content []byte) string {
	if text(content) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
