package gating

import (
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/registry/gateapi"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// maxFile is the size of files that cases are looked for in.
const maxFile = 1 << 20

// minNeedle is how long the name of a case must be to be looked for.
const minNeedle = 8

// places finds the lines of cases in a folder.
type places struct {
	dir         string
	skill       string
	description int // its line in SKILL.md
	files       []lines
}

type lines struct {
	path string
	text []string
}

func newPlaces(dir string, pkg *skillpkg.Package) (*places, error) {
	p := &places{dir: dir, skill: pkg.SkillPath, description: 1}
	for _, f := range pkg.Installed() {
		known := []string{".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv"}
		if f.Size > maxFile || f.Path != pkg.SkillPath && !slices.Contains(known, path.Ext(f.Path)) {
			continue
		}
		raw, err := pkg.ReadFile(f.Path)
		if err != nil {
			return nil, err
		}
		text := strings.Split(string(raw), "\n")
		if f.Path != pkg.SkillPath {
			p.files = append(p.files, lines{f.Path, text})
			continue
		}
		p.description = 1 + max(0, slices.IndexFunc(text, func(l string) bool { return strings.HasPrefix(l, "description:") }))
	}
	return p, nil
}

// find returns where the folder has a case: the line with its id or its name in
// quotes, or else the description in SKILL.md.
func (p *places) find(c gateapi.CaseOutcome) (file string, line int) {
	for _, f := range p.files {
		for i, text := range f.text {
			hasID := c.Case != "" && strings.Contains(text, `"`+c.Case+`"`)
			if hasID || len(c.Name) >= minNeedle && strings.Contains(text, c.Name) {
				return path.Join(p.dir, f.path), i + 1
			}
		}
	}
	return path.Join(p.dir, p.skill), p.description
}
