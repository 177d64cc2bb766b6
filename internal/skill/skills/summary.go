package skills

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A Summary is a skill's status with the figures that it is derived from.
type Summary struct {
	ID, Name         string
	Status           Status
	PassRate         *float64
	PassRateInterval *[2]float64
	GradedSessions   int64
	Bases            basis.Rates // of PassRate
}

// Summaries returns a summary of all listed skills of an organisation, by name, without
// their Bases. It reads less than List, for pages that show all skills at once.
func (s *Service) Summaries(ctx context.Context, orgID string) ([]Summary, error) {
	found, err := namesOfOrg(ctx, s.DB, orgID)
	if err != nil {
		return nil, err
	}
	graded, err := s.graded(ctx, orgID, found)
	return columnsOf(graded, func(p Performance) Summary {
		return Summary{p.ID, p.Name, p.Status, p.PassRate, p.PassRateInterval, p.GradedSessions, basis.Rates{}}
	}), err
}

// AddBases reads what the pass rates of summaries rest on.
func (s *Service) AddBases(ctx context.Context, of []Summary) error {
	now, err := windows(ctx, s.DB, columnsOf(of, func(k Summary) string { return k.ID }), s.start(), endOfTime)
	for i, k := range of {
		of[i].Bases = now[k.ID].rates()
	}
	return err
}

// start is the first day of the window.
func (s *Service) start() int64 { return dayOf(time.Now()) - int64(s.Window) + 1 }

// graded returns what grades tell of the performance of skills of an organisation,
// without the Bases, which take as long to read.
func (s *Service) graded(ctx context.Context, orgID string, found []skill) ([]Performance, error) {
	sums, err := gradesOfOrg(ctx, s.DB, orgID, s.start()-int64(s.Window), s.start())
	return columnsOf(found, func(k skill) Performance { return newPerformance(k, sums[k.ID].now, sums[k.ID].before) }), err
}
