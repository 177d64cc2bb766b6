package app

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suggestions"
)

// Capabilities do not know each other. Where one needs another, it says so in
// an interface with words of its own, and the types here translate.

// A watcher is told, in the transaction, that an organisation's data changed.
type watcher interface {
	Changed(ctx context.Context, tx *store.Tx, orgID string) error
}

// watchers tells several.
type watchers []watcher

func (all watchers) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	for _, w := range all {
		if err := w.Changed(ctx, tx, orgID); err != nil {
			return err
		}
	}
	return nil
}

// suggestionSuites lets suggestions read and extend suites.
type suggestionSuites struct{ *evals.Service }

func (s suggestionSuites) Append(ctx context.Context, tx *store.Tx, orgID, sourceID, suiteID string, c json.RawMessage) (suggestions.Suite, error) {
	suite, err := s.Service.Append(ctx, tx, orgID, sourceID, suiteID, c)
	return suggestionSuite(suite), err
}

func (s suggestionSuites) OfSource(ctx context.Context, q store.Querier, orgID, sourceID string) ([]suggestions.Suite, error) {
	found, err := s.Service.OfSource(ctx, q, orgID, sourceID)
	suites := make([]suggestions.Suite, len(found))
	for i, suite := range found {
		suites[i] = suggestionSuite(suite)
	}
	return suites, err
}

func suggestionSuite(s evals.Suite) suggestions.Suite {
	return suggestions.Suite{ID: s.ID, Name: s.Name, VerifierKind: string(s.VerifierKind)}
}

// suggestionRuns lets suggestions learn what failed in runs.
type suggestionRuns struct{ *evals.Service }

func (r suggestionRuns) Failures(ctx context.Context, q store.Querier, orgID, sourceID string) ([]suggestions.Failure, error) {
	found, err := r.Service.Failures(ctx, q, orgID, sourceID)
	failures := make([]suggestions.Failure, len(found))
	for i, f := range found {
		failures[i] = suggestions.Failure{
			Query: f.Query, ShouldTrigger: f.ShouldTrigger, InvocationType: f.Invocation, Regression: f.Regression,
			Failed: f.Failed, Runs: f.Runs, LastFailedAt: f.LastAt,
		}
	}
	return failures, err
}

// evalSubjects finds the skills that runs are about: snapshots of sources and
// versions of the registry.
type evalSubjects struct {
	sources  *sources.Service
	registry *registry.Service
}

func (s evalSubjects) Subject(ctx context.Context, orgID string, ref evals.SkillRef) (evals.Skill, error) {
	if ref.EntryID != "" {
		e, v, err := s.registry.Find(ctx, orgID, ref.EntryID, ref.Version)
		return s.ofVersion(e, v), err
	}
	snapshot, err := s.sources.Snapshot(ctx, orgID, ref.SourceID, ref.SnapshotID)
	if err != nil {
		return evals.Skill{}, err
	}
	if !snapshot.Runnable {
		return evals.Skill{}, fault.New(fault.Conflict, "The validation of snapshot %s failed; mend the skill and upload it again", snapshot.ID)
	}
	return s.ofSnapshot(snapshot), nil
}

func (s evalSubjects) Previous(ctx context.Context, orgID string, ref evals.SkillRef) (evals.Skill, error) {
	if ref.EntryID != "" {
		e, v, err := s.registry.Find(ctx, orgID, ref.EntryID, ref.Version)
		if err != nil {
			return evals.Skill{}, err
		}
		v, err = s.registry.Before(ctx, v)
		return s.ofVersion(e, v), err
	}
	snapshot, err := s.sources.Snapshot(ctx, orgID, ref.SourceID, ref.SnapshotID)
	if err != nil {
		return evals.Skill{}, err
	}
	snapshot, err = s.sources.Previous(ctx, snapshot)
	return s.ofSnapshot(snapshot), err
}

func (s evalSubjects) ofVersion(e registry.Entry, v registry.Version) evals.Skill {
	return evals.Skill{
		Name: e.Name, Description: v.Description, ContentHash: v.ContentHash, Label: v.Version,
		Pin:  evals.SkillRef{EntryID: e.ID, Version: v.Version},
		Open: func(ctx context.Context) (*skillpkg.Package, error) { return s.registry.Open(ctx, v) },
	}
}

func (s evalSubjects) ofSnapshot(snapshot sources.Snapshot) evals.Skill {
	return evals.Skill{
		Name: snapshot.SkillName, Description: snapshot.Description, ContentHash: snapshot.ContentHash, SourceID: snapshot.SourceID,
		Pin:  evals.SkillRef{SourceID: snapshot.SourceID, SnapshotID: snapshot.ID},
		Open: func(ctx context.Context) (*skillpkg.Package, error) { return s.sources.OpenSnapshot(ctx, snapshot) },
	}
}

// maxDistractors is how many other skills a router is shown at most; judge
// chooses among them.
const maxDistractors = 100

func (s evalSubjects) Distractors(ctx context.Context, orgID, name string) ([]judge.Skill, error) {
	listed, _, err := s.registry.List(ctx, orgID, registry.Filter{Limit: maxDistractors})
	var others []judge.Skill
	for _, l := range listed {
		if l.Name != name && l.Type == registry.TypeSkill {
			others = append(others, judge.Skill{Name: l.Name, Description: l.Description})
		}
	}
	return others, err
}

// evalProposals lets improve runs propose what they have found.
type evalProposals struct{ *proposals.Service }

func (p evalProposals) Propose(ctx context.Context, tx *store.Tx, i evals.Improvement) (string, error) {
	return p.Service.Propose(ctx, tx, proposals.Draft{
		OrgID: i.OrgID, SkillName: i.SkillName, Finding: "improve_run " + i.RunID, Type: proposals.Description,
		CurrentValue: &i.Current, ProposedValue: &i.Proposed, Reason: i.Reason, Confidence: &i.Confidence,
		PassRateBefore: &i.Before, ProjectedPassRate: &i.After, Evidence: i.Evidence, ProposedBy: "improve_run",
	})
}
