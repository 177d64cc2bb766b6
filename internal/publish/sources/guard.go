package sources

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Guard decides who may change the input of gates: someone who may not bypass a gate
// must not be able to weaken its suites either. Every change of a suite, of its imported
// runs, and of the link between source and skill asks it, in the transaction of the
// change.
type Guard interface {
	// MayChange returns fault.Denied with the code Protected unless the caller may change
	// the input.
	MayChange(ctx context.Context, q store.Querier, c access.Caller, in GateInput) error
}

// Protected is the code of the error by which a Guard denies a change.
const Protected = "protected_suite"

// A GateInput is what a change affects: a suite, or all suites of a skill's sources.
type GateInput struct {
	SuiteID  string   // "" for a source
	SkillIDs []string // linked to the source, before or after the change
}

// MayChangeSuite asks the guard about a suite, of a source or of none. suiteID is "" for
// a suite that is being created.
func (s *Service) MayChangeSuite(ctx context.Context, q store.Querier, c access.Caller, suiteID string, sourceID *string) error {
	if s.Guard == nil {
		return nil
	}
	in := GateInput{SuiteID: suiteID}
	if sourceID != nil {
		src, err := sourceByID(ctx, q, *sourceID, "")
		if err != nil && !fault.Is(err, fault.NotFound) { // a suite may outlive its source
			return err
		}
		in.SkillIDs = src.read()
	}
	return s.Guard.MayChange(ctx, q, c, in)
}

// mayLink asks the guard about a change of the skill that a source is linked to.
func (s *Service) mayLink(ctx context.Context, q store.Querier, c access.Caller, before, after Source) error {
	skills := append(before.read(), after.read()...)
	if s.Guard == nil || len(skills) == 0 {
		return nil
	}
	return s.Guard.MayChange(ctx, q, c, GateInput{SkillIDs: skills})
}

// read returns the skills whose gates use the suites of the source: one or none. The
// temporary types are never read.
func (src Source) read() []string {
	if src.SkillID == nil || src.Type == Pull || src.Type == Candidate {
		return nil
	}
	return []string{*src.SkillID}
}
