// Package login prepares the pages on which people sign in.
package login

import (
	"context"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
)

// A Form is the page with all ways to sign in.
type Form struct {
	Next      string
	Providers []signin.Provider
	Required  bool     // keys are refused
	Left      *signOut // after signing out
}

// signOut is how a person ends their session at the provider, too.
type signOut struct{ Title, URL string }

// Pages reads what the pages show.
type Pages struct {
	Auth   *auth.Service
	SignIn *signin.Service
}

// Form returns the page that leads to a path. Left names the provider of the session
// that was just ended, if any.
func (p Pages) Form(ctx context.Context, next, left string) Form {
	form := Form{Next: next, Providers: p.SignIn.Providers, Required: p.Auth.RequireSSO}
	if provider, err := p.SignIn.Provider(left); left != "" && err == nil {
		if address := p.SignIn.LogoutURL(ctx, left); address != "" {
			form.Left = &signOut{provider.Title(), address}
		}
	}
	return form
}

// A Device is a browser that waits for an approval on another device.
type Device struct {
	auth.DeviceProgress
	URL  string
	Next string
}

// Waiting reports whether the code was not approved yet.
func (d Device) Waiting() bool { return d.Status == auth.DevicePending }

// BrowserName describes a User-Agent, e.g. "Firefox on Linux".
func BrowserName(userAgent string) string {
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

// LocalPath returns path if it is one of this site, else "/". It prevents open
// redirects.
func LocalPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
