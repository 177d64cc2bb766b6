package web

import "net/http"

// The cookies that only the server reads and writes.
const (
	sessionCookie = "whetstone_session"
	deviceCookie  = "whetstone_device"
	flashCookie   = "whetstone_flash"
)

// cookieName has the prefix that keeps other hosts of a domain from planting
// the cookie, where the connection is safe.
func (s *Service) cookieName(name string) string {
	if s.secure {
		return "__Host-" + name
	}
	return name
}

// setCookie keeps a value with the browser for as many seconds, or takes it away
// if they are negative.
func (s *Service) setCookie(v *visit, name, value string, seconds int) {
	http.SetCookie(v.w, &http.Cookie{
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
}

func (s *Service) clearCookie(v *visit, name string) { s.setCookie(v, name, "", -1) }

// cookie is the value that the browser has, or "".
func (s *Service) cookie(v *visit, name string) string {
	if c, err := v.Cookie(s.cookieName(name)); err == nil {
		return c.Value
	}
	return ""
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
// the first byte of every page has the right colours. Whoever plants it changes
// those, so it goes without the prefix.
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
