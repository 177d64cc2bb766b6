// Package curate lets people keep the list of skills in order: hide a name, or
// merge it into another one, which then has all that is reported of it. Both can
// be undone.
package curate

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Service changes the standing of skills.
type Service struct {
	DB     *store.DB
	Jobs   *jobs.Queue
	Skills *skills.Service
}

// A Change is the input of Update; nil leaves a field as it is.
type Change struct {
	Hidden     *bool
	MergedInto *string // the id or name of another skill; "" takes a merge back
}

// Update hides a skill, shows it again, merges it into another one or takes that
// back. It is idempotent. What is reported from then on counts for the other
// skill at once; a job moves what was reported before.
func (s *Service) Update(ctx context.Context, orgID, idOrName string, c Change) (err error) {
	defer fault.Wrap(&err, "update skill %q", idOrName)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		// The lock waits for reports that name the skill: they count for the skill into which
		// it was merged when they began.
		rows, err := tx.Query(ctx, selectSkill+tx.Dialect().ForUpdate(), orgID, idOrName)
		k, err := store.One(rows, err, "Skill", scanSkill)
		if err != nil {
			return err
		}
		if c.Hidden != nil && *c.Hidden != k.hidden {
			k.hidden = *c.Hidden
			action := map[bool]string{true: "skills.skill.hide", false: "skills.skill.unhide"}[k.hidden]
			if err := k.record(ctx, tx, action, nil); err != nil {
				return err
			}
		}
		if c.MergedInto != nil {
			if err := s.merge(ctx, tx, &k, *c.MergedInto); err != nil {
				return err
			}
		}
		return updateSkill(ctx, tx, k)
	})
}

func (s *Service) merge(ctx context.Context, tx *store.Tx, k *skill, into string) error {
	action, detail, target := "skills.skill.unmerge", audit.Detail(nil), ""
	if into != "" {
		t, err := mergeTarget(ctx, tx, *k, into)
		if err != nil {
			return err
		}
		action, detail, target = "skills.skill.merge", audit.Detail{"into": t.name}, t.id
	}
	if target == k.mergedInto {
		return nil
	}
	from := k.mergedInto
	k.mergedInto = target
	if err := k.record(ctx, tx, action, detail); err != nil {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, move{OrgID: k.orgID, SkillID: k.id, From: from}, jobs.Unique(k.id+"/"+from), jobs.For(k.orgID))
}

// mergeTarget returns the skill that k shall be merged into. There are no chains
// of merges, and what has a registry entry or a source keeps its name.
func mergeTarget(ctx context.Context, tx *store.Tx, k skill, into string) (skill, error) {
	t, err := targetSkill(ctx, tx, k.orgID, into)
	switch {
	case fault.Is(err, fault.NotFound):
		return t, fault.Invalid("merged_into", "there is no skill %s to merge into", into)
	case err != nil:
		return t, err
	case t.id == k.id:
		return t, fault.Invalid("merged_into", "a skill cannot be merged into itself")
	case t.mergedInto != "":
		return t, fault.Invalid("merged_into", "%s is merged into another skill itself; name that one", t.name)
	case !t.confirmed:
		return t, fault.Invalid("merged_into", "%s is not confirmed: no real use of it was reported", t.name)
	}
	merged, err := hasMerged(ctx, tx, k.orgID, k.id)
	if err != nil {
		return t, err
	}
	if merged {
		return t, fault.Invalid("merged_into", "other skills are merged into %s; unmerge them first", k.name)
	}
	held, err := holderOf(ctx, tx, k.orgID, k.id)
	if err == nil && held != "" {
		err = fault.New(fault.Conflict, "%s has a %s; merge the other skill into it, or remove the %s first", k.name, held, held)
	}
	return t, err
}

func (k skill) record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: k.orgID, Action: action, Target: audit.Target{Kind: "skill", ID: k.id, Name: k.name}, Detail: d,
	})
}

// Register makes the queue run the jobs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, m move) error { return s.Move(ctx, m.OrgID, m.SkillID, m.From) })
}
