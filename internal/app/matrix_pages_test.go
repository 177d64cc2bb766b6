package app_test

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// askPages asks for every page and sends every form: without a session, as
// each role, and as another organisation.
func (m *matrix) askPages() {
	m.addSession()
	callers := []caller{{name: "browser without a session", header: http.Header{}}}
	for _, role := range access.Roles() {
		callers = append(callers, caller{string(role) + " in a browser", m.browser(m.keys[string(role)]), true, access.Enterprise, rolePermissions[role], role, false, false})
	}
	other := caller{"another organisation's owner in a browser", m.browser(m.keys["other owner"]), true, access.Enterprise, rolePermissions[access.Owner], access.Owner, false, false}
	for _, c := range append(callers, other) {
		m.names[c.name] = true
	}
	before := m.dump("")
	for _, r := range m.service.Pages() {
		for _, c := range callers {
			m.askPage(r, c)
		}
		m.askOthersPage(r, other, true)
	}
	m.wantUnchanged("the refused pages and forms", before, "")
	for _, r := range m.service.Pages() {
		m.askOthersPage(r, other, false)
	}
}

// addSession gives our organisation a session to be ended by others.
func (m *matrix) addSession() {
	m.browser(m.keys["filler"])
	sessions, err := m.service.Auth().Sessions(m.Context(), m.ours.OrgID, m.ours.Things["user"])
	if err != nil || len(sessions) == 0 {
		m.Fatalf("our sessions: %v %v", sessions, err)
	}
	m.ours.Things["session"] = sessions[0].ID
	m.theirs.Things["session"] = m.unknown["key"]
}

// askPage asks as somebody of our organisation, or nobody. Forms are sent only
// where they must be refused: what they do is shown elsewhere.
func (m *matrix) askPage(r httpapi.Route, c caller) {
	refused, _ := c.refusal(r)
	row := m.row(r, apptest.Pages())
	if r.Public || refused == 0 && r.Method != http.MethodGet {
		return
	}
	a := m.ask(r, row.Request(m, r, m.ours.Things), c.header)
	switch {
	case refused == http.StatusUnauthorized && r.Method == http.MethodGet:
		m.want(r, c.name, a, http.StatusSeeOther)
		if !strings.HasPrefix(a.Header.Get("Location"), "/login?") {
			m.Errorf("%s %s as %s leads to %s, want the login", r.Method, r.Path, c.name, a.Header.Get("Location"))
		}
	case refused != 0:
		m.want(r, c.name, a, refused)
	case row.Others["run"] == http.StatusSeeOther:
		m.want(r, c.name, a, http.StatusSeeOther)
	default:
		m.want(r, c.name, a, cmp.Or(row.Status, http.StatusOK))
	}
	if !c.good {
		m.wantNothing(r, c.name, a, m.ours.Things)
	}
}

// askOthersPage asks with one thing of ours among another organisation's own.
func (m *matrix) askOthersPage(r httpapi.Route, c caller, refused bool) {
	row := m.row(r, apptest.Pages())
	kinds := slices.Concat(row.PathKinds(), row.BodyKinds())
	for i, kind := range kinds {
		want := row.Others[kind]
		if kind == "text" || kind == "entry_name" || (want == 0) != refused {
			continue
		}
		things := m.theirs.Things.With(kind, m.ours.Things[kind])
		a := m.ask(r, row.Request(m, r, things), c.header)
		m.wantNothing(r, c.name+" with our "+kind, a, things)
		switch {
		case want != 0:
			m.want(r, c.name+" with our "+kind, a, want)
		case i < len(row.PathKinds()) && strings.HasSuffix(kind, "source"):
			m.want(r, c.name+" with our "+kind, a, http.StatusForbidden)
		case i < len(row.PathKinds()):
			m.want(r, c.name+" with our "+kind, a, http.StatusNotFound)
		case a.Status < http.StatusBadRequest:
			m.want(r, c.name+" with our "+kind, a, http.StatusBadRequest)
		default:
			m.cells++
		}
	}
	if len(kinds) == 0 && r.Method == http.MethodGet && !refused {
		m.wantNothing(r, c.name, m.ask(r, row.Request(m, r, m.theirs.Things), c.header), row.Echoed(m.ours.Things))
		m.cells++
	}
}

// askPlainHandlers asks what is answered without a key and outside the tables.
func (m *matrix) askPlainHandlers() {
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/.well-known/agent-skills/index.json"} {
		r := httpapi.Route{Method: http.MethodGet, Path: path}
		a := m.ask(r, apptest.Request{Method: r.Method, Path: path}, nil)
		m.want(r, "anybody", a, http.StatusOK)
		m.wantNothing(r, "anybody", a, nil)
	}
}
