package release

import (
	"context"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Clients is a hook to the package that knows which clients have installed an entry.
type Clients interface {
	// ForwardOnly reports whether the entry is installed by a client that never
	// downgrades, e.g. one that only accepts a greater SemVer version.
	ForwardOnly(ctx context.Context, q store.Querier, entryID string) (bool, error)
}

// forwardOnly is false without the hook.
func (s *Service) forwardOnly(ctx context.Context, q store.Querier, entryID string) (bool, error) {
	if s.Clients == nil {
		return false, nil
	}
	return s.Clients.ForwardOnly(ctx, q, entryID)
}

// mustRollForward decides whether an automatic rollback rolls forward: if some client
// wouldn't follow a downgrade, and if it can (there is a next patch version, and quota
// for it). Otherwise a plain rollback is better than none.
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

// rollForward publishes the content of a version again, as the next patch after the
// latest release, for clients that never downgrade. The caller has locked the entry.
func (s *Service) rollForward(
	ctx context.Context, tx *store.Tx, e registry.Entry, to registry.Version, r NewRollback,
) (registry.Version, error) {
	next, err := NextPatch(ctx, tx, e)
	if fault.Is(err, fault.Conflict) {
		return to, fault.New(fault.Conflict,
			"roll_forward needs a release with a SemVer version: there is no next patch").Because(err)
	}
	if err != nil {
		return to, err
	}
	// Signature and quota apply as to any push: the copy is a version of its own.
	fresh := registry.Version{ID: store.NewID(), Version: next, PushedBy: r.UserID, PushedAt: e.Next(r.At)}
	if err := copyVersion(ctx, tx, to, fresh, "The content of version "+to.Version+" again"); err != nil {
		return to, err
	}
	if s.Registry.OnVersion != nil {
		if err := s.Registry.OnVersion.SignVersion(ctx, tx, fresh.ID); err != nil {
			return to, err
		}
	}
	if err := s.Registry.Quota.Add(ctx, tx, e.OrgID, quota.Registry, to.Size); err != nil {
		return to, err
	}
	return s.Registry.VersionByID(ctx, tx, e, fresh.ID)
}

// NextPatch returns the next patch after the latest release of an entry, e.g. "1.2.4".
// It's fault.Conflict if no release has a SemVer version.
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
