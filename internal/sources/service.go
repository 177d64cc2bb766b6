package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service keeps sources.
type Service struct {
	DB      *store.DB
	Blobs   blob.Bucket
	Jobs    *jobs.Queue
	Skills  *skills.Service
	Prompts Prompts
	Runs    Runs
	Suites  Suites
	Repos   Repos // nil: no code host is set up
	// Files reads files of snapshots.
	Files *stored.Files
	// Limits bound an upload; they must be set.
	Limits skillpkg.Limits
	Quota  *quota.Service
	Log    *slog.Logger
}

// Prompts knows what people asked for while a skill was at hand.
type Prompts interface {
	// Considered returns the prompts that a skill was considered for, the
	// newest at least. Those that nobody but their owner may read are left out.
	Considered(ctx context.Context, q store.Querier, orgID, skillID string) ([]Prompt, error)
	// Texts returns the texts of prompts by the names that Considered gave
	// them, as far as they are still kept.
	Texts(ctx context.Context, q store.Querier, orgID string, refs []string) (map[string]string, error)
}

// A Prompt is a text, and what became of it in the sessions of one skill.
type Prompt struct {
	Ref, Text    string
	Checks       int // how often the skill was considered for it
	Missed       int // of those, how often it did not fire
	Graded       int // how often it fired in a session that was graded
	Failed       int // of those, how often the session failed
	LastMissedAt *time.Time
	LastFailedAt *time.Time
	Mode         string // how the skill was called, or ""
}

// Runs knows the runs of suites on sources.
type Runs interface {
	// Failures returns the trigger queries that failed in the last run on the
	// source that had them.
	Failures(ctx context.Context, q store.Querier, orgID, sourceID string) ([]Failure, error)
}

// A Failure is a trigger query that failed in a run.
type Failure struct {
	Query          string
	ShouldTrigger  bool
	InvocationType string // or ""
	Regression     bool   // it passed in the run before
	Failed, Runs   int    // in how many runs it failed, and had a verdict at all
	LastFailedAt   time.Time
}

// Suites keeps the suites of sources.
type Suites interface {
	// Append adds a case to a suite in the transaction, unless the same query
	// with the same expectation stands there. A suite that is not there is a
	// fault.NotFound; one of another source or of none, one that is not
	// llm_judge and one that is full are a fault.Conflict.
	Append(ctx context.Context, tx *store.Tx, orgID, sourceID, suiteID string, c json.RawMessage) (Suite, error)
	// Remove takes a case out of a suite in the transaction, and reports
	// whether it is not there any more: a suite keeps its last case.
	Remove(ctx context.Context, tx *store.Tx, orgID, suiteID string, c json.RawMessage) (gone bool, err error)
	// OfSource lists the suites of a source.
	OfSource(ctx context.Context, q store.Querier, orgID, sourceID string) ([]Suite, error)
	// Cases lists the cases of all suites of a source.
	Cases(ctx context.Context, q store.Querier, orgID, sourceID string) ([]json.RawMessage, error)
}

// A Suite is a saved suite of a source.
type Suite struct {
	ID           string `json:"id" format:"uuid"`
	Name         string `json:"name"`
	VerifierKind string `json:"verifierKind" example:"llm_judge"`
}

// Repos fetches skills from a code host.
type Repos interface {
	// Fetch reads the folder of a skill at the head of a branch. A host that
	// cannot be reached is a fault.BadGateway. The caller closes the package.
	Fetch(ctx context.Context, orgID string, installationID int64, repo, ref, path string) (*Tree, error)
}

// A Tree is the folder of a skill at one commit.
type Tree struct {
	CommitSHA, Ref string
	Package        *skillpkg.Package
}

// NewSource describes a source to be made.
type NewSource struct {
	Label   string
	Type    Type
	SkillID *string
	Repo    *Repo // of a repohost source
}

func (n *NewSource) check() []fault.Issue {
	issues := checkLabel(n.Label)
	if n.Type != Repohost {
		n.Repo = nil
		return issues
	}
	n.Repo.DefaultBranch = cmp.Or(n.Repo.DefaultBranch, "main")
	n.Repo.SkillPath = cmp.Or(n.Repo.SkillPath, ".")
	return append(issues, n.Repo.check()...)
}

// Create makes a source without a snapshot.
func (s *Service) Create(ctx context.Context, c access.Caller, n NewSource) (src Source, err error) {
	defer fault.Wrap(&err, "create source")
	issues, err := s.checkSkill(ctx, c.OrgID, n.SkillID)
	if err != nil {
		return src, err
	}
	if issues = slices.Concat(n.check(), issues); len(issues) > 0 {
		return src, fault.Issues(issues...)
	}
	src = n.source(c)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertSource(ctx, tx, src); err != nil {
			return err
		}
		if err := src.record(ctx, tx, "sources.source.create", audit.Detail{"type": src.Type}); err != nil {
			return err
		}
		return s.suggestLinked(ctx, tx, src)
	})
	return src, err
}

// record writes down what was done to a source.
func (src Source) record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: src.OrgID, Action: action, Target: audit.Target{Kind: "source", ID: src.ID, Name: src.Label}, Detail: d,
	})
}

func (n *NewSource) source(c access.Caller) Source {
	return Source{
		ID: store.NewID(), OrgID: c.OrgID, Label: n.Label, Type: n.Type, SkillID: n.SkillID, Repo: n.Repo,
		CreatedBy: c.UserID, CreatedAt: store.Now(),
	}
}

func (s *Service) checkSkill(ctx context.Context, orgID string, id *string) ([]fault.Issue, error) {
	if id == nil {
		return nil, nil
	}
	known, err := s.Skills.Exists(ctx, orgID, *id)
	if err == nil && !known {
		return []fault.Issue{fault.At("skill_id", "skill_id names no skill of this organisation")}, nil
	}
	return nil, err
}

// Change is what a patch changes; nil leaves a field as it is.
type Change struct {
	Label   *string
	SkillID *string // "" unlinks the skill
}

// Update changes a source.
func (s *Service) Update(ctx context.Context, orgID, id string, c Change) (src Source, err error) {
	defer fault.Wrap(&err, "update source %s", id)
	if err := s.checkChange(ctx, orgID, c); err != nil {
		return src, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if src, err = lock(ctx, tx, orgID, id); err != nil {
			return err
		}
		if c.Label != nil {
			src.Label = *c.Label
		}
		if c.SkillID != nil {
			if src.SkillID = c.SkillID; *c.SkillID == "" {
				src.SkillID = nil
			}
		}
		if err := updateSource(ctx, tx, src); err != nil {
			return err
		}
		if err := src.record(ctx, tx, "sources.source.change", audit.Detail{"label": c.Label, "skill_id": c.SkillID}); err != nil {
			return err
		}
		return s.Suggest(ctx, tx, orgID, src.ID)
	})
	return src, err
}

func (s *Service) checkChange(ctx context.Context, orgID string, c Change) error {
	var issues []fault.Issue
	if c.Label != nil {
		issues = checkLabel(*c.Label)
	}
	if c.SkillID != nil && *c.SkillID != "" {
		if _, ok := parseUUID(*c.SkillID); !ok {
			issues = append(issues, fault.At("skill_id", "skill_id must be a UUID, or empty to unlink the skill"))
		} else {
			unknown, err := s.checkSkill(ctx, orgID, c.SkillID)
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

// Delete removes a source with everything about it. Its bytes follow by a job.
func (s *Service) Delete(ctx context.Context, orgID, id string) (err error) {
	defer fault.Wrap(&err, "delete source %s", id)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := lock(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		freed, err := bytesOfSource(ctx, tx, src.ID)
		if err != nil {
			return err
		}
		if err := deleteSource(ctx, tx, src.ID); err != nil {
			return err
		}
		if err := src.record(ctx, tx, "sources.source.delete", nil); err != nil {
			return err
		}
		if err := s.Jobs.Enqueue(ctx, tx, removeBlobs{SourceID: src.ID}); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, orgID, quota.Sources, -freed)
	})
}

// A Filter chooses sources; a zero field chooses all.
type Filter struct {
	Type    Type
	SkillID string
}

// List returns the organisation's sources, newest first.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Source, error) {
	return sourcesOfOrg(ctx, s.DB, orgID, f)
}

// Exists returns an error unless the organisation has the source: a
// fault.NotFound if nobody has it, a fault.Denied if another one does.
func (s *Service) Exists(ctx context.Context, q store.Querier, orgID, sourceID string) error {
	_, err := own(ctx, q, orgID, sourceID)
	return err
}

// Detail is all that a person wants to see of a source.
type Detail struct {
	Source
	Current   *Snapshot
	Snapshots []Snapshot // the newest
	Reports   []Report   // of the current snapshot
	// Pending are the suggestions that nobody has decided on, the best first,
	// and Reviews the decisions, newest first: the first of each.
	Pending      []Suggestion
	PendingCount int
	Reviews      []Review
	ReviewCount  int
	Suites       []Suite
}

const (
	shownSnapshots = 20
	// shown is how many suggestions and reviews a detail has; their own routes
	// have all.
	shown = 200
)

// Detail returns a source of the organisation with what belongs to it.
func (s *Service) Detail(ctx context.Context, orgID, id string) (d Detail, err error) {
	defer fault.Wrap(&err, "source %s", id)
	if d.Source, err = own(ctx, s.DB, orgID, id); err != nil {
		return d, err
	}
	if d.Snapshots, err = snapshotsOf(ctx, s.DB, d.Source, shownSnapshots); err != nil {
		return d, err
	}
	d.Reports = []Report{}
	if len(d.Snapshots) > 0 {
		d.Current = &d.Snapshots[0]
		d.CurrentSnapshotID = &d.Current.ID // one may have come since the source was read
		if d.Reports, err = reportsOf(ctx, s.DB, orgID, d.Current.ID); err != nil {
			return d, err
		}
	}
	if d.Pending, d.PendingCount, err = s.pending(ctx, d.Source, shown, 0); err != nil {
		return d, err
	}
	if d.Reviews, d.ReviewCount, err = reviewsOf(ctx, s.DB, d.Source, "", shown, 0); err != nil {
		return d, err
	}
	d.Suites, err = s.Suites.OfSource(ctx, s.DB, orgID, d.ID)
	return d, err
}

// Pending returns a page of the suggestions that nobody has decided on, the
// best first, and how many there are. A suggestion whose text was erased is
// left out of the page.
func (s *Service) Pending(ctx context.Context, orgID, id string, limit, offset int) ([]Suggestion, int, error) {
	src, err := own(ctx, s.DB, orgID, id)
	if err != nil {
		return nil, 0, err
	}
	return s.pending(ctx, src, limit, offset)
}

func (s *Service) pending(ctx context.Context, src Source, limit, offset int) ([]Suggestion, int, error) {
	found, total, err := pendingOf(ctx, s.DB, src, limit, offset)
	if err != nil {
		return nil, 0, err
	}
	var refs []string
	for _, p := range found {
		if p.Ref != nil {
			refs = append(refs, *p.Ref)
		}
	}
	if len(refs) == 0 {
		return found, total, nil
	}
	texts, err := s.Prompts.Texts(ctx, s.DB, src.OrgID, refs)
	if err != nil {
		return nil, 0, err
	}
	for i, p := range found {
		if p.Ref != nil {
			found[i].Query = texts[*p.Ref]
		}
	}
	return slices.DeleteFunc(found, func(p Suggestion) bool { return p.Query == "" }), total, nil
}

// Reviews returns a page of the decisions on a source's suggestions, newest
// first, and how many there are; only those of a status, unless it is "".
func (s *Service) Reviews(ctx context.Context, orgID, id string, status Status, limit, offset int) ([]Review, int, error) {
	src, err := own(ctx, s.DB, orgID, id)
	if err != nil {
		return nil, 0, err
	}
	return reviewsOf(ctx, s.DB, src, status, limit, offset)
}
