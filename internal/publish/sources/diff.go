package sources

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// Diff returns the unified diff between two snapshots.
func (s *Service) Diff(ctx context.Context, from, to Snapshot) (_ []byte, err error) {
	defer fault.Wrap(&err, "diff of snapshot %s", to.ID)
	return s.Files.Diff(ctx, s.tree(from), s.tree(to))
}

// tree has the manifest of a snapshot, so that files that are equal needn't be read.
func (s *Service) tree(snapshot Snapshot) stored.Tree {
	t := stored.Tree{Archive: s.archive(snapshot)}
	for _, f := range snapshot.Files {
		t.Manifest = append(t.Manifest, skillpkg.ManifestEntry{Path: f.Path, Hash: f.SHA256, Size: f.Size})
	}
	return t
}
