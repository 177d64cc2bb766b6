package skills

import (
	"context"
	"time"
)

// A Summary is how a skill does, in the figures that its status is made of.
type Summary struct {
	ID, Name         string
	Status           Status
	PassRate         *float64
	PassRateInterval *[2]float64
	GradedSessions   int64
}

// Summaries tells how all skills of an organisation do, by name. It reads less
// than List, for pages that look at all of them at once.
func (s *Service) Summaries(ctx context.Context, orgID string) ([]Summary, error) {
	found, err := namesOfOrg(ctx, s.DB, orgID)
	if err != nil {
		return nil, err
	}
	start := dayOf(time.Now()) - int64(s.Window) + 1
	sums, err := gradesOfOrg(ctx, s.DB, orgID, start-int64(s.Window), start)
	return columnsOf(found, func(k known) Summary {
		p := newPerformance(k, sums[k.ID].now, sums[k.ID].before)
		return Summary{k.ID, k.Name, p.Status, p.PassRate, p.PassRateInterval, p.GradedSessions}
	}), err
}
