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

// Lock finds an entry of the organisation for a transaction that changes it or
// its versions. It serialises pushes, rollbacks and the end of gates.
func (s *Service) Lock(ctx context.Context, tx *store.Tx, orgID, entryID string) (Entry, error) {
	return lockEntry(ctx, tx, orgID, entryID)
}

// LockOfSkill is Lock by the skill that the entry is measured as.
func (s *Service) LockOfSkill(ctx context.Context, tx *store.Tx, orgID, skillID string) (Entry, error) {
	return lockEntryOfSkill(ctx, tx, orgID, skillID)
}

// VersionByID finds a version of an entry by its id.
func (s *Service) VersionByID(ctx context.Context, q store.Querier, e Entry, id string) (Version, error) {
	return versionByID(ctx, q, e, id)
}

// VersionNamed finds a version of an entry by its name, e.g. "1.2.0".
func (s *Service) VersionNamed(ctx context.Context, q store.Querier, e Entry, version string) (Version, error) {
	return versionByName(ctx, q, e, version)
}

// SetState writes the state of a version and its newest gate. The entry is
// locked.
func (s *Service) SetState(ctx context.Context, tx *store.Tx, e Entry, v Version) error {
	if err := setState(ctx, tx, e, v); err != nil {
		return err
	}
	return touchEntry(ctx, tx, e, e.Next(time.Time{}))
}

// Release publishes a candidate and, unless it is apart, makes it current. The entry is locked.
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

// Emit tells other systems what became of a version. More fields may be given, or
// others than usual.
func (s *Service) Emit(ctx context.Context, tx *store.Tx, t events.Type, e Entry, v Version, more events.Data) error {
	d := events.Data{
		"entry_id": e.ID, "entry": e.Name, "entry_type": e.Type, "version": v.Version, "content_hash": v.ContentHash,
		"source": v.Source, "gate_id": v.GateID, "current": t == events.VersionPublished && !v.Apart ||
			t == events.VersionRolledBack,
	}
	maps.Copy(d, more)
	return events.Emit(ctx, tx, s.Jobs, events.Event{OrgID: e.OrgID, Type: t, Path: "/registry/" + e.ID, Data: d})
}

// MakeCurrent makes a version current since a time, which Next has returned. The
// entry is locked.
func (s *Service) MakeCurrent(ctx context.Context, tx *store.Tx, e Entry, v Version, since time.Time) (Entry, error) {
	e.setCurrent(v, since)
	return e, updateCurrent(ctx, tx, e)
}

// ClearCurrent leaves an entry without a current version. The entry is locked.
func (s *Service) ClearCurrent(ctx context.Context, tx *store.Tx, e Entry) (Entry, error) {
	e.CurrentVersionID, e.CurrentVersion, e.CurrentHash = "", "", ""
	return e, clearCurrent(ctx, tx, e)
}

// LastCurrent returns the version that is current or, if none is, was current last.
func (s *Service) LastCurrent(ctx context.Context, q store.Querier, e Entry) (Version, error) {
	if e.CurrentVersionID != "" {
		return versionByID(ctx, q, e, e.CurrentVersionID)
	}
	return lastCurrent(ctx, q, e)
}

// SetVisibility changes who may see an entry, for an admin or an owner of it. What others
// could see and no longer may leaves their catalogs at once.
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

// MaySetVisibility reports whether a caller, who may push, is an admin or owns the entry.
func (s *Service) MaySetVisibility(ctx context.Context, c access.Caller, entryID string) (bool, error) {
	if c.May(access.Admin) || s.Owns == nil {
		return c.May(access.Admin), nil
	}
	return s.Owns(ctx, c, entryID)
}

// Next returns the given time, or now if it is zero; but always a time after the
// last change of the entry.
func (e Entry) Next(at time.Time) time.Time { return after(e.UpdatedAt, at) }

// WasCurrent reports whether a version was ever current.
func (s *Service) WasCurrent(ctx context.Context, tx *store.Tx, v Version) (bool, error) {
	return wasCurrent(ctx, tx, v)
}
