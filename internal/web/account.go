package web

import (
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
)

// accountView is the caller's profile, sessions and accounts at identity providers.
type accountView struct {
	Key      auth.Key
	Sessions []sessionView
	Linked   []signin.Account
	Linkable []signin.Provider
}

// sessionView is a session of the caller, with the browser in words, e.g. "Firefox on
// Linux".
type sessionView struct {
	auth.Session
	BrowserName string
	Current     bool // the session of this request
}

// handleAccount shows the caller's own account. All roles may see it.
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
		// A narrowed key must not see its holder's other sessions.
		if v.Caller.Narrowed() && session.KeyID != v.Caller.KeyID {
			continue
		}
		view.Sessions = append(view.Sessions, sessionView{
			Session: session, BrowserName: browserName(session.Browser), Current: session.ID == v.sessionID,
		})
	}
	if view.Linked, err = s.SignIn.Accounts(v.Context(), v.Caller); err != nil {
		return answer{}, err
	}
	if view.Linkable, err = s.SignIn.Linkable(v.Context(), v.Caller, v.sessionID, view.Linked); err != nil {
		return answer{}, err
	}
	return show("account", "Account", view), nil
}

// handleStartLink sends the browser to the provider of another account. Another site
// may link here, so nothing is linked before the form of handleOffer, which names the
// account: somebody else may have signed this browser in to it.
func (s *Service) handleStartLink(v *visit) (answer, error) {
	location, cookie, err := s.SignIn.StartLink(v.Context(), v.Caller, v.sessionID, v.PathValue("name"))
	if err != nil {
		return answer{}, err
	}
	s.setCookie(v, signInCookie, cookie, int(signin.Lifetime.Seconds()))
	return redirect(location, ""), nil
}

// handleOffer shows the account that the provider returned, and asks whether to link
// it. The offer is in a cookie and tied to this session.
func (s *Service) handleOffer(v *visit) (answer, error) {
	offer, err := s.SignIn.Offered(v.sessionID, s.cookie(v, offerCookie))
	if err != nil {
		return answer{}, err
	}
	return show("account_link", "Link an account", offer), nil
}

// handleLink links the offered account to the caller.
func (s *Service) handleLink(v *visit) (answer, error) {
	offer, err := s.SignIn.Link(v.Context(), v.Caller, v.sessionID, s.cookie(v, offerCookie))
	if err != nil {
		return answer{}, err
	}
	s.clearCookie(v, offerCookie)
	return redirect("/account", "You can sign in with "+offer.Email+" of "+offer.Title()+" now."), nil
}

// handleUnlink unlinks an account, which ends the sessions that were started with it,
// perhaps this one.
func (s *Service) handleUnlink(v *visit) (answer, error) {
	if err := s.SignIn.Unlink(v.Context(), v.Caller, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/account", "The account was unlinked, and its sessions have ended."), nil
}

// handleEndSession ends one of the caller's sessions. Ending the present one signs them
// out.
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
