package skills

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Offers are the sessions that were offered a skill and those that used it, over
// the last days and over the days before.
type Offers struct {
	Offered, Used             int64
	OfferedBefore, UsedBefore int64
}

// Share returns how many of the sessions that were offered the skill used it.
func (o Offers) Share() float64 { return offeredShare(o.Used, o.Offered) }

// ShareBefore is Share of the days before.
func (o Offers) ShareBefore() float64 { return offeredShare(o.UsedBefore, o.OfferedBefore) }

// offeredShare is at most 1: a session may use a skill that no report says it was
// offered.
func offeredShare(used, offered int64) float64 {
	if offered == 0 {
		return 0
	}
	return min(1, float64(used)/float64(offered))
}

// Offers returns the offers of skills in the last days, today included, and in the
// days before those up to allDays back, by skill.
func (s *Service) Offers(ctx context.Context, q store.Querier, skillIDs []string, days, allDays int) (map[string]Offers, error) {
	today := dayOf(time.Now())
	start := today - int64(days) + 1
	now, err := windows(ctx, q, skillIDs, start, endOfTime)
	if err != nil {
		return nil, err
	}
	before, err := windows(ctx, q, skillIDs, today-int64(allDays)+1, start)
	all := make(map[string]Offers, len(now))
	for _, id := range skillIDs {
		n, b := now[id], before[id]
		all[id] = Offers{
			Offered: n.lastOfferedSessions, Used: n.lastTriggerSessions,
			OfferedBefore: b.lastOfferedSessions, UsedBefore: b.lastTriggerSessions,
		}
	}
	return all, err
}

// WindowCosts returns what the skills of an organisation cost over the last days,
// by skill.
func (s *Service) WindowCosts(ctx context.Context, orgID string, days int) (map[string]pricing.Cost, error) {
	all, err := namesOfOrg(ctx, s.DB, orgID)
	if err != nil {
		return nil, err
	}
	return s.Costs.CostsOf(ctx, orgID, columnsOf(all, func(k skill) string { return k.ID }), dayOf(time.Now())-int64(days)+1)
}
