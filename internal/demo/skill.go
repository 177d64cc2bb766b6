package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// A skill is one of the demo organisation's.
type skill struct {
	name, title, description string
	steps                    []string
	// asks are what people say when they want it, and it comes; missed are
	// those with which it often does not.
	asks, missed []string
	perDay       float64 // sessions on a working day
	quietSince   int     // days ago of its last session
	onlySessions int     // it has no more than these
	releases     []release
}

// A release is a version of a skill, and how well it does.
type release struct {
	version  string
	daysAgo  int
	passRate float64
	summary  string
	// undone is how many days ago it was rolled back, and why; 0 is never.
	undone int
	reason string
}

// inUse is the number of the release that people had so many days ago; -1 if
// there was none.
func (s skill) inUse(daysAgo int) int {
	for i, r := range slices.Backward(s.releases) {
		if r.daysAgo >= daysAgo && (r.undone == 0 || r.undone < daysAgo) {
			return i
		}
	}
	return -1
}

// document is the SKILL.md of a release.
func (s skill) document(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %q\nlicense: Apache-2.0\nmetadata:\n  version: %q\n---\n\n# %s\n\n## Steps\n\n",
		s.name, s.description, s.releases[number].version, s.title)
	for i, step := range s.steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}
	b.WriteString("\n## Changes\n\n")
	for _, r := range slices.Backward(s.releases[:number+1]) {
		fmt.Fprintf(&b, "- %s: %s\n", r.version, r.summary)
	}
	return b.String()
}

// files are those of a release.
func (s skill) files(number int) map[string]string {
	return map[string]string{
		"SKILL.md":               s.document(number),
		"references/examples.md": "# What people ask for\n\n- " + strings.Join(s.asks, "\n- ") + "\n",
	}
}

// draft is the skill before its author learned to say when to use it.
func (s skill) draft() skill {
	s.description, _, _ = strings.Cut(s.description, " Use when")
	return s
}

// open makes a package of files. The caller closes it.
func open(ctx context.Context, files map[string]string) (*skillpkg.Package, error) {
	var parts []skillpkg.Part
	for _, name := range slices.Sorted(maps.Keys(files)) {
		parts = append(parts, skillpkg.Part{
			Path: name, Size: int64(len(files[name])),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(files[name])), nil },
		})
	}
	return skillpkg.FromParts(ctx, parts, skillpkg.DefaultLimits())
}

// pack makes an archive of files.
func pack(ctx context.Context, files map[string]string) ([]byte, error) {
	pkg, err := open(ctx, files)
	if err != nil {
		return nil, err
	}
	defer pkg.Close()
	var archive bytes.Buffer
	err = pkg.Repack(ctx, &archive, skillpkg.TarGz)
	return archive.Bytes(), err
}
