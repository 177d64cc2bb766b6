package registry

import (
	"context"
	"log/slog"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/gateapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/ownerapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// Service is the registry.
type Service struct {
	DB     *store.DB
	Blobs  blob.Bucket
	Jobs   *jobs.Queue
	Skills *skills.Service // how well versions do
	Quota  *quota.Service
	Files  *stored.Files // reads files of archives
	Log    *slog.Logger

	// Dependent, Gate, Sign, Owners and Owns are hooks of the capabilities above; they may be nil.
	Dependent Dependent
	Gate      Gate
	Sign      func(ctx context.Context, tx *store.Tx, versionID string) error // with every new version
	Owners    func(ctx context.Context, e Entry) (ownerapi.Owners, error)     // for the detail of an entry
	Owns      access.Owns                                                     // says who owns an entry

	caches caches
}

// A Dependent keeps rows that refer to entries. It is called in the transaction
// that deletes an entry, before its row goes: the foreign keys do not cascade.
type Dependent interface {
	DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error
}

// A Gate decides whether a version may become current at once. It is called in
// the transaction of the push, with the entry locked and the version not yet
// written. The gate that it starts, if any, is returned; hold makes the version a
// candidate.
type Gate interface {
	Admit(ctx context.Context, tx *store.Tx, e Entry, v Version) (gate *gateapi.Gate, hold bool, err error)
}

// Delete removes an entry with everything about it. A job that commits with it
// deletes its objects.
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
		if s.Dependent != nil {
			if err := s.Dependent.DeleteOfEntry(ctx, tx, entryID); err != nil {
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

// Record writes an action on an entry to the audit log.
func (e Entry) Record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: e.OrgID, Action: action, Target: audit.Target{Kind: "entry", ID: e.ID, Name: e.Name}, Detail: d,
	})
}

// Own returns an entry of the organisation.
func (s *Service) Own(ctx context.Context, orgID, entryID string) (Entry, error) {
	return ownEntry(ctx, s.DB, orgID, entryID)
}

// Entry returns an entry that the organisation may see: its own, or another's
// that is public or unlisted.
func (s *Service) Entry(ctx context.Context, orgID, id string) (Entry, error) {
	return visibleEntry(ctx, s.DB, orgID, id)
}

// Versions lists the newest versions of an organisation's entry, newest push
// first and without their manifests, with how well each does by its id.
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

// Version returns one version of an entry that the organisation may see.
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
func (s *Service) Before(ctx context.Context, q store.Querier, v Version) (Version, error) {
	return versionBefore(ctx, q, v)
}

// CurrentVersion returns the current version of a skill's entry; nil if the
// skill is not in the registry.
func (s *Service) CurrentVersion(ctx context.Context, q store.Querier, orgID, skillID string) (*string, error) {
	return currentVersionOfSkill(ctx, q, orgID, skillID)
}

// maxRollbacks is how many rollbacks an entry's history shows.
const maxRollbacks = 1_000

// Rollbacks lists an entry's last rollbacks, newest first.
func (s *Service) Rollbacks(ctx context.Context, e Entry) ([]Rollback, error) {
	return rollbacksOfEntry(ctx, s.DB, e)
}

// A Filter chooses entries of a listing.
type Filter struct {
	Name          string // exactly this, when not empty
	Organisation  string // public ones of this organisation; with Name also an unlisted one
	Search        string // in name or description, when not empty
	Sort          string // a field of entrySorts, with a leading - for descending; by name when empty
	Pending       bool   // also entries whose first version is a candidate
	Limit, Offset int
}

// Listed is an entry with its current version, as lists show it.
type Listed struct {
	Entry
	OrgName string  // of the organisation that owns it
	Current Version // without its manifest; zero while the first one is a candidate
	Quality skills.Quality
}

// List returns a page of the organisation's entries with their current
// versions, ordered by name, and how many there are.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Listed, int, error) {
	return s.list(ctx, "e.org_id = $1", orgID, f)
}

// ListPublic is List for the public entries of all organisations, or of one. With the name
// of an entry, too, it is a lookup, which also finds an unlisted one.
func (s *Service) ListPublic(ctx context.Context, f Filter) ([]Listed, int, error) {
	switch {
	case f.Organisation != "" && f.Name != "":
		return s.list(ctx, own+"e.visibility IN ('public', 'unlisted')", f.Organisation, f)
	case f.Organisation != "":
		return s.list(ctx, own+"e.visibility = 'public'", f.Organisation, f)
	}
	// The literal lets the partial index of public entries serve the query.
	return s.list(ctx, "e.visibility = 'public' AND e.org_id <> $1", "", f)
}

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

// Timelines returns which version of each skill was current when, so that an
// observation counts for the version that was in use. Skills without an entry
// have none.
func (s *Service) Timelines(
	ctx context.Context, q store.Querier, skillIDs []string,
) (map[string]inuse.Timeline, error) {
	timelines, err := currentsOfSkills(ctx, q, skillIDs)
	if err != nil || len(timelines) == 0 {
		return timelines, err
	}
	return timelines, addVersions(ctx, q, skillIDs, timelines)
}

// Check looks for entries and versions that disagree.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "registry", rules())
}
