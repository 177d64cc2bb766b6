package runs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// Execute works on a run as a worker does.
func (s *Service) Execute(ctx context.Context, orgID, runID string) error {
	return s.execute(ctx, orgID, runID)
}

// Summarize sums up the trials of cases as the end of a run does.
func Summarize(cases []suites.Case, trials []Trial) ([]CaseResult, Summary) {
	all := resultsOf(NoBaseline, cases, trials)
	skipUndecided(all)
	return all, summarize(all)
}

// Finish ends a run with these trials.
func (s *Service) Finish(ctx context.Context, orgID, runID string, trials []Trial) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		r, err := runByID(ctx, tx, orgID, runID, "")
		if err != nil {
			return err
		}
		if _, err := insertTrials(ctx, tx, runID, trials); err != nil {
			return err
		}
		_, err = s.finish(ctx, tx, r, Succeeded, "")
		return err
	})
}

// NewestRunsOf reads the newest runs of suites.
var NewestRunsOf = newestRuns

// SetSlice sets for how long a run works while another organisation's waits.
func (s *Service) SetSlice(d time.Duration) { s.slice = d }
