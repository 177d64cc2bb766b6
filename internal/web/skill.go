package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

func (s *Service) handleSkill(v *visit) (answer, error) {
	view, err := s.skillView(v)
	return show("skill", view.Name, view), err
}

func (s *Service) skillView(v *visit) (skillPage, error) {
	days, _ := strconv.Atoi(v.URL.Query().Get("days")) // any other number shows the default
	view, err := s.skillPage(v.Context(), v.Caller, v.PathValue("skill"), days)
	tab := v.URL.Query().Get("tab")
	if slices.ContainsFunc(view.Tabs(v.Caller.May(access.Admin)), func(t labelledURL) bool { return t.Value == tab }) {
		view.Tab = tab
	}
	return view, err
}

// handleChangeSkill hides a skill or merges it into another one, or undoes that.
func (s *Service) handleChangeSkill(v *visit) (answer, error) {
	skill, into := v.PathValue("skill"), strings.TrimSpace(v.FormValue("into"))
	change, done, problem := skillChange(v.FormValue("change"), into)
	if problem == nil {
		problem = s.Curate.Update(v.Context(), v.Caller.OrgID, skill, change)
	}
	if problem == nil {
		return redirect(pathTo("skills", skill), done), nil
	}
	view, err := s.skillView(v)
	if err != nil {
		return answer{}, err
	}
	view.Into, view.Tab = into, "manage"
	return show("skill", view.Name, view).refused(problem)
}

// skillChange returns what a button of the page changes, and what to say then.
func skillChange(button, into string) (c curate.Change, done string, err error) {
	switch button {
	case "hide", "unhide":
		hidden := button == "hide"
		c.Hidden = &hidden
		return c, map[bool]string{true: "The skill is hidden.", false: "The skill is listed again."}[hidden], nil
	case "merge":
		if into == "" {
			return c, "", fault.Invalid("merged_into", "Enter the name of the other skill")
		}
		c.MergedInto = &into
		return c, "The skill is merged. What was reported before is moved in the background.", nil
	case "unmerge":
		c.MergedInto = new(string)
		return c, "The merge is undone. What was reported before is moved back in the background.", nil
	}
	return c, "", fault.Invalid("change", "The change must be hide, unhide, merge or unmerge")
}
