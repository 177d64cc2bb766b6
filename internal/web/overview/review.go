package overview

import (
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
