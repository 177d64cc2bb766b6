package web

import (
	"errors"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// handleChangeProposals approves or rejects the selected proposals, each in a transaction
// of its own. The message lists those that could not be changed.
func (s *Service) handleChangeProposals(v *visit) (answer, error) {
	to, ok := moves[v.FormValue("decision")]
	if !ok || v.FormValue("decision") == "applied" {
		return answer{}, fault.Invalid("decision", "The decision must be approve or reject")
	}
	selected := v.PostForm["selected"]
	if len(selected) == 0 {
		return redirect("/proposals", "Select the proposals first."), nil
	}
	if len(selected) > proposalsShown {
		return answer{}, fault.Invalid("selected", "At most %d proposals can be answered at once", proposalsShown)
	}
	done := 0
	var left []string
	for _, id := range selected {
		p, err := s.Proposals.Move(v.Context(), v.Caller, id, to)
		e, told := errors.AsType[*fault.Error](err)
		switch {
		case err == nil:
			done++
		case told && e.Kind == fault.Conflict:
			left = append(left, p.SkillName+": "+e.Message)
		default:
			return answer{}, err
		}
	}
	message := fmt.Sprintf("%d %s.", done, to)
	if len(left) > 0 {
		message += fmt.Sprintf(" %d not changed: %s", len(left), strings.Join(left, "; "))
	}
	return redirect("/proposals", message), nil
}
