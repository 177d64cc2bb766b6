// Package compare makes unified diffs between two packages of a skill, within
// limits on time and memory. It owns no tables.
package compare

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Limits of a diff. Files beyond them are listed without their changes.
const (
	maxFile  = 1 << 20 // bytes of a file
	maxRead  = 8 << 20 // bytes of all files together, before and after
	maxLines = 50_000  // lines of a file, before and after together
	maxDiff  = 2 << 20 // bytes of the changes of all files together
	// MaxMemory is the most memory that a diff takes, measured at these limits.
	MaxMemory = 48 << 20
)

// A Plan lists the files that differ between two packages, and which of them
// must be read for the diff.
type Plan struct {
	// Before and After are the files to read of each package: the size of each
	// by its digest.
	Before, After map[string]int64

	changes []change
}

// A change is a file that differs between the packages.
type change struct {
	path     string
	old, now *skillpkg.ManifestEntry // nil if the file is missing
	read     bool
}

// NewPlan compares the lists of files of two packages.
func NewPlan(before, after []skillpkg.ManifestEntry) *Plan {
	p := &Plan{Before: map[string]int64{}, After: map[string]int64{}, changes: changes(before, after)}
	total := int64(0)
	for i := range p.changes {
		c := &p.changes[i]
		size := sizeOf(c.old) + sizeOf(c.now)
		if c.read = max(sizeOf(c.old), sizeOf(c.now)) <= maxFile && total+size <= maxRead; !c.read {
			continue
		}
		total += size
		if c.old != nil {
			p.Before[c.old.Hash] = c.old.Size
		}
		if c.now != nil {
			p.After[c.now.Hash] = c.now.Size
		}
	}
	return p
}

func sizeOf(f *skillpkg.ManifestEntry) int64 {
	if f == nil {
		return 0
	}
	return f.Size
}

// changes lists the files that differ, by path.
func changes(before, after []skillpkg.ManifestEntry) []change {
	byPath := map[string]*change{}
	for i := range before {
		f := &before[i]
		byPath[f.Path] = &change{path: f.Path, old: f}
	}
	for i := range after {
		f := &after[i]
		c := byPath[f.Path]
		if c == nil {
			c = &change{path: f.Path}
			byPath[f.Path] = c
		}
		c.now = f
	}
	var all []change
	for _, c := range byPath {
		if c.old == nil || c.now == nil || c.old.Hash != c.now.Hash {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.path, b.path) })
	return all
}

// Diff returns the unified diff, file by file, given the contents of the files to
// read by digest. Of binary files and files beyond the limits it says only that they
// differ, and beyond which limit.
func (p *Plan) Diff(ctx context.Context, contents map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	shown := 0
	for _, c := range p.changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changed := c.diff(contents)
		if shown+len(changed) > maxDiff {
			changed = c.beyond("the changes of all files are over 2 MiB")
		}
		shown += len(changed)
		b.Write(changed)
	}
	return b.Bytes(), nil
}

func (c change) diff(contents map[string][]byte) []byte {
	old, oldText := c.content(c.old, contents)
	now, nowText := c.content(c.now, contents)
	switch {
	case max(sizeOf(c.old), sizeOf(c.now)) > maxFile:
		return c.beyond("a file is over 1 MiB")
	case !c.read:
		return c.beyond("the files that differ are over 8 MiB")
	case !oldText || !nowText:
		return fmt.Appendf(nil, "Binary files %s and %s differ\n", c.oldName(), c.newName())
	case bytes.Count(old, []byte("\n"))+bytes.Count(now, []byte("\n")) > maxLines:
		return c.beyond("more than 50,000 lines")
	case bytes.Equal(old, now): // an empty file was added or removed
		return fmt.Appendf(nil, "diff %s %s\n", c.oldName(), c.newName())
	}
	return diff.Diff(c.oldName(), old, c.newName(), now)
}

// content returns the content of one side, and whether it is text. A file that
// was not read is not.
func (c change) content(f *skillpkg.ManifestEntry, contents map[string][]byte) (content []byte, isText bool) {
	if f == nil || f.Size == 0 {
		return nil, true
	}
	content, read := contents[f.Hash]
	return content, c.read && read && text.ValidBytes(content)
}

// beyond reports a file without its changes, and which limit is why, e.g. "Files a/x and
// b/x differ: a file is over 1 MiB".
func (c change) beyond(limit string) []byte {
	return fmt.Appendf(nil, "Files %s and %s differ: %s\n", c.oldName(), c.newName(), limit)
}

func (c change) oldName() string { return nameInDiff("a/", c.path, c.old) }
func (c change) newName() string { return nameInDiff("b/", c.path, c.now) }

// nameInDiff is /dev/null for a missing file, as patch expects.
func nameInDiff(prefix, path string, f *skillpkg.ManifestEntry) string {
	if f == nil {
		return "/dev/null"
	}
	return prefix + path
}

// Texts returns the unified diff between two versions of a text.
func Texts(name, before, after string) []byte {
	return diff.Diff("a/"+name, []byte(before), "b/"+name, []byte(after))
}
