package unattended

import (
	"context"
	"time"
)

// Night looks at the organisation's skills, and reports whether it has to wait.
func (s *Service) Night(ctx context.Context, orgID string, now time.Time) (bool, error) {
	return s.night(ctx, orgID, now)
}

// Begin enqueues the nights that are due.
func (s *Service) Begin(ctx context.Context, now time.Time) error { return s.begin(ctx, now) }

// OffsetOf is when the night of an organisation begins.
var OffsetOf = offsetOf
