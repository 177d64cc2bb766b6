package web

import (
	"crypto/rand"
	"errors"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// loginForm shows all ways to sign in, and what is wrong; problem may be nil. left
// names the provider that the person was signed in by, see handleSignOut.
func (s *Service) loginForm(v *visit, next string, problem error) (answer, error) {
	page := show("login", "Sign in", s.newLoginForm(v.Context(), next, v.URL.Query().Get("left")))
	// An identity provider has failed; another way to sign in may still work.
	if e, ok := errors.AsType[*fault.Error](problem); ok && e.Kind == fault.BadGateway {
		page.problem, page.status = e, httpapi.Status(e.Kind)
		return page, nil
	}
	if problem != nil {
		return page.refused(problem)
	}
	return page, nil
}

// handleLogin shows the login page, or redirects a person who is signed in.
func (s *Service) handleLogin(v *visit) (answer, error) {
	next := localPath(v.URL.Query().Get("next"))
	if v.sessionID != "" {
		return redirect(next, ""), nil
	}
	return s.loginForm(v, next, nil)
}

// handleSignIn exchanges an API key for a session. The key itself is not kept: the
// session refers to it.
func (s *Service) handleSignIn(v *visit) (answer, error) {
	next := localPath(v.FormValue("next"))
	// A key that was copied from a terminal often has a line break.
	if err := s.startSession(v, strings.TrimSpace(v.FormValue("api_key"))); err != nil {
		return s.loginForm(v, next, err)
	}
	return redirect(next, ""), nil
}

// newSession describes the browser for a new session. The session that the browser has
// is replaced, to prevent session fixation.
func (s *Service) newSession(v *visit) auth.NewSession {
	return auth.NewSession{
		Browser: v.UserAgent(), Address: httpapi.ClientAddr(v.Context()).String(), Replaces: s.cookie(v, sessionCookie),
	}
}

// startSession signs the browser in with a key, and sets its cookie. The cookie's
// age is that of the session, which the server enforces.
func (s *Service) startSession(v *visit, rawKey string) error {
	n := s.newSession(v)
	n.RawKey = rawKey
	_, token, err := s.Auth.SignIn(v.Context(), n)
	if err != nil {
		return err
	}
	s.setCookie(v, sessionCookie, token, int(auth.SessionLifetime.Seconds()))
	return nil
}

// handleStartSSO sends the browser to an identity provider. The cookie ties the
// callback to this browser. A provider that does not exist is a problem of the page,
// e.g. an old bookmark.
func (s *Service) handleStartSSO(v *visit) (answer, error) {
	next := localPath(v.URL.Query().Get("next"))
	location, cookie, err := s.SignIn.Start(v.Context(), v.PathValue("name"), next)
	if err != nil {
		return s.loginForm(v, next, err)
	}
	s.setCookie(v, signInCookie, cookie, int(signin.Lifetime.Seconds()))
	return redirect(location, ""), nil
}

// handleFinishSSO is the callback of an identity provider: it signs the browser in, or
// offers to link the account if that was the purpose.
func (s *Service) handleFinishSSO(v *visit) (answer, error) {
	w, err := s.SignIn.Finish(v.Context(), signin.Callback{
		Provider: v.PathValue("name"), Query: v.URL.Query(), Cookie: s.cookie(v, signInCookie), Browser: s.newSession(v),
		Session: v.sessionID,
	})
	if err != nil {
		return s.loginForm(v, "/", err)
	}
	// The code of a callback works once, and so does its cookie.
	s.clearCookie(v, signInCookie)
	if w.Offer != "" {
		s.setCookie(v, offerCookie, w.Offer, int(signin.Lifetime.Seconds()))
		return redirect("/account/link", ""), nil
	}
	s.setCookie(v, sessionCookie, w.Token, int(auth.VouchedLifetime.Seconds()))
	return redirect(localPath(w.Next), ""), nil
}

// handleSignOut ends the session on the server, too, so that a copied cookie is useless
// afterwards. The page after it offers to end the session at the identity provider: a
// redirect there would not pass the Content-Security-Policy.
func (s *Service) handleSignOut(v *visit) (answer, error) {
	provider, err := s.SignIn.ProviderOf(v.Context(), v.Caller.OrgID, v.sessionID)
	if err != nil {
		return answer{}, err
	}
	if err := s.Auth.SignOut(v.Context(), s.cookie(v, sessionCookie)); err != nil {
		return answer{}, err
	}
	s.clearCookie(v, sessionCookie)
	if provider != "" {
		return redirect("/login?left="+url.QueryEscape(provider), "You are signed out."), nil
	}
	return redirect("/login", "You are signed out."), nil
}

// handleStartDeviceLogin starts a login that is approved on a device where the person
// is already signed in.
func (s *Service) handleStartDeviceLogin(v *visit) (answer, error) {
	if err := s.Auth.CheckKeySignIn(); err != nil {
		return s.loginForm(v, localPath(v.FormValue("next")), err)
	}
	// Two browsers of one person may have the same name, and a login must replace the
	// key of the same browser only.
	browser := s.cookie(v, browserCookie)
	// A longer value was not set by us.
	if browser == "" || len(browser) > len(rand.Text()) {
		browser = rand.Text()
	}
	d, err := s.Auth.StartDevice(v.Context(), browserName(v.UserAgent()), browser)
	if err != nil {
		return answer{}, err
	}
	s.setCookie(v, browserCookie, browser, int(browserLifetime.Seconds()))
	s.setCookie(v, deviceCookie, d.DeviceCode, int(d.ExpiresIn.Seconds()))
	return redirect("/login/device?next="+url.QueryEscape(localPath(v.FormValue("next"))), ""), nil
}

// handleDeviceLogin shows whether the code was approved; the page reloads itself. It
// changes nothing: a link must not be able to sign a person in or out (login CSRF), so
// the person submits the form of handleFinishDeviceLogin.
func (s *Service) handleDeviceLogin(v *visit) (answer, error) {
	d, err := s.Auth.Device(v.Context(), s.cookie(v, deviceCookie))
	if err != nil {
		return answer{}, err
	}
	if d.Status != auth.DevicePending && d.Status != auth.DeviceApproved {
		return s.endDeviceLogin(v, d.Status)
	}
	return show("login_device", "Sign in with a code", deviceLogin{
		DeviceProgress: d, URL: s.PublicURL + "/device", Next: localPath(v.URL.Query().Get("next")),
	}), nil
}

// handleFinishDeviceLogin signs this browser in as the user who approved its code. It
// replaces the present session.
func (s *Service) handleFinishDeviceLogin(v *visit) (answer, error) {
	next := localPath(v.FormValue("next"))
	result, err := s.Auth.PollDevice(v.Context(), s.cookie(v, deviceCookie))
	if err != nil {
		return answer{}, err
	}
	switch result.Status {
	// The form was submitted too early, e.g. with the keyboard.
	case auth.DevicePending:
		return redirect("/login/device?next="+url.QueryEscape(next), "The code has not been approved yet."), nil
	case auth.DeviceApproved:
		if err := s.startSession(v, result.RawKey); err != nil {
			return answer{}, err
		}
		s.clearCookie(v, deviceCookie)
		return redirect(next, ""), nil
	case auth.DeviceDenied, auth.DeviceExpired:
	}
	return s.endDeviceLogin(v, result.Status)
}

// endDeviceLogin discards a code that was denied or has expired. A denial is an
// error page: the login may not have been the person's own.
func (s *Service) endDeviceLogin(v *visit, status auth.DeviceStatus) (answer, error) {
	s.clearCookie(v, deviceCookie)
	if status == auth.DeviceDenied {
		return answer{}, fault.New(fault.Denied, "The login was denied")
	}
	return redirect("/login", "The code has expired. Start again."), nil
}
