package demo

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

//go:embed skills.yaml sessions.yaml runs.json
var data embed.FS

// read decodes a file of data. A file that cannot be read is a bug.
func read[T any](name string) (value T) {
	raw, err := data.ReadFile(name)
	switch {
	case err != nil:
	case strings.HasSuffix(name, ".json"):
		err = json.Unmarshal(raw, &value)
	default:
		err = yaml.Unmarshal(raw, &value)
	}
	if err != nil {
		panic(err)
	}
	return value
}

// A skill is a skill of the demo organisation.
type skill struct {
	Name, Title, Description string
	Steps                    []string
	// Asks are prompts that trigger it; Missed are prompts that should but often do
	// not.
	Asks, Missed []string
	PerDay       float64 `yaml:"per_day"`       // sessions on a working day
	QuietSince   int     `yaml:"quiet_since"`   // days since its last session
	OnlySessions int     `yaml:"only_sessions"` // limits its sessions, if not 0
	Requires     string  // as in metadata.requires
	Context      int     // tokens that a request of it reads from the cache; 0 means defaultContext
	Releases     []edition
	// Reports are more prompts that should trigger it, of the suite by which it is improved.
	Reports []string
	// Better is a description that an editor wrote, which an improve run tries or a
	// proposal gets, and why it is better.
	Better struct{ Description, Reason string }
}

// An edition is a version of a skill with its pass rate.
type edition struct {
	Version  string
	DaysAgo  int     `yaml:"days_ago"`
	PassRate float64 `yaml:"pass_rate"`
	Summary  string
	// TokenShare is how many tokens it takes, relative to the other releases; 0 means as many.
	TokenShare float64 `yaml:"token_share"`
	// Undone is how many days ago it was rolled back, for which reason; 0 means never.
	Undone int
	Reason string
}

// inUse returns the index of the release that was current so many days ago, or -1.
func (s skill) inUse(daysAgo int) int {
	for i, r := range slices.Backward(s.Releases) {
		if r.DaysAgo >= daysAgo && (r.Undone == 0 || r.Undone < daysAgo) {
			return i
		}
	}
	return -1
}

// document returns the SKILL.md of a release.
func (s skill) document(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %q\nlicense: Apache-2.0\nmetadata:\n  version: %q\n", s.Name, s.Description,
		s.Releases[number].Version)
	if s.Requires != "" {
		fmt.Fprintf(&b, "  requires: %q\n", s.Requires)
	}
	fmt.Fprintf(&b, "---\n\n# %s\n\n## Steps\n\n", s.Title)
	for i, step := range s.Steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}
	b.WriteString("\n## Changes\n\n")
	for _, r := range slices.Backward(s.Releases[:number+1]) {
		fmt.Fprintf(&b, "- %s: %s\n", r.Version, r.Summary)
	}
	return b.String()
}

// files returns the files of a release by path.
func (s skill) files(number int) map[string]string {
	return map[string]string{
		"SKILL.md":               s.document(number),
		"references/examples.md": "# What people ask for\n\n- " + strings.Join(s.Asks, "\n- ") + "\n",
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
