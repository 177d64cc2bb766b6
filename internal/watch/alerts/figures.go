package alerts

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// figures are what a rule is evaluated on. Which of them are set depends on the
// organisation's rules, see readFigures.
type figures struct {
	skills.WindowStats
	lineage         registry.Lineage // zero if the skill is not in the registry
	current, before skills.Quality   // of its versions
	cost            *pricing.Cost    // over WindowDays; nil if unknown
	offers          skills.Offers
	evidence        Evidence
}

// figuresOf reads what the rules of an organisation need, of all skills at once.
type figuresOf struct {
	windows  map[string]skills.WindowStats
	recent   map[string]skills.WindowStats // over evidenceDays
	lineages map[string]registry.Lineage
	quality  map[string]skills.Quality // by version
	offers   map[string]skills.Offers
	costs    map[string]pricing.Cost
	sessions map[string][]skills.GradedSession // by skill, as far as they were read
}

func (s *Service) readFigures(
	ctx context.Context, tx *store.Tx, orgID string, rules []Rule, costs map[string]pricing.Cost,
) (f figuresOf, err error) {
	f = figuresOf{costs: costs, sessions: map[string][]skills.GradedSession{}}
	if f.windows, err = s.Skills.WindowStats(ctx, tx, orgID, WindowDays); err != nil {
		return f, err
	}
	ids := make([]string, 0, len(f.windows))
	for id := range f.windows {
		ids = append(ids, id)
	}
	// Each kind of figures costs queries, so only those are read that some rule
	// needs.
	var sequential, versions, offers, rollback bool
	for _, r := range rules {
		sequential = sequential || r.Sensitivity == Sequential && r.Type.onGrades()
		versions = versions || r.Type == WorseThanPrevious
		offers = offers || r.Type == SilentFall
		rollback = rollback || r.Action != nil
	}
	if sequential {
		if f.recent, err = s.Skills.WindowStats(ctx, tx, orgID, evidenceDays); err != nil {
			return f, err
		}
	}
	if sequential || versions || rollback {
		if f.lineages, err = registry.LineagesOfSkills(ctx, tx, orgID, ids); err != nil {
			return f, err
		}
	}
	if versions || rollback {
		var compared []string
		for _, l := range f.lineages {
			compared = append(compared, l.CurrentID)
			if l.BeforeID != "" {
				compared = append(compared, l.BeforeID)
			}
		}
		if f.quality, err = s.Skills.Quality(ctx, tx, compared); err != nil {
			return f, err
		}
	}
	if offers {
		f.offers, err = s.Skills.Offers(ctx, tx, ids, WindowDays, evidenceDays)
	}
	return f, err
}

// of returns the figures of one skill. Missing ones are zero, which rules take for
// insufficient data.
func (f figuresOf) of(skillID string) figures {
	one := figures{WindowStats: f.windows[skillID], lineage: f.lineages[skillID], offers: f.offers[skillID]}
	one.current, one.before = f.quality[one.lineage.CurrentID], f.quality[one.lineage.BeforeID]
	if c, ok := f.costs[skillID]; ok {
		one.cost = &c
	}
	return one
}

// gather brings the evidence of a rule up to date. As long as the figures are
// those that it was computed from, it reads nothing; of a skill whose figures
// changed, the sessions are read once for all rules.
func (f figuresOf) gather(
	ctx context.Context, q store.Querier, r Rule, one figures, known Evidence, now time.Time,
) (Evidence, error) {
	threshold, wanted := r.passRateLimit(one)
	if !wanted {
		return Evidence{}, nil
	}
	recent := f.recent[one.ID]
	rate := math.NaN()
	if recent.PassRate != nil {
		rate = *recent.PassRate
	}
	// The counter tells gradings that moved to another version, or changed and left the
	// pass rate as it was; servers of the version before do not count. The key of
	// the cached evidence: it has everything that the evidence depends on. The 4 is
	// the version of the computation; the day is in it since windows move.
	of := fmt.Sprintf("4 %s %d %d %d %d %v %v", one.lineage.CurrentID, one.lineage.Since.UnixMicro(),
		now.Unix()/int64(day.Seconds()), recent.GradingChanges, recent.GradedSessions, rate, threshold)
	if of == known.of {
		return known, nil
	}
	sessions, read := f.sessions[one.ID]
	if !read {
		var err error
		since := now.Add(-(evidenceDays + dispersionDays) * day)
		if sessions, err = skills.GradedSince(ctx, q, one.ID, since, maxGradings); err != nil {
			return known, err
		}
		f.sessions[one.ID] = sessions
	}
	e := gatherEvidence(sessions, threshold, one.lineage, one.GradedSessions, recent.GradedSessions, now)
	e.of = of
	return e, nil
}

// passRateLimit is the pass rate that the rule wants of the skill, if that is known.
func (r Rule) passRateLimit(f figures) (float64, bool) {
	if r.Type == PassRateBelow {
		return r.Threshold, true
	}
	// Against a reference of few sessions any version could look worse.
	if f.before.GradedSessions < minReference || f.before.PassRate == nil {
		return 0, false
	}
	rate := *f.before.PassRate
	if r.Sensitivity == Sequential {
		// The sessions since add up, and with them an error of the reference: a rate that
		// looks better than it is would raise an alarm sooner or later.
		rate -= referenceMargin * stats.StandardError(rate, int(f.before.GradedSessions))
	}
	return max(0, rate-r.Threshold), true
}

const (
	// minReference is how many graded sessions make the pass rate of the version
	// before a reference.
	minReference = 20
	// referenceMargin is how many standard errors below its pass rate the reference is
	// taken to be. TestPromises simulates the false alarms that are left.
	referenceMargin = 1
	// minPriced is how many uses whose price is known say what a use costs.
	minPriced = 5
	// minOffered is how many sessions that were offered the skill say how often it
	// is used.
	minOffered = 20
)

// evaluateVersion compares the current version with the one before.
func (r Rule) evaluateVersion(f figures) verdict {
	limit, known := r.passRateLimit(f)
	if !known || f.current.GradedSessions < minGraded || f.current.PassRate == nil {
		return insufficient
	}
	if r.Sensitivity == Confident {
		// Newcombe's interval of the difference between independent rates.
		was, is := *f.before.PassRate, *f.current.PassRate
		low, _ := stats.Wilson(was, int(f.before.GradedSessions))
		_, high := stats.Wilson(is, int(f.current.GradedSessions))
		if was-is-math.Hypot(was-low, high-is) > r.Threshold {
			return breached
		}
		return healthy
	}
	if skills.Below(*f.current.PassRate, limit) {
		return breached
	}
	return healthy
}

// evaluateCost looks at the median: a few expensive uses are no alarm.
func (r Rule) evaluateCost(f figures) verdict {
	if f.cost == nil || f.cost.PerUseP50 == nil || f.cost.Uses < minPriced {
		return insufficient
	}
	cost := f.cost.PerUseP50
	if r.Sensitivity != Point { // the lower end of the interval of the median
		if cost = f.cost.PerUseLow; cost == nil {
			return insufficient
		}
	}
	if *cost > r.Threshold {
		return breached
	}
	return healthy
}

// evaluateOffers compares how often agents use the skill when they have it with
// the weeks before.
func (r Rule) evaluateOffers(f figures) verdict {
	o := f.offers
	// The share of few offers says nothing, in either period.
	if o.Offered < minOffered || o.OfferedBefore < minOffered {
		return insufficient
	}
	now, before := o.Share(), o.ShareBefore()
	if now >= before*(1-r.Threshold) {
		return healthy
	}
	if r.Sensitivity != Point {
		_, high := stats.Wilson(now, int(o.Offered))
		low, _ := stats.Wilson(before, int(o.OfferedBefore))
		if high >= low {
			return healthy
		}
	}
	return breached
}
