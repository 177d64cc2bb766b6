package costs

import "context"

// Reprice runs the job.
func (s *Service) Reprice(ctx context.Context, orgID string) error {
	if _, err := pricesByOrg(ctx, s.DB, orgID); err != nil {
		return nil // nothing was reported
	}
	return s.reprice(ctx, orgID)
}
