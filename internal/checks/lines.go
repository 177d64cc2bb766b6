package checks

import (
	"cmp"
	"context"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/gates"
	"github.com/whetstone-dev/whetstone/internal/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/gates/outcome"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

// The limits of looking for cases.
const (
	maxAnnotations = 50
	maxFile        = 1 << 20
	maxRead        = 8 << 20
	minNeedle      = 8 // characters of a query that is looked for
)

// annotations shows the cases that got worse at their lines in the repository, or
// else in SKILL.md. It shows none if the files are gone.
func (s *Service) annotations(ctx context.Context, g gates.Gate, folder string) (all []host.Annotation, err error) {
	level := host.LevelWarning
	if g.Verdict != nil && *g.Verdict == decision.Block {
		level = host.LevelFailure
	}
	var where *places
	for _, suite := range g.Result.Suites {
		cases, err := s.casesOf(ctx, g.OrgID, suite.SuiteID)
		if err != nil {
			return nil, err
		}
		for _, c := range suite.Results {
			if !slices.Contains(suite.Worse, c.Case) || len(all) == maxAnnotations {
				continue
			}
			if where == nil {
				if where, err = s.read(ctx, g); err != nil || where == nil {
					return nil, err
				}
			}
			file, line := where.find(cases[c.Case])
			all = append(all, host.Annotation{
				Path: path.Join(folder, file), Line: line, Level: level,
				Title: "Worse: " + cmp.Or(c.Name, c.Case), Message: outcome.Worse(c),
			})
		}
	}
	return all, nil
}

// casesOf returns the cases of a suite by id, none if it is gone.
func (s *Service) casesOf(ctx context.Context, orgID, suiteID string) (map[string]suites.Case, error) {
	suite, err := s.Suites.Get(ctx, orgID, suiteID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	cases := map[string]suites.Case{}
	for _, c := range suite.Cases {
		cases[c.ID] = c
	}
	return cases, nil
}

// places are the lines of a skill's files.
type places struct {
	skill string // path of SKILL.md
	text  []string
	files []lines // that may have cases
}

type lines struct {
	path string
	text []string
}

// read reads the files of what a gate tried. It returns nil if they are gone.
func (s *Service) read(ctx context.Context, g gates.Gate) (_ *places, err error) {
	pkg, err := s.Gates.Content(ctx, g)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // a closed pull request has no files
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pkg.Close()) }()
	p := &places{skill: cmp.Or(pkg.SkillPath, "SKILL.md")}
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
			p.text = text
			continue
		}
		p.files = append(p.files, lines{f.Path, text})
	}
	return p, nil
}

func mayHaveCases(f skillpkg.File) bool {
	known := []string{".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv"}
	return f.Size <= maxFile && slices.Contains(known, strings.ToLower(path.Ext(f.Path)))
}

// find returns the file and line of a case: where its id or its query is written
// or else, of SKILL.md, the description for a trigger query, which decides it, and
// the first line for another case.
func (p *places) find(c suites.Case) (file string, line int) {
	var id *regexp.Regexp
	if c.ID != "" {
		id = regexp.MustCompile(`(?:^|[\s"'{,])id["']?\s*[:=]\s*["']?` + regexp.QuoteMeta(c.ID) + `["']?\s*(?:[,}]|$)`)
	}
	for _, f := range p.files {
		for i, text := range f.text {
			hasID := id != nil && strings.Contains(text, c.ID) && id.MatchString(text)
			if hasID || len(c.Query) >= minNeedle && strings.Contains(text, c.Query) {
				return f.path, i + 1
			}
		}
	}
	for i, text := range p.text {
		if c.Kind == suites.TriggerQuery && strings.HasPrefix(text, "description:") {
			return p.skill, i + 1
		}
	}
	return p.skill, 1
}
