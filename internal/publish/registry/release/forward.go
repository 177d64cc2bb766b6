package release

import (
	"context"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Clients is a hook that knows what an entry is installed by.
type Clients interface {
	// ForwardOnly reports whether a client that never goes down to a lower version has
	// installed the entry.
	ForwardOnly(ctx context.Context, q store.Querier, entryID string) (bool, error)
}

func (s *Service) forwardOnly(ctx context.Context, q store.Querier, entryID string) (bool, error) {
	if s.Clients == nil {
		return false, nil
	}
	return s.Clients.ForwardOnly(ctx, q, entryID)
}

// mustRollForward reports whether a rollback without a person rolls forward: some
// client would not follow it otherwise, and there is a next patch, and room for it.
func (s *Service) mustRollForward(ctx context.Context, tx *store.Tx, e registry.Entry, to registry.Version) (bool, error) {
	must, err := s.forwardOnly(ctx, tx, e.ID)
	if err != nil || !must {
		return false, err
	}
	if _, err := NextPatch(ctx, tx, e); fault.Is(err, fault.Conflict) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if err := s.Registry.Quota.Room(ctx, e.OrgID, to.Size); fault.Is(err, fault.TooLarge) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// rollForward publishes the content of a version again, as the patch after the
// latest release: some clients never go down to a lower version. The entry is
// locked.
func (s *Service) rollForward(
	ctx context.Context, tx *store.Tx, e registry.Entry, to registry.Version, r NewRollback,
) (registry.Version, error) {
	next, err := NextPatch(ctx, tx, e)
	if fault.Is(err, fault.Conflict) {
		return to, fault.New(fault.Conflict, "roll_forward needs a release with a SemVer version: there is no next patch").Because(err)
	}
	if err != nil {
		return to, err
	}
	fresh := registry.Version{ID: store.NewID(), Version: next, PushedBy: r.UserID, PushedAt: e.Next(r.At)}
	if err := copyVersion(ctx, tx, to, fresh, "The content of version "+to.Version+" again"); err != nil {
		return to, err
	}
	if s.Registry.Sign != nil {
		if err := s.Registry.Sign(ctx, tx, fresh.ID); err != nil {
			return to, err
		}
	}
	if err := s.Registry.Quota.Add(ctx, tx, e.OrgID, quota.Registry, to.Size); err != nil {
		return to, err
	}
	return s.Registry.VersionByID(ctx, tx, e, fresh.ID)
}

// NextPatch returns the patch after the latest release of an entry. It is a
// conflict if no release has a SemVer version.
func NextPatch(ctx context.Context, q store.Querier, e registry.Entry) (string, error) {
	names, err := versionNames(ctx, q, e)
	if err != nil {
		return "", err
	}
	var latest *semver.Version
	for _, name := range names {
		v, err := semver.StrictNewVersion(name)
		if err == nil && v.Prerelease() == "" && (latest == nil || v.GreaterThan(latest)) {
			latest = v
		}
	}
	if latest == nil {
		return "", fault.New(fault.Conflict, "No release of %s has a SemVer version: there is no next patch", e.Name)
	}
	return latest.IncPatch().String(), nil
}
