package improve

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/runs"
)

// Iterate makes an iteration of an improve run as a worker does, in its last
// attempt.
func (s *Service) Iterate(ctx context.Context, orgID, runID string, n int) error {
	return s.iterate(ctx, iterate{OrgID: orgID, RunID: runID, N: n})
}

// SplitQueries splits queries as the start of an improve run does.
func SplitQueries(queries []Query, holdout float64, seed int64) []Query {
	return splitQueries(queries, holdout, seed)
}

// Outcome is the result of the iterations of an improve run.
func (r Run) Outcome() (runs.Status, *Iteration) { return r.nextStatus(), r.winner() }
