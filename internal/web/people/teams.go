package people

import (
	"context"
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/web/listing"
)

const (
	teamsPath = "/settings/teams"
	// suggested is how many addresses a form offers.
	suggested = 200
)

// A TeamList is the page of an organisation's teams.
type TeamList struct {
	listing.Size
	Teams     []teams.Team
	Form      TeamForm
	Addresses []string // of members, to choose from
}

// A TeamForm is the input of the form of a new team.
type TeamForm struct{ Name, Description, Members string }

// A TeamView is the page of a team.
type TeamView struct {
	teams.Team
	Members   []teams.Person
	Addresses []string
	Added     string // the input
}

// Teams returns the requested page of teams, or creates the team of a form.
func (p Pages) Teams(ctx context.Context, c access.Caller, r *http.Request, l listing.Request) (out Result, err error) {
	view := TeamList{Size: listing.Size{PerPage: Shown}}
	if r.Method == http.MethodPost {
		view.Form = TeamForm{r.FormValue("name"), strings.TrimSpace(r.FormValue("description")), r.FormValue("members")}
		t, problem := p.createTeam(ctx, c, view.Form)
		if problem == nil {
			return Result{To: teamsPath + "/" + t.ID, Message: "The team @" + t.Slug + " was created."}, nil
		}
		out.Problem = problem
	}
	if view.Teams, view.Total, err = p.TeamService.List(ctx, c.OrgID, l.Rows(Shown)); err != nil {
		return out, err
	}
	view.Addresses, err = p.addresses(ctx, c)
	out.Title, out.View = "Teams", view
	return out, err
}

// createTeam looks the members up first: a mistyped address creates nothing.
func (p Pages) createTeam(ctx context.Context, c access.Caller, f TeamForm) (t teams.Team, err error) {
	users, err := p.findUsers(ctx, c, f.Members)
	if err != nil {
		return t, err
	}
	if t, err = p.TeamService.Create(ctx, c, f.Name, f.Description); err != nil || len(users) == 0 {
		return t, err
	}
	_, _, err = p.TeamService.AddMembers(ctx, c.OrgID, t.ID, users...)
	return t, err
}

func (p Pages) findUsers(ctx context.Context, c access.Caller, text string) ([]string, error) {
	found, err := p.TeamService.Find(ctx, c.OrgID, names(text))
	if err == nil && len(found.Teams) > 0 {
		err = fault.Invalid("owners", "A team has people as members, not teams")
	}
	return found.Users, err
}

// names splits what a person typed: addresses and teams, with commas or white space
// between them.
func names(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}

// Team returns the page of a team, or does what a form on it asks for.
func (p Pages) Team(ctx context.Context, c access.Caller, r *http.Request) (out Result, err error) {
	id := r.PathValue("id")
	if r.Method == http.MethodPost {
		message, problem := p.changeTeam(ctx, c, id, r)
		if problem == nil {
			return Result{To: teamsPath + "/" + id, Message: message}, nil
		}
		out.Problem = problem
	}
	var view TeamView
	if view.Team, view.Members, err = p.TeamService.Get(ctx, c.OrgID, id); err != nil {
		return out, err
	}
	view.Added = r.PostFormValue("members")
	view.Addresses, err = p.addresses(ctx, c)
	out.Title, out.View = view.Name, view
	return out, err
}

func (p Pages) changeTeam(ctx context.Context, c access.Caller, id string, r *http.Request) (string, error) {
	switch r.FormValue("action") {
	case "change":
		name, description := r.FormValue("name"), r.FormValue("description")
		_, err := p.TeamService.Update(ctx, c.OrgID, id, teams.Change{Name: &name, Description: &description})
		return "The team was changed.", err
	case "add":
		users, err := p.findUsers(ctx, c, r.FormValue("members"))
		if err != nil {
			return "", err
		}
		if len(users) == 0 {
			return "", fault.Invalid("owners", "Enter the address of a member")
		}
		_, _, err = p.TeamService.AddMembers(ctx, c.OrgID, id, users...)
		return "They are in the team now.", err
	case "remove":
		return "They are no longer in the team.", p.TeamService.RemoveMember(ctx, c.OrgID, id, r.FormValue("user"))
	}
	return "", fault.Invalid("action", "action must be change, add or remove")
}

// DeleteTeam deletes a team.
func (p Pages) DeleteTeam(ctx context.Context, c access.Caller, r *http.Request) (Result, error) {
	err := p.TeamService.Delete(ctx, c.OrgID, r.PathValue("id"))
	return Result{To: teamsPath, Message: "The team was deleted. What it owned is no longer owned by it."}, err
}

// addresses are those of people of the organisation, for those who may use them.
func (p Pages) addresses(ctx context.Context, c access.Caller) (all []string, err error) {
	if !c.May(access.Admin) {
		return nil, nil
	}
	return p.peopleOf(ctx, c)
}

func (p Pages) peopleOf(ctx context.Context, c access.Caller) (all []string, err error) {
	found, _, err := p.Auth.Members(ctx, c.OrgID, auth.MemberPage{Limit: suggested})
	for _, m := range found {
		if !m.Machine() {
			all = append(all, m.Email)
		}
	}
	return all, err
}
