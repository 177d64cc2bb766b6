package sources

import "context"

// Derive brings the suggestions of a source up to date, as the job does.
func (s *Service) Derive(ctx context.Context, orgID, sourceID string) error {
	return s.derive(ctx, orgID, sourceID)
}

// Sweep removes bytes that nothing refers to, as the job does.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx) }
