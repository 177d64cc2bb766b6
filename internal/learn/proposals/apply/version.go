package apply

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// publish pushes the next version of the proposal's entry: the files of the current
// one with the proposed SKILL.md. After a crash it finds the version that it pushed.
func (s *Service) publish(ctx context.Context, p proposals.Proposal) error {
	taken, ours, err := s.pushed(ctx, p)
	if err != nil {
		return err
	}
	if ours {
		return s.followVersion(ctx, p)
	}
	if taken {
		if p.Outcome.Version, err = s.rename(ctx, p); err != nil {
			return err
		}
	}
	if p.Stale != "" {
		return fault.New(fault.Conflict, "%s", p.Stale)
	}
	e, current, err := s.Registry.Find(ctx, p.OrgID, p.EntryID, "")
	if err != nil {
		return err
	}
	archive, err := s.pack(ctx, current, p.SkillMD)
	if err != nil {
		return err
	}
	defer archive.Close()
	summary := text.Ellipsis(fmt.Sprintf("%s\n\nProposal %s", p.Reason, p.ID), 10_000)
	_, _, _, err = s.Registry.Push(ctx, e.ID, registry.Publication{
		OrgID: p.OrgID, UserID: p.Outcome.AppliedBy, Version: p.Outcome.Version, ChangeSummary: &summary,
		Source: registry.FromCLI, SourceRepo: current.SourceRepo, Archive: archive, Size: archive.Size(),
		// Onto makes the push fail if another version has become current since the files were read.
		Onto: current.ID,
	})
	if err != nil {
		return err
	}
	return s.followVersion(ctx, p)
}

// pushed reports whether there is a version of the outcome's name, and whether it is
// the one that the proposal became. The content decides: after a crash, the version may exist
// without the outcome knowing its id.
func (s *Service) pushed(ctx context.Context, p proposals.Proposal) (taken, ours bool, err error) {
	_, v, err := s.Registry.Version(ctx, p.OrgID, p.EntryID, p.Outcome.Version)
	if fault.Is(err, fault.NotFound) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	content, err := s.Registry.File(ctx, v, "SKILL.md")
	if fault.Is(err, fault.NotFound) {
		return true, false, nil
	}
	return true, err == nil && string(content) == p.SkillMD, err
}

// rename takes the next name when somebody pushed another version of the first. The outcome is
// updated before the push, so a crash in between is found again by its new name.
func (s *Service) rename(ctx context.Context, p proposals.Proposal) (name string, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, p.OrgID, p.EntryID)
		if err != nil {
			return err
		}
		if name, err = release.NextPatch(ctx, tx, e); err != nil {
			return err
		}
		o := *p.Outcome
		o.Version = name
		return updateOutcome(ctx, tx, p, o)
	})
	return name, err
}

// pack returns the archive of a version with another SKILL.md. The caller closes it.
func (s *Service) pack(ctx context.Context, v registry.Version, skillMD string) (*spool.Spool, error) {
	pkg, err := s.Registry.Open(ctx, v)
	if err != nil {
		return nil, err
	}
	defer pkg.Close()
	changed, err := pkg.WithSkill(ctx, skillMD)
	if err != nil {
		return nil, err
	}
	defer changed.Close()
	return changed.Repack(ctx, skillpkg.TarGz)
}

// followVersion writes what the registry says about the outcome's version. A version that was
// withdrawn and one whose entry was deleted look the same to the reader of the proposal.
func (s *Service) followVersion(ctx context.Context, p proposals.Proposal) error {
	_, v, err := s.Registry.Version(ctx, p.OrgID, p.Outcome.EntryID, p.Outcome.Version)
	if fault.Is(err, fault.NotFound) {
		if p.Outcome.VersionID == "" {
			return nil // not pushed yet
		}
		return s.settle(ctx, p, func(o *proposals.Outcome) {
			o.State, o.Message = proposals.Withdrawn, "The entry was deleted"
		})
	}
	if err != nil {
		return err
	}
	state, message, err := s.stateOf(ctx, v)
	if err != nil {
		return err
	}
	return s.settle(ctx, p, func(o *proposals.Outcome) {
		o.VersionID, o.State, o.Message = v.ID, state, message
	})
}

const waitsForPeople = "It waits for approval"

// stateOf maps the registry's state and the gate's to that of an outcome. The gate is only asked
// while the version is a candidate.
func (s *Service) stateOf(ctx context.Context, v registry.Version) (_ proposals.State, message string, err error) {
	switch {
	case v.State == registry.Withdrawn:
		return proposals.Withdrawn, "", nil
	case v.RolledBack:
		return proposals.RolledBack, "", nil
	case v.State == registry.Published:
		return proposals.Published, "", nil
	case v.GateID == nil:
		return proposals.Candidate, waitsForPeople, nil
	}
	g, err := s.Gates.Get(ctx, v.OrgID, *v.GateID)
	if err != nil {
		return "", "", err
	}
	switch {
	case g.Override != nil:
		return proposals.Candidate, waitsForPeople, nil
	case g.Status != gates.Decided || g.Verdict == nil:
		return proposals.Candidate, g.Reason, nil
	case g.Policy.Mode == gates.Enforce && !g.Releases():
		return proposals.Blocked, fmt.Sprintf("The gate says %s: %s", *g.Verdict, g.Reason), nil
	}
	return proposals.Candidate, waitsForPeople, nil
}
