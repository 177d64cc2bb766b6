package overview

import (
	"context"
	"time"
)

// A Decided is a person's decision on a suggestion.
type Decided struct {
	SourceID, SuggestionID, Query string
	ShouldTrigger                 bool
	Status                        string // suggestions.Status
	SuiteID                       *string
	At                            time.Time
}

// LastDecided returns what a person of the organisation decided last, since a
// time; if there is nothing the error is of kind fault.NotFound.
func (s *Service) LastDecided(ctx context.Context, orgID, userID string, since time.Time) (Decided, error) {
	return lastDecided(ctx, s.DB, orgID, userID, since)
}
