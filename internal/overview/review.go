package overview

import (
	"context"
	"time"
)

// A Decision is a person's decision on a suggestion.
type Decision struct {
	SourceID, SuggestionID, Query string
	ShouldTrigger                 bool
	Status                        string // suggestions.Status
	SuiteID                       *string
	At                            time.Time
}

// LastDecision returns the newest decision of a user since a time; without one the
// error is of kind fault.NotFound.
func (s *Service) LastDecision(ctx context.Context, orgID, userID string, since time.Time) (Decision, error) {
	return lastDecision(ctx, s.DB, orgID, userID, since)
}
