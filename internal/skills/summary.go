package skills

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills/basis"
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

// Summaries returns a summary of all listed skills of an organisation, by name. It reads
// less than List, for pages that show all skills at once.
func (s *Service) Summaries(ctx context.Context, orgID string) ([]Summary, error) {
	found, err := namesOfOrg(ctx, s.DB, orgID)
	if err != nil {
		return nil, err
	}
	graded, err := s.graded(ctx, orgID, found)
	return columnsOf(graded, func(p Performance) Summary {
		return Summary{p.ID, p.Name, p.Status, p.PassRate, p.PassRateInterval, p.GradedSessions, p.Bases}
	}), err
}

// graded returns what grades tell of the performance of skills of an organisation.
func (s *Service) graded(ctx context.Context, orgID string, found []skill) ([]Performance, error) {
	start := dayOf(time.Now()) - int64(s.Window) + 1
	sums, err := gradesOfOrg(ctx, s.DB, orgID, start-int64(s.Window), start)
	return columnsOf(found, func(k skill) Performance { return newPerformance(k, sums[k.ID].now, sums[k.ID].before) }), err
}
