// Package skills holds the skills of organisations, the observations of their
// use, and the metrics computed from them. All capabilities share it. It owns
// the tables skills, skill_observations, skill_aliases, skill_gradings,
// skill_session_days, skill_session_grades, skill_days and skill_totals.
//
// Metrics are rollups: an observation is inserted once (dedup by its natural
// key), and only then added to the counters per day and per session. Reads touch
// counters only, so that their cost does not grow with history.
package skills

import (
	"context"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// MaxName is the longest name of a skill, in bytes.
const MaxName = 200

// Placeholder reports whether a name is one that producers send instead of the
// real one, e.g. "custom_skill". Such a name never becomes a skill.
func Placeholder(name string) bool {
	switch strings.TrimSpace(name) {
	case "", "custom_skill", "third-party":
		return true
	}
	return false
}

// CleanName trims and validates the name of a skill.
func CleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if Placeholder(name) || len(name) > MaxName || !text.Valid(name) {
		return "", fault.Invalid("skill_name", "skill_name must be a skill's own name of 1 to %d bytes", MaxName)
	}
	return name, nil
}

// Resolve returns the id of the organisation's skill with the name, and creates
// the skill if it is new. It confirms the name, e.g. since it is in the registry.
// An invalid name is a validation error, one that is merged into another skill a
// conflict: that skill has what is reported of it.
func Resolve(ctx context.Context, tx *store.Tx, orgID, name string) (id string, err error) {
	defer fault.Wrap(&err, "skill %q", name)
	name, err = CleanName(name)
	if err != nil {
		return "", err
	}
	known, err := ensureSkills(ctx, tx, orgID, map[string]bool{name: true})
	if k := known[name]; err == nil && k.countsFor != k.id {
		err = fault.New(fault.Conflict, "The skill %s is merged into another one; unmerge it first", name)
	}
	return known[name].id, err
}

// Confirm lists a skill from now on, e.g. since it has a source.
func Confirm(ctx context.Context, tx *store.Tx, id string) error {
	return confirmSkills(ctx, tx, []string{id})
}

// ResolveUnconfirmed returns the ids of the skills that names count for, and
// creates those that are new, without confirming them: to name a skill is no use
// of it. The names must be clean (see CleanName).
func ResolveUnconfirmed(ctx context.Context, tx *store.Tx, orgID string, names []string) (map[string]string, error) {
	unconfirmed := make(map[string]bool, len(names))
	for _, name := range names {
		unconfirmed[name] = false
	}
	known, err := ensureSkills(ctx, tx, orgID, unconfirmed)
	ids := make(map[string]string, len(known))
	for name, k := range known {
		ids[name] = k.countsFor
	}
	return ids, err
}

// resolveAliases finds the canonical id of every observation of the report, and
// stores its new aliases. It deduplicates across producers: two that report the
// same tool call under different ids share an alias, and so one observation,
// whichever arrives first. Ids that became aliases are returned in retired: an
// observation may be stored under them.
func (in *ingestion) resolveAliases(ctx context.Context) (retired []string, err error) {
	var names []string
	for _, o := range in.report.Observations {
		names = append(append(names, o.ID), o.Aliases...)
		if o.Claim != "" {
			names = append(names, o.Claim)
		}
	}
	known, err := aliasesOf(ctx, in.tx, names)
	if err != nil {
		return nil, err
	}
	in.canonical = map[string]string{}
	fresh := map[string]string{}
	learn := func(name, id string) bool {
		if _, ok := known[name]; ok {
			return false
		}
		known[name], fresh[name] = id, id
		return true
	}
	for _, o := range in.report.Observations {
		aliases := o.Aliases
		if o.Claim != "" && !learn(o.Claim, o.ID) && known[o.Claim] != o.ID {
			aliases = nil
		}
		id := o.ID
		for _, name := range append([]string{o.ID}, aliases...) {
			if found, ok := known[name]; ok {
				id = found
				break
			}
		}
		in.canonical[o.ID] = id
		for _, name := range aliases {
			learn(name, id)
		}
		if id != o.ID && learn(o.ID, id) {
			retired = append(retired, o.ID)
		}
	}
	return retired, insertAliases(ctx, in.tx, fresh)
}

// A Summary is a skill's status with the figures that it is derived from.
type Summary struct {
	ID, Name         string
	Status           Status
	PassRate         *float64
	PassRateInterval *[2]float64
	GradedSessions   int64
	Bases            basis.Rates // of PassRate
}

// Summaries returns a summary of all listed skills of an organisation, by name, without
// their Bases. It reads less than List, for pages that show all skills at once.
func (s *Service) Summaries(ctx context.Context, orgID string) ([]Summary, error) {
	found, err := namesOfOrg(ctx, s.DB, orgID)
	if err != nil {
		return nil, err
	}
	graded, err := s.graded(ctx, orgID, found)
	return columnsOf(graded, func(p Performance) Summary {
		return Summary{p.ID, p.Name, p.Status, p.PassRate, p.PassRateInterval, p.GradedSessions, basis.Rates{}}
	}), err
}

// AddBases reads what the pass rates of summaries rest on.
func (s *Service) AddBases(ctx context.Context, of []Summary) error {
	now, err := windows(ctx, s.DB, columnsOf(of, func(k Summary) string { return k.ID }), s.start(), endOfTime)
	for i, k := range of {
		of[i].Bases = now[k.ID].rates()
	}
	return err
}

// start is the first day of the window.
func (s *Service) start() int64 { return dayOf(time.Now()) - int64(s.Window) + 1 }

// graded returns what grades tell of the performance of skills of an organisation,
// without the Bases, which take as long to read.
func (s *Service) graded(ctx context.Context, orgID string, found []skill) ([]Performance, error) {
	sums, err := gradesOfOrg(ctx, s.DB, orgID, s.start()-int64(s.Window), s.start())
	return columnsOf(found, func(k skill) Performance { return newPerformance(k, sums[k.ID].now, sums[k.ID].before) }), err
}

// Costs knows what the model requests of skills cost. The package costs, above this one, implements it.
type Costs interface {
	// CostsOf returns the costs from a day on of those skills or versions that have
	// a request.
	CostsOf(ctx context.Context, orgID string, subjects []string, since int64) (map[string]pricing.Cost, error)
	// Follow is called in the transaction that moves observations or gradings of
	// sessions: their costs follow.
	Follow(ctx context.Context, tx *store.Tx, orgID string, sessions []Session) error
	// Move attributes the requests that count for a skill anew.
	Move(ctx context.Context, orgID, skillID string) error
}

// addCosts sets the costs of the skills of a page.
func (s *Service) addCosts(ctx context.Context, orgID string, page []Performance) error {
	if s.Costs == nil || len(page) == 0 {
		return nil
	}
	ids := columnsOf(page, func(p Performance) string { return p.ID })
	costs, err := s.Costs.CostsOf(ctx, orgID, ids, s.start())
	for i, p := range page {
		if c, ok := costs[p.ID]; ok {
			page[i].Cost, page[i].CostPerUse = &c, c.PerUseP50
		}
	}
	return err
}

// QualityWithCost is Quality with what the requests of the versions, which are of
// one organisation, cost over all time.
func (s *Service) QualityWithCost(ctx context.Context, orgID string, versionIDs []string) (map[string]Quality, error) {
	all, err := s.Quality(ctx, s.DB, versionIDs)
	if err != nil || s.Costs == nil || len(versionIDs) == 0 {
		return all, err
	}
	costs, err := s.Costs.CostsOf(ctx, orgID, versionIDs, -endOfTime)
	for id, c := range costs {
		q := all[id]
		q.Cost = &c
		all[id] = q
	}
	return all, err
}
