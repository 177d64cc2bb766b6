package registry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Lock finds an entry of the organisation for a transaction that changes it or
// its versions. It serialises pushes, rollbacks and the end of gates.
func (s *Service) Lock(ctx context.Context, tx *store.Tx, orgID, entryID string) (Entry, error) {
	return lockEntry(ctx, tx, orgID, entryID)
}

// VersionIn finds a version of an entry in a transaction.
func (s *Service) VersionIn(ctx context.Context, tx *store.Tx, e Entry, version string) (Version, error) {
	return versionByName(ctx, tx, e, version)
}

// SetState writes the state of a version and its newest gate. The entry is
// locked.
func (s *Service) SetState(ctx context.Context, tx *store.Tx, e Entry, v Version) error {
	if err := setState(ctx, tx, v); err != nil {
		return err
	}
	return touchEntry(ctx, tx, e, after(e.UpdatedAt, time.Time{}))
}

// Release publishes a candidate and makes it current. The entry is locked.
func (s *Service) Release(ctx context.Context, tx *store.Tx, e Entry, v Version, d audit.Detail) (Entry, Version, error) {
	v.State = Published
	if err := setState(ctx, tx, v); err != nil {
		return e, v, err
	}
	e.setCurrent(v, after(e.UpdatedAt, time.Time{}))
	if err := updateCurrent(ctx, tx, e); err != nil {
		return e, v, err
	}
	return e, v, e.Record(ctx, tx, "registry.version.promote", d)
}

// WasCurrent reports whether a version was ever current.
func (s *Service) WasCurrent(ctx context.Context, tx *store.Tx, v Version) (bool, error) {
	return wasCurrent(ctx, tx, v)
}
