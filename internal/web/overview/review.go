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

// LastDecisions returns the newest decision of a user since a time, with those that
// were made together with it.
func (s *Service) LastDecisions(ctx context.Context, orgID, userID string, since time.Time) ([]Decision, error) {
	return lastDecisions(ctx, s.DB, orgID, userID, since)
}
