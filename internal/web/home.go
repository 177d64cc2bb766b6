package web

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/web/format"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// homeView is the health of all skills.
type homeView struct {
	Skills  int
	Known   int            // number of skills with a status
	Closest skills.Summary // without any Known, the skill with the most graded sessions
	Enough  int64          // number of graded sessions that a status needs
	Missing int64          // number of them that Closest lacks
	Counts  []statusCount
	Trouble []troubleRow // the worst first
	More    int          // number of further skills in trouble
	Firing  []firingRow
	Waiting []overview.Waiting
	Reviews int // pending reviews of all sources
	// Approvals are the candidates that wait for the caller's approval.
	Approvals []approvals.Review
	Failing   []overview.Failing
	Changes   []overview.Change
	Chart     lineChart // sessions and pass rate of all skills together
	Uses      int64     // of skills in the days of the chart: a session with two counts twice
	Spent     *float64  // in dollars, on all model requests of these days; nil while unknown
	Window    int       // number of days that the rates cover
}

// A firingRow is an alert that fires for a skill.
type firingRow struct {
	overview.Firing
	When string // the condition in words
	Was  string // the rate when it fired, or ""
}

// statusCount is the number of skills with a status.
type statusCount struct {
	Status skills.Status
	Count  int
}

// The sizes of the sections.
const (
	troubleShown = 8
	changesShown = 15
	week         = 7 * day
	trendDays    = 30
	orgDays      = 30
	manySkills   = 200 // with more, the trend is cached
)

// handleHome shows the state of the organisation: what is in trouble, what waits for
// people, and what changed in the last week.
func (s *Service) handleHome(v *visit) (answer, error) {
	view, err := s.health(v)
	if err != nil {
		return answer{}, err
	}
	org := v.Caller.OrgID
	// The sums of all skills take long with many of them, and change slowly.
	trend := s.Overview.OrgDays
	if view.Skills > manySkills {
		trend = s.Overview.Trend
	}
	days, err := trend(v.Context(), org, orgDays)
	if err != nil {
		return answer{}, err
	}
	for _, d := range days {
		view.Uses += d.Sessions
	}
	// A bill of many skills takes too long for the first page.
	if view.Skills <= manySkills {
		bill, err := s.Costs.Bill(v.Context(), org, orgDays)
		if err != nil {
			return answer{}, err
		}
		view.Spent = bill.Total
	}
	view.Chart = newChart(days, nil, func(day time.Time) string { return sessionsOfDay("", "", day) })
	firing, err := s.Overview.Firing(v.Context(), org)
	if err != nil {
		return answer{}, err
	}
	// The rule may have changed since; the row says what made it fire.
	for _, f := range firing {
		rule := alerts.Rule{Type: alerts.Type(f.Type), Threshold: f.Threshold, Sensitivity: alerts.Point}
		view.Firing = append(view.Firing, firingRow{f, format.Condition(rule), format.FiredAt(rule.Type, f.PassRate)})
	}
	if view.Waiting, err = s.Overview.Waiting(v.Context(), org); err != nil {
		return answer{}, err
	}
	for _, w := range view.Waiting {
		view.Reviews += w.Suggestions
	}
	if view.Approvals, err = s.Approvals.Waiting(v.Context(), v.Caller); err != nil {
		return answer{}, err
	}
	if view.Failing, err = s.Overview.Failing(v.Context(), org); err != nil {
		return answer{}, err
	}
	view.Changes, err = s.Overview.Changes(v.Context(), org, time.Now().Add(-week), changesShown)
	return show("home", "Home", view), err
}

// health counts skills by status and selects those in trouble. A skill is in trouble,
// too, if only its current version is: old sessions may still hide that in the rate of
// the skill.
func (s *Service) health(v *visit) (view homeView, err error) {
	all, err := s.Skills.Summaries(v.Context(), v.Caller.OrgID)
	if err != nil {
		return view, err
	}
	view.Skills, view.Window = len(all), s.Skills.Window
	// Only skills whose current version differs: of most skills the rate says
	// enough.
	current, err := s.Overview.CurrentChanged(v.Context(), v.Caller.OrgID, view.Window)
	if err != nil {
		return view, err
	}
	counts := map[skills.Status]int{}
	var trouble []skills.Summary
	worse := map[string]skills.Status{} // the worse status of a skill and of its current version
	for _, k := range all {
		counts[k.Status]++
		if k.GradedSessions > view.Closest.GradedSessions {
			view.Closest = k
		}
		worse[k.ID] = current[k.ID].Worse(k.Status, k.PassRate)
		if worse[k.ID] == skills.Critical || worse[k.ID] == skills.Warning {
			trouble = append(trouble, k)
		}
	}
	for _, status := range []skills.Status{skills.Critical, skills.Warning, skills.Healthy, skills.Unknown} {
		view.Counts = append(view.Counts, statusCount{status, counts[status]})
	}
	view.Known = len(all) - counts[skills.Unknown]
	view.Enough, view.Missing = skills.MinGraded, skills.MinGraded-view.Closest.GradedSessions
	// All skills in trouble have a pass rate.
	rate := func(k skills.Summary) float64 {
		if c := current[k.ID]; c.Hidden(k.Status, k.PassRate) {
			return *c.PassRate
		}
		return *k.PassRate
	}
	// "critical" sorts before "warning".
	slices.SortStableFunc(trouble, func(a, b skills.Summary) int {
		return cmp.Or(cmp.Compare(worse[a.ID], worse[b.ID]), cmp.Compare(rate(a), rate(b)))
	})
	view.More = max(0, len(trouble)-troubleShown)
	trouble = trouble[:min(len(trouble), troubleShown)]
	// Costly figures are read for the rows on the page only.
	if err := s.Skills.AddBases(v.Context(), trouble); err != nil {
		return view, err
	}
	ids := make([]string, len(trouble))
	for i, k := range trouble {
		ids[i] = k.ID
	}
	days, err := s.Overview.Days(v.Context(), ids, trendDays)
	if err != nil {
		return view, err
	}
	if current, err = s.Overview.CurrentOf(v.Context(), v.Caller.OrgID, ids, view.Window); err != nil {
		return view, err
	}
	diagnoses, err := s.diagnoses(v.Context(), v.Caller.OrgID, ids)
	for _, k := range trouble {
		d := diagnoses[k.ID]
		view.Trouble = append(view.Trouble, troubleRow{
			k, current[k.ID], trendSpark(days[k.ID]), d, failedSessions(k.ID, d.Version), nextFor(v.Caller, k, d),
		})
	}
	return view, err
}

// A troubleRow is a skill that needs attention. Failed leads to the sessions of the
// version that the diagnosis is about.
type troubleRow struct {
	skills.Summary
	Current   overview.Current
	Trend     spark
	Diagnosis diagnosis
	Failed    string // URL of the failed sessions
	Next      labelledURL
}

// nextFor is what to do about a skill in trouble: roll back to a version that was good, if
// the caller may, or improve the skill, which its page says how.
func nextFor(c access.Caller, k skills.Summary, d diagnosis) labelledURL {
	page := pathTo("skills", k.ID)
	switch {
	case d.Good != "" && d.Entry != "" && c.May(access.RegistryRollback) && c.Plan.Includes(access.Pro):
		q := url.Values{"rollback": {d.Good}, "reason": {d.Text}}
		return labelledURL{pathTo("registry", d.Entry) + "?" + q.Encode() + "#rollback", "Roll back"}
	case d.Entry == "":
		return labelledURL{page + "?tab=failures", "Add tests"}
	}
	return labelledURL{page + "?tab=improve", "Improve"}
}
