package web

import (
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/auth"
)

// cookieName has the prefix that keeps other hosts of a domain from planting
// the cookie, where the connection is safe.
func (s *Service) cookieName() string {
	if s.secure {
		return "__Host-whetstone_session"
	}
	return "whetstone_session"
}

func (s *Service) setSession(v *visit, token string) {
	http.SetCookie(v.w, &http.Cookie{
		Name: s.cookieName(), Value: token, Path: "/", MaxAge: int(auth.SessionLifetime.Seconds()),
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
}

func (s *Service) clearSession(v *visit) {
	http.SetCookie(v.w, &http.Cookie{
		Name: s.cookieName(), Path: "/", MaxAge: -1, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
}

const (
	themeCookie = "whetstone_theme"
	themeMaxAge = 365 * 24 * 60 * 60
)

// theme is what the person chose; "" follows the system.
func (v *visit) theme() string {
	c, err := v.Cookie(themeCookie)
	if err != nil || c.Value != "dark" && c.Value != "light" {
		return ""
	}
	return c.Value
}

// setTheme keeps the choice in a cookie that the script may write, too: then
// the first byte of every page has the right colours.
func (s *Service) setTheme(v *visit) (answer, error) {
	c := &http.Cookie{Name: themeCookie, Path: "/", MaxAge: themeMaxAge, Secure: s.secure, SameSite: http.SameSiteLaxMode}
	switch theme := v.FormValue("theme"); theme {
	case "dark", "light":
		c.Value = theme
	default:
		c.MaxAge = -1
	}
	http.SetCookie(v.w, c)
	return redirect(localPath(v.FormValue("next")), ""), nil
}
