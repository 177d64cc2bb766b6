package sources

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Service manages sources and their snapshots.
type Service struct {
	DB       *store.DB
	Blobs    blob.Bucket
	Jobs     *jobs.Queue
	Skills   *skills.Service
	Repohost *repohost.Service
	Files    *stored.Files   // reads and caches files of snapshots
	Limits   skillpkg.Limits // of uploads; required
	Quota    *quota.Service
	Log      *slog.Logger

	Guard Guard // may be nil

	// Hooks of capabilities above this one; may be nil.
	OnSourceChanged OnSourceChanged
	OnSourceDeleted OnSourceDeleted
}

// OnSourceChanged is a hook of sources whose suggested test cases have to be derived anew. It's
// called in the transaction that links a source to a skill or changes the source.
type OnSourceChanged interface {
	Suggest(ctx context.Context, tx *store.Tx, orgID, sourceID string) error
}

// OnSourceDeleted is a hook of what owns rows that refer to sources. It's called in the transaction
// that deletes a source, before its row is deleted, because the foreign keys don't cascade.
type OnSourceDeleted interface {
	DeleteOfSource(ctx context.Context, tx *store.Tx, src Source) error
}

// NewSource is the input of Create.
type NewSource struct {
	Label   string
	Type    Type
	SkillID *string
	Repo    *Repo // required for Repohost; ignored otherwise
}

// validate also fills in defaults.
func (n *NewSource) validate(subgroups bool) []fault.Issue {
	issues := validateLabel(n.Label)
	if n.Type != Repohost {
		n.Repo = nil
		return issues
	}
	n.Repo.DefaultBranch = cmp.Or(n.Repo.DefaultBranch, "main")
	n.Repo.SkillPath = cmp.Or(n.Repo.SkillPath, ".")
	return append(issues, n.Repo.validate(subgroups)...)
}

// Create creates a source without a snapshot; the first one comes with a sync.
func (s *Service) Create(ctx context.Context, c access.Caller, n NewSource) (src Source, err error) {
	defer fault.Wrap(&err, "create source")
	// Report all issues at once: look up the skill even if another field is invalid.
	issues, err := s.validateSkill(ctx, c.OrgID, n.SkillID)
	if err != nil {
		return src, err
	}
	subgroups := s.Repohost != nil && s.Repohost.Subgroups()
	if issues = slices.Concat(n.validate(subgroups), issues); len(issues) > 0 {
		return src, fault.Issues(issues...)
	}
	src = n.source(c) // outside the transaction: a retry keeps the id
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertSource(ctx, tx, src); err != nil {
			return err
		}
		if err := src.Audit(ctx, tx, "sources.source.create", audit.Detail{"type": src.Type}); err != nil {
			return err
		}
		return s.suggestLinked(ctx, tx, src)
	})
	return src, err
}

// Audit records an action on the source in the audit log, in the transaction of the
// action.
func (src Source) Audit(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: src.OrgID, Action: action, Target: audit.Target{Kind: "source", ID: src.ID, Name: src.Label}, Detail: d,
	})
}

// source makes the row; its id is new with every call.
func (n *NewSource) source(c access.Caller) Source {
	return Source{
		ID: store.NewID(), OrgID: c.OrgID, Label: n.Label, Type: n.Type, SkillID: n.SkillID, Repo: n.Repo,
		CreatedBy: c.UserID, CreatedAt: store.Now(),
	}
}

// validateSkill reports a skill that isn't the organisation's as an issue of skill_id.
func (s *Service) validateSkill(ctx context.Context, orgID string, id *string) ([]fault.Issue, error) {
	if id == nil {
		return nil, nil
	}
	known, err := s.Skills.Exists(ctx, orgID, *id)
	if err == nil && !known {
		return []fault.Issue{fault.At("skill_id", "skill_id names no skill of this organisation")}, nil
	}
	return nil, err
}

// suggestLinked has suggestions derived for a new source, if it's linked to a skill.
// Without a skill there is no evidence to derive them from.
func (s *Service) suggestLinked(ctx context.Context, tx *store.Tx, src Source) error {
	if src.SkillID == nil {
		return nil
	}
	// A skill that people refer to is no longer only seen in telemetry.
	if err := skills.Confirm(ctx, tx, *src.SkillID); err != nil {
		return err
	}
	return s.suggest(ctx, tx, src)
}

// suggest calls OnSourceChanged, if it's set.
func (s *Service) suggest(ctx context.Context, tx *store.Tx, src Source) error {
	if s.OnSourceChanged == nil {
		return nil
	}
	return s.OnSourceChanged.Suggest(ctx, tx, src.OrgID, src.ID)
}

// A Change is a partial update; nil leaves a field unchanged.
type Change struct {
	Label   *string
	SkillID *string // "" unlinks the skill
}

// Update changes a source. Linking it to another skill needs the guard's permission for
// both skills.
func (s *Service) Update(ctx context.Context, by access.Caller, id string, c Change) (src Source, err error) {
	defer fault.Wrap(&err, "update source %s", id)
	if err := s.validateChange(ctx, by.OrgID, &c); err != nil {
		return src, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if src, err = lockSource(ctx, tx, by.OrgID, id); err != nil {
			return err
		}
		before := src
		if c.Label != nil {
			src.Label = *c.Label
		}
		if c.SkillID != nil {
			if src.SkillID = c.SkillID; *c.SkillID == "" {
				src.SkillID = nil // the column is a foreign key
			} else if err := skills.Confirm(ctx, tx, *src.SkillID); err != nil {
				return err
			}
			if err := s.mayLink(ctx, tx, by, before, src); err != nil {
				return err
			}
		}
		if err := updateSource(ctx, tx, src); err != nil {
			return err
		}
		if err := src.Audit(ctx, tx, "sources.source.change", audit.Detail{"label": c.Label, "skill_id": c.SkillID}); err != nil {
			return err
		}
		return s.suggest(ctx, tx, src)
	})
	return src, err
}

// validateChange also converts the skill's id to lower case, as it's stored.
func (s *Service) validateChange(ctx context.Context, orgID string, c *Change) error {
	var issues []fault.Issue
	if c.Label != nil {
		issues = validateLabel(*c.Label)
	}
	if c.SkillID != nil && *c.SkillID != "" {
		if id, ok := parseUUID(*c.SkillID); !ok {
			issues = append(issues, fault.At("skill_id", "skill_id must be a UUID, or empty to unlink the skill"))
		} else {
			c.SkillID = &id
			unknown, err := s.validateSkill(ctx, orgID, c.SkillID)
			if err != nil {
				return err
			}
			issues = append(issues, unknown...)
		}
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// Delete deletes a source and everything that belongs to it. A job deletes the blobs of
// its snapshots.
func (s *Service) Delete(ctx context.Context, c access.Caller, id string) (err error) {
	defer fault.Wrap(&err, "delete source %s", id)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := lockSource(ctx, tx, c.OrgID, id)
		if err != nil {
			return err
		}
		if err := s.mayLink(ctx, tx, c, src, Source{}); err != nil {
			return err
		}
		freed, err := bytesOfSource(ctx, tx, src)
		if err != nil {
			return err
		}
		if s.OnSourceDeleted != nil {
			if err := s.OnSourceDeleted.DeleteOfSource(ctx, tx, src); err != nil {
				return err
			}
		}
		if err := deleteSource(ctx, tx, src); err != nil {
			return err
		}
		if err := src.Audit(ctx, tx, "sources.source.delete", nil); err != nil {
			return err
		}
		if err := s.Jobs.Enqueue(ctx, tx, removeBlobs{SourceID: src.ID}, jobs.For(c.OrgID)); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, c.OrgID, quota.Sources, -freed)
	})
}

// A Filter selects sources; zero fields don't filter.
type Filter struct {
	Type    Type
	SkillID string
}

// Exists is Get in a transaction, for callers that only need the error.
func (s *Service) Exists(ctx context.Context, q store.Querier, orgID, id string) error {
	_, err := sourceOfOrg(ctx, q, orgID, id, "")
	return err
}

// Get returns a source of the organisation by id, with or without its prefix. It's
// fault.NotFound if the source doesn't exist, and fault.Denied if it's another
// organisation's.
func (s *Service) Get(ctx context.Context, orgID, id string) (Source, error) {
	return sourceOfOrg(ctx, s.DB, orgID, id, "")
}

// Lock is Get with a row lock, in a transaction. Everything that belongs to a source is
// changed under this lock.
func (s *Service) Lock(ctx context.Context, tx *store.Tx, orgID, id string) (Source, error) {
	return lockSource(ctx, tx, orgID, id)
}

// SetSuggestedAt advances the watermark of a locked source: its suggestions reflect the
// evidence as of at.
func (s *Service) SetSuggestedAt(ctx context.Context, tx *store.Tx, src Source, at time.Time) error {
	src.SuggestedAt = at
	return updateSource(ctx, tx, src)
}

// Detail is a source with its newest snapshots and the reports on the current one.
type Detail struct {
	Source
	Current   *Snapshot
	Snapshots []Snapshot // newest first
	Reports   []Report   // of the current snapshot
}

// detailSnapshots is the number of snapshots in a detail.
const detailSnapshots = 20

// Detail returns a source of the organisation with its newest snapshots.
func (s *Service) Detail(ctx context.Context, orgID, id string) (d Detail, err error) {
	defer fault.Wrap(&err, "source %s", id)
	if d.Source, err = s.Get(ctx, orgID, id); err != nil {
		return d, err
	}
	if d.Snapshots, err = snapshotsOf(ctx, s.DB, d.Source, detailSnapshots); err != nil {
		return d, err
	}
	d.Reports = []Report{}
	if len(d.Snapshots) == 0 {
		return d, nil
	}
	d.Current = &d.Snapshots[0]
	d.CurrentSnapshotID = &d.Current.ID // a newer one may have been added since the source was read
	d.Reports, err = reportsOf(ctx, s.DB, orgID, d.Current.ID)
	return d, err
}
