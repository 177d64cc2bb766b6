package demo

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/schedules"
)

// improveSeed makes every demo show the same runs.
const improveSeed = 20

// propose starts improve runs, and publishes an earlier proposal.
func (f *filling) propose(ctx context.Context) error {
	if err := f.applyProposal(ctx); err != nil {
		return err
	}
	return f.improve(ctx)
}

// improve starts two improve runs: one with a winner, and one whose suite leaves little
// to gain. Nothing that people report about services has a word of the description of
// log-triage, so it triggers for none of them, and a description with their words is proved.
func (f *filling) improve(ctx context.Context) error {
	logs := f.find("log-triage")
	queries := f.triggerQueries(logs)
	for _, text := range logs.Reports {
		queries = append(queries, triggerQuery{text, true})
	}
	suite, err := f.addSuite(ctx, logs, nil, queries)
	if err != nil {
		return err
	}
	if err := f.run(ctx, suite.ID, subject.Ref{EntryID: logs.entry.ID}, runs.NoSkill); err != nil {
		return err
	}
	notes := f.suites["release-notes"]
	// Does the skill help? Without it, no request finds it.
	if _, err := f.Comparisons.Start(ctx, f.people[1], comparisons.New{SuiteID: notes.ID, Trials: 1, Arms: []comparisons.NewArm{
		{Name: "release-notes", Subject: subject.Ref{SourceID: *notes.SourceID}}, {NoSkill: true},
	}}); err != nil {
		return err
	}
	nightly := schedules.Schedule{
		SuiteID: notes.ID, Subject: subject.Ref{SourceID: *notes.SourceID}, Trials: 1, Baseline: runs.NoBaseline,
		Timing: schedules.Timing{Cron: "0 3 * * *"}, Enabled: true,
	}
	if _, err := f.Schedules.Create(ctx, f.people[1], nightly); err != nil {
		return err
	}
	for _, n := range []improve.NewRun{
		{
			Subject: subject.Ref{SourceID: *notes.SourceID}, SuiteID: notes.ID, MaxIterations: improve.DefaultIterations,
			Holdout: improve.DefaultHoldout,
		},
		// There is one description to try, so most cases are left to prove it.
		{Subject: subject.Ref{EntryID: logs.entry.ID}, SuiteID: suite.ID, MaxIterations: 1, Holdout: .7},
	} {
		n.Seed = improveSeed
		if _, err := f.Improve.Start(ctx, f.people[1], n); err != nil {
			return err
		}
	}
	return nil
}

// applyProposal generates the proposals that follow from the contributors' signals. That for
// pdf-forms gets the words of a person, and is published.
func (f *filling) applyProposal(ctx context.Context) error {
	if err := f.Proposals.Generate(ctx, f.owner.OrgID); err != nil {
		return err
	}
	found, _, err := f.Proposals.List(ctx, f.owner.OrgID, proposals.Filter{SkillName: "pdf-forms", Page: store.Page{Limit: 1}})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no proposal for pdf-forms")
	}
	if _, err := f.Proposals.Patch(ctx, f.people[0], found[0].ID,
		proposals.Patch{Value: &f.find("pdf-forms").Better.Description}); err != nil {
		return err
	}
	_, _, err = f.Apply.Apply(ctx, f.people[0], found[0].ID, proposals.AsVersion)
	return err
}
