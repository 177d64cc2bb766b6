package demo

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// A push is a new version of a skill that does not become current at once.
type push struct {
	skill, version, summary string
	edit                    func(*skill)
	queries                 func(*published) []triggerQuery // of the suite that gates it; nil: no gate
	approvals               int
}

// pushes has an example of each decision: a gate blocks release-notes, lets
// csv-cleaner pass, and is inconclusive about slide-deck, whose suite is too small;
// dependency-upgrade waits for an approval.
func (f *filling) pushes() []push {
	return []push{
		{
			skill: "release-notes", version: "2.0.0", summary: "Shortens the description.", queries: f.triggerQueries,
			edit: func(s *skill) { s.Description = "Makes texts of many kinds better." },
		},
		{
			skill: "csv-cleaner", version: "2.2.0", summary: "Repairs broken quoting.", queries: f.triggerQueries,
			edit: func(s *skill) { s.Steps = append(slices.Clip(s.Steps), "Close quotes that were left open.") },
		},
		{
			skill: "slide-deck", version: "1.3.0", summary: "Builds speaker notes, too.",
			queries: func(s *published) []triggerQuery { return f.triggerQueries(s)[:len(s.Asks)] },
			edit:    func(s *skill) { s.Steps = append(slices.Clip(s.Steps), "Write speaker notes for each slide.") },
		},
		{
			skill: "dependency-upgrade", version: "0.4.0", summary: "Back to one package at a time.", approvals: 1,
			edit: func(s *skill) {
				s.Steps = append(slices.Clip(s.Steps), "Stop at the first package whose tests fail, and say why.")
			},
		},
	}
}

// pushCandidates sets policies for a few skills, and pushes versions for them to
// decide about. Jobs decide.
func (f *filling) pushCandidates(ctx context.Context) error {
	for _, p := range f.pushes() {
		s := f.find(p.skill)
		policy := gates.DefaultPolicy()
		policy.Approvals = p.approvals
		if p.queries != nil {
			suite, ok := f.suites[s.Name]
			if !ok {
				var err error
				if suite, err = f.addSuite(ctx, s, nil, p.queries(s)); err != nil {
					return err
				}
			}
			policy.Mode, policy.Suites = gates.Enforce, []string{suite.ID}
		}
		if _, err := f.Gates.SetPolicy(ctx, f.owner, s.entry.ID, policy); err != nil {
			return err
		}
		next := *s
		p.edit(&next.skill)
		next.Releases = append(slices.Clip(s.Releases), edition{Version: p.version, Summary: p.summary})
		if err := f.release(ctx, &next, len(next.Releases)-1, f.people[1]); err != nil {
			return err
		}
	}
	return nil
}
