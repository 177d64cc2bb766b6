// Package address finds the page that a form belongs to, e.g. /alerts/{id} for
// /alerts/{id}/test: the address to show, reload and share after the form was sent.
package address

import "strings"

// Page returns the pattern of the page of a form: its own path or the nearest one above
// it. The path "/" is everybody's.
func Page(form string, isPage func(pattern string) bool) string {
	for pattern := form; pattern != ""; pattern = pattern[:strings.LastIndexByte(pattern, '/')] {
		if isPage(pattern) {
			return pattern
		}
	}
	return "/"
}

// Of returns the address of the page for a request to one of its forms.
func Of(page, escapedPath string) string {
	if page == "/" {
		return page
	}
	parts := strings.Split(escapedPath, "/")
	return strings.Join(parts[:min(len(parts), strings.Count(page, "/")+1)], "/")
}
