package proposals

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A Patch is what a person decides about a proposal; nil leaves a part as it is.
type Patch struct {
	Status *Status
	Value  *string // the whole description, or the whole body
}

// Move changes the status of a proposal on behalf of the caller. A transition
// that is not permitted is a Conflict.
func (s *Service) Move(ctx context.Context, c access.Caller, id string, to Status) (Proposal, error) {
	return s.Patch(ctx, c, id, Patch{Status: &to})
}

// Patch changes the value and then the status of a proposal on behalf of the caller.
// A value is written into the current words, so the proposal is not stale any more. The words are
// read before the transaction, since they may come from the blob store.
func (s *Service) Patch(ctx context.Context, c access.Caller, id string, patch Patch) (p Proposal, err error) {
	defer fault.Wrap(&err, "change proposal %s", id)
	var words *Words
	if patch.Value != nil {
		if err := checkValue(*patch.Value); err != nil {
			return p, err
		}
		if p, err = s.Get(ctx, c.OrgID, id); err != nil {
			return p, err
		}
		w, err := s.Words(ctx, c.OrgID, p.SkillID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return p, err
		}
		if err == nil {
			words = &w
		}
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if p, err = s.Lock(ctx, tx, c.OrgID, id); err != nil {
			return err
		}
		if patch.Value != nil {
			if err := p.rewrite(ctx, c, words, *patch.Value); err != nil {
				return err
			}
			if err := p.Record(ctx, tx, "proposals.proposal.edit", audit.Detail{"made_for": orNull(p.BaseVersion)}); err != nil {
				return err
			}
		}
		if patch.Status != nil {
			if err := p.Decide(ctx, tx, c.UserID, *patch.Status); err != nil {
				return err
			}
			// Other systems hear only of applied proposals, and only if the change commits.
			if p.Status == Applied {
				if err := s.Emit(ctx, tx, p); err != nil {
					return err
				}
			}
		}
		return updateProposal(ctx, tx, p)
	})
	return p, err
}

// Lock reads a proposal and locks its row until the transaction ends. One that is stale
// is not approved any more. Callers decide on what it returns.
func (s *Service) Lock(ctx context.Context, tx *store.Tx, orgID, id string) (Proposal, error) {
	p, err := lockProposal(ctx, tx, orgID, id)
	if err != nil {
		return p, err
	}
	one := []Proposal{p}
	err = s.markStale(ctx, tx, orgID, one)
	one[0].reopen()
	return one[0], err
}

// reopenStale takes the approval of an organisation's stale proposals back: clients
// apply what is approved, and would put the old words back. Words change in many ways,
// e.g. by a push or a rollback, so this is done before proposals are read. Most organisations have
// no approved proposal, which one query finds out.
func (s *Service) reopenStale(ctx context.Context, orgID string) error {
	all, err := approvedOf(ctx, s.DB, orgID)
	if err != nil || len(all) == 0 {
		return err
	}
	if err := s.markStale(ctx, s.DB, orgID, all); err != nil {
		return err
	}
	for _, p := range all {
		if !p.reopen() {
			continue
		}
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			now, err := s.Lock(ctx, tx, orgID, p.ID)
			if err != nil {
				return err
			}
			// Lock has taken the approval back; this stores it.
			return updateProposal(ctx, tx, now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reopen makes an approved proposal that is stale pending again, unless it is being
// applied.
func (p *Proposal) reopen() bool {
	if p.Status != Approved || p.Stale == "" || p.Outcome != nil && p.Outcome.State.UnderWay() {
		return false
	}
	p.Status, p.ReviewedBy, p.ReviewedAt = Pending, nil, nil
	return true
}

// Save writes a proposal that Lock has read, without its outcome. Outcomes are written by package
// apply.
func (s *Service) Save(ctx context.Context, tx *store.Tx, p Proposal) error {
	return updateProposal(ctx, tx, p)
}

// Decide moves a locked proposal to another status, for the audit log by a person. Approving is
// refused where there is nothing to apply, or where it would overwrite newer words. Rejecting is
// always possible.
func (p *Proposal) Decide(ctx context.Context, tx *store.Tx, userID string, to Status) error {
	if to == Approved && p.Status == Pending || to == Applied && p.Stale != "" {
		if err := p.Approvable(); err != nil {
			return err
		}
	}
	if err := p.move(to, userID, store.Now()); err != nil {
		return err
	}
	return p.Record(ctx, tx, "proposals.proposal.move", audit.Detail{"status": to})
}

// Emit tells other systems that a proposal is applied. The event commits with the change that it
// tells of.
func (s *Service) Emit(ctx context.Context, tx *store.Tx, p Proposal) error {
	d := events.Data{
		"proposal_id": p.ID, "skill_id": p.SkillID, "skill": p.SkillName, "as": nil, "version": nil,
		"pull_request": nil,
	}
	if o := p.Outcome; o != nil {
		d["as"], d["version"], d["pull_request"] = o.Kind, orNull(o.Version), orNull(o.URL)
	}
	return events.Emit(ctx, tx, s.Jobs, events.Event{OrgID: p.OrgID, Type: events.ProposalApplied, Path: "/proposals/" +
		p.ID, Data: d})
}

// Approvable refuses a proposal that says nothing to apply: clients apply what is
// approved.
func (p Proposal) Approvable() error {
	switch {
	case p.ProposedValue == nil:
		return fault.New(fault.Conflict,
			"The proposal has no value to apply yet: write one (PATCH proposed_value, or on its page), or reject it")
	case p.Stale != "":
		return fault.New(fault.Conflict, "%s: refresh the proposal, or write its value again", p.Stale)
	}
	return nil
}

// Record writes an action on a proposal to the audit log.
func (p Proposal) Record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: p.OrgID, Action: action, Target: audit.Target{Kind: "proposal", ID: p.ID, Name: p.SkillName}, Detail: d,
	})
}

// rewrite sets the value that a person wrote. What was proved was about other words. The value is
// merged into the current words, if they are known, so that a whole SKILL.md is applied.
func (p *Proposal) rewrite(ctx context.Context, c access.Caller, words *Words, value string) error {
	if p.settled() {
		return fault.New(fault.Conflict, "A proposal that is %s cannot be changed", p.Status)
	}
	if p.Outcome != nil && p.Outcome.State.UnderWay() {
		return fault.New(fault.Conflict, "The proposal is being applied: its value cannot be changed now")
	}
	// Saving the page of a proposal without a change keeps its proof.
	if p.ProposedValue != nil && *p.ProposedValue == value && p.Stale == "" {
		return nil
	}
	if words != nil {
		change, err := words.change(p.Target, value, p.SkillMD)
		if err != nil {
			// A value that doesn't fit into SKILL.md is a validation error.
			if refused, ok := errors.AsType[*skillpkg.Error](err); ok {
				return fault.Invalid("proposed_value", "%s", refused.Error())
			}
			return err
		}
		if err := checkChange(ctx, words.SkillMD, change.SkillMD); err != nil {
			return err
		}
		p.Change, p.CurrentValue = change, p.Type.value(words.parsed)
	}
	at := store.Now()
	p.ProposedValue, p.EditedBy, p.RefreshedAt, p.Stale = &value, &c.UserID, &at, ""
	p.Proved, p.Proof, p.ProjectedPassRate = false, nil, nil
	return nil
}

// Complete gives an old proposal, which has a value only, the SKILL.md to apply. It is
// a Conflict if that cannot be made of the current words. Proposals of earlier versions have no
// SKILL.md. Doing this on the first use saves a migration that reads every skill.
func (s *Service) Complete(ctx context.Context, orgID, id string) (err error) {
	defer fault.Wrap(&err, "complete proposal %s", id)
	p, err := s.Get(ctx, orgID, id)
	if err != nil || p.SkillMD != "" || p.ProposedValue == nil {
		return err
	}
	words, err := s.Words(ctx, orgID, p.SkillID)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Conflict, "The words of %s are not known here: push the skill to the registry first",
			p.SkillName).Because(err)
	}
	if err != nil {
		return err
	}
	now := p.Type.value(words.parsed)
	if p.CurrentValue != nil && *p.CurrentValue != *now {
		return fault.New(fault.Conflict, "The %s of %s has changed since: refresh the proposal, or write its value again",
			p.Type, p.SkillName)
	}
	change, err := words.change(p.Target, *p.ProposedValue, "")
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		locked, err := lockProposal(ctx, tx, orgID, id)
		// Somebody has changed the proposal in between; the caller reads it again.
		if err != nil || locked.SkillMD != "" || locked.ProposedValue == nil || *locked.ProposedValue != *p.ProposedValue {
			return err
		}
		locked.Change, locked.CurrentValue = change, now
		return updateProposal(ctx, tx, locked)
	})
}

// UnderWay reports whether something is being done, or was, that a person must wait
// for or take back before it is done in another way.
func (s State) UnderWay() bool {
	return s == Queued || s == Candidate || s == Open || s == Published || s == Merged
}

// Refresh makes a proposal from signals anew of the current words.
func (s *Service) Refresh(ctx context.Context, c access.Caller, id string) (p Proposal, err error) {
	defer fault.Wrap(&err, "refresh proposal %s", id)
	if p, err = s.Get(ctx, c.OrgID, id); err != nil {
		return p, err
	}
	words, err := s.Words(ctx, c.OrgID, p.SkillID)
	if fault.Is(err, fault.NotFound) {
		return p, fault.New(fault.Conflict, "The words of the skill are not known: push it to the registry first").Because(err)
	}
	if err != nil {
		return p, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if p, err = s.Lock(ctx, tx, c.OrgID, id); err != nil {
			return err
		}
		switch {
		// It is up to date, so there is nothing to do. That isn't an error: two people may press
		// the button.
		case p.Stale == "" && p.BaseDigest != "":
			return nil
		case p.Status != Pending:
			return fault.New(fault.Conflict, "A proposal that is %s is not refreshed", p.Status)
		case p.EditedBy != nil:
			return fault.New(fault.Conflict, "A person wrote its value: write it again for the current words")
		case p.ProposedBy != Contributors:
			return fault.New(fault.Conflict, "What it proposes was tried with other words: start another improve run")
		}
		p.rebase(words)
		if err := p.Record(ctx, tx, "proposals.proposal.refresh", audit.Detail{"made_for": orNull(p.BaseVersion)}); err != nil {
			return err
		}
		return updateProposal(ctx, tx, p)
	})
	return p, err
}

// rebase makes a proposal from signals for the current words.
func (p *Proposal) rebase(words Words) {
	var e evidence
	_ = json.Unmarshal(p.Evidence, &e) // ours; what it does not have is not proposed
	at := store.Now()
	p.CurrentValue, p.ProposedValue, p.Change = offer(words, p.Type, e.bucketNames())
	p.RefreshedAt, p.Stale = &at, ""
}

// grow brings a pending proposal up to date with what signals say now, and with the
// current words. What a person wrote stays. Each ingest leads here, so nothing is written if
// nothing has changed.
func (s *Service) grow(ctx context.Context, there Proposal, f signals.Finding) error {
	if there.Status != Pending {
		return nil
	}
	words, err := s.Words(ctx, there.OrgID, there.SkillID)
	known := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	d := newDraft(there.OrgID, f)
	evidence, err := json.Marshal(d.Evidence)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		p, err := lockProposal(ctx, tx, there.OrgID, there.ID)
		if err != nil || p.Status != Pending {
			return err
		}
		before := p
		p.Reason, p.Confidence, p.Evidence = d.Reason, d.Confidence, evidence
		if known && p.EditedBy == nil {
			p.rebase(words)
			// Only a change of the content counts as a refresh.
			p.RefreshedAt = before.RefreshedAt
		}
		if reflect.DeepEqual(p, before) {
			return nil
		}
		at := store.Now()
		p.RefreshedAt = &at
		return updateProposal(ctx, tx, p)
	})
}
