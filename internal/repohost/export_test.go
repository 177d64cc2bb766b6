package repohost

import (
	"context"
	"time"
)

// SetPauses replaces the waits after failures of the code host.
func (s *Service) SetPauses(p []time.Duration) { s.pauses = p }

// SetSyncTimeout replaces how long a person waits for the code host.
func (s *Service) SetSyncTimeout(d time.Duration) { s.syncTimeout = d }

// Exported for tests.
var (
	ReleaseVersion = release
	Prerelease     = prerelease
	ByVersion      = byVersion
)

// Next publishes what waited longest.
func (s *Service) Next(ctx context.Context, a Attempt) error { return s.next(ctx, a) }
