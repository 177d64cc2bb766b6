package web

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/gates"
	"github.com/whetstone-dev/whetstone/internal/improve/unattended"
	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/skills"
)

// skillImprove is the section of a skill's page about making it better.
type skillImprove struct {
	Policy  unattended.Policy
	Spent   float64
	Gate    gates.Mode // of the entry; "" if the skill is not in the registry
	Monthly string     // what was typed
	Suites  []improveChoice
}

// An improveChoice is a suite by which the skill can be improved.
type improveChoice struct{ Name, URL string }

// Modes are those of the form, with what they do.
func (skillImprove) Modes() []choice {
	return []choice{
		{string(unattended.Off), "off"},
		{string(unattended.Propose), "propose: a person decides"},
		{string(unattended.Publish), "publish: what is proved becomes a version, if its gate lets it pass"},
	}
}

// improveOf reads what is known about improving a skill. Its entry may be nil.
func (s *Service) improveOf(v *visit, k skills.Performance, entry *overview.Entry) (part skillImprove, err error) {
	if part.Policy, part.Spent, err = s.Unattended.PolicyOf(v.Context(), v.Caller.OrgID, k.ID); err != nil {
		return part, err
	}
	part.Monthly = strconv.FormatFloat(part.Policy.MonthlyUSD, 'f', -1, 64)
	if entry == nil {
		return part, nil
	}
	policy, _, err := s.Gates.PolicyOf(v.Context(), v.Caller.OrgID, entry.ID)
	if err != nil {
		return part, err
	}
	part.Gate = policy.Mode
	ids, err := s.Gates.SuitesOf(v.Context(), v.Caller.OrgID, policy, k.ID)
	if err != nil || len(ids) == 0 {
		return part, err
	}
	names, err := s.suiteNames(v)
	for _, id := range ids {
		if name := names[id]; name != "" {
			part.Suites = append(part.Suites, improveChoice{name, pathTo("suites", id, "improve") + "?subject=entry:" + entry.ID})
		}
	}
	return part, err
}

// handleSetImprovePolicy sets whether a skill is improved at night.
func (s *Service) handleSetImprovePolicy(v *visit) (answer, error) {
	skill, typed := v.PathValue("skill"), strings.TrimSpace(v.FormValue("monthly_usd"))
	p := unattended.Policy{Mode: unattended.Mode(v.FormValue("mode"))}
	monthly, problem := strconv.ParseFloat(cmp.Or(typed, "0"), 64)
	if p.MonthlyUSD = monthly; problem != nil {
		problem = fault.Invalid("monthly_usd", "The budget must be dollars, like 10")
	} else {
		problem = s.Unattended.SetPolicy(v.Context(), v.Caller, skill, p)
	}
	if problem == nil {
		return redirect(pathTo("skills", skill), fmt.Sprintf("The improve policy is %s.", p.Mode)), nil
	}
	view, err := s.skillView(v)
	if err != nil {
		return answer{}, err
	}
	view.Improve.Policy.Mode, view.Improve.Monthly = p.Mode, typed
	return show("skill", view.Name, view).refused(problem)
}
