package gates

import (
	"context"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// lowers returns the fields by which a policy asks for less than the one that was in force
// before, e.g. ["mode", "floors.pass_rate"]. Those that say how much a gate may cost are left
// out: agent, trials, cost and time.
func (p Policy) lowers(before Policy) (fields []string) {
	lower := func(field string, is bool) {
		if is {
			fields = append(fields, field)
		}
	}
	modes := []Mode{Off, Report, Enforce}
	lower("mode", slices.Index(modes, p.Mode) < slices.Index(modes, before.Mode))
	lower("approvals", p.Approvals < before.Approvals)
	lower("self_approval", p.SelfApproval && !before.SelfApproval)
	lower("host_reviews", p.HostReviews && !before.HostReviews)
	lower("min_cases", p.MinCases < before.MinCases)
	// Naming suites where an enforced policy had all of the skill's may leave some out.
	lower("suites", slices.ContainsFunc(before.Suites, func(id string) bool { return !slices.Contains(p.Suites, id) }) ||
		len(p.Suites) > 0 && len(before.Suites) == 0 && before.Mode == Enforce)
	lower("on_inconclusive", p.OnInconclusive == PassInconclusive && before.OnInconclusive != PassInconclusive)
	f, was := p.Floors, before.Floors
	lower("floors.validation", was.Validation != nil &&
		(f.Validation == nil || *was.Validation == lint.StatusPass && *f.Validation != lint.StatusPass))
	lower("floors.pass_rate", was.PassRate != nil && (f.PassRate == nil || *f.PassRate < *was.PassRate))
	lower("floors.trigger_recall", was.TriggerRecall != nil && (f.TriggerRecall == nil || *f.TriggerRecall < *was.TriggerRecall))
	lower("floors.skill_md_tokens", was.SkillTokens != nil && (f.SkillTokens == nil || *f.SkillTokens > *was.SkillTokens))
	return fields
}

// mayLower refuses callers who may not lower a policy: it is the same as overriding every
// gate to come. A narrowed key is refused even if its owner is an admin: it may be in the hands
// of a program.
func mayLower(c access.Caller, fields []string) error {
	what := strings.Join(fields, ", ")
	if !auth.Person(c) {
		return fault.New(fault.Denied, "This lowers %s, which only people do: sign in, or use a key of your "+
			"own with all permissions of your role", what)
	}
	if !c.May(access.RegistryRollback) {
		return fault.New(fault.Denied, "This lowers %s, which needs the permission %s: ask an admin", what,
			access.RegistryRollback)
	}
	return nil
}

// PolicyFor returns the policy that a version of an entry must meet: that of its entry, and
// where it was lowered while the version waited, what it asked for before. Otherwise an admin
// who lowers the policy would release everything that waits, unseen.
func PolicyFor(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (Policy, error) {
	p, err := PolicyIn(ctx, q, e)
	if err != nil {
		return p, err
	}
	all, err := requirementsOf(ctx, q, v.ID)
	if kept, ok := all[v.ID]; ok {
		p = p.Keeping(kept)
	}
	return p, err
}

// PoliciesFor is PolicyFor for versions of one organisation, by the version's id.
func PoliciesFor(ctx context.Context, q store.Querier, orgID string, versions []registry.Version) (map[string]Policy, error) {
	own, everyone, err := policiesOf(ctx, q, orgID)
	if err != nil {
		return nil, err
	}
	policies, ids := map[string]Policy{}, make([]string, len(versions))
	for i, v := range versions {
		p, ok := own[v.EntryID]
		if !ok {
			p = everyone
		}
		ids[i], policies[v.ID] = v.ID, p
	}
	kept, err := requirementsOf(ctx, q, ids...)
	for id, p := range kept {
		policies[id] = policies[id].Keeping(p)
	}
	return policies, err
}

// after returns the policy by which a version is gated again that was gated with another
// one: a candidate stays one, a published version is only reported on, and what was asked of
// a candidate is not lowered while it waits. The suites are those of the current policy: an
// admin who replaced a wrong one asks again with the right one.
func (p Policy) after(before Policy) Policy {
	// Switched off, it asks for nothing; the rerun is of what was asked before.
	if p.Mode == Off {
		return before
	}
	p.Mode = before.Mode
	if before.Mode != Enforce {
		return p
	}
	p = p.Keeping(before)
	if before.OnInconclusive == HoldInconclusive {
		p.OnInconclusive = HoldInconclusive
	}
	f, was := &p.Floors, before.Floors
	if was.Validation != nil && (f.Validation == nil || *was.Validation == lint.StatusPass) {
		f.Validation = was.Validation
	}
	f.PassRate, f.TriggerRecall = higher(f.PassRate, was.PassRate), higher(f.TriggerRecall, was.TriggerRecall)
	if was.SkillTokens != nil && (f.SkillTokens == nil || *f.SkillTokens > *was.SkillTokens) {
		f.SkillTokens = was.SkillTokens
	}
	return p
}

// higher returns the stricter of two floors; nil is no floor.
func higher(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// Keeping returns the policy with the approvals that another one asks for, where it asks for
// more. Approvals are all it keeps. What a gate asks is kept on the gate.
func (p Policy) Keeping(kept Policy) Policy {
	p.Approvals = max(p.Approvals, kept.Approvals)
	p.SelfApproval, p.HostReviews = p.SelfApproval && kept.SelfApproval, p.HostReviews && kept.HostReviews
	return p
}
