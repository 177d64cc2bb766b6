package demo

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A skill is a skill of the demo organisation.
type skill struct {
	name, title, description string
	steps                    []string
	// asks are prompts that trigger it; missed are prompts that should but often do
	// not.
	asks, missed []string
	perDay       float64 // sessions on a working day
	quietSince   int     // days since its last session
	onlySessions int     // limits its sessions, if not 0
	requires     string  // as in metadata.requires
	context      int     // tokens that a request of it reads from the cache; 0 means defaultContext
	releases     []edition
}

// An edition is a version of a skill with its pass rate.
type edition struct {
	version  string
	daysAgo  int
	passRate float64
	summary  string
	// tokenShare is how many tokens it takes, relative to the other releases; 0 means as many.
	tokenShare float64
	// undone is how many days ago it was rolled back, for which reason; 0 means never.
	undone int
	reason string
}

// inUse returns the index of the release that was current so many days ago, or -1.
func (s skill) inUse(daysAgo int) int {
	for i, r := range slices.Backward(s.releases) {
		if r.daysAgo >= daysAgo && (r.undone == 0 || r.undone < daysAgo) {
			return i
		}
	}
	return -1
}

// document returns the SKILL.md of a release.
func (s skill) document(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %q\nlicense: Apache-2.0\nmetadata:\n  version: %q\n", s.name, s.description,
		s.releases[number].version)
	if s.requires != "" {
		fmt.Fprintf(&b, "  requires: %q\n", s.requires)
	}
	fmt.Fprintf(&b, "---\n\n# %s\n\n## Steps\n\n", s.title)
	for i, step := range s.steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}
	b.WriteString("\n## Changes\n\n")
	for _, r := range slices.Backward(s.releases[:number+1]) {
		fmt.Fprintf(&b, "- %s: %s\n", r.version, r.summary)
	}
	return b.String()
}

// files returns the files of a release by path.
func (s skill) files(number int) map[string]string {
	return map[string]string{
		"SKILL.md":               s.document(number),
		"references/examples.md": "# What people ask for\n\n- " + strings.Join(s.asks, "\n- ") + "\n",
	}
}

// open returns a package with the files. The caller closes it.
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
