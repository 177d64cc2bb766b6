package web

import (
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skills"
)

// skillsView is a page of the list of skills.
type skillsView struct {
	Rows     []skillRow
	Total    int
	PerPage  int
	Statuses []skills.Status
	Any      bool // there are skills, or a filter is set
}

// A skillRow is a skill in the list.
type skillRow struct {
	skills.Performance
	Trend spark
}

const skillsPerPage = 50

// skillSorts are the fields that the list can be sorted by.
var skillSorts = []string{"name", "status", "pass_rate", "trigger_rate", "unique_sessions", "last_seen_at"}

// maxSkillChoices limits the skills that the select of a form lists.
const maxSkillChoices = 1000

// firstSkills returns the first skills by name, with the selected one even if it
// comes later, and how many there are. selected may be "".
func (s *Service) firstSkills(v *visit, selected string) (first []skills.Performance, total int, err error) {
	f := skills.Filter{Sort: "name", Limit: maxSkillChoices}
	if first, total, err = s.Skills.List(v.Context(), v.Caller.OrgID, f); err != nil || selected == "" {
		return first, total, err
	}
	if slices.ContainsFunc(first, func(p skills.Performance) bool { return p.ID == selected }) {
		return first, total, nil
	}
	p, err := s.Skills.Get(v.Context(), v.Caller.OrgID, selected)
	if fault.Is(err, fault.NotFound) {
		return first, total, nil
	}
	return append(first, p), total, err
}

func (s *Service) handleSkills(v *visit) (answer, error) {
	f := skills.Filter{
		Search: v.URL.Query().Get("q"), Status: skills.Status(v.URL.Query().Get("status")),
		Sort: v.URL.Query().Get("sort"), Limit: skillsPerPage, Offset: v.offset(skillsPerPage),
	}
	if !slices.Contains(skillSorts, strings.TrimPrefix(f.Sort, "-")) {
		f.Sort = ""
	}
	found, total, err := s.Skills.List(v.Context(), v.Caller.OrgID, f)
	if err != nil {
		return answer{}, err
	}
	view := skillsView{
		Total: total, PerPage: skillsPerPage, Any: total > 0 || f.Search != "" || f.Status != "",
		Statuses: []skills.Status{skills.Critical, skills.Warning, skills.Healthy, skills.Unknown},
	}
	ids := make([]string, len(found))
	for i, k := range found {
		ids[i] = k.ID
	}
	trends, err := s.trends(v, ids)
	for _, k := range found {
		view.Rows = append(view.Rows, skillRow{k, trends[k.ID]})
	}
	return show("skills", "Skills", view), err
}
