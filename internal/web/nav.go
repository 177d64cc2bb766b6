package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/access"
)

// navItem is one entry of the menu.
type navItem struct {
	Path, Label, Icon string
	Also              []string // other pages that belong to it begin so
	Current           bool
}

// menu lists the pages that the menu offers to those who may see them.
var menu = []navItem{
	{Path: "/", Label: "Home", Icon: "home"},
	{Path: "/skills", Label: "Skills", Icon: "skills"},
	{Path: "/review", Label: "Review", Icon: "review"},
	{Path: "/sources", Label: "Sources", Icon: "sources"},
	{Path: "/suites", Label: "Suites", Icon: "suites", Also: []string{"/runs", "/improve-runs"}},
	{Path: "/registry", Label: "Registry", Icon: "registry"},
	{Path: "/repohost", Label: "Code host", Icon: "repohost"},
	{Path: "/alerts", Label: "Alerts", Icon: "alerts"},
	{Path: "/community", Label: "Community", Icon: "community", Also: []string{"/signals"}},
	{Path: "/proposals", Label: "Proposals", Icon: "proposals"},
	{Path: "/settings", Label: "Settings", Icon: "settings"},
}

// navFor returns the menu of a caller, with the entry marked that the path
// belongs to.
func navFor(c access.Caller, path string) []navItem {
	all := routes()
	items := slices.DeleteFunc(slices.Clone(menu), func(n navItem) bool {
		return n.Path != "/" && !slices.ContainsFunc(all, func(r route) bool {
			return r.method == http.MethodGet && r.path == n.Path && r.check(c) == nil
		})
	})
	for i, n := range items {
		items[i].Current = within(path, n.Path) || slices.ContainsFunc(n.Also, func(also string) bool { return within(path, also) })
	}
	return items
}

// within reports whether a page is the one at a path, or below it.
func within(page, path string) bool {
	return page == path || path != "/" && strings.HasPrefix(page, path+"/")
}
