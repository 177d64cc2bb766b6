package sources

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/compare"
)

// Diff returns the unified diff between two snapshots.
func (s *Service) Diff(ctx context.Context, from, to Snapshot) (_ []byte, err error) {
	defer fault.Wrap(&err, "diff of snapshot %s", to.ID)
	before, err := s.OpenSnapshot(ctx, from)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	after, err := s.OpenSnapshot(ctx, to)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	return compare.Packages(ctx, before, after)
}
