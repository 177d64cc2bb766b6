package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// loginView is the form by which people sign in.
type loginView struct {
	Next string
}

func (s *Service) login(v *visit) (answer, error) {
	next := localPath(v.URL.Query().Get("next"))
	if v.sessionID != "" {
		return redirect(next, ""), nil
	}
	return show("login", "Sign in", loginView{Next: next}), nil
}

// signIn exchanges an API key for a session.
func (s *Service) signIn(v *visit) (answer, error) {
	next := localPath(v.FormValue("next"))
	if err := s.startSession(v, strings.TrimSpace(v.FormValue("api_key"))); err != nil {
		return show("login", "Sign in", loginView{Next: next}).refused(err)
	}
	return redirect(next, ""), nil
}

func (s *Service) startSession(v *visit, rawKey string) error {
	_, token, err := s.Auth.SignIn(v.Context(), auth.NewSession{
		RawKey: rawKey, Browser: v.UserAgent(), Address: v.address(), Replaces: v.token(s),
	})
	if err != nil {
		return err
	}
	s.setSession(v, token)
	return nil
}

// signOut ends the session on the server, too: a copied cookie is worth
// nothing afterwards.
func (s *Service) signOut(v *visit) (answer, error) {
	if err := s.Auth.SignOut(v.Context(), v.token(s)); err != nil {
		return answer{}, err
	}
	s.clearSession(v)
	return redirect("/login", "You are signed out."), nil
}

// deviceLoginView is a browser that waits to be let in from another one.
type deviceLoginView struct {
	UserCode string
	URL      string
	Next     string
	Refresh  int // seconds
}

const deviceCookie = "whetstone_device"

// startDeviceLogin lets this browser in when somebody who is signed in
// elsewhere approves its code.
func (s *Service) startDeviceLogin(v *visit) (answer, error) {
	d, err := s.Auth.StartDevice(v.Context(), browserName(v.UserAgent()))
	if err != nil {
		return answer{}, err
	}
	http.SetCookie(v.w, &http.Cookie{
		Name: deviceCookie, Value: d.UserCode + "." + d.DeviceCode, Path: "/login/device", MaxAge: int(d.ExpiresIn.Seconds()),
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
	return redirect("/login/device?next="+url.QueryEscape(localPath(v.FormValue("next"))), ""), nil
}

// deviceLogin asks whether the code was approved. The page asks again by
// itself.
func (s *Service) deviceLogin(v *visit) (answer, error) {
	next := localPath(v.URL.Query().Get("next"))
	userCode, deviceCode := v.deviceCodes()
	result, err := s.Auth.PollDevice(v.Context(), deviceCode)
	if err != nil {
		return answer{}, err
	}
	switch result.Status {
	case auth.DevicePending:
		return show("login_device", "Sign in with a code", deviceLoginView{
			UserCode: userCode, URL: s.PublicURL + "/device", Next: next, Refresh: 5,
		}), nil
	case auth.DeviceApproved:
		if err := s.startSession(v, result.RawKey); err != nil {
			return answer{}, err
		}
		s.clearDevice(v)
		return redirect(next, ""), nil
	case auth.DeviceDenied:
		s.clearDevice(v)
		return answer{}, fault.New(fault.Denied, "The login was denied")
	case auth.DeviceExpired:
	}
	s.clearDevice(v)
	return redirect("/login", "The code has expired; start again."), nil
}

// deviceCodes are what startDeviceLogin left with the browser, or empty.
func (v *visit) deviceCodes() (userCode, deviceCode string) {
	if c, err := v.Cookie(deviceCookie); err == nil {
		userCode, deviceCode, _ = strings.Cut(c.Value, ".")
	}
	return userCode, deviceCode
}

func (s *Service) clearDevice(v *visit) {
	http.SetCookie(v.w, &http.Cookie{
		Name: deviceCookie, Path: "/login/device", MaxAge: -1, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
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
