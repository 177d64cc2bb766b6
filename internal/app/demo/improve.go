package demo

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
)

// crashes are what people ask about services that crashed. The description of log-triage
// has none of their words, so it triggers for none of them, and whichever of them an
// improve run holds out have the words of those that it writes from: it has a winner
// that it can prove.
func crashes() []string {
	return []string{
		"The checkout service crashed", "Why has the billing service crashed?", "Our search service crashed under load",
		"Find out why the mail service crashed", "The login service has crashed again",
		"What was it that crashed the export service?",
		"The image service crashed twice", "Memory: is that why the new service crashed?",
		"Explain why the payment service crashed",
		"The queue service crashed and came back", "A deploy crashed the reporting service",
		"Staging: the service crashed at startup",
		"A customer says the upload service crashed", "What did the pricing service do before it crashed?",
		"Was it PostgreSQL that crashed our service?", "The tax service crashed for one tenant",
		"Look into the chat service that crashed",
		"The calendar service crashed after a restart", "Large orders crashed the shipping service", "My local service crashed",
		"The auth service crashed silently", "Two pods of the map service crashed", "The import service crashed this week",
		"Which service crashed?", "The gateway service crashed with signal nine", "A service in Frankfurt crashed",
		"The video service crashed while encoding", "A photo crashed the thumbnail service",
		"The coupon service crashed on Friday",
		"Has the audit service crashed?", "The proxy service crashed under OpenSSL", "A webhook crashed the loyalty service",
	}
}

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
		{Subject: subject.Ref{SourceID: *notes.SourceID}, SuiteID: notes.ID, MaxIterations: improve.DefaultIterations},
		{Subject: subject.Ref{EntryID: logs.entry.ID}, SuiteID: suite.ID, MaxIterations: 1}, // more rounds only add words
	} {
		n.Holdout, n.Seed = improve.DefaultHoldout, improveSeed
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
	found, _, err := f.Proposals.List(ctx, f.owner.OrgID, proposals.Filter{SkillName: "pdf-forms", Page: store.Page{Limit: 1}})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no proposal for pdf-forms")
	}
	_, _, err = f.Apply.Apply(ctx, f.people[0], found[0].ID, proposals.AsVersion)
	return err
}
