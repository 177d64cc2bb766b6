package grades

import "context"

// Run grades all sessions of an organisation that wait, whenever they are due.
func (s *Service) Run(ctx context.Context, orgID string) error { return s.run(ctx, orgID) }

// Normalised is what reasons are compared by.
var Normalised = normalised
