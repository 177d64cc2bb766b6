package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

const (
	teamsPath = "/settings/teams"
	// suggested is how many addresses a form offers.
	suggested = 200
)

// A teamList is the page of an organisation's teams. Addresses are a datalist:
// browsers suggest them while a person types.
type teamList struct {
	Size
	Teams     []teams.Team
	Form      teamForm
	Addresses []string // of members, to choose from
}

// A teamForm is the input of the form of a new team.
type teamForm struct{ Name, Description, Members string }

// A teamView is the page of a team.
type teamView struct {
	teams.Team
	Members   []teams.Person
	Addresses []string
	Added     string // the input
}

// teamsPage returns the requested page of teams, or creates the team of a form.
// Everyone may see teams; the route of the form is for admins.
func (s *Service) teamsPage(ctx context.Context, c access.Caller, r *http.Request, l tableRequest) (out formResult, err error) {
	view := teamList{Size: Size{PerPage: peopleShown}}
	if r.Method == http.MethodPost {
		view.Form = teamForm{r.FormValue("name"), strings.TrimSpace(r.FormValue("description")), r.FormValue("members")}
		t, problem := s.createTeam(ctx, c, view.Form)
		if problem == nil {
			return formResult{To: teamsPath + "/" + t.ID, Message: "The team @" + t.Slug + " was created."}, nil
		}
		out.Problem = problem
	}
	if view.Teams, view.Total, err = s.Teams.List(ctx, c.OrgID, l.Rows(peopleShown)); err != nil {
		return out, err
	}
	view.Addresses, err = s.addresses(ctx, c)
	out.Title, out.View = "Teams", view
	return out, err
}

// createTeam looks the members up first: a mistyped address creates nothing. Two
// steps and no transaction: a team without members can be filled later.
func (s *Service) createTeam(ctx context.Context, c access.Caller, f teamForm) (t teams.Team, err error) {
	users, err := s.findUsers(ctx, c, f.Members)
	if err != nil {
		return t, err
	}
	if t, err = s.Teams.Create(ctx, c, f.Name, f.Description); err != nil || len(users) == 0 {
		return t, err
	}
	_, _, err = s.Teams.AddMembers(ctx, c.OrgID, t.ID, users...)
	return t, err
}

// findUsers returns the ids of the people that were typed; an unknown address is a
// problem.
func (s *Service) findUsers(ctx context.Context, c access.Caller, text string) ([]string, error) {
	found, err := s.Teams.Find(ctx, c.OrgID, splitNames(text))
	if err == nil && len(found.Teams) > 0 {
		err = fault.Invalid("owners", "A team has people as members, not teams")
	}
	return found.Users, err
}

// splitNames splits what a person typed: addresses and teams, with commas or white space
// between them.
func splitNames(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return r == ',' || r == ';' || r == ' ' || r == '\n' ||
			r == '\r' || r == '\t'
	})
}

// teamPage returns the page of a team, or does what a form on it asks for.
func (s *Service) teamPage(ctx context.Context, c access.Caller, r *http.Request) (out formResult, err error) {
	id := r.PathValue("id")
	if r.Method == http.MethodPost {
		message, problem := s.changeTeam(ctx, c, id, r)
		if problem == nil {
			return formResult{To: teamsPath + "/" + id, Message: message}, nil
		}
		out.Problem = problem
	}
	var view teamView
	if view.Team, view.Members, err = s.Teams.Get(ctx, c.OrgID, id); err != nil {
		return out, err
	}
	view.Added = r.PostFormValue("members")
	view.Addresses, err = s.addresses(ctx, c)
	out.Title, out.View = view.Name, view
	return out, err
}

// changeTeam does what the button says, and returns the message for the page.
func (s *Service) changeTeam(ctx context.Context, c access.Caller, id string, r *http.Request) (string, error) {
	switch r.FormValue("action") {
	case "change":
		name, description := r.FormValue("name"), r.FormValue("description")
		_, err := s.Teams.Update(ctx, c.OrgID, id, teams.Change{Name: &name, Description: &description})
		return "The team was changed.", err
	case "add":
		users, err := s.findUsers(ctx, c, r.FormValue("members"))
		if err != nil {
			return "", err
		}
		if len(users) == 0 {
			return "", fault.Invalid("owners", "Enter the address of a member")
		}
		_, _, err = s.Teams.AddMembers(ctx, c.OrgID, id, users...)
		return "They are in the team now.", err
	case "remove":
		return "They are no longer in the team.", s.Teams.RemoveMember(ctx, c.OrgID, id, r.FormValue("user"))
	}
	return "", fault.Invalid("action", "action must be change, add or remove")
}

// deleteTeam deletes a team. Entries whose only owner it was have no owner then.
func (s *Service) deleteTeam(ctx context.Context, c access.Caller, r *http.Request) (formResult, error) {
	err := s.Teams.Delete(ctx, c.OrgID, r.PathValue("id"))
	return formResult{To: teamsPath, Message: "The team was deleted. What it owned is no longer owned by it."}, err
}

// addresses are those of people of the organisation, for those who may use them.
func (s *Service) addresses(ctx context.Context, c access.Caller) (all []string, err error) {
	if !c.May(access.Admin) {
		return nil, nil
	}
	return s.peopleOf(ctx, c)
}

// peopleOf leaves out machines, which own nothing.
func (s *Service) peopleOf(ctx context.Context, c access.Caller) (all []string, err error) {
	found, _, err := s.Auth.Members(ctx, c.OrgID, auth.MemberPage{Page: store.Page{Limit: suggested}})
	for _, m := range found {
		if !m.Machine() {
			all = append(all, m.Email)
		}
	}
	return all, err
}
