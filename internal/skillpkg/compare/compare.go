// Package compare shows what changed between two packages of a skill. It owns no
// tables.
package compare

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// maxShown is the largest file whose changes are shown.
const maxShown = 1 << 20

// Packages returns the unified diff between two packages, file by file; nil
// stands for one without files. Of files that are no text or over 1 MiB it says
// only that they differ. Links are left out.
func Packages(ctx context.Context, before, after *skillpkg.Package) ([]byte, error) {
	paths := changedPaths(before, after)
	old, err := contents(ctx, before, paths)
	if err != nil {
		return nil, err
	}
	now, err := contents(ctx, after, paths)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, path := range paths {
		writeDiff(&b, path, old, now)
	}
	return b.Bytes(), nil
}

// Texts returns the unified diff between two texts, which it calls by a name.
func Texts(name, before, after string) []byte {
	return diff.Diff("a/"+name, []byte(before), "b/"+name, []byte(after))
}

// changedPaths lists the files that are not the same in both packages, sorted.
func changedPaths(before, after *skillpkg.Package) []string {
	hashes := map[string][2]string{}
	for i, p := range []*skillpkg.Package{before, after} {
		if p == nil {
			continue
		}
		for _, f := range p.Manifest() {
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

// contents reads the files of a package at the sorted paths; nil stands for one that is too
// large to show.
func contents(ctx context.Context, p *skillpkg.Package, paths []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	if p == nil {
		return files, nil
	}
	err := p.Walk(ctx, func(f skillpkg.File, r io.Reader) (err error) {
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

func writeDiff(b *bytes.Buffer, path string, before, after map[string][]byte) {
	old, had := before[path]
	now, has := after[path]
	oldName, newName := nameInDiff("a/", path, had), nameInDiff("b/", path, has)
	if had && !isText(old) || has && !isText(now) {
		fmt.Fprintf(b, "Binary files %s and %s differ\n", oldName, newName)
		return
	}
	if bytes.Equal(old, now) { // an empty file came or went
		fmt.Fprintf(b, "diff %s %s\n", oldName, newName)
	}
	b.Write(diff.Diff(oldName, old, newName, now))
}

// nameInDiff is /dev/null for a file that is not there, as patch expects.
func nameInDiff(prefix, path string, there bool) string {
	if !there {
		return "/dev/null"
	}
	return prefix + path
}

func isText(content []byte) bool {
	return content != nil && utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}
