package registry_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

type gate struct {
	method, path string
	plan         access.Plan
	permission   access.Permission
}

// gates is the interface's table of plans and permissions, route by route.
var gates = []gate{
	{"POST", "/api/v1/registry", "pro", "registry:push"},
	{"GET", "/api/v1/registry", "free", "read"},
	{"GET", "/api/v1/registry/public", "free", "read"},
	{"GET", "/api/v1/registry/{id}", "free", "read"},
	{"DELETE", "/api/v1/registry/{id}", "free", "registry:delete"},
	{"POST", "/api/v1/registry/{id}/versions", "pro", "registry:push"},
	{"GET", "/api/v1/registry/{id}/versions", "free", "read"},
	{"GET", "/api/v1/registry/{id}/versions/{version}/download", "free", "read"},
	{"GET", "/api/v1/registry/{id}/versions/{version}/files/{path...}", "free", "read"},
	{"GET", "/api/v1/registry/{id}/versions/{version}/diff", "free", "read"},
	{"POST", "/api/v1/registry/{id}/rollback", "pro", "registry:rollback"},
	{"POST", "/api/v1/registry/{id}/install", "pro", "registry:install"},
	{"GET", "/api/v1/registry/{id}/installations", "team", "read"},
	{"GET", "/api/v1/registry/installed", "free", "read"},
	{"POST", "/api/v1/registry/sync", "free", "read"},
	{"GET", "/api/v1/registry/sync/check", "free", "read"},
}

// TestGates calls every route with every kind of key and without one. An unknown entry and an empty
// body show whether a caller came past the gate without doing anything.
func TestGates(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		var callers []*client
		for _, plan := range access.Plans() {
			o, err := w.auth.CreateOrg(t.Context(), string(plan), plan)
			if err != nil {
				t.Fatal(err)
			}
			for _, role := range access.Roles() {
				callers = append(callers, w.member(o, role))
			}
			callers = append(callers, w.member(o, access.Owner, access.Read), w.member(o, access.Owner, access.RegistryPush, access.RegistryDelete))
		}
		for _, c := range callers {
			caller, err := w.auth.Authenticate(t.Context(), c.key)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range gates {
				path := strings.NewReplacer("{id}", uuid.NewString(), "{version}", "1", "{path...}", "SKILL.md").Replace(g.path)
				a := c.do(g.method, path, nil)
				switch {
				case !caller.Plan.Includes(g.plan):
					a.wantError(http.StatusForbidden, fmt.Sprintf("needs the %s plan", g.plan))
				case !caller.May(g.permission):
					a.wantError(http.StatusForbidden, "needs the permission "+string(g.permission))
				case !slices.Contains([]int{200, 400, 404}, a.status):
					t.Errorf("%s as %s on %s: status %d", a.what, caller.Role, caller.Plan, a.status)
				}
			}
		}
	})
}

// TestGatesCoverEveryRoute keeps the table above whole.
func TestGatesCoverEveryRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	for _, r := range w.api.Routes() {
		known := slices.ContainsFunc(gates, func(g gate) bool { return g.method == r.Method && g.path == r.Path })
		if !known || r.Public {
			t.Errorf("%s %s is not in the table of the interface, or is open without a key", r.Method, r.Path)
		}
	}
	if got, want := len(w.api.Routes()), len(gates); got != want {
		t.Errorf("%d routes, want %d", got, want)
	}
}

func TestNoKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		if err := w.auth.RevokeKey(t.Context(), ada.org.ID, ada.keyID); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			client *client
			text   string
		}{
			{w.anonymous(), "Missing API key"},
			{&client{t: t, w: w, key: "st_live_" + strings.Repeat("x", 43)}, "Unknown API key"},
			{ada, "revoked"},
		} {
			for _, g := range gates {
				a := c.client.do(g.method, strings.NewReplacer("{id}", "x", "{version}", "1", "{path...}", "x").Replace(g.path), nil)
				a.wantError(http.StatusUnauthorized, c.text)
				if a.header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s: WWW-Authenticate %q", a.what, a.header.Get("WWW-Authenticate"))
				}
			}
		}
	})
}

// TestRolesAtWork does with each role what its permissions are for.
func TestRolesAtWork(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.org("acme", access.Team)
		role := func(r access.Role, p ...access.Permission) *client {
			return w.member(auth.Organisation{ID: owner.org.ID}, r, p...)
		}
		viewer, member, admin := role(access.Viewer), role(access.Member), role(access.AdminRole)
		id := member.made("pdf", "1", skill(t, "1."))
		member.push(id, "2", skill(t, "2.")).want(http.StatusCreated)
		member.post(entryPath(id)+"/install", nil).want(http.StatusOK)
		viewer.get(entryPath(id)).want(http.StatusOK)
		viewer.get(entryPath(id) + "/installations").want(http.StatusOK)
		viewer.post(registryPath+"/sync", object{"installations": []object{}}).want(http.StatusOK)
		for _, c := range []*client{viewer, role(access.Owner, access.Read, access.Write), role(access.Owner, access.TelemetryWrite)} {
			c.push(id, "3", skill(t, "3.")).wantError(http.StatusForbidden, "registry:push")
		}
		role(access.Member, access.RegistryPush).push(id, "3", skill(t, "3.")).want(http.StatusCreated)
		member.post(entryPath(id)+"/rollback", nil).wantError(http.StatusForbidden, "registry:rollback")
		admin.post(entryPath(id)+"/rollback", nil).want(http.StatusOK)
		admin.do(http.MethodDelete, entryPath(id), nil).wantError(http.StatusForbidden, "registry:delete")
		role(access.Owner, access.Read, access.Write).do(http.MethodDelete, entryPath(id), nil).wantError(http.StatusForbidden, "registry:delete")
		owner.do(http.MethodDelete, entryPath(id), nil).want(http.StatusNoContent)
	})
}
