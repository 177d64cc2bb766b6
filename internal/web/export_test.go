package web

import (
	"errors"
	"html/template"
)

// What the tests look at without a page around it.
var (
	LocalPath = localPath
	Short     = short

	AuditAreas     = auditAreas
	PagesOfTargets = pagesOfTargets
)

// Markdown renders a foreign text.
func Markdown(text string) (template.HTML, error) { return newRenderer().HTML(text) }

// Forms lists the paths that forms are sent to.
func Forms() (paths []string) {
	for _, r := range routes() {
		if r.method == "POST" {
			paths = append(paths, r.path)
		}
	}
	return paths
}

// PagePaths lists the paths of pages.
func PagePaths() (paths []string) {
	for _, r := range routes() {
		if r.method == "GET" {
			paths = append(paths, r.path)
		}
	}
	return paths
}

// SortedPages are the fields that the lists of pages can be sorted by, by path.
func SortedPages() map[string][]string {
	all := map[string][]string{}
	for _, r := range routes() {
		if len(r.sorts) > 0 {
			all[r.path] = r.sorts
		}
	}
	return all
}

// ReadTemplates reads the templates of every page, and returns how many pages
// there are.
func (s *Service) ReadTemplates() (int, error) {
	var errs []error
	for _, read := range s.templates {
		_, err := read()
		errs = append(errs, err)
	}
	return len(s.templates), errors.Join(errs...)
}
