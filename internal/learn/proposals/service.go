package proposals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Service stores proposals.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Signals  *signals.Service
	Registry *registry.Service
	Sources  *sources.Service
	Owns     access.Owns // says who owns an entry; may be nil
}

// MayAnswer reports whether the caller may answer a proposal as an owner of its entry. It errs on
// the side of no: without an owner of the entry only members with the permission may answer.
func (s *Service) MayAnswer(ctx context.Context, c access.Caller, id string) (bool, error) {
	if s.Owns == nil {
		return false, nil
	}
	p, err := s.Get(ctx, c.OrgID, id)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.Owns(ctx, c, p.EntryID)
}

// Propose creates a proposal in the caller's transaction and returns its id. It
// is idempotent: if the skill has a proposal for the finding, the id of that is
// returned and nothing changes.
func (s *Service) Propose(ctx context.Context, tx *store.Tx, d Draft) (id string, err error) {
	defer fault.Wrap(&err, "propose %s for %q", d.Finding, d.SkillName)
	skillID, err := resolve(ctx, tx, d.OrgID, d.SkillName)
	if err != nil {
		return "", err
	}
	evidence, err := json.Marshal(d.Evidence)
	if err != nil {
		return "", err
	}
	return insertProposal(ctx, tx, Proposal{
		ID: store.NewID(), OrgID: d.OrgID, SkillID: skillID, SkillName: d.SkillName, Finding: d.Finding, Type: d.Type,
		CurrentValue: d.CurrentValue, ProposedValue: d.ProposedValue, Reason: d.Reason, Confidence: d.Confidence,
		PassRateBefore: d.PassRateBefore, ProjectedPassRate: d.ProjectedPassRate, Evidence: evidence,
		Status: Pending, ProposedBy: d.ProposedBy, CreatedAt: store.Now(), Target: cmp.Or(d.Target, Target(d.Type)),
		Change: d.Change, Proved: d.Proved, Proof: d.Proof,
	})
}

// resolve returns the id of a skill by its name. Names of merged skills are still sent by clients
// that haven't been updated.
func resolve(ctx context.Context, tx *store.Tx, orgID, name string) (string, error) {
	id, err := skills.Resolve(ctx, tx, orgID, name)
	if fault.Is(err, fault.Conflict) { // it is merged into another skill, which the proposal is about then
		var ids map[string]string
		ids, err = skills.ResolveUnconfirmed(ctx, tx, orgID, []string{strings.TrimSpace(name)})
		id = ids[strings.TrimSpace(name)]
	}
	return id, err
}

// Generate turns the findings in contributors' signals into proposals, and brings
// those that are pending up to date: it is idempotent. One that fails does not keep
// back the others. Jobs of it may overlap; Propose and grow are both safe for that.
func (s *Service) Generate(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "generate proposals of %s", orgID)
	if err := s.reopenStale(ctx, orgID); err != nil {
		return err
	}
	findings, err := s.Signals.Findings(ctx, orgID)
	if err != nil {
		return err
	}
	var failures []error
	for _, f := range findings {
		failures = append(failures, s.proposeFinding(ctx, orgID, f))
	}
	return errors.Join(failures...)
}

// proposeFinding reads before it writes: most findings have a proposal already, and the words of a
// skill shouldn't be read inside a transaction.
func (s *Service) proposeFinding(ctx context.Context, orgID string, f signals.Finding) error {
	there, err := proposalOfFinding(ctx, s.DB, orgID, f.SkillName, f.Name)
	if err == nil {
		return s.grow(ctx, there, f)
	}
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	var skillID string
	err = s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
		skillID, err = resolve(ctx, tx, orgID, f.SkillName)
		return err
	})
	if err != nil {
		return err
	}
	d := newDraft(orgID, f)
	words, err := s.Words(ctx, orgID, skillID)
	switch {
	case err == nil:
		d.CurrentValue, d.ProposedValue, d.Change = offer(words, d.Type, d.Evidence.(evidence).bucketNames())
	case !fault.Is(err, fault.NotFound):
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		_, err := s.Propose(ctx, tx, d)
		return err
	})
}

// A Filter selects proposals; empty fields select all, without the pending ones of
// hidden skills.
type Filter struct {
	Status     Status
	SkillName  string
	ProposedBy string
	Hidden     bool // include pending ones of hidden skills
	store.Page
}

// List returns a page of the organisation's proposals, newest first, and their
// number. Reading takes approvals of stale proposals back first, so callers never see one that is
// approved and can't be applied.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Proposal, int, error) {
	if err := s.reopenStale(ctx, orgID); err != nil {
		return nil, 0, err
	}
	all, total, err := proposalsOf(ctx, s.DB, orgID, f)
	if err != nil {
		return nil, 0, err
	}
	return all, total, s.complete(ctx, orgID, all)
}

// Get returns a proposal of the organisation.
func (s *Service) Get(ctx context.Context, orgID, id string) (Proposal, error) {
	if err := s.reopenStale(ctx, orgID); err != nil {
		return Proposal{}, err
	}
	p, err := proposalByID(ctx, s.DB, orgID, id)
	if err != nil {
		return p, err
	}
	one := []Proposal{p}
	err = s.complete(ctx, orgID, one)
	return one[0], err
}

// complete adds what follows from other parts of the service: whether the words have
// changed, and how the versions do. Both are computed for a whole page at once.
func (s *Service) complete(ctx context.Context, orgID string, all []Proposal) error {
	if err := s.markStale(ctx, s.DB, orgID, all); err != nil {
		return err
	}
	var versions []string
	for _, p := range all {
		if p.Outcome != nil && p.Outcome.VersionID != "" {
			versions = append(versions, p.Outcome.VersionID)
		}
	}
	if len(versions) == 0 {
		return nil
	}
	quality, err := s.Registry.Skills.Quality(ctx, s.DB, versions)
	for _, p := range all {
		if p.Outcome != nil {
			p.Outcome.ObservedPassRate = quality[p.Outcome.VersionID].PassRate
		}
	}
	return err
}

// Pending counts the proposals of an organisation that await a decision, without
// those of hidden skills.
func (s *Service) Pending(ctx context.Context, orgID string) (int, error) {
	if err := s.reopenStale(ctx, orgID); err != nil {
		return 0, err
	}
	return countPending(ctx, s.DB, orgID)
}
