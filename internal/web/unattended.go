package web

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/unattended"
)

// handleSetImprovePolicy sets whether a skill is improved nightly.
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
		return redirect(pathTo("skills", skill)+"?tab=improve", fmt.Sprintf("The improve policy is %s.", p.Mode)), nil
	}
	view, err := s.skillView(v)
	if err != nil {
		return answer{}, err
	}
	view.Tab, view.Improve.Policy.Mode, view.Improve.Monthly = "improve", p.Mode, typed
	return show("skill", view.Name, view).refused(problem)
}
