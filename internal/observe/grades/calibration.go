package grades

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

// A Calibration is how often the judge agrees with people on the same sessions of a
// skill.
type Calibration struct {
	Pairs     int         // sessions that both have graded
	Agreement *float64    // share of them with the same verdict; nil without any
	Interval  *[2]float64 // of Agreement: Wilson, 95 %
	OnFails   *float64    // share of those that people failed and the judge, too; nil without any
	// Kappa is Cohen's: the agreement beyond that of two coins with the same shares of
	// passes. It is nil if all verdicts are the same.
	Kappa         *float64
	KappaInterval *[2]float64
}

// Calibration compares the judge's grades of a skill with those of people.
func (s *Service) Calibration(ctx context.Context, orgID, idOrName string) (c Calibration, err error) {
	defer fault.Wrap(&err, "calibration of skill %q", idOrName)
	k, err := s.Skills.Get(ctx, orgID, idOrName)
	if err != nil {
		return c, err
	}
	found, err := verdictPairs(ctx, s.DB, k.ID)
	return found.calibration(), err
}

// pairs count sessions by the verdicts of the judge and of people.
type pairs struct{ all, bothPass, bothFail, judgePasses, peoplePass int }

func (p pairs) calibration() (c Calibration) {
	c.Pairs = p.all
	if p.all == 0 {
		return c
	}
	n := float64(p.all)
	agreed := float64(p.bothPass+p.bothFail) / n
	low, high := stats.Wilson(agreed, p.all)
	c.Agreement, c.Interval = &agreed, &[2]float64{low, high}
	if failed := p.all - p.peoplePass; failed > 0 {
		share := float64(p.bothFail) / float64(failed)
		c.OnFails = &share
	}
	judge, people := float64(p.judgePasses)/n, float64(p.peoplePass)/n
	chance := judge*people + (1-judge)*(1-people)
	if chance < 1 {
		beyond := func(share float64) float64 { return max(-1, (share-chance)/(1-chance)) }
		kappa := beyond(agreed)
		c.Kappa, c.KappaInterval = &kappa, &[2]float64{beyond(low), beyond(high)}
	}
	return c
}
