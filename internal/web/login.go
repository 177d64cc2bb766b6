package web

import (
	"crypto/rand"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// loginView is the login form.
type loginView struct {
	Next string
}

func (s *Service) handleLogin(v *visit) (answer, error) {
	next := localPath(v.URL.Query().Get("next"))
	if v.sessionID != "" {
		return redirect(next, ""), nil
	}
	return show("login", "Sign in", loginView{Next: next}), nil
}

// handleSignIn exchanges an API key for a session.
func (s *Service) handleSignIn(v *visit) (answer, error) {
	next := localPath(v.FormValue("next"))
	// A key that was copied from a terminal often has a line break.
	if err := s.startSession(v, strings.TrimSpace(v.FormValue("api_key"))); err != nil {
		return show("login", "Sign in", loginView{Next: next}).refused(err)
	}
	return redirect(next, ""), nil
}

// startSession always makes a new token, and ends the session of the old one
// (session fixation).
func (s *Service) startSession(v *visit, rawKey string) error {
	_, token, err := s.Auth.SignIn(v.Context(), auth.NewSession{
		RawKey: rawKey, Browser: v.UserAgent(), Address: httpapi.ClientAddr(v.Context()).String(),
		Replaces: s.cookie(v, sessionCookie),
	})
	if err != nil {
		return err
	}
	s.setCookie(v, sessionCookie, token, int(auth.SessionLifetime.Seconds()))
	return nil
}

// handleSignOut ends the session on the server, too, so that a copied cookie is
// useless afterwards.
func (s *Service) handleSignOut(v *visit) (answer, error) {
	if err := s.Auth.SignOut(v.Context(), s.cookie(v, sessionCookie)); err != nil {
		return answer{}, err
	}
	s.clearCookie(v, sessionCookie)
	return redirect("/login", "You are signed out."), nil
}

// deviceLoginView is a browser that waits for an approval on another device.
type deviceLoginView struct {
	auth.DeviceProgress
	URL  string
	Next string
}

// Waiting reports whether the code was not approved yet.
func (d deviceLoginView) Waiting() bool { return d.Status == auth.DevicePending }

// handleStartDeviceLogin starts a login that is approved on a device where the
// person is already signed in.
func (s *Service) handleStartDeviceLogin(v *visit) (answer, error) {
	// Two browsers of one person may have the same name, and a login must replace the
	// key of the same one only.
	browser := s.cookie(v, browserCookie)
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

// handleDeviceLogin shows whether the code was approved; the page reloads itself.
// It changes nothing: a link must not be able to sign a person in or out (login
// CSRF), so the person submits the form of handleFinishDeviceLogin.
func (s *Service) handleDeviceLogin(v *visit) (answer, error) {
	d, err := s.Auth.Device(v.Context(), s.cookie(v, deviceCookie))
	if err != nil {
		return answer{}, err
	}
	if d.Status != auth.DevicePending && d.Status != auth.DeviceApproved {
		return s.endDeviceLogin(v, d.Status)
	}
	return show("login_device", "Sign in with a code", deviceLoginView{
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

// endDeviceLogin discards a code that was denied or has expired.
func (s *Service) endDeviceLogin(v *visit, status auth.DeviceStatus) (answer, error) {
	s.clearCookie(v, deviceCookie)
	if status == auth.DeviceDenied {
		return answer{}, fault.New(fault.Denied, "The login was denied")
	}
	return redirect("/login", "The code has expired. Start again."), nil
}

// browserName describes a User-Agent, e.g. "Firefox on Linux".
func browserName(userAgent string) string {
	name, system := "A browser", ""
	for _, known := range []struct{ token, name string }{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, // before Safari
		{"Safari/", "Safari"}, {"curl/", "curl"},
	} {
		if strings.Contains(userAgent, known.token) {
			name = known.name
			break
		}
	}
	for _, known := range []struct{ token, name string }{
		{"Android", "Android"},
		{"iPhone", "iPhone"},
		{"iPad", "iPad"},
		{"Windows", "Windows"},
		{"Mac OS", "macOS"},
		{"Linux", "Linux"},
	} {
		if strings.Contains(userAgent, known.token) {
			system = " on " + known.name
			break
		}
	}
	return name + system
}
