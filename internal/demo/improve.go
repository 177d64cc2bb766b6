package demo

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/improve"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/runs/subject"
)

// crashes are what people ask about services that crash. The description of log-triage
// has none of their words, so it triggers for none of them, and whichever of them an
// improve run holds out have the words of those that it writes from: it has a winner
// that it can prove.
func crashes() []string {
	return []string{
		"The checkout service crashed at three in the morning", "Why does the billing service crash after each deploy?",
		"Our search service crashes under load", "Find out why the mail service crashed", "The login service keeps crashing",
		"What made the export service crash yesterday?", "The image service crashed twice today", "Does the new service crash because of memory?",
		"Explain the crash of the payment service", "The queue service crashed and came back by itself", "Which change crashes the report service?",
		"The staging service crashes on start", "A customer says that the upload service crashed", "Tell me what the crashed service did before",
		"Is it the database that crashes our service?", "The pricing service crashed for one tenant only", "Look into the crash of the chat service",
		"Did the calendar service crash before or after the restart?", "The tax service crashes with large orders", "Why did all of the services crash at once?",
		"My local service crashes and I do not know why", "The crash of the auth service was silent", "Two pods of the map service crashed",
		"How often did the import service crash this week?",
	}
}

// propose starts improve runs, and publishes an earlier proposal.
func (f *filling) propose(ctx context.Context) error {
	if err := f.applyProposal(ctx); err != nil {
		return err
	}
	return f.improve(ctx)
}

// improve starts two improve runs: one with a winner, and one whose suite leaves little
// to gain.
func (f *filling) improve(ctx context.Context) error {
	logs := f.find("log-triage")
	queries := f.triggerQueries(logs)
	for _, text := range crashes() {
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
	for _, n := range []improve.NewRun{
		{Subject: subject.Ref{SourceID: *notes.SourceID}, SuiteID: notes.ID},
		{Subject: subject.Ref{EntryID: logs.entry.ID}, SuiteID: suite.ID},
	} {
		n.MaxIterations, n.Holdout = improve.DefaultIterations, improve.DefaultHoldout
		if _, err := f.Improve.Start(ctx, f.people[1], n); err != nil {
			return err
		}
	}
	return nil
}

// applyProposal generates the proposals that follow from the contributors' signals, and
// publishes that for pdf-forms.
func (f *filling) applyProposal(ctx context.Context) error {
	if err := f.Proposals.Generate(ctx, f.owner.OrgID); err != nil {
		return err
	}
	found, _, err := f.Proposals.List(ctx, f.owner.OrgID, proposals.Filter{SkillName: "pdf-forms", Limit: 1})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no proposal for pdf-forms")
	}
	_, _, err = f.Apply.Apply(ctx, f.people[0], found[0].ID, proposals.AsVersion)
	return err
}
