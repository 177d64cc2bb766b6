package outcome

// This file finds the lines of a skill's files that have the cases of a suite,
// so that a case that got worse can be shown where its author works.

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// The limits of looking for cases. Large files are data, not cases; and a short text would be
// found anywhere.
const (
	maxFile = 1 << 20
	maxRead = 8 << 20
	minText = 8 // bytes of a text that is looked for
)

// CaseFiles are the lines of a skill's files that may have cases. They are read once, and then
// searched for each case.
type CaseFiles struct {
	skill string // path of SKILL.md
	text  []string
	files []file
}

type file struct {
	path string
	text []string
}

// ReadCaseFiles reads the files of a package. Files past maxRead in all are skipped, in the order of the
// package.
func ReadCaseFiles(pkg *skillpkg.Package) (*CaseFiles, error) {
	all := &CaseFiles{skill: cmp.Or(pkg.SkillPath, "SKILL.md")}
	read := 0
	for _, f := range pkg.Installed() {
		if !mayHaveCases(f) && f.Path != pkg.SkillPath || read+int(f.Size) > maxRead {
			continue
		}
		raw, err := pkg.ReadFile(f.Path)
		if err != nil {
			return nil, err
		}
		read += len(raw)
		text := strings.Split(string(raw), "\n")
		if f.Path == pkg.SkillPath {
			all.text = text
			continue
		}
		all.files = append(all.files, file{f.Path, text})
	}
	return all, nil
}

// mayHaveCases reports whether a file has a format that cases are written in.
func mayHaveCases(f skillpkg.File) bool {
	known := []string{".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv"}
	return f.Size <= maxFile && slices.Contains(known, strings.ToLower(path.Ext(f.Path)))
}

// A CaseLine is what is looked for.
type CaseLine struct {
	ID   string
	Text string // its query or title
	// Described reports whether the description of the skill decides it.
	Described bool
}

// Find returns the file and line of a case: where its id or its text is written or
// else, of SKILL.md, the description if that decides it, and the first line if not. It guesses:
// a wrong line is a nuisance in a review, not a wrong verdict.
func (f *CaseFiles) Find(c CaseLine) (path string, line int) {
	var id *regexp.Regexp
	if c.ID != "" {
		// JSON ("id": "x"), YAML (id: x) and TOML (id = "x").
		id = regexp.MustCompile(`(?:^|[\s"'{,])id["']?\s*[:=]\s*["']?` + regexp.QuoteMeta(c.ID) + `["']?\s*(?:[,}]|$)`)
	}
	for _, in := range f.files {
		for i, text := range in.text {
			hasID := id != nil && strings.Contains(text, c.ID) && id.MatchString(text)
			if hasID || len(c.Text) >= minText && strings.Contains(text, c.Text) {
				return in.path, i + 1
			}
		}
	}
	for i, text := range f.text {
		if c.Described && strings.HasPrefix(text, "description:") {
			return f.skill, i + 1
		}
	}
	return f.skill, 1
}
