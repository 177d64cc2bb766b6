package web

import (
	"net/url"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// A hit is something that a search found: a page, an action, or a thing with a page.
type hit struct{ Title, Kind, URL string }

// hitsOfKind limits how many skills, entries, versions and suites a search finds each.
const hitsOfKind = 5

// searchView is the page of a search. The command palette reads its list, too.
type searchView struct{ Hits []hit }

// shortcuts are pages and actions that the menu does not list. A caller is shown those
// whose route is open to them.
var shortcuts = []struct {
	hit
	page string // the route of the page; "" if it is the URL
}{
	{hit: hit{"Invite a member", "action", "/settings/members#invite"}, page: "/settings/members/{id}"},
	{hit: hit{"Create an API key", "action", "/settings/keys#new-key"}, page: "/settings/keys"},
	{hit: hit{"New alert", "action", "/alerts/new"}},
	{hit: hit{"New suite", "action", "/suites/new"}},
	{hit: hit{"Connect a repository", "action", "/repohost/connections/new"}},
	{hit: hit{"Check a lock file", "action", "/registry/lock-file"}},
	{hit: hit{"What agents list: catalogue report", "page", "/catalogue"}},
	{hit: hit{"Community bundles", "page", "/community"}},
	{hit: hit{"Signals", "page", "/signals"}},
	{hit: hit{"Account", "page", "/account"}},
	{hit: hit{"Approve a device", "action", "/device"}},
}

// handleSearch finds pages, actions, skills, entries, versions, suites and sessions by
// name. The palette asks it while a person types.
func (s *Service) handleSearch(v *visit) (answer, error) {
	typed := v.list.Search()
	if typed == "" {
		return show("search", "Search", searchView{}), nil
	}
	name, rollback := strings.CutPrefix(strings.ToLower(typed), "roll back")
	if name = strings.TrimSpace(name); !rollback {
		name = typed
	}
	view := searchView{Hits: s.pageHits(v, typed)}
	for _, find := range []func(*visit, string) ([]hit, error){s.skillHits, s.entryHits, s.suiteHits, s.sessionHits} {
		found, err := find(v, name)
		if err != nil {
			return answer{}, err
		}
		view.Hits = append(view.Hits, found...)
	}
	// Actions on what was found come last, unless one was asked for.
	var things, actions []hit
	for _, h := range view.Hits {
		if h.Kind == "roll back" {
			h.Kind = "action"
			actions = append(actions, h)
		} else {
			things = append(things, h)
		}
	}
	if view.Hits = slices.Concat(things, actions); rollback {
		view.Hits = slices.Concat(actions, things)
	}
	return show("search", "Search", view), nil
}

// pageHits finds pages and actions that have all words of the text in their names.
func (s *Service) pageHits(v *visit, typed string) (found []hit) {
	words := strings.Fields(strings.ToLower(typed))
	add := func(h hit) {
		for _, word := range words {
			if !strings.Contains(strings.ToLower(h.Title), word) {
				return
			}
		}
		found = append(found, h)
	}
	visible := s.visiblePages(v.Caller)
	for _, groups := range [][]navGroup{menu, settingsMenu} {
		for _, g := range visibleNav(groups, visible, "") {
			for _, n := range g.Items {
				add(hit{n.Label, "page", n.Path})
			}
		}
	}
	for _, c := range shortcuts {
		if visible[c.page] || c.page == "" && visible[c.URL] {
			add(c.hit)
		}
	}
	return found
}

func (s *Service) skillHits(v *visit, name string) (found []hit, err error) {
	all, _, err := s.Skills.List(v.Context(), v.Caller.OrgID, skills.Filter{Search: name, Sort: "name", Limit: hitsOfKind})
	for _, k := range all {
		found = append(found, hit{k.Name, "skill", format.Path("skills", k.ID)})
	}
	return found, err
}

// entryHits finds entries of the registry and, if a version follows the name, e.g.
// "pdf 1.2", versions of them.
func (s *Service) entryHits(v *visit, name string) (found []hit, err error) {
	name, version, _ := strings.Cut(name, " ")
	filter := registry.Filter{Search: name, Pending: true, Page: store.Page{Sort: "name", Limit: hitsOfKind}}
	all, _, err := s.Registry.List(v.Context(), v.Caller.OrgID, filter)
	if err != nil {
		return nil, err
	}
	mayRollBack := v.Caller.May(access.RegistryRollback) && v.Caller.Plan.Includes(access.Pro)
	for _, e := range all {
		page := format.Path("registry", e.ID)
		if version == "" {
			found = append(found, hit{strings.TrimSpace(e.Name + " " + e.CurrentVersion), "registry", page})
			if mayRollBack && e.CurrentVersion != "" {
				found = append(found, hit{"Roll back " + e.Name, "roll back", page + "#rollback"})
			}
			continue
		}
		versions, _, err := s.Registry.Versions(v.Context(), v.Caller.OrgID, e.ID, versionsShown)
		if err != nil {
			return nil, err
		}
		for _, one := range versions {
			if strings.HasPrefix(one.Version, version) && len(found) < hitsOfKind {
				found = append(found, hit{e.Name + " " + one.Version, "version", page + format.Path("versions", one.Version)})
			}
		}
	}
	return found, nil
}

func (s *Service) suiteHits(v *visit, name string) (found []hit, err error) {
	all, _, err := s.Suites.List(v.Context(), v.Caller.OrgID,
		suites.Filter{Search: name, Page: store.Page{Limit: hitsOfKind}})
	for _, suite := range all {
		found = append(found, hit{suite.Name, "suite", format.Path("suites", suite.ID)})
	}
	return found, err
}

// sessionHits finds the session with an id, and the failed sessions of a skill with
// exactly that name.
func (s *Service) sessionHits(v *visit, typed string) ([]hit, error) {
	one, err := s.Sessions.Find(v.Context(), v.Caller, typed)
	if err == nil {
		return []hit{{"Session " + one.SessionID, "session", format.Path("sessions", one.SessionID)}}, nil
	}
	if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	k, err := s.Skills.Get(v.Context(), v.Caller.OrgID, typed)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return []hit{
		{"Sessions of " + k.Name, "sessions", "/sessions?" + url.Values{"skill": {k.ID}}.Encode()},
		{"Failed sessions of " + k.Name, "sessions", failedSessions(k.ID, "")},
	}, err
}
