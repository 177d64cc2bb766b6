package web

import (
	"net/http"
	"time"
)

// The cookies that only the server reads and writes (HttpOnly).
const (
	sessionCookie = "whetstone_session"
	deviceCookie  = "whetstone_device"  // a device login of this browser that waits for approval
	signInCookie  = "whetstone_sign_in" // a sign-in with an identity provider that was started
	offerCookie   = "whetstone_offer"   // an account at an identity provider that may be linked
	flashCookie   = "whetstone_flash"   // message for the next page
	browserCookie = "whetstone_browser" // identifies a browser that signs in with a code
)

// browserLifetime is how long a browser is recognised.
const browserLifetime = 365 * 24 * time.Hour

// cookieName adds the prefix __Host-, which keeps other hosts of the same domain from
// setting the cookie. Browsers accept it over HTTPS only.
func (s *Service) cookieName(name string) string {
	if s.secure {
		return "__Host-" + name
	}
	return name
}

// setCookie stores a value in the browser for some seconds; a negative number deletes
// it. SameSite is Lax and not Strict, because links in chats and mails lead to pages;
// forms of other sites are refused by the CSRF check.
func (s *Service) setCookie(v *visit, name, value string, seconds int) {
	http.SetCookie(v.w, &http.Cookie{
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
}

// clearCookie deletes a cookie.
func (s *Service) clearCookie(v *visit, name string) { s.setCookie(v, name, "", -1) }

// cookie returns the value of a cookie, or "".
func (s *Service) cookie(v *visit, name string) string {
	if c, err := v.Cookie(s.cookieName(name)); err == nil {
		return c.Value
	}
	return ""
}

// themeCookie is "dark" or "light"; themeMaxAge is in seconds.
const (
	themeCookie = "whetstone_theme"
	themeMaxAge = 365 * 24 * 60 * 60
)

// theme is the chosen theme, or "" to follow the system. Other values are ignored,
// since the value ends up in the HTML.
func (v *visit) theme() string {
	c, err := v.Cookie(themeCookie)
	if err != nil || c.Value != "dark" && c.Value != "light" {
		return ""
	}
	return c.Value
}

// handleSetTheme stores the choice in a cookie that the script may write, too, so that
// pages arrive with the right colours. The cookie needs no protection: it changes only
// colours.
func (s *Service) handleSetTheme(v *visit) (answer, error) {
	c := &http.Cookie{
		Name: themeCookie, Path: "/", MaxAge: themeMaxAge, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	}
	switch theme := v.FormValue("theme"); theme {
	case "dark", "light":
		c.Value = theme
	default:
		c.MaxAge = -1
	}
	http.SetCookie(v.w, c)
	return redirect(localPath(v.FormValue("next")), ""), nil
}
