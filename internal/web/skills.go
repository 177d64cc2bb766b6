package web

import (
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// skillsView is a page of the list of skills.
type skillsView struct {
	Size
	Rows     []skillRow
	Statuses []skills.Status
	Any      bool // there are skills, or a filter is set
	Shown    []skillsShown
	Window   int    // days that the rates cover
	Note     string // what the names are that are shown
	None     string // why there are none
}

// skillsShown is a choice of which names the list shows.
type skillsShown struct {
	Value, Label string
	note, none   string
	set          func(*skills.Filter)
}

// allShown are the choices; the first is the default.
var allShown = []skillsShown{
	{Label: "skills", none: "Try a shorter search text or another status.", set: func(*skills.Filter) {}},
	{
		Value: "unconfirmed", Label: "unconfirmed names",
		note: "Names without a real use: an agent called a skill that it does not have, or the skill is built into an agent. " +
			"They are listed as skills once they are used.",
		none: "Every name that was reported has a real use.",
		set:  func(f *skills.Filter) { f.Unconfirmed = true },
	},
	{
		Value: "hidden", Label: "hidden skills", note: "Lists and alerts leave these out.",
		none: "No skill is hidden. An admin can hide one on its page.",
		set:  func(f *skills.Filter) { f.Hidden = true },
	},
	{
		Value: "merged", Label: "merged skills", note: "What is reported of these counts for other skills.",
		none: "No skill is merged into another one. An admin can merge one on its page.",
		set:  func(f *skills.Filter) { f.Merged = true },
	},
}

// A skillRow is a skill in the list.
type skillRow struct {
	skills.Performance
	Current overview.Current
	Trend   spark
}

const skillsPerPage = 50

// skillSorts are the fields that the list can be sorted by: trouble comes first.
var skillSorts = []string{"status", "name", "pass_rate", "trigger_rate", "-unique_sessions", "-last_seen_at"}

// skillChoices are the skills that a form suggests. Any other can be typed.
type skillChoices struct {
	First []skills.Performance // by name
	Total int
}

// maxSkillChoices limits the size of a page with a form. A browser filters the
// suggestions while a name is typed, so that more would hardly help.
const maxSkillChoices = 1000

// skillChoices returns the first skills by name, and how many there are in all.
func (s *Service) skillChoices(v *visit) (c skillChoices, err error) {
	f := skills.Filter{Sort: "name", Limit: maxSkillChoices}
	c.First, c.Total, err = s.Skills.List(v.Context(), v.Caller.OrgID, f)
	return c, err
}

// chosenSkill finds the skill that was typed into the field "skill" of a form, by
// its name or id. The error is Malformed, so that the form is shown again.
func (s *Service) chosenSkill(v *visit, typed string) (skills.Performance, error) {
	p, err := s.Skills.Get(v.Context(), v.Caller.OrgID, typed)
	if fault.Is(err, fault.NotFound) {
		return p, fault.Invalid("skill", "There is no skill of this name")
	}
	return p, err
}

// skillFilter is what the address of the list selects. An unknown choice in the
// address is the default.
func skillFilter(v *visit) (skills.Filter, skillsShown) {
	f := skills.Filter{Search: v.list.Search(), Status: skills.Status(v.URL.Query().Get("status")), Sort: v.list.Order()}
	shown := allShown[0]
	for _, choice := range allShown[1:] {
		if choice.Value == v.URL.Query().Get("show") {
			shown = choice
		}
	}
	shown.set(&f)
	return f, shown
}

// handleSkills lists skills. The figures of the rows take three queries, whatever
// their number.
func (s *Service) handleSkills(v *visit) (answer, error) {
	f, shown := skillFilter(v)
	f.Limit, f.Offset = skillsPerPage, v.offset(skillsPerPage)
	found, total, err := s.Skills.List(v.Context(), v.Caller.OrgID, f)
	if err != nil {
		return answer{}, err
	}
	view := skillsView{
		Size: Size{Total: total, PerPage: skillsPerPage}, Any: total > 0 || f.Search != "" || f.Status != "" || shown.Value != "",
		Shown: allShown, Window: s.Skills.Window, Note: shown.note, None: shown.none,
		Statuses: []skills.Status{skills.Critical, skills.Warning, skills.Healthy, skills.Unknown},
	}
	ids := make([]string, len(found))
	for i, k := range found {
		ids[i] = k.ID
	}
	current, err := s.Overview.CurrentOf(v.Context(), v.Caller.OrgID, ids, s.Skills.Window)
	if err != nil {
		return answer{}, err
	}
	days, err := s.Overview.Days(v.Context(), ids, trendDays)
	for _, k := range found {
		view.Rows = append(view.Rows, skillRow{k, current[k.ID], trendSpark(days[k.ID])})
	}
	return show("skills", "Skills", view), err
}
