package unattended

import (
	"context"
	"log/slog"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals/apply"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Service keeps the policies of skills, and starts their runs.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Skills   *skills.Service
	Registry *registry.Service
	Sources  *sources.Service
	Suites   *suites.Service
	Gates    *gates.Service
	Improve  *improve.Service
	Apply    *apply.Service
	Log      *slog.Logger
}

// PolicyOf returns the policy of a skill, by its id or name, and what its runs have
// cost this month.
func (s *Service) PolicyOf(ctx context.Context, orgID, idOrName string) (p Policy, spent float64, err error) {
	defer fault.Wrap(&err, "improve policy of skill %q", idOrName)
	skill, err := s.Skills.Get(ctx, orgID, idOrName)
	if err != nil {
		return p, 0, err
	}
	found, err := policyOfSkill(ctx, s.DB, orgID, skill.ID)
	if err != nil {
		return p, 0, err
	}
	spent, err = spentSince(ctx, s.DB, orgID, skill.ID, monthOf(store.Now()))
	return found.Policy, spent, err
}

// SetPolicy sets the mode and the budget of a skill, by its id or name. The mode
// publish is a Conflict unless the gate of the skill's entry is enforced: nothing
// else would keep a bad version back.
func (s *Service) SetPolicy(ctx context.Context, c access.Caller, idOrName string, p Policy) (err error) {
	defer fault.Wrap(&err, "set the improve policy of skill %q", idOrName)
	skill, err := s.Skills.Get(ctx, c.OrgID, idOrName)
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	// Its sessions count for the other skill, whose text they are about.
	if skill.MergedInto != nil && p.Mode != Off {
		return fault.New(fault.Conflict, "The skill %s is merged into another one; set the policy of that", skill.Name)
	}
	if p.Mode == Publish {
		entry, err := s.entryOf(ctx, c.OrgID, skill.ID)
		if err != nil {
			return err
		}
		why, err := s.ungated(ctx, c.OrgID, entry)
		if err != nil {
			return err
		}
		if why != "" {
			return fault.New(fault.Conflict, "Versions cannot be published without a person: %s", why)
		}
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := upsertPolicy(ctx, tx, c, skill.ID, p); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "improve.policy.change", Target: audit.Target{Kind: "skill", ID: skill.ID, Name: skill.Name},
			Detail: audit.Detail{"mode": p.Mode, "monthly_usd": p.MonthlyUSD},
		})
	})
}

// entryOf returns the entry of a skill; nil if it is not in the registry. The transaction is only
// for the lookup, which takes a lock.
func (s *Service) entryOf(ctx context.Context, orgID, skillID string) (entry *registry.Entry, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.LockOfSkill(ctx, tx, orgID, skillID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		entry = &e
		return err
	})
	return entry, err
}

// ungated says why versions of an entry are not held by a gate; "" if they are.
func (s *Service) ungated(ctx context.Context, orgID string, e *registry.Entry) (string, error) {
	if e == nil {
		return "the skill is not in the registry", nil
	}
	p, _, err := s.Gates.PolicyOf(ctx, orgID, e.ID)
	if err != nil || p.Mode == gates.Enforce {
		return "", err
	}
	return "the gate policy of " + e.Name + " is " + string(p.Mode) + ", and must be enforce", nil
}
