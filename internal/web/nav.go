package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// navItem is one entry of the menu.
type navItem struct {
	Path, Label, Icon string
	Also              []string // path prefixes of other pages that mark it as current
	Current           bool
}

// menu lists the pages of the menu. A caller sees those that their plan and permissions
// include.
var menu = []navItem{
	{Path: "/", Label: "Home", Icon: "home"},
	{Path: "/skills", Label: "Skills", Icon: "skills"},
	{Path: "/sessions", Label: "Sessions", Icon: "sessions"},
	{Path: "/costs", Label: "Costs", Icon: "costs"},
	{Path: "/catalogue", Label: "Catalogue", Icon: "catalogue"},
	{Path: "/review", Label: "Review", Icon: "review"},
	{Path: "/sources", Label: "Sources", Icon: "sources"},
	{Path: "/suites", Label: "Suites", Icon: "suites", Also: []string{"/runs", "/improve-runs"}},
	{Path: "/registry", Label: "Registry", Icon: "registry", Also: []string{"/gates"}},
	{Path: "/repohost", Label: "Code host", Icon: "repohost"},
	{Path: "/alerts", Label: "Alerts", Icon: "alerts", Also: []string{"/incidents"}},
	{Path: "/community", Label: "Community", Icon: "community", Also: []string{"/signals"}},
	{Path: "/proposals", Label: "Proposals", Icon: "proposals"},
	{Path: "/settings", Label: "Settings", Icon: "settings"},
}

// navFor returns the menu of a caller, with the entry of the page at path marked.
func (s *Service) navFor(c access.Caller, path string) []navItem {
	visible := s.visiblePages(c)
	items := slices.DeleteFunc(slices.Clone(menu), func(n navItem) bool { return n.Path != "/" && !visible[n.Path] })
	for i, n := range items {
		items[i].Current = within(path, n.Path) || slices.ContainsFunc(n.Also,
			func(also string) bool { return within(path, also) })
	}
	return items
}

// visiblePages returns the paths of the pages, as in routes.go, that a caller is
// authorized to see. The routes decide, so that the menu never leads to a page that
// refuses.
func (s *Service) visiblePages(c access.Caller) map[string]bool {
	paths := map[string]bool{}
	for _, r := range s.routes {
		if r.method == http.MethodGet && r.authorize(c) == nil {
			paths[r.path] = true
		}
	}
	return paths
}

// within reports whether a page is the one at a path, or below it. "/" has none below
// it.
func within(page, path string) bool {
	return page == path || path != "/" && strings.HasPrefix(page, path+"/")
}
