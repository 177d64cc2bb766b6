package web

import (
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A verdict is a grade for display.
type verdict struct {
	sessions.Grade
	Skill string
	By    string // who gave it, if it was a person
}

// Pass is the pass rate.
func (g verdict) Pass() *float64 { return passRate(&g.PassRate) }

// verdicts returns the grades of a session. Names are read only if someone other
// than the caller has graded.
func (s *Service) verdicts(v *visit, d sessions.Detail) (all []verdict, err error) {
	names := map[string]string{v.Caller.UserID: "you"}
	for _, g := range d.Grades {
		if g.GradedBy != "" && names[g.GradedBy] == "" && len(names) == 1 {
			users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
			if err != nil {
				return nil, err
			}
			for _, u := range users {
				if u.ID != v.Caller.UserID {
					names[u.ID] = personName(u)
				}
			}
		}
		all = append(all, verdict{g, d.SkillName(g.SkillID), names[g.GradedBy]})
	}
	return all, nil
}

// A verdictForm lets a person say whether a skill did well in a session. A second
// verdict of a person replaces their first.
type verdictForm struct {
	SkillID string
	Skill   string
	Said    string // what the person said before, pass or fail; "" if nothing
	Reason  string
}

// The verdicts of people.
const (
	passed = "pass"
	failed = "fail"
)

// verdictForms returns a form for each skill that a session used. Only what a skill
// did can be graded: one that was merely offered has no form.
func verdictForms(c access.Caller, d sessions.Detail) (forms []verdictForm) {
	for _, k := range d.Skills {
		if !grades.Gradable(k) {
			continue
		}
		form := verdictForm{SkillID: k.SkillID, Skill: k.Name}
		for _, g := range d.Grades {
			if g.SkillID == k.SkillID && g.Basis == basis.Person && g.GradedBy == c.UserID {
				form.Said, form.Reason = failed, g.Reason
				// People say pass or fail, which are stored as 1 and 0.
				if g.PassRate > 0 {
					form.Said = passed
				}
			}
		}
		forms = append(forms, form)
	}
	return forms
}

// handleGrade stores what a person says about a session, in place of what they said
// before.
func (s *Service) handleGrade(v *visit) (answer, error) {
	said := v.FormValue("verdict")
	verdict := grades.Verdict{
		SessionID: v.PathValue("session"), Skill: v.FormValue("skill"), Passed: said == passed, Reason: v.FormValue("reason"),
	}
	var problem error
	if said == passed || said == failed {
		_, _, problem = s.Grades.Grade(v.Context(), v.Caller, verdict)
	} else {
		problem = fault.Invalid("verdict", "Choose whether it passed or failed")
	}
	if problem == nil {
		return redirect(pathTo("sessions", verdict.SessionID), "Your verdict was saved."), nil
	}
	view, err := s.traceView(v)
	if err != nil {
		return answer{}, err
	}
	// The reason that was typed is kept in the form of its skill.
	for i := range view.Forms {
		if view.Forms[i].SkillID == verdict.Skill {
			view.Forms[i].Reason = verdict.Reason
		}
	}
	return show("session", "Session", view).refused(problem)
}
