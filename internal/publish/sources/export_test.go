package sources

import "context"

// Sweep deletes unreferenced blobs, as the job does.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx) }
