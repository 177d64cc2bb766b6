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

// skillChoices are the skills that a form suggests. Any other can be typed.
type skillChoices struct {
	First []skills.Performance // by name
	Total int
}

// maxSkillChoices limits the size of a page with a form. A browser filters the
// suggestions while a name is typed, so that more would hardly help.
const maxSkillChoices = 1000

func (s *Service) skillChoices(v *visit) (c skillChoices, err error) {
	f := skills.Filter{Sort: "name", Limit: maxSkillChoices}
	c.First, c.Total, err = s.Skills.List(v.Context(), v.Caller.OrgID, f)
	return c, err
}

// chosenSkill finds the skill that was typed into the field "skill" of a form, by
// its name or id.
func (s *Service) chosenSkill(v *visit, typed string) (skills.Performance, error) {
	p, err := s.Skills.Get(v.Context(), v.Caller.OrgID, typed)
	if fault.Is(err, fault.NotFound) {
		return p, fault.Invalid("skill", "There is no skill of this name")
	}
	return p, err
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
