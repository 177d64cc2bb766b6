package web

import (
	"context"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
)

// A loginForm is the page with all ways to sign in.
type loginForm struct {
	Next      string // path to return to
	Providers []signin.Provider
	Required  bool         // keys are refused: people must use a provider
	Left      *signOutLink // shown after signing out
}

// signOutLink lets a person end their session at the provider, too.
type signOutLink struct{ Title, URL string }

// newLoginForm returns the page that leads to the path next. left names the provider of
// the session that was just ended, or is "".
func (s *Service) newLoginForm(ctx context.Context, next, left string) loginForm {
	form := loginForm{Next: next, Providers: s.SignIn.Providers, Required: s.Auth.RequireSSO}
	if provider, err := s.SignIn.Provider(left); left != "" && err == nil {
		if address := s.SignIn.LogoutURL(ctx, left); address != "" {
			form.Left = &signOutLink{provider.Title(), address}
		}
	}
	return form
}

// A deviceLogin is a browser that waits for an approval on another device.
type deviceLogin struct {
	auth.DeviceProgress
	URL  string
	Next string
}

// Waiting reports whether the code was not approved yet.
func (d deviceLogin) Waiting() bool { return d.Status == auth.DevicePending }

// browserName describes a User-Agent, e.g. "Firefox on Linux". It is only a label.
func browserName(userAgent string) string {
	name, system := "A browser", ""
	// Edge, Opera and Chrome claim to be Safari, too, so the order matters.
	for _, known := range []struct{ token, name string }{
		{"Edg/", "Edge"},
		{"OPR/", "Opera"},
		{"Firefox/", "Firefox"},
		{"Chrome/", "Chrome"},
		{"Safari/", "Safari"},
		{"curl/", "curl"},
	} {
		if strings.Contains(userAgent, known.token) {
			name = known.name
			break
		}
	}
	// Android claims to be Linux, and the iPhone to be like Mac OS.
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

// localPath returns path if it is one of this site, else "/". It prevents open
// redirects: "//host" and "/\host" lead to other sites, and browsers drop tabs and line
// breaks from URLs.
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
