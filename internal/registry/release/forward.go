package release

import (
	"context"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// rollForward publishes the content of a version again, as the patch after the
// latest release: some clients never go down to a lower version. The entry is
// locked.
func (s *Service) rollForward(
	ctx context.Context, tx *store.Tx, e registry.Entry, to registry.Version, r NewRollback,
) (registry.Version, error) {
	names, err := versionNames(ctx, tx, e)
	if err != nil {
		return to, err
	}
	var latest *semver.Version
	for _, name := range names {
		v, err := semver.StrictNewVersion(name)
		if err == nil && v.Prerelease() == "" && (latest == nil || v.GreaterThan(latest)) {
			latest = v
		}
	}
	if latest == nil {
		return to, fault.New(fault.Conflict, "roll_forward needs a release with a SemVer version: there is no next patch")
	}
	next := latest.IncPatch()
	fresh := registry.Version{ID: store.NewID(), Version: next.String(), PushedBy: r.UserID, PushedAt: e.Next(r.At)}
	if err := copyVersion(ctx, tx, to, fresh, "The content of version "+to.Version+" again"); err != nil {
		return to, err
	}
	if err := s.Registry.Quota.Add(ctx, tx, e.OrgID, quota.Registry, to.Size); err != nil {
		return to, err
	}
	return s.Registry.VersionByID(ctx, tx, e, fresh.ID)
}
