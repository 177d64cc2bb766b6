package grades

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/stats"
)

// A Calibration is how often the judge agrees with people on the same sessions of a
// skill.
type Calibration struct {
	Pairs     int         // sessions that both have graded
	Agreement *float64    // share of them with the same verdict; nil without any
	Interval  *[2]float64 // Wilson, 95 %
}

// Calibration compares the judge's grades of a skill with those of people.
func (s *Service) Calibration(ctx context.Context, orgID, idOrName string) (c Calibration, err error) {
	defer fault.Wrap(&err, "calibration of skill %q", idOrName)
	k, err := s.Skills.Get(ctx, orgID, idOrName)
	if err != nil {
		return c, err
	}
	pairs, agreed, err := agreement(ctx, s.DB, k.ID)
	if c.Pairs = pairs; err != nil || pairs == 0 {
		return c, err
	}
	share := float64(agreed) / float64(pairs)
	low, high := stats.Wilson(share, pairs)
	c.Agreement, c.Interval = &share, &[2]float64{low, high}
	return c, nil
}
