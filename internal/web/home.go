package web

import (
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/skills"
)

// homeView is the health of all skills at a glance.
type homeView struct {
	Skills  int
	Counts  []statusCount
	Trouble []skillRow // the worst first
	More    int        // skills in trouble that are not shown
	Firing  []overview.Firing
	Waiting []overview.Waiting
	Reviews int // that wait, of all sources
	Failing []overview.Failing
	Changes []changeRow
}

// A changeRow is a line of the week. New skills that came together are one.
type changeRow struct {
	overview.Change
	Others int
}

type statusCount struct {
	Status skills.Status
	Count  int
}

const (
	troubleShown = 8
	changesShown = 15
	changesRead  = 100
	week         = 7 * 24 * time.Hour
	trendDays    = 30
	// allSkills is more than an organisation has.
	allSkills = 100_000
)

func (s *Service) home(v *visit) (answer, error) {
	view, err := s.health(v)
	if err != nil {
		return answer{}, err
	}
	org := v.Caller.OrgID
	if view.Firing, err = s.Overview.Firing(v.Context(), org); err != nil {
		return answer{}, err
	}
	if view.Waiting, err = s.Overview.Waiting(v.Context(), org); err != nil {
		return answer{}, err
	}
	for _, w := range view.Waiting {
		view.Reviews += w.Suggestions
	}
	if view.Failing, err = s.Overview.Failing(v.Context(), org); err != nil {
		return answer{}, err
	}
	changes, err := s.Overview.Changes(v.Context(), org, time.Now().Add(-week), changesRead)
	view.Changes = changeRows(changes)
	return show("home", "Home", view), err
}

func changeRows(changes []overview.Change) []changeRow {
	var rows []changeRow
	for _, c := range changes {
		if last := len(rows) - 1; last >= 0 && c.Kind == "new" && rows[last].Kind == "new" {
			rows[last].Others++
			continue
		}
		rows = append(rows, changeRow{Change: c})
	}
	return rows[:min(len(rows), changesShown)]
}

// health counts skills by status and picks those in trouble.
func (s *Service) health(v *visit) (view homeView, err error) {
	all, total, err := s.Skills.List(v.Context(), v.Caller.OrgID, skills.Filter{Sort: "status", Limit: allSkills})
	if err != nil {
		return view, err
	}
	view.Skills = total
	counts := map[skills.Status]int{}
	var trouble []skills.Performance
	for _, p := range all {
		counts[p.Status]++
		if p.Status == skills.Critical || p.Status == skills.Warning {
			trouble = append(trouble, p)
		}
	}
	for _, status := range []skills.Status{skills.Critical, skills.Warning, skills.Healthy, skills.Unknown} {
		view.Counts = append(view.Counts, statusCount{status, counts[status]})
	}
	slices.SortStableFunc(trouble, worseFirst)
	view.More = max(0, len(trouble)-troubleShown)
	view.Trouble, err = s.withTrends(v, trouble[:min(len(trouble), troubleShown)])
	return view, err
}

// worseFirst orders skills with graded sessions.
func worseFirst(a, b skills.Performance) int {
	switch {
	case a.PassRate == nil || b.PassRate == nil || *a.PassRate == *b.PassRate:
		return 0
	case *a.PassRate < *b.PassRate:
		return -1
	}
	return 1
}

// A skillRow is a skill in a list.
type skillRow struct {
	skills.Performance
	Trend spark
}

func (s *Service) withTrends(v *visit, found []skills.Performance) ([]skillRow, error) {
	ids := make([]string, len(found))
	for i, p := range found {
		ids[i] = p.ID
	}
	days, err := s.Overview.Days(v.Context(), ids, trendDays)
	rows := make([]skillRow, len(found))
	for i, p := range found {
		rows[i] = skillRow{Performance: p, Trend: newSpark(passRates(days[p.ID]))}
	}
	return rows, err
}

// passRates are the rates of seven days up to each day.
func passRates(days []overview.Day) []*float64 {
	rates := make([]*float64, len(days))
	for i := range days {
		if rate, graded := smoothed(days, i); graded > 0 {
			rates[i] = &rate
		}
	}
	return rates
}
