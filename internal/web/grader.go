package web

import (
	"math"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// graderView is the form of a skill's grader, or of that of all skills without their
// own.
type graderView struct {
	Path      string // of the form
	SkillID   string // "" for all skills without their own
	Skill     string
	Inherited bool // the skill uses the organisation's grader until this is saved
	Draft     bool // no expectations are set yet
	Form      graderForm
	Judge     string // model of the judge; "" if the server has none
	Keeps     bool   // the organisation stores the content of sessions, without which there is little to judge
}

// graderForm is the input of the form, as text. A problem in one field must not lose
// what was typed in the others.
type graderForm struct {
	Enabled      bool   `form:"enabled"`
	Expectations string `form:"expectations,raw"`     // one per line
	Sample       string `form:"sample_per_day"`       // sessions per day; "" for all
	Cost         string `form:"max_cost_usd_per_day"` // dollars per day; "" for no limit
	Threshold    string `form:"threshold"`            // percent
}

// newGraderForm returns the form of an existing grader. The threshold is rounded to
// hide binary noise, as in alertFormOf.
func newGraderForm(g grades.Grader) graderForm {
	form := graderForm{
		Enabled: g.Enabled, Expectations: strings.Join(g.Expectations, "\n"),
		Threshold: strconv.FormatFloat(math.Round(g.Threshold*1e8)/1e6, 'f', -1, 64),
	}
	if g.SamplePerDay != nil {
		form.Sample = strconv.Itoa(*g.SamplePerDay)
	}
	if g.MaxCostUSD != nil {
		form.Cost = format.Price(*g.MaxCostUSD)
	}
	return form
}

// grader parses the form. It has the limits of package grades, in the words of the
// form, and reports all problems at once.
func (f graderForm) grader() (grades.Grader, error) {
	g := grades.Grader{Enabled: f.Enabled, Expectations: []string{}}
	var issues []fault.Issue
	for line := range strings.Lines(f.Expectations) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		g.Expectations = append(g.Expectations, line)
		// The number tells which line is meant: the text may be long.
		if len(line) > grades.MaxExpectation {
			issues = append(issues,
				fault.At("expectations", "Expectation %d has more than %d bytes", len(g.Expectations), grades.MaxExpectation))
		}
	}
	if len(g.Expectations) > grades.MaxExpectations {
		issues = append(issues, fault.At("expectations", "Enter at most %d expectations", grades.MaxExpectations))
	}
	// 0 is allowed: no session is judged then.
	if f.Sample != "" {
		n, err := strconv.Atoi(f.Sample)
		if err != nil || n < 0 || n > grades.MaxSamplePerDay {
			issues = append(issues, fault.At("sample_per_day",
				"Sessions per day must be a whole number up to %d, or empty for all", grades.MaxSamplePerDay))
		}
		g.SamplePerDay = &n
	}
	if f.Cost != "" {
		usd, ok := formNumber(f.Cost, grades.MaxCostUSDPerDay)
		if !ok {
			issues = append(issues, fault.At("max_cost_usd_per_day",
				"Dollars per day must be a number up to %d, or empty for no limit", grades.MaxCostUSDPerDay))
		}
		g.MaxCostUSD = &usd
	}
	threshold, ok := formNumber(f.Threshold, 100)
	if !ok {
		issues = append(issues, fault.At("threshold", "The threshold must be a number from 0 to 100"))
	}
	g.Threshold = threshold / 100
	if len(issues) > 0 {
		return g, fault.Issues(issues...)
	}
	return g, nil
}

// formNumber parses a number from 0 to most. It accepts a decimal comma, which many
// people type; not every browser has an input for numbers.
func formNumber(text string, most float64) (float64, bool) {
	value, err := strconv.ParseFloat(strings.Replace(text, ",", ".", 1), 64)
	// The comparisons are false for NaN, too.
	return value, err == nil && value >= 0 && value <= most
}

// handleGrader shows the form.
func (s *Service) handleGrader(v *visit) (answer, error) {
	view, err := s.graderView(v)
	return show("grader", "Grader", view), err
}

// graderView returns the grader of the skill in the path, or without one the
// organisation's.
func (s *Service) graderView(v *visit) (view graderView, err error) {
	view.Path = "/settings/grader"
	var g grades.Grader
	if skill := v.PathValue("skill"); skill == "" {
		g, err = s.Grades.SharedGrader(v.Context(), v.Caller.OrgID)
	} else {
		k, failed := s.Skills.Get(v.Context(), v.Caller.OrgID, skill)
		if failed != nil {
			return view, failed
		}
		view.SkillID, view.Skill, view.Path = k.ID, k.Name, pathTo("skills", k.ID, "grader")
		g, err = s.Grades.Grader(v.Context(), v.Caller.OrgID, k.ID)
	}
	if err != nil {
		return view, err
	}
	view.Inherited, view.Draft, view.Form = g.Inherited, g.Draft, newGraderForm(g)
	// A judge that can only route trigger queries grades no sessions.
	if about := s.Grades.Judge.Describe(); !about.RouteOnly {
		view.Judge = about.Model
	}
	view.Keeps, err = s.Evidence.Enabled(v.Context(), v.Caller.OrgID)
	return view, err
}

// handleSetGrader replaces the grader of a skill, or the organisation's. Saving a
// skill's form gives it a grader of its own. The view is read first, for the case
// that the form is shown again.
func (s *Service) handleSetGrader(v *visit) (answer, error) {
	view, err := s.graderView(v)
	if err != nil {
		return answer{}, err
	}
	view.Form, view.Draft = decodeForm[graderForm](v.Request), false
	g, problem := view.Form.grader()
	if problem == nil {
		problem = s.Grades.SetGrader(v.Context(), v.Caller, view.SkillID, g)
	}
	switch {
	case problem != nil:
		return show("grader", "Grader", view).refused(problem)
	case g.Enabled:
		return redirect(view.Path, "The grader was saved. The sessions of the last 30 days are graded in the background."), nil
	}
	return redirect(view.Path, "The grader was saved. It is off: grades that it gave before stay."), nil
}
