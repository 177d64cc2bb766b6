package app

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suggestions"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// watchers lets a hook with one place report to several capabilities.
type watchers []telemetry.Watcher

// Changed implements telemetry.Watcher.
func (all watchers) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	for _, w := range all {
		if err := w.Changed(ctx, tx, orgID); err != nil {
			return err
		}
	}
	return nil
}

// suggestionSuites lets suggestions read and extend suites.
type suggestionSuites struct{ *suites.Service }

func (s suggestionSuites) Append(ctx context.Context, tx *store.Tx, orgID, sourceID, suiteID string, c json.RawMessage) (suggestions.Suite, error) {
	suite, err := s.Service.Append(ctx, tx, orgID, sourceID, suiteID, c)
	return suggestionSuite(suite), err
}

func (s suggestionSuites) OfSource(ctx context.Context, q store.Querier, orgID, sourceID string) ([]suggestions.Suite, error) {
	found, err := s.Service.OfSource(ctx, q, orgID, sourceID)
	all := make([]suggestions.Suite, len(found))
	for i, suite := range found {
		all[i] = suggestionSuite(suite)
	}
	return all, err
}

func suggestionSuite(s suites.Suite) suggestions.Suite {
	return suggestions.Suite{ID: s.ID, Name: s.Name, VerifierKind: string(s.VerifierKind)}
}

// suggestionRuns lets suggestions learn what failed in runs.
type suggestionRuns struct{ *runs.Service }

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
