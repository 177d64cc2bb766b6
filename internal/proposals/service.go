package proposals

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/signals"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service stores proposals.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Signals  *signals.Service
	Registry *registry.Service
}

// Propose creates a proposal in the caller's transaction and returns its id. It
// is idempotent: if the skill has a proposal for the finding, the id of that is
// returned and nothing changes.
func (s *Service) Propose(ctx context.Context, tx *store.Tx, d Draft) (id string, err error) {
	defer fault.Wrap(&err, "propose %s for %q", d.Finding, d.SkillName)
	skillID, err := skills.Resolve(ctx, tx, d.OrgID, d.SkillName)
	if fault.Is(err, fault.Conflict) { // it is merged into another skill, which the proposal is about then
		var ids map[string]string
		ids, err = skills.ResolveUnconfirmed(ctx, tx, d.OrgID, []string{strings.TrimSpace(d.SkillName)})
		skillID = ids[strings.TrimSpace(d.SkillName)]
	}
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
		Status: Pending, ProposedBy: d.ProposedBy, CreatedAt: store.Now(),
	})
}

// Generate turns the findings in contributors' signals into proposals. A
// finding that has a proposal already is skipped, so it is idempotent. One that
// fails does not keep back the others.
func (s *Service) Generate(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "generate proposals of %s", orgID)
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

func (s *Service) proposeFinding(ctx context.Context, orgID string, f signals.Finding) error {
	exists, err := proposalExists(ctx, s.DB, orgID, f.SkillName, f.Name)
	if err != nil || exists {
		return err
	}
	entries, _, err := s.Registry.List(ctx, orgID, registry.Filter{Name: f.SkillName, Limit: 1})
	if err != nil {
		return err
	}
	description := ""
	if len(entries) > 0 {
		description = entries[0].Description
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		_, err := s.Propose(ctx, tx, newDraft(orgID, f, description))
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
	Limit      int
	Offset     int
}

// List returns a page of the organisation's proposals, newest first, and their
// number.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Proposal, int, error) {
	return proposalsOf(ctx, s.DB, orgID, f)
}

// Get returns a proposal of the organisation.
func (s *Service) Get(ctx context.Context, orgID, id string) (Proposal, error) {
	return proposalByID(ctx, s.DB, orgID, id, "")
}

// Move changes the status of a proposal on behalf of the caller. A transition
// that is not permitted is a Conflict.
func (s *Service) Move(ctx context.Context, c access.Caller, id string, to Status) (p Proposal, err error) {
	defer fault.Wrap(&err, "move proposal %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if p, err = proposalByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if err := p.move(to, c.UserID, store.Now()); err != nil {
			return err
		}
		if err := updateStatus(ctx, tx, p); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: p.OrgID, Action: "proposals.proposal.move", Target: audit.Target{Kind: "proposal", ID: p.ID, Name: p.SkillName},
			Detail: audit.Detail{"status": to},
		})
	})
	return p, err
}

// Pending counts the proposals of an organisation that await a decision, without
// those of hidden skills.
func (s *Service) Pending(ctx context.Context, orgID string) (int, error) {
	return countPending(ctx, s.DB, orgID)
}
