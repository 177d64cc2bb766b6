package checks

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
)

// maxAnnotations is how many cases are shown at their lines. It is what GitHub takes in one
// request, and more than people read.
const maxAnnotations = 50

// annotations shows the cases that got worse at their lines in the repository, or
// else in SKILL.md. It shows none if the files are gone.
func (s *Service) annotations(ctx context.Context, g gates.Gate, folder string) (all []host.Annotation, err error) {
	level := host.LevelWarning
	if g.Verdict != nil && *g.Verdict == decision.Block {
		level = host.LevelFailure
	}
	var files *outcome.CaseFiles
	for _, suite := range g.Result.Suites {
		cases, err := s.casesOf(ctx, g.OrgID, suite.SuiteID)
		if err != nil {
			return nil, err
		}
		for _, c := range suite.Results {
			if !slices.Contains(suite.Worse, c.Case) || len(all) == maxAnnotations {
				continue
			}
			// Read at the first case that got worse: most gates have none.
			if files == nil {
				if files, err = s.read(ctx, g); err != nil || files == nil {
					return nil, err
				}
			}
			is := cases[c.Case]
			file, line := files.Find(outcome.CaseLine{ID: is.ID, Text: is.Query, Described: is.Kind == suites.TriggerQuery})
			all = append(all, host.Annotation{
				Path: path.Join(folder, file), Line: line, Level: level,
				Title: "Worse: " + cmp.Or(c.Name, c.Case), Message: outcome.Worse(c),
			})
		}
	}
	return all, nil
}

// casesOf returns the cases of a suite by id, none if it is gone. Without cases, annotations
// fall back to SKILL.md.
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

// read reads the files of what a gate tried. It returns nil if they are gone.
func (s *Service) read(ctx context.Context, g gates.Gate) (none *outcome.CaseFiles, err error) {
	pkg, err := s.Gates.Content(ctx, g)
	if fault.Is(err, fault.NotFound) {
		return none, nil // a closed pull request has no files
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pkg.Close()) }()
	return outcome.ReadCaseFiles(pkg)
}
