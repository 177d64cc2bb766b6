package web

import (
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/web/login"
)

// accountView is the caller's profile and sessions.
type accountView struct {
	Key      auth.Key
	Sessions []sessionView
}

type sessionView struct {
	auth.Session
	BrowserName string
	Current     bool
}

func (s *Service) handleAccount(v *visit) (answer, error) {
	var view accountView
	var err error
	if view.Key, err = s.Auth.Key(v.Context(), v.Caller.OrgID, v.Caller.KeyID); err != nil {
		return answer{}, err
	}
	sessions, err := s.Auth.Sessions(v.Context(), v.Caller.OrgID, v.Caller.UserID)
	if err != nil {
		return answer{}, err
	}
	for _, session := range sessions {
		if v.Caller.Narrowed() && session.KeyID != v.Caller.KeyID {
			continue // a narrowed key must not see its holder's other sessions
		}
		view.Sessions = append(view.Sessions, sessionView{
			Session: session, BrowserName: login.BrowserName(session.Browser), Current: session.ID == v.sessionID,
		})
	}
	return show("account", "Account", view), nil
}

func (s *Service) handleEndSession(v *visit) (answer, error) {
	id := v.PathValue("id")
	if err := s.Auth.EndSession(v.Context(), v.Caller, id); err != nil {
		return answer{}, err
	}
	if id == v.sessionID {
		s.clearCookie(v, sessionCookie)
		return redirect("/login", "You are signed out."), nil
	}
	return redirect("/account", "The session was ended."), nil
}
