package signals

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/access"
)

// Store stores bodies with signals of any day, as Ingest does with those of a group,
// and returns how many of each were new.
func (s *Service) Store(ctx context.Context, orgID string, bodies ...[]Signal) ([]int, error) {
	calls := each(bodies, func(signals []Signal) *bodyCall {
		return &bodyCall{Ctx: ctx, Value: &bodySignals{batch: s.batchOf(orgID, signals)}}
	})
	err := s.store(ctx, orgID, calls)
	return each(calls, func(c *bodyCall) int { return c.Value.accepted }), err
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
