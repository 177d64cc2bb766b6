package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
)

// tokensView lists the organisation's catalog tokens, with the form of a new one.
type tokensView struct {
	Size
	Tokens     []tokens.Token
	People     map[string]string // names of users by id
	Name, Days string            // input of the form
	Made       *madeKey          // the token that was just created, with its secret
	Replaced   *tokens.Token     // the token that Made replaces, after a rotation
	Commands   []Snippet         // commands with the new token, to copy
}

// handleTokens lists catalog tokens.
func (s *Service) handleTokens(v *visit) (answer, error) {
	return s.showTokens(v, tokensView{Days: "90"}, nil)
}

// showTokens completes the view with the list. A problem is shown on the form. A new
// token is in the view only for this answer.
func (s *Service) showTokens(v *visit, view tokensView, problem error) (answer, error) {
	view.PerPage, view.People = peopleShown, map[string]string{}
	var err error
	if view.Tokens, view.Total, err = s.Tokens.List(v.Context(), v.Caller.OrgID, v.list.Rows(peopleShown)); err != nil {
		return answer{}, err
	}
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	if err != nil {
		return answer{}, err
	}
	for _, u := range users {
		view.People[u.ID] = personName(u)
	}
	if view.Made != nil {
		view.Commands = Installers(s.PublicURL, v.Caller.OrgName, view.Made.Raw)
	}
	page := show("settings_catalog", "Catalog tokens", view)
	if problem != nil {
		return page.refused(problem)
	}
	return page, nil
}

// handleCreateToken responds with the page itself: a redirect would have to carry the
// token.
func (s *Service) handleCreateToken(v *visit) (answer, error) {
	form := tokensView{Name: strings.TrimSpace(v.FormValue("name")), Days: strings.TrimSpace(v.FormValue("days"))}
	until, err := expiresIn(form.Days)
	if err != nil {
		return s.showTokens(v, form, err)
	}
	_, raw, err := s.Tokens.Create(v.Context(), v.Caller, form.Name, until)
	if err != nil {
		return s.showTokens(v, form, err)
	}
	return s.showTokens(v, tokensView{Days: "90", Made: &madeKey{Name: form.Name, Raw: raw}}, nil)
}

// handleRotateToken replaces a token; the old one still works for the chosen hours.
func (s *Service) handleRotateToken(v *visit) (answer, error) {
	hours, err := strconv.Atoi(v.FormValue("overlap"))
	if err != nil {
		return answer{}, fault.Invalid("overlap", "overlap must be a number of hours")
	}
	fresh, raw, old, err := s.Tokens.Rotate(v.Context(), v.Caller, v.PathValue("id"), time.Duration(hours)*time.Hour)
	if err != nil {
		return answer{}, err
	}
	return s.showTokens(v, tokensView{Days: "90", Made: &madeKey{Name: fresh.Name, Raw: raw}, Replaced: &old}, nil)
}

// handleDeleteToken revokes a token at once.
func (s *Service) handleDeleteToken(v *visit) (answer, error) {
	if err := s.Tokens.Delete(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/settings/catalog", "The catalog token was deleted. Installers that use it find nothing any more."), nil
}
