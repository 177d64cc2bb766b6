package sources

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Guard says who may change what gates read. Every change of a suite, of its runs by
// import, and of the link between a source and a skill asks it, in the transaction of the
// change.
type Guard interface {
	// MayChange returns a fault.Denied with the code "protected_suite" unless the caller may
	// change the input of gates.
	MayChange(ctx context.Context, q store.Querier, c access.Caller, in GateInput) error
}

// Protected is the code of the errors by which a Guard refuses a change.
const Protected = "protected_suite"

// A GateInput is what gates may read: a suite, or the suites of a skill's sources.
type GateInput struct {
	SuiteID  string   // "" for a source
	SkillIDs []string // that the source is measured as, before and after the change
}

// MayChangeSuite asks the guard about a suite of a source, or of none. The id is "" for a
// suite that is about to be created.
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

// mayLink asks the guard about a change of the skill of a source.
func (s *Service) mayLink(ctx context.Context, q store.Querier, c access.Caller, before, after Source) error {
	skills := append(before.read(), after.read()...)
	if s.Guard == nil || len(skills) == 0 {
		return nil
	}
	return s.Guard.MayChange(ctx, q, c, GateInput{SkillIDs: skills})
}

// read returns the skills whose gates read the suites of the source: one or none.
func (src Source) read() []string {
	if src.SkillID == nil || src.Type == Pull || src.Type == Candidate {
		return nil
	}
	return []string{*src.SkillID}
}
