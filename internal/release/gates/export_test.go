package gates

import "context"

// Advance takes a gate one step further, and reports whether it waits.
func (s *Service) Advance(ctx context.Context, orgID, id string) (bool, error) {
	g, err := gateByID(ctx, s.DB, orgID, id)
	if err != nil {
		return false, err
	}
	return s.advance(ctx, g)
}
