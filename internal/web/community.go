package web

import (
	"math"
	"net/url"

	"github.com/whetstone-dev/whetstone/internal/learn/community"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// communityView is the bundles that contributors sent to the caller.
type communityView struct {
	community.Overview
	Newest []community.Submission
	Name   string // name of the selected skill, or ""
	Report *community.SkillReport
}

// Chart shows how many bundles the skills have.
func (v communityView) Chart() columnChart {
	points := make([]point, len(v.Skills))
	for i, k := range v.Skills {
		count := float64(k.Submissions)
		points[i] = point{Name: k.SkillName, Short: short(12, k.SkillName), Value: &count, Link: "/community?" + url.Values{"skill": {k.SkillName}}.Encode()}
	}
	chart := columnChart{Head: "Skill", Unit: "Bundles", Open: "Open the skill"}
	chart.draw(points, 0, numberText)
	return chart
}

// numberText formats a number of a chart.
func numberText(value any) string {
	text, _ := format.Number(int64(math.Round(value.(float64)))) // it is a number
	return text
}

// contributionOrders and signalOrders are the orders of the lists, which have one row
// for each skill.
var contributionOrders = map[string]rowOrder[community.SkillCount]{
	"name":         orderByText(func(c community.SkillCount) string { return c.SkillName }),
	"bundles":      orderBy(func(c community.SkillCount) int { return c.Submissions }),
	"contributors": orderBy(func(c community.SkillCount) int { return c.Contributors }),
	"latest":       orderBy(func(c community.SkillCount) int64 { return c.Latest.UnixMicro() }),
}

// Suppressed counts sort together: their place among the others would reveal the count.
var signalOrders = map[string]rowOrder[signals.Summary]{
	"name": orderByText(func(s signals.Summary) string { return s.SkillName }),
	"signals": orderBy(func(s signals.Summary) int64 {
		if s.Signals == nil {
			return -1
		}
		return *s.Signals
	}),
}

// submissionsShown is how many submissions a page lists.
const submissionsShown = 20

// handleCommunity shows the bundles of all skills of the caller, or of one of them.
func (s *Service) handleCommunity(v *visit) (answer, error) {
	var view communityView
	var err error
	if view.Overview, err = s.Community.Overview(v.Context(), v.Caller.UserID); err != nil {
		return answer{}, err
	}
	if view.Name = v.URL.Query().Get("skill"); view.Name != "" {
		view.Report, view.Newest, err = s.Community.Skill(v.Context(), v.Caller.UserID, view.Name)
		return show("community", "Community", view), err
	}
	sortRows(v.list, view.Skills, contributionOrders)
	view.Newest, err = s.Community.Recent(v.Context(), v.Caller.UserID, submissionsShown)
	return show("community", "Community", view), err
}

// handleSignals shows the counts of all skills, with k-anonymity.
func (s *Service) handleSignals(v *visit) (answer, error) {
	o, err := s.Signals.Overview(v.Context(), v.Caller.OrgID)
	view := signalsView{Overview: o}
	sortRows(v.list, view.Skills, signalOrders)
	if o.Suppressed {
		view.Withheld = s.Signals.Withheld()
	}
	return show("signals", "Signals", view), err
}

// signalsView is what contributors noticed about all skills.
type signalsView struct {
	signals.Overview
	Withheld string // why figures are suppressed, or ""
}

// Chart shows how many signals the skills have. Suppressed ones have no column.
func (v signalsView) Chart() columnChart {
	points := make([]point, len(v.Skills))
	for i, k := range v.Skills {
		points[i] = point{Name: k.SkillName, Short: short(12, k.SkillName), Link: pathTo("signals", k.SkillName)}
		if k.Signals != nil {
			count := float64(*k.Signals)
			points[i].Value = &count
		}
	}
	chart := columnChart{Head: "Skill", Unit: "Signals", Open: "Open the skill", Unknown: "suppressed"}
	chart.draw(points, 0, numberText)
	return chart
}

// signalsSkillView is what contributors noticed about one skill.
type signalsSkillView struct {
	signals.Detail
	Name            string
	Withheld        string // why figures are suppressed, or ""
	GradeRows, Ways []namedCount
}

// A namedCount is a count that may be suppressed.
type namedCount struct {
	Name  string
	Count *int64 // nil: suppressed
}

// handleSignalsSkill shows the counts of one skill, by grade and by the way of
// invocation.
func (s *Service) handleSignalsSkill(v *visit) (answer, error) {
	name := v.PathValue("skill")
	d, err := s.Signals.Skill(v.Context(), v.Caller.OrgID, name)
	view := signalsSkillView{
		Detail: d, Name: name,
		GradeRows: inOrder(d.Grades, "A", "B", "C", "F"),
		Ways:      inOrder(d.Invocations, "explicit", "implicit", "contextual", "missed"),
	}
	if d.Suppressed {
		view.Withheld = s.Signals.Withheld()
	}
	return show("signals_skill", name, view), err
}

// inOrder returns the counts in the order of names, without those that do not exist.
func inOrder(counts map[string]*int64, names ...string) []namedCount {
	var rows []namedCount
	for _, name := range names {
		if count, ok := counts[name]; ok {
			rows = append(rows, namedCount{name, count})
		}
	}
	return rows
}
