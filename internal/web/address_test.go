package web

import (
	"slices"
	"testing"
)

func TestPageOfForm(t *testing.T) {
	pages := []string{"/alerts", "/alerts/{id}", "/alerts/new", "/settings"}
	for _, c := range []struct{ form, path, page, want string }{
		{"/alerts/{id}/test", "/alerts/a%2Fb/test", "/alerts/{id}", "/alerts/a%2Fb"},
		{"/alerts/new", "/alerts/new", "/alerts/new", "/alerts/new"},
		{"/settings/keys/{id}/revoke", "/settings/keys/k/revoke", "/settings", "/settings"},
		{"/theme", "/theme", "/", "/"},
	} {
		page := pageOfForm(c.form, func(pattern string) bool { return slices.Contains(pages, pattern) })
		if got := addressOf(page, c.path); page != c.page || got != c.want {
			t.Errorf("%s is a form of %s at %s, want %s at %s", c.form, page, got, c.page, c.want)
		}
	}
}
