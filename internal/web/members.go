package web

import (
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
)

// membersView lists the organisation's members.
type membersView struct {
	Members []memberRow
	Roles   []access.Role // that the caller may assign
	Form    auth.NewUser  // the input
}

type memberRow struct {
	auth.User
	Self       bool
	Changeable bool // by the caller
}

func (s *Service) handleMembers(v *visit) (answer, error) {
	view, err := s.memberList(v)
	return show("settings_members", "Members", view), err
}

func (s *Service) memberList(v *visit) (membersView, error) {
	view := membersView{Form: auth.NewUser{Role: access.DefaultRole}}
	for _, role := range access.Roles() {
		if auth.MayGive(v.Caller, role) {
			view.Roles = append(view.Roles, role)
		}
	}
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	for _, u := range users {
		view.Members = append(view.Members,
			memberRow{User: u, Self: u.ID == v.Caller.UserID, Changeable: auth.MayGive(v.Caller, u.Role)})
	}
	return view, err
}

// addedView is the first key of a new member, which is shown once.
type addedView struct {
	Email, Key string
	Until      *time.Time // when it expires: with the caller's key
}

// handleAddMember responds with a page itself: a redirect would have to carry the
// key.
func (s *Service) handleAddMember(v *visit) (answer, error) {
	n := auth.NewUser{
		Email: strings.TrimSpace(v.FormValue("email")), Name: strings.TrimSpace(v.FormValue("name")),
		Role: access.Role(v.FormValue("role")),
	}
	u, raw, err := s.Auth.AddMember(v.Context(), v.Caller, n)
	if err == nil {
		own, err := s.Auth.Key(v.Context(), v.Caller.OrgID, v.Caller.KeyID)
		return show("settings_added", "First API key", addedView{u.Email, raw, own.ExpiresAt}), err
	}
	view, failure := s.memberList(v)
	if failure != nil {
		return answer{}, failure
	}
	view.Form = n
	return show("settings_members", "Members", view).refused(err)
}

func (s *Service) handleSetRole(v *visit) (answer, error) {
	u, err := s.Auth.SetRole(v.Context(), v.Caller, v.PathValue("id"), access.Role(v.FormValue("role")))
	if err == nil {
		return redirect("/settings/members", personName(u)+" now has the role "+string(u.Role)+"."), nil
	}
	view, failure := s.memberList(v)
	if failure != nil {
		return answer{}, failure
	}
	return show("settings_members", "Members", view).refused(err)
}
