package registry

import (
	"context"
	"log/slog"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// Service is the registry of one installation. It is safe for concurrent use.
type Service struct {
	DB     *store.DB
	Blobs  blob.Bucket
	Jobs   *jobs.Queue
	Skills *skills.Service // quality of versions
	Quota  *quota.Service
	Files  *stored.Files // reads and caches files of archives
	Log    *slog.Logger

	Owners func(ctx context.Context, e Entry) (api.Owners, error) // for GET /registry/{id}; may be nil
	Owns   access.Owns                                            // whether someone owns an entry; may be nil

	// Hooks of capabilities above the registry; nil disables them.
	OnEntryDeleted OnEntryDeleted
	OnPush         OnPush
	OnVersion      OnVersion

	caches caches
}

// OnEntryDeleted is a hook of what owns rows that refer to entries. It's called in the transaction
// that deletes an entry, before the entry's row is deleted, since the foreign keys don't cascade.
type OnEntryDeleted interface {
	DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error
}

// OnPush is a hook that decides whether a version may become current right away. It's called in
// the transaction of the push, with the entry locked and the version not yet inserted. It
// returns the gate it started, if any; hold makes the version a candidate.
type OnPush interface {
	Admit(ctx context.Context, tx *store.Tx, e Entry, v Version) (gate *api.Gate, hold bool, err error)
}

// OnVersion is a hook of new versions: their provenance is signed.
type OnVersion interface {
	// SignVersion is called in the transaction of every new version.
	SignVersion(ctx context.Context, tx *store.Tx, versionID string) error
}

// Delete removes an entry and everything that belongs to it. Its objects are deleted
// afterwards, by a job that commits with the deletion.
func (s *Service) Delete(ctx context.Context, orgID, entryID string) (err error) {
	defer fault.Wrap(&err, "delete entry %s", entryID)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := lockEntry(ctx, tx, orgID, entryID)
		if err != nil {
			return err
		}
		keys, size, err := objectsOfEntry(ctx, tx, entryID)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(keys, maxKeys) {
			if err := s.Jobs.Enqueue(ctx, tx, removeBlobs{Keys: some}, jobs.For(orgID)); err != nil {
				return err
			}
		}
		if s.OnEntryDeleted != nil {
			if err := s.OnEntryDeleted.DeleteOfEntry(ctx, tx, entryID); err != nil {
				return err
			}
		}
		if err := deleteEntry(ctx, tx, e); err != nil {
			return err
		}
		if err := e.Record(ctx, tx, "registry.entry.delete", audit.Detail{"version": e.CurrentVersion}); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, orgID, quota.Registry, -size)
	})
}

// Record writes an action on the entry to the audit log, in the transaction of the
// action.
func (e Entry) Record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: e.OrgID, Action: action, Target: audit.Target{Kind: "entry", ID: e.ID, Name: e.Name}, Detail: d,
	})
}

// Own returns an entry of the organisation. Others' entries are fault.NotFound.
func (s *Service) Own(ctx context.Context, orgID, entryID string) (Entry, error) {
	return ownEntry(ctx, s.DB, orgID, entryID)
}

// Entry returns an entry that the organisation may see: its own, or another's that is
// public or unlisted and has a current version.
func (s *Service) Entry(ctx context.Context, orgID, id string) (Entry, error) {
	return visibleEntry(ctx, s.DB, orgID, id)
}

// Versions returns the newest versions of an organisation's entry without manifests,
// newest first, and their quality by version id.
func (s *Service) Versions(ctx context.Context, orgID, entryID string, limit int) ([]Version, map[string]skills.Quality, error) {
	versions, err := versionsAfter(ctx, s.DB, Entry{OrgID: orgID, ID: entryID}, true, nil, limit)
	if err != nil {
		return nil, nil, err
	}
	quality, err := s.Skills.QualityWithCost(ctx, orgID, ids(versions))
	return versions, quality, err
}

func ids(versions []Version) []string {
	ids := make([]string, len(versions))
	for i, v := range versions {
		ids[i] = v.ID
	}
	return ids
}

// Version returns a version of an entry that the organisation may see, by name. Other
// organisations' candidates are fault.NotFound.
func (s *Service) Version(ctx context.Context, orgID, entryID, version string) (Entry, Version, error) {
	e, err := visibleEntry(ctx, s.DB, orgID, entryID)
	if err != nil {
		return e, Version{}, err
	}
	v, err := versionByName(ctx, s.DB, e, version)
	if err == nil && v.State == Candidate && e.OrgID != orgID {
		return e, Version{}, fault.New(fault.NotFound, "Version %s not found", version)
	}
	return e, v, err
}

// Find is Version with a default: an empty name is the current version.
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

// Before returns the version published before v. The first version has none, which is
// fault.NotFound.
func (s *Service) Before(ctx context.Context, q store.Querier, v Version) (Version, error) {
	return versionBefore(ctx, q, v)
}

// maxRollbacks limits the rollback history of an entry.
const maxRollbacks = 1_000

// Rollbacks returns the newest rollbacks of an entry, newest first.
func (s *Service) Rollbacks(ctx context.Context, e Entry) ([]Rollback, error) {
	return rollbacksOfEntry(ctx, s.DB, e)
}

// A Filter selects and sorts entries of a list; zero fields don't filter.
type Filter struct {
	Name         string // exact match
	Organisation string // public entries of this organisation; with Name also an unlisted one
	Search       string // substring of name or description, ignoring case
	Pending      bool   // include entries whose first version is a candidate
	store.Page
}

// Listed is an entry with its current version and quality, as lists show it.
type Listed struct {
	Entry
	OrgName string  // name of the organisation that owns it
	Current Version // without its manifest; zero while the first one is a candidate
	Quality skills.Quality
}

// List returns a page of the organisation's entries, and their total number.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Listed, int, error) {
	return s.list(ctx, "e.org_id = $1", orgID, f)
}

// ListPublic is List for public entries of all other organisations, or of the one in the
// filter. With a name as well it's a lookup, which also finds an unlisted entry.
func (s *Service) ListPublic(ctx context.Context, f Filter) ([]Listed, int, error) {
	switch {
	case f.Organisation != "" && f.Name != "":
		return s.list(ctx, own+"e.visibility IN ('public', 'unlisted')", f.Organisation, f)
	case f.Organisation != "":
		return s.list(ctx, own+"e.visibility = 'public'", f.Organisation, f)
	}
	// A literal 'public' lets the partial index of public entries serve the query; a
	// parameter wouldn't.
	return s.list(ctx, "e.visibility = 'public' AND e.org_id <> $1", "", f)
}

// list adds quality to the page with a second query, which reads rollups by version.
func (s *Service) list(ctx context.Context, condition, arg string, f Filter) ([]Listed, int, error) {
	listed, total, err := listEntries(ctx, s.DB, condition, arg, f)
	if err != nil {
		return nil, 0, err
	}
	current := make([]Version, len(listed))
	for i, l := range listed {
		current[i] = l.Current
	}
	quality, err := s.Skills.Quality(ctx, s.DB, ids(current))
	for i := range listed {
		listed[i].Quality = quality[listed[i].Current.ID]
	}
	return listed, total, err
}

// History reads which version was current when. It is no part of Service, so that the skills,
// which the registry needs, can be given it.
type History struct{}

// Timelines implements inuse.Versions: it returns per skill which version was current when, so that
// a session can be attributed to the version that was in use. Skills without an entry are left out.
func (History) Timelines(
	ctx context.Context, q store.Querier, skillIDs []string,
) (map[string]inuse.Timeline, error) {
	timelines, err := currentsOfSkills(ctx, q, skillIDs)
	if err != nil || len(timelines) == 0 {
		return timelines, err
	}
	return timelines, addVersions(ctx, q, skillIDs, timelines)
}

// Check reports rows that break the registry's invariants, for the doctor.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "registry", rules())
}
