package registry

import (
	"context"
	"maps"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Lock returns an entry of the organisation with a row lock, for a transaction that
// changes it or its versions. It serialises pushes, rollbacks and decisions of gates.
func (s *Service) Lock(ctx context.Context, tx *store.Tx, orgID, entryID string) (Entry, error) {
	return lockEntry(ctx, tx, orgID, entryID)
}

// VersionByID returns a version of an entry by id.
func (s *Service) VersionByID(ctx context.Context, q store.Querier, e Entry, id string) (Version, error) {
	return versionByID(ctx, q, e, id)
}

// VersionNamed returns a version of an entry by name, e.g. "1.2.0".
func (s *Service) VersionNamed(ctx context.Context, q store.Querier, e Entry, version string) (Version, error) {
	return versionByName(ctx, q, e, version)
}

// SetState writes the state of a version and its newest gate. The caller has locked the
// entry.
func (s *Service) SetState(ctx context.Context, tx *store.Tx, e Entry, v Version) error {
	if err := setState(ctx, tx, e, v); err != nil {
		return err
	}
	return touchEntry(ctx, tx, e, e.Next(time.Time{}))
}

// Release publishes a candidate and makes it current, unless it's Apart. The caller has
// locked the entry.
func (s *Service) Release(ctx context.Context, tx *store.Tx, e Entry, v Version, d audit.Detail) (Entry, Version, error) {
	v.State = Published
	if err := setState(ctx, tx, e, v); err != nil {
		return e, v, err
	}
	var err error
	if since := e.Next(time.Time{}); v.Apart {
		err = touchEntry(ctx, tx, e, since)
	} else {
		e, err = s.MakeCurrent(ctx, tx, e, v, since)
	}
	if err != nil {
		return e, v, err
	}
	if err := s.Emit(ctx, tx, events.VersionPublished, e, v, nil); err != nil {
		return e, v, err
	}
	return e, v, e.Record(ctx, tx, "registry.version.promote", d)
}

// Emit sends an event about a version to the organisation's webhooks, in the transaction
// of the change. more adds fields or overrides the usual ones.
func (s *Service) Emit(ctx context.Context, tx *store.Tx, t events.Type, e Entry, v Version, more events.Data) error {
	d := events.Data{
		"entry_id": e.ID, "entry": e.Name, "entry_type": e.Type, "version": v.Version, "content_hash": v.ContentHash,
		"source": v.Source, "gate_id": v.GateID, "current": t == events.VersionPublished && !v.Apart ||
			t == events.VersionRolledBack,
	}
	maps.Copy(d, more)
	return events.Emit(ctx, tx, s.Jobs, events.Event{OrgID: e.OrgID, Type: t, Path: "/registry/" + e.ID, Data: d})
}

// MakeCurrent makes a version current as of since, a result of Next. The caller has
// locked the entry.
func (s *Service) MakeCurrent(ctx context.Context, tx *store.Tx, e Entry, v Version, since time.Time) (Entry, error) {
	e.setCurrent(v, since)
	return e, updateCurrent(ctx, tx, e)
}

// ClearCurrent leaves an entry without a current version. The caller has locked the
// entry.
func (s *Service) ClearCurrent(ctx context.Context, tx *store.Tx, e Entry) (Entry, error) {
	e.CurrentVersionID, e.CurrentVersion, e.CurrentHash = "", "", ""
	return e, clearCurrent(ctx, tx, e)
}

// LastCurrent returns the current version or, if there is none, the last one that was.
func (s *Service) LastCurrent(ctx context.Context, q store.Querier, e Entry) (Version, error) {
	if e.CurrentVersionID != "" {
		return versionByID(ctx, q, e, e.CurrentVersionID)
	}
	return lastCurrent(ctx, q, e)
}

// SetVisibility changes who may see an entry. The caller must be an admin or own the
// entry. Entries that others may no longer see leave their catalogs at once.
func (s *Service) SetVisibility(ctx context.Context, c access.Caller, entryID string, to Visibility) (e Entry, err error) {
	defer fault.Wrap(&err, "visibility of entry %s", entryID)
	if issues := checkOneOf("visibility", to, visibilities()...); issues != nil {
		return e, fault.Issues(issues...)
	}
	if may, err := s.MaySetVisibility(ctx, c, entryID); err != nil {
		return e, err
	} else if !may {
		return e, fault.New(fault.Denied, "Changing who may see an entry needs the permission admin, or ownership of the entry")
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if e, err = lockEntry(ctx, tx, c.OrgID, entryID); err != nil || e.Visibility == to {
			return err
		}
		// Release and claim again: the name is kept if the entry is still public, and
		// held for nameHold if not.
		if err := releaseName(ctx, tx, e); err != nil {
			return err
		}
		from := e.Visibility
		e.Visibility, e.UpdatedAt = to, e.Next(time.Time{})
		if err := setVisibility(ctx, tx, e); err != nil {
			return err
		}
		if err := claimName(ctx, tx, e); err != nil {
			return err
		}
		return e.Record(ctx, tx, "registry.entry.visibility", audit.Detail{"from": from, "to": to})
	})
	return e, err
}

// MaySetVisibility reports whether a caller who may push is also an admin or an owner of
// the entry.
func (s *Service) MaySetVisibility(ctx context.Context, c access.Caller, entryID string) (bool, error) {
	if c.May(access.Admin) || s.Owns == nil {
		return c.May(access.Admin), nil
	}
	return s.Owns(ctx, c, entryID)
}

// Next returns at, or now if it's zero, but always a time after the entry's last change.
func (e Entry) Next(at time.Time) time.Time { return after(e.UpdatedAt, at) }
