package evals

import "context"

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
