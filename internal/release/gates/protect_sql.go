package gates

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// readersOf finds whose enforcing gates read an input: those whose policy, or the
// organisation's default, names the suite, and those that read the sources of a skill. It reads
// all policies of the organisation, which are few, rather than search JSON in two SQL dialects.
func readersOf(ctx context.Context, q store.Querier, orgID string, in sources.GateInput) (r readers, err error) {
	own, everyone, err := policiesOf(ctx, q, orgID)
	if err != nil {
		return r, err
	}
	reads := func(p Policy, skillID string) bool {
		switch {
		case p.Mode != Enforce:
			return false
		case len(p.Suites) > 0:
			return in.SuiteID != "" && slices.Contains(p.Suites, in.SuiteID)
		}
		return skillID != "" && slices.Contains(in.SkillIDs, skillID)
	}
	r.byDefault = reads(everyone, "")
	enforced := everyone.Mode == Enforce
	for _, p := range own {
		enforced = enforced || p.Mode == Enforce
	}
	// The usual case: the second query is spared where no gate is enforced.
	if !enforced {
		return r, nil
	}
	entries, err := registry.EntriesOf(ctx, q, orgID)
	for _, e := range entries {
		// An entry with a policy of its own isn't bound by the default.
		p, ok := own[e.ID]
		if !ok {
			p = everyone
		}
		if reads(p, deref(e.SkillID)) {
			r.entries = append(r.entries, reader{id: e.ID, name: e.Name})
		}
	}
	return r, err
}
