package signals

import "context"

// Store stores signals of any day, as Ingest does with those of a body.
func (s *Service) Store(ctx context.Context, orgID string, all []Signal) (int, error) {
	return s.store(ctx, orgID, firstOfEach(all))
}

// Names of days and weeks, as the answers have them.
var (
	DayName  = dayName
	WeekName = weekName
)
