package web

import (
	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// accountView is who the caller is, and where they are signed in.
type accountView struct {
	Key      auth.Key
	Sessions []sessionView
	Keys     []keyView
	KeyCount int
}

type sessionView struct {
	auth.Session
	BrowserName string
	Current     bool
}

type keyView struct {
	auth.Key
	Holder string
	State  string // active, expired or revoked
	Own    bool   // the caller's session hangs on it
}

// keysShown is how many keys a page lists.
const keysShown = 50

func (s *Service) account(v *visit) (answer, error) {
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
		view.Sessions = append(view.Sessions, sessionView{
			Session: session, BrowserName: browserName(session.Browser), Current: session.ID == v.sessionID,
		})
	}
	if v.Caller.May(access.Admin) {
		view.Keys, view.KeyCount, err = s.keys(v)
	}
	return show("account", "Account", view), err
}

func (s *Service) keys(v *visit) ([]keyView, int, error) {
	found, total, err := s.Auth.Keys(v.Context(), v.Caller.OrgID, keysShown, v.offset(keysShown))
	if err != nil {
		return nil, 0, err
	}
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	emails := map[string]string{}
	for _, u := range users {
		emails[u.ID] = u.Email
	}
	all := make([]keyView, len(found))
	for i, k := range found {
		all[i] = keyView{Key: k, Holder: emails[k.UserID], State: k.State(), Own: k.ID == v.Caller.KeyID}
	}
	return all, total, err
}

func (s *Service) endSession(v *visit) (answer, error) {
	id := v.PathValue("id")
	if err := s.Auth.EndSession(v.Context(), v.Caller, id); err != nil {
		return answer{}, err
	}
	if id == v.sessionID {
		s.clearSession(v)
		return redirect("/login", "You are signed out."), nil
	}
	return redirect("/account", "The session was ended."), nil
}

func (s *Service) revokeKey(v *visit) (answer, error) {
	id := v.PathValue("id")
	if id == v.Caller.KeyID {
		return answer{}, fault.New(fault.Conflict, "You are signed in with this key; sign in with another one to revoke it")
	}
	if err := s.Auth.RevokeKey(v.Context(), v.Caller.OrgID, id); err != nil {
		return answer{}, err
	}
	return redirect("/account", "The key was revoked, and its sessions have ended."), nil
}
