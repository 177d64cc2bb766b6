package overview

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Decided is a person's decision on a suggestion.
type Decided struct {
	SourceID, SuggestionID, Query string
	ShouldTrigger                 bool
	Status                        string // sources.Status
	SuiteID                       *string
	At                            time.Time
}

// LastDecided returns what a person of the organisation decided last, since a
// time; if there is nothing the error is of kind fault.NotFound.
func (s *Service) LastDecided(ctx context.Context, orgID, userID string, since time.Time) (Decided, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT source_id, suggestion_id, query, should_trigger, review_status, applied_suite_id, reviewed_at FROM source_reviews
		WHERE org_id = $1 AND reviewed_by = $2 AND reviewed_at >= $3
		ORDER BY reviewed_at DESC, id DESC LIMIT 1`, orgID, userID, store.Micros(since))
	return store.One(rows, err, "Review", func(row store.Row) (d Decided, err error) {
		err = row.Scan(&d.SourceID, &d.SuggestionID, &d.Query, &d.ShouldTrigger, &d.Status, &d.SuiteID, store.Time(&d.At))
		return d, err
	})
}
