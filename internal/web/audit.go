package web

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/audit"
)

// auditView is a page of the audit log. Areas and actors are suggestions for the
// filter; any other value can be typed.
type auditView struct {
	Rows     []auditRow
	Form     auditForm
	Filtered bool
	Areas    []auditArea
	Actors   []string // email addresses that the filter suggests
	Newest   string   // URL of the first page; "" on it
	Older    string   // URL of the next page; "" on the last
}

// auditForm is the input of the filter, with the names of the API's parameters, so that
// a link can be copied from one to the other.
type auditForm struct{ Actor, Action, Target, Since, Until string }

// An auditRow is an entry for display, e.g. "Ada, in a browser, changed the role of
// Bob". Link is "" for a thing that is gone, or that the caller may not see.
type auditRow struct {
	audit.Entry
	Who, How         string
	Did, Thing, Link string
	Facts            []auditFact
}

// auditShown is how many entries a page lists.
const auditShown = 50

// handleAudit shows a page of the audit log, newest first. An invalid filter is refused
// on the page itself. Names are current: an entry has its old name only
// where the user is gone.
func (s *Service) handleAudit(v *visit) (answer, error) {
	q := v.URL.Query()
	form := newAuditForm(q)
	view := auditView{Form: form, Filtered: form != auditForm{}, Areas: auditAreas}
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	if err != nil {
		return answer{}, err
	}
	names := map[string]string{}
	for _, u := range users {
		names[u.ID] = personName(u)
		view.Actors = append(view.Actors, u.Email)
	}
	f, err := form.filter()
	if err != nil {
		return show("settings_audit", "Audit log", view).refused(err)
	}
	f.Before, f.Limit = q.Get("cursor"), auditShown
	entries, more, err := s.Audit.List(v.Context(), v.Caller.OrgID, f)
	if err != nil {
		return show("settings_audit", "Audit log", view).refused(err)
	}
	if view.Rows, err = s.auditRows(v, entries, names); err != nil {
		return answer{}, err
	}
	if f.Before != "" {
		view.Newest = auditPage(q, "")
	}
	if more {
		view.Older = auditPage(q, entries[len(entries)-1].ID)
	}
	return show("settings_audit", "Audit log", view), nil
}

// newAuditForm reads the filter from the query.
func newAuditForm(q url.Values) auditForm {
	return auditForm{
		Actor: trimmed(q, "actor"), Action: trimmed(q, "action"),
		Target: trimmed(q, "target"), Since: trimmed(q, "since"), Until: trimmed(q, "until"),
	}
}

// filter returns the filter of the service. Times that are invalid are an error. The
// export uses it, too.
func (a auditForm) filter() (audit.Filter, error) {
	f := audit.Filter{Actor: a.Actor, Action: a.Action, Target: a.Target}
	err := f.Between(a.Since, a.Until)
	return f, err
}

// trimmed returns a parameter without surrounding spaces.
func trimmed(q url.Values, name string) string { return strings.TrimSpace(q.Get(name)) }

// auditPage returns the URL of the page after a cursor, with the same filter. The log
// has no page numbers: new entries would shift them while a person reads.
func auditPage(q url.Values, cursor string) string {
	q = maps.Clone(q)
	q.Del("cursor")
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return "/settings/audit?" + q.Encode()
}

// auditRows describes entries, with links to things that still exist and that the
// caller may see. One query finds out which of the ids on the page exist.
func (s *Service) auditRows(v *visit, entries []audit.Entry, names map[string]string) ([]auditRow, error) {
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Target.ID)
		for name, value := range e.Detail {
			// Details name ids under the kind of thing that they are, e.g.
			// "skill_id".
			if id, ok := value.(string); ok && ofOne(pagesOfTargets[name]) {
				ids = append(ids, id)
			}
		}
	}
	exists, err := s.Overview.Existing(v.Context(), v.Caller.OrgID, ids)
	if err != nil {
		return nil, err
	}
	l := linker{exists, s.visiblePages(v.Caller)}
	rows := make([]auditRow, len(entries))
	for i, e := range entries {
		rows[i] = newAuditRow(e, l, names)
		if e.Target.Kind == "organisation" {
			rows[i].Thing = v.Caller.OrgName
		}
	}
	return rows, nil
}

// newAuditRow describes one entry; names are those of users by id. Only named actors
// have a way: "the service" does nothing in a browser.
func newAuditRow(e audit.Entry, l linker, names map[string]string) auditRow {
	row := auditRow{
		Entry: e, Who: cmp.Or(e.ActorName, whoWords[e.Actor]), Did: didWords(e.Action),
		Thing: cmp.Or(e.Target.Name, e.Target.ID),
		Link:  l.link(e.Target.Kind, e.Target.ID), Facts: auditFacts(e.Detail),
	}
	// The name of an alert is its type, e.g. "pass_rate_below".
	if e.Target.Kind == "alert" {
		row.Thing = strings.ReplaceAll(row.Thing, "_", " ")
	}
	if e.ActorName != "" {
		row.How = viaWords[e.Via]
	}
	for i, f := range row.Facts {
		row.Facts[i].Value = cmp.Or(names[f.Value], shortID(f.Value))
		row.Facts[i].Link = l.link(strings.ReplaceAll(f.Name, " ", "_"), f.Value)
	}
	return row
}

// A linker links to pages of things that still exist, if the caller may see the page.
type linker struct {
	exists  map[string]bool // whether it exists, by id
	visible map[string]bool // whether it is visible, by the path in routes.go
}

// link returns the path of a thing's page, or "". A page of a list is linked without
// looking whether the thing exists.
func (l linker) link(kind, id string) string {
	path := pagesOfTargets[kind]
	switch {
	case path == "" || !l.visible[path]:
		return ""
	case !ofOne(path):
		return path
	case l.exists[id]:
		return path[:strings.LastIndex(path, "/")] + pathTo(id)
	}
	return ""
}

// Known reports whether the select of actions has the action of the filter. A linked
// filter may be another prefix, which the page then shows as text.
func (a auditView) Known() bool {
	return slices.ContainsFunc(a.Areas, func(area auditArea) bool {
		return area.Prefix == a.Form.Action || slices.ContainsFunc(area.Words,
			func(w auditWords) bool { return w.Action == a.Form.Action })
	})
}

// DateField returns the type of the input for a time. A linked filter may be more
// precise than a day, which a date input would not show.
func (a auditView) DateField(value string) string {
	if _, err := time.Parse(time.DateOnly, value); err != nil && value != "" {
		return "text"
	}
	return "date"
}
