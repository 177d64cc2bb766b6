package registry

import (
	"context"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service is the registry.
type Service struct {
	DB    *store.DB
	Blobs blob.Bucket
	Jobs  *jobs.Queue
	// Skills tells how well versions do.
	Skills *skills.Service
	Quota  *quota.Service
	// Files reads files of versions.
	Files *stored.Files
	// Memory bounds what large answers take together.
	Memory *httpapi.Budget
	Log    *slog.Logger

	memory memory
}

// Rollback makes another version current and records it. An empty target
// means the one pushed before the current; if there is none it is a conflict.
func (s *Service) Rollback(ctx context.Context, entryID string, r NewRollback) (result RollbackResult, err error) {
	defer fault.Wrap(&err, "roll back entry %s", entryID)
	if r.Reason != nil && utf8.RuneCountInString(*r.Reason) > maxReason {
		return result, fault.Invalid("reason", "reason must have at most %d characters", maxReason)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
		result, err = rollback(ctx, tx, entryID, r)
		return err
	})
	return result, err
}

func rollback(ctx context.Context, tx *store.Tx, entryID string, r NewRollback) (result RollbackResult, err error) {
	e, err := lockEntry(ctx, tx, r.OrgID, entryID)
	if err != nil {
		return result, err
	}
	from, err := versionByID(ctx, tx, e, e.CurrentVersionID)
	if err != nil {
		return result, err
	}
	to, err := rollbackTarget(ctx, tx, e, from, r.Target)
	if err != nil {
		return result, err
	}
	if err := markRolledBack(ctx, tx, from.ID, to.ID); err != nil {
		return result, err
	}
	to.RolledBack = false
	e.setCurrent(to, after(e.UpdatedAt, r.At))
	if err := updateCurrent(ctx, tx, e); err != nil {
		return result, err
	}
	result = RollbackResult{Entry: e, Version: to, From: from.Version}
	if err := e.record(ctx, tx, "registry.version.rollback", audit.Detail{"from": from.Version, "to": to.Version, "reason": r.Reason}); err != nil {
		return result, err
	}
	return result, insertRollback(ctx, tx, entryID, Rollback{From: from.Version, To: to.Version, Reason: r.Reason, By: r.UserID, At: e.UpdatedAt})
}

// record writes down what was done to an entry.
func (e Entry) record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: e.OrgID, Action: action, Target: audit.Target{Kind: "entry", ID: e.ID, Name: e.Name}, Detail: d,
	})
}

// NewRollback says what to roll back to, and who wants it.
type NewRollback struct {
	OrgID, UserID string
	Target        string // a version, or ""
	Reason        *string
	At            time.Time // as in Publication
}

// RollbackResult is the entry after a rollback, its current version, and the
// version that was current before.
type RollbackResult struct {
	Entry   Entry
	Version Version
	From    string
}

func rollbackTarget(ctx context.Context, tx *store.Tx, e Entry, current Version, target string) (Version, error) {
	if target == "" {
		v, err := versionBefore(ctx, tx, current)
		if fault.Is(err, fault.NotFound) {
			return v, fault.New(fault.Conflict, "Nothing to roll back to: %s is the first version", current.Version)
		}
		return v, err
	}
	v, err := versionByName(ctx, tx, e, target)
	if err == nil && v.ID == current.ID {
		return v, fault.New(fault.Conflict, "Version %s is current already", target)
	}
	return v, err
}

// Delete removes an entry with everything about it. A job that commits with it
// deletes its objects.
func (s *Service) Delete(ctx context.Context, orgID, entryID string) (err error) {
	defer fault.Wrap(&err, "delete entry %s", entryID)
	defer s.memory.forget()
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := lockEntry(ctx, tx, orgID, entryID)
		if err != nil {
			return err
		}
		keys, size, err := objectsOfEntry(ctx, tx, entryID)
		if err != nil {
			return err
		}
		if err := s.enqueueRemoval(ctx, tx, keys); err != nil {
			return err
		}
		if err := deleteEntry(ctx, tx, e); err != nil {
			return err
		}
		if err := e.record(ctx, tx, "registry.entry.delete", audit.Detail{"version": e.CurrentVersion}); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, orgID, quota.Registry, -size)
	})
}

// Entry returns an entry that the organisation may see: its own, or another's
// that is public or unlisted.
func (s *Service) Entry(ctx context.Context, orgID, id string) (Entry, error) {
	return visibleEntry(ctx, s.DB, orgID, id)
}

// Versions lists the newest versions of an organisation's entry, newest push
// first and without their manifests, with how well each does by its id.
func (s *Service) Versions(ctx context.Context, orgID, entryID string, limit int) ([]Version, map[string]skills.Quality, error) {
	versions, err := versionsAfter(ctx, s.DB, Entry{OrgID: orgID, ID: entryID}, nil, limit)
	if err != nil {
		return nil, nil, err
	}
	quality, err := s.qualityOf(ctx, versions)
	return versions, quality, err
}

func (s *Service) qualityOf(ctx context.Context, versions []Version) (map[string]skills.Quality, error) {
	ids := make([]string, len(versions))
	for i, v := range versions {
		ids[i] = v.ID
	}
	return s.Skills.Quality(ctx, s.DB, ids)
}

// Version returns one version of an entry that the organisation may see.
func (s *Service) Version(ctx context.Context, orgID, entryID, version string) (Entry, Version, error) {
	e, err := visibleEntry(ctx, s.DB, orgID, entryID)
	if err != nil {
		return e, Version{}, err
	}
	v, err := versionByName(ctx, s.DB, e, version)
	return e, v, err
}

// Find returns a version of an entry that the organisation may see: the
// current one if the name is empty.
func (s *Service) Find(ctx context.Context, orgID, entryID, version string) (Entry, Version, error) {
	if version != "" {
		return s.Version(ctx, orgID, entryID, version)
	}
	e, err := s.Entry(ctx, orgID, entryID)
	if err != nil {
		return e, Version{}, err
	}
	v, err := versionByID(ctx, s.DB, e, e.CurrentVersionID)
	return e, v, err
}

// Before returns the version that was pushed last before another one; the
// first has none, which is a fault.NotFound.
func (s *Service) Before(ctx context.Context, v Version) (Version, error) {
	return versionBefore(ctx, s.DB, v)
}

// maxRollbacks is how many rollbacks are told of.
const maxRollbacks = 1_000

// Rollbacks lists an entry's last rollbacks, newest first.
func (s *Service) Rollbacks(ctx context.Context, e Entry) ([]Rollback, error) {
	return rollbacksOfEntry(ctx, s.DB, e)
}

// A Filter chooses entries of a listing.
type Filter struct {
	Name          string // exactly this, when not empty
	Search        string // in name or description, when not empty
	Limit, Offset int
}

// List returns a page of the organisation's entries with their current
// versions, ordered by name, and how many there are.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Listed, int, error) {
	return s.list(ctx, "e.org_id = $1", orgID, f)
}

// ListPublic is List for the public entries of all organisations.
func (s *Service) ListPublic(ctx context.Context, f Filter) ([]Listed, int, error) {
	// Written out, so that the index of the public entries serves it.
	return s.list(ctx, "e.visibility = 'public' AND e.org_id <> $1", "", f)
}

func (s *Service) list(ctx context.Context, condition, arg string, f Filter) ([]Listed, int, error) {
	listed, total, err := listEntries(ctx, s.DB, condition, arg, f)
	if err != nil {
		return nil, 0, err
	}
	return listed, total, s.withQuality(ctx, listed)
}

// Listed is an entry with its current version, as lists show it.
type Listed struct {
	Entry
	OrgName string  // of the organisation that owns it
	Current Version // without its manifest
	Quality skills.Quality
}

// withQuality fills in how well the current versions do.
func (s *Service) withQuality(ctx context.Context, listed []Listed) error {
	ids := make([]string, len(listed))
	for i, l := range listed {
		ids[i] = l.Current.ID
	}
	quality, err := s.Skills.Quality(ctx, s.DB, ids)
	for i := range listed {
		listed[i].Quality = quality[listed[i].Current.ID]
	}
	return err
}
