package web

import (
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// caseView is the form of one case of a suite.
type caseView struct {
	Suite suites.Suite
	N     int // -1 for a new one
	Form  suiteCaseForm
}

// Normalizations are what an exact match may ignore.
func (caseView) Normalizations() []string { return normalizations() }

// handleCase shows the form of a case, or of a new one of the kind in the query.
func (s *Service) handleCase(v *visit) (answer, error) {
	view, err := s.caseView(v)
	return show("suite_case", view.title(), view), err
}

// title counts from 1, as the list of cases does.
func (v caseView) title() string {
	if v.N < 0 {
		return "New case"
	}
	return "Case " + strconv.Itoa(v.N+1)
}

// caseView reads the case with the number in the path, or prepares a new one.
func (s *Service) caseView(v *visit) (view caseView, err error) {
	if view.Suite, err = s.Suites.Get(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return view, err
	}
	view.N = -1
	if n := v.PathValue("n"); n == "new" {
		view.Form, err = newCaseForm(suites.CaseKind(v.FormValue("kind")))
	} else if view.N, err = strconv.Atoi(n); err != nil || view.N < 0 || view.N >= len(view.Suite.Cases) {
		err = fault.New(fault.NotFound, "The suite has no case %s", n)
	} else {
		view.Form, err = caseFormOf(view.Suite.Cases[view.N])
	}
	// For IfVersion: a case that another person has moved must not be overwritten.
	view.Form.Version = view.Suite.Version
	return view, err
}

func (s *Service) handleSaveCase(v *visit) (answer, error) {
	view, err := s.caseView(v)
	if err != nil {
		return answer{}, err
	}
	kind := view.Form.Kind
	view.Form = decodeForm[suiteCaseForm](v.Request)
	view.Form.Kind = kind
	var cases []suites.Fields
	message := "The case was saved."
	if view.N >= 0 && v.FormValue("do") == "delete" {
		message = "The case was deleted."
		cases, err = withoutCase(view.Suite.Cases, view.N)
	} else {
		cases, err = view.Form.In(view.Suite.Cases, view.N)
	}
	if err == nil {
		_, err = s.Suites.Update(v.Context(), v.Caller, view.Suite.ID, suites.Change{Cases: cases, IfVersion: &view.Form.Version})
	}
	if err != nil {
		return show("suite_case", view.title(), view).refused(err)
	}
	return redirect(pathTo("suites", view.Suite.ID), message), nil
}
