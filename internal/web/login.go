package web

import (
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// loginView is the form by which people sign in.
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
	if err := s.startSession(v, strings.TrimSpace(v.FormValue("api_key"))); err != nil {
		return show("login", "Sign in", loginView{Next: next}).refused(err)
	}
	return redirect(next, ""), nil
}

func (s *Service) startSession(v *visit, rawKey string) error {
	_, token, err := s.Auth.SignIn(v.Context(), auth.NewSession{
		RawKey: rawKey, Browser: v.UserAgent(), Address: httpapi.ClientAddr(v.Context()).String(), Replaces: s.cookie(v, sessionCookie),
	})
	if err != nil {
		return err
	}
	s.setCookie(v, sessionCookie, token, int(auth.SessionLifetime.Seconds()))
	return nil
}

// handleSignOut ends the session on the server, too: a copied cookie is worth
// nothing afterwards.
func (s *Service) handleSignOut(v *visit) (answer, error) {
	if err := s.Auth.SignOut(v.Context(), s.cookie(v, sessionCookie)); err != nil {
		return answer{}, err
	}
	s.clearCookie(v, sessionCookie)
	return redirect("/login", "You are signed out."), nil
}

// deviceLoginView is a browser that waits to be let in from another one.
type deviceLoginView struct {
	auth.DeviceProgress
	URL  string
	Next string
}

// Waiting reports whether nobody has approved the code yet.
func (d deviceLoginView) Waiting() bool { return d.Status == auth.DevicePending }

// handleStartDeviceLogin lets this browser in when somebody who is signed in
// elsewhere approves its code.
func (s *Service) handleStartDeviceLogin(v *visit) (answer, error) {
	d, err := s.Auth.StartDevice(v.Context(), browserName(v.UserAgent()))
	if err != nil {
		return answer{}, err
	}
	s.setCookie(v, deviceCookie, d.DeviceCode, int(d.ExpiresIn.Seconds()))
	return redirect("/login/device?next="+url.QueryEscape(localPath(v.FormValue("next"))), ""), nil
}

// handleDeviceLogin shows whether the code was approved. The page asks again by
// itself. It changes nothing: a link must not sign anybody in or out, so the
// person sends finishDeviceLogin's form.
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

// handleFinishDeviceLogin signs this browser in as who approved its code, in place of
// whoever was signed in.
func (s *Service) handleFinishDeviceLogin(v *visit) (answer, error) {
	next := localPath(v.FormValue("next"))
	result, err := s.Auth.PollDevice(v.Context(), s.cookie(v, deviceCookie))
	if err != nil {
		return answer{}, err
	}
	switch result.Status {
	case auth.DevicePending:
		return redirect("/login/device?next="+url.QueryEscape(next), "Nobody has approved the code yet."), nil
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

// endDeviceLogin forgets a code that lets nobody in.
func (s *Service) endDeviceLogin(v *visit, status auth.DeviceStatus) (answer, error) {
	s.clearCookie(v, deviceCookie)
	if status == auth.DeviceDenied {
		return answer{}, fault.New(fault.Denied, "The login was denied")
	}
	return redirect("/login", "The code has expired; start again."), nil
}

// browserName tells browsers apart as people do: Firefox on Linux.
func browserName(userAgent string) string {
	name, system := "A browser", ""
	for _, known := range []struct{ token, name string }{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	} {
		if strings.Contains(userAgent, known.token) {
			name = known.name
			break
		}
	}
	for _, known := range []struct{ token, name string }{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS", "macOS"}, {"Linux", "Linux"},
	} {
		if strings.Contains(userAgent, known.token) {
			system = " on " + known.name
			break
		}
	}
	return name + system
}
