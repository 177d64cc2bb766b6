package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Costs knows what the model requests of skills cost. The package costs, above this one, implements it.
type Costs interface {
	// CostsOf returns the costs from a day on of those skills or versions that have
	// a request.
	CostsOf(ctx context.Context, orgID string, subjects []string, since int64) (map[string]pricing.Cost, error)
	// Follow is called in the transaction that moves observations or gradings of
	// sessions: their costs follow.
	Follow(ctx context.Context, tx *store.Tx, orgID string, sessions []Session) error
	// Move attributes the requests that count for a skill anew.
	Move(ctx context.Context, orgID, skillID string) error
}

// addCosts sets the costs of the skills of a page.
func (s *Service) addCosts(ctx context.Context, orgID string, page []Performance) error {
	if s.Costs == nil || len(page) == 0 {
		return nil
	}
	ids := columnsOf(page, func(p Performance) string { return p.ID })
	costs, err := s.Costs.CostsOf(ctx, orgID, ids, s.start())
	for i, p := range page {
		if c, ok := costs[p.ID]; ok {
			page[i].Cost, page[i].CostPerUse = &c, c.PerUseP50
		}
	}
	return err
}

// QualityWithCost is Quality with what the requests of the versions, which are of
// one organisation, cost over all time.
func (s *Service) QualityWithCost(ctx context.Context, orgID string, versionIDs []string) (map[string]Quality, error) {
	all, err := s.Quality(ctx, s.DB, versionIDs)
	if err != nil || s.Costs == nil || len(versionIDs) == 0 {
		return all, err
	}
	costs, err := s.Costs.CostsOf(ctx, orgID, versionIDs, -endOfTime)
	for id, c := range costs {
		q := all[id]
		q.Cost = &c
		all[id] = q
	}
	return all, err
}
