package signals

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/access"
)

// Store stores signals of any day, as Ingest does.
func (s *Service) Store(ctx context.Context, orgID string, all []Signal) (int, error) {
	b := &bodySignals{signals: all}
	err := s.store(ctx, orgID, []*bodyCall{{Ctx: ctx, Value: b}})
	return b.accepted, err
}

// Names of days and weeks in responses.
var (
	DayName  = dayName
	WeekName = weekName
)

// Read reads a body without storing anything.
func (s *Service) Read(c access.Caller, body []byte) ([]Signal, Result, error) {
	return s.read(c, body)
}

// ParseWeek reads the name of a week.
var ParseWeek = parseWeek
