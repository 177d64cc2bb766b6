package grades

import (
	"context"
	"math"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// A Grader is how the sessions of a skill are graded without a person.
type Grader struct {
	Enabled      bool
	Expectations []string
	SamplePerDay *int     // sessions that the judge reads; nil for all
	MaxCostUSD   *float64 // of the judge in a day; nil for no limit
	// Threshold is the smallest share of met expectations with which a session passes.
	Threshold float64

	// Inherited means that it is the organisation's: the skill has none of its own.
	Inherited bool
	// Draft means that Expectations are the first draft: none are set.
	Draft bool
	// Unusable counts the sessions without a usable verdict of the judge: see bench.unusable.
	Unusable int
}

// The limits of a grader.
const (
	MaxExpectations  = 50   // as many as the judge takes
	MaxExpectation   = 1000 // bytes
	MaxSamplePerDay  = 100_000
	MaxCostUSDPerDay = 100_000
)

// defaultGrader is the grader of an organisation that has set none. It is disabled,
// and small: a model costs money.
func defaultGrader() Grader {
	sample, cost := 20, 1.0
	return Grader{SamplePerDay: &sample, MaxCostUSD: &cost, Threshold: 1, Expectations: []string{}}
}

// allSkills is the id in graders of the organisation's own one.
const allSkills = ""

// check reports the fields that are wrong. All problems are reported at once, each
// with its field.
func (g Grader) check() error {
	var issues []fault.Issue
	wrong := func(field, format string, args ...any) {
		issues = append(issues, fault.At(field, field+" "+format, args...))
	}
	if len(g.Expectations) > MaxExpectations {
		wrong("expectations", "must be at most %d", MaxExpectations)
	}
	for i, e := range g.Expectations {
		if s := text.PlainLine(e); s == "" || len(e) > MaxExpectation || !text.Valid(e) {
			wrong("expectations."+strconv.Itoa(i), "must have 1 to %d bytes of text", MaxExpectation)
		}
	}
	if n := g.SamplePerDay; n != nil && (*n < 0 || *n > MaxSamplePerDay) {
		wrong("sample_per_day", "must be between 0 and %d, or null for all sessions", MaxSamplePerDay)
	}
	if usd := g.MaxCostUSD; usd != nil && !(*usd >= 0 && *usd <= MaxCostUSDPerDay) {
		wrong("max_cost_usd_per_day", "must be between 0 and %d, or null for no limit", MaxCostUSDPerDay)
	}
	if !(g.Threshold >= 0 && g.Threshold <= 1) {
		wrong("threshold", "must be between 0 and 1")
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// Grader returns the grader of a skill: its own, else the organisation's, else one
// that is disabled. Without expectations it has the first draft of them.
func (s *Service) Grader(ctx context.Context, orgID, idOrName string) (g Grader, err error) {
	defer fault.Wrap(&err, "grader of skill %q", idOrName)
	k, err := s.Skills.Get(ctx, orgID, idOrName)
	if err != nil {
		return g, err
	}
	all, err := gradersOf(ctx, s.DB, orgID, []string{k.ID})
	if err != nil {
		return g, err
	}
	g = effective(all, k.ID)
	if g.Unusable, err = countUnusable(ctx, s.DB, orgID, k.ID); err != nil {
		return g, err
	}
	if len(g.Expectations) == 0 {
		g.Expectations, err = s.draft(ctx, orgID, k.ID, k.Name)
		g.Draft = len(g.Expectations) > 0
	}
	return g, err
}

// effective returns the grader that applies to a skill. A skill's own grader applies
// as a whole: nothing of it is inherited field by field.
func effective(all map[string]Grader, skillID string) Grader {
	g, ok := all[skillID]
	if ok {
		return g
	}
	if g, ok = all[allSkills]; !ok {
		g = defaultGrader()
	}
	g.Inherited = ok
	return g
}

// SharedGrader returns the organisation's grader, for all skills without their own.
func (s *Service) SharedGrader(ctx context.Context, orgID string) (Grader, error) {
	all, err := gradersOf(ctx, s.DB, orgID, nil)
	g := effective(all, allSkills)
	// The default is not inherited from anyone.
	g.Inherited = false
	if err != nil {
		return g, err
	}
	g.Unusable, err = countUnusable(ctx, s.DB, orgID, allSkills)
	return g, err
}

// SetGrader replaces the grader of a skill, by the skill's id or name, or with ""
// that of all skills without their own. If it is enabled, the sessions of the last
// days are graded.
func (s *Service) SetGrader(ctx context.Context, c access.Caller, idOrName string, g Grader) (err error) {
	defer fault.Wrap(&err, "set grader")
	if err := g.check(); err != nil {
		return err
	}
	target, skillID := audit.Target{Kind: "organisation", ID: c.OrgID, Name: c.OrgName}, allSkills
	if idOrName != "" {
		k, err := s.Skills.Get(ctx, c.OrgID, idOrName)
		if err != nil {
			return err
		}
		target, skillID = audit.Target{Kind: "skill", ID: k.ID, Name: k.Name}, k.ID
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := upsertGrader(ctx, tx, c.OrgID, skillID, g); err != nil {
			return err
		}
		err := audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "grades.grader.change", Target: target,
			Detail: audit.Detail{"enabled": g.Enabled, "expectations": len(g.Expectations)},
		})
		if err != nil || !g.Enabled {
			return err
		}
		// Labels are made per skill; those of all skills follow with their next
		// failures.
		if skillID != allSkills {
			if err := s.enqueueLabels(ctx, tx, c.OrgID, skillID); err != nil {
				return err
			}
		}
		return s.Jobs.Enqueue(ctx, tx, backlog{OrgID: c.OrgID}, jobs.Unique(c.OrgID), jobs.For(c.OrgID))
	})
}

// draft returns the first draft of a skill's expectations: those of its evals.json,
// else what its SKILL.md promises, from the registry or else from a source.
func (s *Service) draft(ctx context.Context, orgID, skillID, name string) ([]string, error) {
	read, err := s.packageOf(ctx, orgID, skillID, name)
	if fault.Is(err, fault.NotFound) {
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}
	// An author's own expectations are better than any that are derived.
	for _, path := range evalPaths {
		raw, err := read(path)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if found := draftOfEvals(raw); len(found) > 0 {
			return found, nil
		}
	}
	raw, err := read("SKILL.md")
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	return append([]string{}, draftOfSkill(raw)...), nil
}

// packageOf returns a function that reads a file of a skill's current package. The
// error is a NotFound if there is none.
func (s *Service) packageOf(ctx context.Context, orgID, skillID, name string) (func(path string) ([]byte, error), error) {
	entries, _, err := s.Registry.List(ctx, orgID, registry.Filter{Name: name, Page: store.Page{Limit: 1}})
	if err != nil {
		return nil, err
	}
	if len(entries) == 1 && entries[0].Type == registry.TypeSkill {
		_, version, err := s.Registry.Find(ctx, orgID, entries[0].ID, "")
		return func(path string) ([]byte, error) { return s.Registry.File(ctx, version, path) }, err
	}
	found, err := s.Sources.List(ctx, orgID, sources.Filter{SkillID: skillID})
	if err != nil {
		return nil, err
	}
	for _, src := range found {
		snapshot, err := s.Sources.Snapshot(ctx, orgID, src.ID, "")
		if fault.Is(err, fault.NotFound) {
			continue
		}
		return func(path string) ([]byte, error) { return s.Sources.FileOf(ctx, snapshot, path) }, err
	}
	return nil, fault.New(fault.NotFound, "Skill %s has no package", name)
}

// micros converts dollars, as they are typed, to millionths, as they are stored.
func micros(usd *float64) *int64 {
	if usd == nil {
		return nil
	}
	n := int64(math.Round(*usd * 1_000_000))
	return &n
}
