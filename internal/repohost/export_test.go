package repohost

import (
	"context"
	"time"
)

// SetPauses replaces the waits after failures of the code host.
func (s *Service) SetPauses(p []time.Duration) { s.pauses = p }

// Exported for tests.
var (
	ReleaseVersion = release
	Prerelease     = prerelease
	ByVersion      = byVersion
)

// Next publishes what waited longest.
func (s *Service) Next(ctx context.Context, a Attempt) error { return s.next(ctx, a) }
