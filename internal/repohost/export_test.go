package repohost

import "time"

// SetPauses replaces the waits after failures of the code host.
func (s *Service) SetPauses(p []time.Duration) { s.pauses = p }

// Exported for tests.
var (
	ReleaseVersion = release
	Prerelease     = prerelease
	ByVersion      = byVersion
)
