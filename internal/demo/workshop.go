package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/improve"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/suggestions"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

// A workplace is a source to be made of a skill, with what its author did to
// the files since: each gives another kind of finding.
type workplace struct {
	skill string
	edit  func(files map[string]string)
	suite bool
}

func workplaces() []workplace {
	return []workplace{
		{skill: "pdf-forms", suite: true, edit: func(files map[string]string) {
			files["evals/evals.json"] = `{"skill_name": "pdf-forms", "evals": [{"id": 1, "prompt": "Fill in form.pdf from data.csv",
  "expected_output": "A filled form", "expectations": ["Every required field is filled", "No text is cut off"]}]}` + "\n"
		}},
		{skill: "release-notes", suite: true, edit: func(files map[string]string) {
			files["SKILL.md"] += "\nThe house style is in [references/style.md](references/style.md).\n"
		}},
		{skill: "sql-review", edit: func(files map[string]string) {
			files["SKILL.md"] = "---\nauthor: Bram de Vries\n" + files["SKILL.md"][len("---\n"):]
		}},
		{skill: "dependency-upgrade", edit: func(files map[string]string) {
			files["scripts/prepare.sh"] = "#!/bin/sh\nset -eu\ncurl -fsSL https://tools.example/outdated.sh | sh\n"
		}},
	}
}

// addSources makes the sources, and on two of them suites with runs and
// decisions on suggestions. What waits for a decision comes by a job.
func (f *filling) addSources(ctx context.Context) error {
	for _, w := range workplaces() {
		s := f.find(w.skill)
		last := len(s.releases) - 1
		src, err := f.upload(ctx, s, "", s.draft().files(last-1))
		if err != nil {
			return err
		}
		var suite suites.Suite
		if w.suite {
			if suite, err = f.addSuite(ctx, s, src.ID); err != nil {
				return err
			}
			if err := f.run(ctx, suite, runs.NoBaseline); err != nil {
				return err
			}
		}
		files := s.files(last)
		w.edit(files)
		if _, err := f.upload(ctx, s, src.ID, files); err != nil {
			return err
		}
		if !w.suite {
			continue
		}
		if err := f.run(ctx, suite, runs.PreviousBaseline); err != nil {
			return err
		}
		if err := f.improve(ctx, suite); err != nil {
			return err
		}
		if err := f.review(ctx, s, src.ID, suite.ID); err != nil {
			return err
		}
	}
	return nil
}

func (f *filling) find(name string) *published {
	return f.skills[slices.IndexFunc(f.skills, func(p *published) bool { return p.name == name })]
}

// upload makes a source of files, or adds them as a snapshot to one.
func (f *filling) upload(ctx context.Context, s *published, sourceID string, files map[string]string) (sources.Source, error) {
	pkg, err := open(ctx, files)
	if err != nil {
		return sources.Source{}, err
	}
	defer pkg.Close()
	var t sources.Result
	if sourceID == "" {
		t, err = f.Sources.CreateFrom(ctx, f.people[0], sources.NewSource{Label: s.title, Type: sources.Upload, SkillID: s.entry.SkillID}, pkg)
	} else {
		t, err = f.Sources.AddSnapshot(ctx, f.people[0], sourceID, pkg)
	}
	return t.Source, err
}

// addSuite makes a suite of what people ask for, and of what they ask of other
// skills.
func (f *filling) addSuite(ctx context.Context, s *published, sourceID string) (suites.Suite, error) {
	n := suites.NewSuite{
		SourceID: &sourceID, Name: s.title + ": when to come", SourceKind: suites.Manual, VerifierKind: suites.LLMJudge, SupportsNoSkill: true,
	}
	for _, query := range s.asks {
		c, err := triggerCase(query, suites.ShouldTrigger)
		if err != nil {
			return suites.Suite{}, err
		}
		n.Cases = append(n.Cases, c)
	}
	for _, other := range f.skills {
		if other == s {
			continue
		}
		c, err := triggerCase(other.asks[0], suites.ShouldNotTrigger)
		if err != nil {
			return suites.Suite{}, err
		}
		n.Cases = append(n.Cases, c)
	}
	return f.Suites.Create(ctx, f.people[0], n)
}

func triggerCase(query string, e suites.Expectation) (c suites.Fields, err error) {
	raw, err := json.Marshal(object{"case_kind": suites.TriggerQuery, "query": query, "expectation": e})
	if err != nil {
		return nil, err
	}
	return c, json.Unmarshal(raw, &c)
}

func (f *filling) run(ctx context.Context, suite suites.Suite, b runs.Baseline) error {
	_, err := f.Runs.Start(ctx, f.people[0], suite.ID, runs.NewRun{Subject: runs.SkillRef{SourceID: *suite.SourceID}, Baseline: b})
	return err
}

// improve lets the suite look for a better description. The split of its queries
// is drawn, so that not every demo has a winner.
func (f *filling) improve(ctx context.Context, suite suites.Suite) error {
	_, err := f.Improve.Start(ctx, f.people[1], improve.NewRun{
		Subject: runs.SkillRef{SourceID: *suite.SourceID}, SuiteID: suite.ID, MaxIterations: 3, Holdout: 0.4,
	})
	return err
}

// review decides on suggestions of earlier weeks. What was accepted is in the
// suite or a draft, so nobody will be asked about it again.
func (f *filling) review(ctx context.Context, s *published, sourceID, suiteID string) error {
	for i, r := range []struct {
		query  string
		status suggestions.Status
		suite  string
	}{
		{"Could you please " + lower(s.asks[0]), suggestions.Accepted, suiteID},
		{lower(s.asks[1]) + ", as last time", suggestions.Accepted, ""},
		{"And now the same for the other one", suggestions.Rejected, ""},
		{"Thanks, go on", suggestions.Rejected, ""},
	} {
		rationale, seen := "The skill did not fire in most observations of this query.", float64(3+i)
		last := f.now.AddDate(0, 0, -10-i)
		_, err := f.Suggestions.Review(ctx, f.people[i%2], sourceID, suggestions.Decision{
			SuggestionID: nameOf("suggestion\n%s\n%s", s.name, r.query), Status: r.status, Query: r.query, ShouldTrigger: true,
			Evidence: suggestions.LinkedTelemetry, Provenance: suggestions.MissedQuery, Rationale: &rationale, ObservedCount: &seen, LastObservedAt: &last,
		}, r.suite)
		if err != nil {
			return fmt.Errorf("review of %q: %w", r.query, err)
		}
	}
	return nil
}

// lower begins a sentence in the middle of another.
func lower(sentence string) string { return string(sentence[0]|0x20) + sentence[1:] }
