package app_test

import (
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/scim"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// scimTokens makes a token for the identity provider of each organisation.
func (m *matrix) scimTokens() {
	m.Helper()
	opened := &scim.Service{DB: m.service.DB(), Auth: m.service.Auth()}
	for name, org := range map[string]*filled{"SCIM token": m.ours, "other SCIM token": m.theirs} {
		owner := access.Caller{OrgID: org.OrgID, UserID: org.Things["user"], Role: access.Owner, Permissions: access.Owner.Permissions()}
		var err error
		if _, m.keys[name], err = opened.CreateToken(m.Context(), owner, "matrix", nil); err != nil {
			m.Fatal(err)
		}
	}
}

// askProviders asks every route of SCIM with what is no token, and with the token of
// another organisation.
func (m *matrix) askProviders() {
	strangers := map[string]http.Header{
		"no token": {}, "an owner's key": apptest.Bearer(m.keys["owner"]), "a catalog token": apptest.Bearer(m.keys["catalog token"]),
		"an owner's session": m.browser(m.keys["owner"]), "an unknown token": apptest.Bearer("scim_" + strings.Repeat("x", 43)),
	}
	before := m.dump(m.ours.OrgID)
	other, asked := apptest.Bearer(m.keys["other SCIM token"]), 0
	for _, plain := range m.service.PlainRoutes() {
		method, path, _ := strings.Cut(plain.Pattern, " ")
		if !strings.HasPrefix(path, "/scim/v2/") {
			continue
		}
		asked++
		id, want, body := m.ours.Things["scim_user"], http.StatusNotFound, `{"userName":"eve@example.org","displayName":"x","Operations":[{"op":"remove","path":"displayName"}]}`
		if strings.HasPrefix(path, "/scim/v2/Groups") {
			id, body = m.ours.Things["scim_group"], `{"displayName":"x","Operations":[{"op":"remove","path":"members"}]}`
		}
		r := httpapi.Route{Method: method, Path: path}
		request := apptest.Request{Method: method, Path: strings.ReplaceAll(path, "{id}", id), Body: []byte(body)}
		if method == http.MethodGet {
			request.Body = nil
		}
		for name, header := range strangers {
			a := m.ask(r, request, header)
			m.want(r, name, a, http.StatusUnauthorized)
			m.wantNothing(r, name, a, m.ours.Things)
		}
		if !strings.Contains(path, "{id}") {
			if want = http.StatusOK; method != http.MethodGet {
				continue // makes something of their own: TestIsolation in internal/identity/auth/scim
			}
		}
		a := m.ask(r, request, other)
		m.want(r, "another organisation's provider", a, want)
		m.wantNothing(r, "another organisation's provider", a, m.ours.Things)
	}
	if asked < 16 {
		m.Errorf("asked only %d routes of SCIM", asked)
	}
	m.wantUnchanged("what others asked of SCIM", before, m.ours.OrgID)
}
