package costs

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// The queries, for the test of their query plans.
var (
	RequestsByID       = requestsByID
	RequestsAfterMarks = requestsAfterMarks
	LastMarks          = lastMarks
	RequestsOfSessions = requestsOfSessions
	GroupsByKey        = groupsByKey
	FirstRequests      = firstRequests
	PricedAfter        = pricedAfter
	RequestsOfSkill    = requestsOfSkill
	PricesByOrg        = pricesByOrg
	DaySums            = daySums
	SkillSums          = skillSums
	HistogramsOf       = histogramsOf
	ModelsByUse        = modelsByUse
)

// Moments returns the argument of LastMarks.
func Moments(session string, times ...int64) []moment {
	return columnOf(times, func(at int64) moment { return moment{session, at} })
}

// Marks returns the argument of RequestsAfterMarks.
func Marks(session string, times ...int64) []mark {
	return columnOf(times, func(at int64) mark { return mark{moment: moment{session, at}} })
}

// Groups returns the argument of FirstRequests: a use and a session of each key.
func Groups(keys ...string) (all []group) {
	for _, key := range keys {
		all = append(all, group{key: key, kind: useGroup}, group{key: key, kind: sessionGroup, session: key})
	}
	return all
}

// Reprice runs the job.
func (s *Service) Reprice(ctx context.Context, orgID string) error {
	err := s.reprice(ctx, orgID)
	if fault.Is(err, fault.NotFound) { // nothing was reported
		return nil
	}
	return err
}

// Adopt runs the job.
func (s *Service) Adopt(ctx context.Context) error { return s.adopt(ctx) }
