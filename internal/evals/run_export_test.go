package evals

import (
	"context"
	"time"
)

// Execute works on a run as a worker does.
func (s *Service) Execute(ctx context.Context, orgID, runID string) error {
	return s.execute(ctx, orgID, runID)
}

// Summarize sums up the trials of cases as the end of a run does.
func Summarize(cases []Case, trials []Trial) ([]CaseResult, Summary) {
	all := results(cases, trials)
	end(all)
	return all, summarize(all)
}

// Iterate makes an iteration of an improve run as a worker does, in its last
// attempt.
func (s *Service) Iterate(ctx context.Context, orgID, runID string, n int) error {
	return s.iterate(ctx, iterate{OrgID: orgID, RunID: runID, N: n})
}

// NewestRunsOf reads the newest runs of suites.
var NewestRunsOf = newestRuns

// SplitQueries splits queries as the start of an improve run does.
func SplitQueries(queries []Query, holdout float64, seed int64) []Query {
	return splitQueries(queries, holdout, seed)
}

// Outcome is what the iterations of an improve run come to.
func (r ImproveRun) Outcome() (Status, *Iteration) { return r.next(), r.winner() }

// SetSlice sets for how long a run works while another organisation's waits.
func (s *Service) SetSlice(d time.Duration) { s.slice = d }
