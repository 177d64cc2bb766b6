package web

import "strings"

// pageOfForm returns the pattern of the page of a form: its own path or the nearest one
// above it that is a page, e.g. "/alerts/{id}" for "/alerts/{id}/test". Everyone may
// see "/".
func pageOfForm(form string, isPage func(pattern string) bool) string {
	for pattern := form; pattern != ""; pattern = pattern[:strings.LastIndexByte(pattern, '/')] {
		if isPage(pattern) {
			return pattern
		}
	}
	return "/"
}

// addressOf returns the address of the page for a request to one of its forms: the
// escaped path, cut off at as many segments as the pattern of the page has.
func addressOf(page, escapedPath string) string {
	if page == "/" {
		return page
	}
	parts := strings.Split(escapedPath, "/")
	return strings.Join(parts[:min(len(parts), strings.Count(page, "/")+1)], "/")
}
