package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// A navGroup is a part of the menu, or of the list of settings, under a heading.
type navGroup struct {
	Label string
	Items []navItem
}

// navItem is one entry of the menu.
type navItem struct {
	Path, Label, Icon string
	About             string   // what the page is for, in the list of settings
	Also              []string // path prefixes of other pages that mark it as current
	Current           bool
}

// menu lists the pages of the menu in the order of the loop. A caller sees those that
// their plan and permissions include.
var menu = []navGroup{
	{"Observe", []navItem{
		{Path: "/", Label: "Home", Icon: "home"},
		{Path: "/skills", Label: "Skills", Icon: "skills", Also: []string{"/catalogue"}},
		{Path: "/sessions", Label: "Sessions", Icon: "sessions"},
		{Path: "/costs", Label: "Costs", Icon: "costs"},
	}},
	{"Test", []navItem{
		{Path: "/review", Label: "Review", Icon: "review"},
		{Path: "/suites", Label: "Suites", Icon: "suites", Also: []string{"/runs", "/improve-runs"}},
		{Path: "/comparisons", Label: "Comparisons", Icon: "compare"},
		{Path: "/sources", Label: "Sources", Icon: "sources"},
	}},
	{"Ship", []navItem{
		{Path: "/registry", Label: "Registry", Icon: "registry"},
		{Path: "/gates", Label: "Gates", Icon: "gates"},
		{Path: "/repohost", Label: "Code host", Icon: "repohost"},
		{Path: "/proposals", Label: "Proposals", Icon: "proposals", Also: []string{"/community", "/signals"}},
	}},
	{"Watch", []navItem{
		{Path: "/alerts", Label: "Alerts", Icon: "alerts"},
		{Path: "/incidents", Label: "Incidents", Icon: "incidents"},
	}},
	{"", []navItem{{Path: "/settings", Label: "Settings", Icon: "settings"}}},
}

// settingsMenu lists the pages of settings.
var settingsMenu = []navGroup{
	{"Connect", []navItem{
		{Path: "/settings/connect", Label: "Connect agents", About: "Report sessions from your agents, and install skills."},
		{Path: "/settings/catalog", Label: "Catalog tokens", About: "Let machines install skills without an account."},
		{Path: "/settings/webhooks", Label: "Webhooks", About: "Tell other systems about versions, alerts and decisions."},
	}},
	{"People and access", []navItem{
		{Path: "/settings/members", Label: "Members", About: "Invite people, and change what they may do."},
		{Path: "/settings/teams", Label: "Teams", About: "Group people, and let teams own skills."},
		{Path: "/settings/keys", Label: "API keys", About: "Keys for the command line, CI and agents."},
		{Path: "/settings/service-accounts", Label: "Service accounts", About: "Machines with a role of their own."},
		{Path: "/settings/provisioning", Label: "Provisioning", About: "Sync people and groups by SCIM."},
	}},
	{"Measuring", []navItem{
		{Path: "/settings/grader", Label: "Grader", About: "Let a model grade sessions."},
		{Path: "/settings/gate-policy", Label: "Gate policy", About: "What a version must prove before it becomes current."},
		{Path: "/settings/prices", Label: "Prices", About: "What model requests cost you."},
	}},
	{"Data", []navItem{
		{Path: "/settings/content", Label: "Session text", About: "Whether prompts and answers are stored, and who reads them."},
		{Path: "/settings/privacy", Label: "Privacy", About: "Export or delete what is stored."},
		{Path: "/settings/audit", Label: "Audit log", About: "Who changed what, and when."},
		{Path: "/settings/plan", Label: "Plan and limits", About: "Your plan, the storage in use, and how long data is kept."},
	}},
}

// visibleNav returns the groups with the entries that a caller may see, and the one of the
// page at path marked.
func visibleNav(groups []navGroup, visible map[string]bool, path string) []navGroup {
	shown := make([]navGroup, 0, len(groups))
	for _, g := range groups {
		items := slices.DeleteFunc(slices.Clone(g.Items), func(n navItem) bool { return n.Path != "/" && !visible[n.Path] })
		for i, n := range items {
			items[i].Current = within(path, n.Path) || slices.ContainsFunc(n.Also,
				func(also string) bool { return within(path, also) })
		}
		if len(items) > 0 {
			shown = append(shown, navGroup{g.Label, items})
		}
	}
	return shown
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
