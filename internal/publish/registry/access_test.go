package registry_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type gate struct {
	method, path string
	plan         access.Plan
	permission   access.Permission
}

// gates is the table of plans and permissions of the interface and the contract,
// route by route.
var gates = []gate{
	{"POST", "/api/v1/registry", "pro", "registry:push"},
	{"GET", "/api/v1/registry", "free", "read"},
	{"GET", "/api/v1/registry/public", "free", "read"},
	{"GET", "/api/v1/registry/{id}", "free", "read"},
	{"PATCH", "/api/v1/registry/{id}", "free", "registry:push"},
	{"DELETE", "/api/v1/registry/{id}", "free", "registry:delete"},
	{"POST", "/api/v1/registry/{id}/versions", "pro", "registry:push"},
	{"GET", "/api/v1/registry/{id}/versions", "free", "read"},
	{"GET", "/api/v1/registry/{id}/versions/{version}/download", "free", "read"},
	{"GET", "/api/v1/registry/{id}/versions/{version}/files/{path...}", "free", "read"},
	{"GET", "/api/v1/registry/{id}/versions/{version}/diff", "free", "read"},
	{"POST", "/api/v1/registry/{id}/rollback", "pro", "registry:rollback"},
	{"GET", "/api/v1/registry/{id}/rollback", "free", "read"},
	{"POST", "/api/v1/registry/{id}/rollback/undo", "pro", "registry:rollback"},
	{"POST", "/api/v1/registry/{id}/versions/{version}/promote", "pro", "registry:rollback"},
	{"POST", "/api/v1/registry/{id}/versions/{version}/withdraw", "pro", "registry:rollback"},
	{"POST", "/api/v1/registry/{id}/versions/{version}/restore", "pro", "registry:rollback"},
	{"GET", "/api/v1/registry/{id}/requirements", "free", "read"},
	{"POST", "/api/v1/registry/requirements", "free", "read"},
	{"POST", "/api/v1/registry/{id}/install", "pro", "registry:install"},
	{"GET", "/api/v1/registry/{id}/installations", "team", "read"},
	{"GET", "/api/v1/registry/installed", "free", "read"},
	{"POST", "/api/v1/registry/sync", "free", "read"},
	{"POST", "/api/v1/registry/resolve", "free", "read"},
	{"GET", "/api/v1/registry/sync/check", "free", "read"},
	{"GET", "/api/v1/catalog-tokens", "free", "admin"},
	{"POST", "/api/v1/catalog-tokens", "free", "admin"},
	{"POST", "/api/v1/catalog-tokens/{id}/rotate", "free", "admin"},
	{"DELETE", "/api/v1/catalog-tokens/{id}", "free", "admin"},
}

// TestGates calls every route with every kind of key and without one. An unknown entry and an empty
// body show whether a caller came past the gate without doing anything.
func TestGates(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		var callers []*registrytest.Client
		for _, plan := range access.Plans() {
			o, err := w.Auth.CreateOrg(t.Context(), string(plan), plan)
			if err != nil {
				t.Fatal(err)
			}
			for _, role := range access.Roles() {
				callers = append(callers, w.Member(o, role))
			}
			callers = append(callers, w.Member(o, access.Owner, access.Read),
				w.Member(o, access.Owner, access.RegistryPush, access.RegistryDelete))
		}
		for _, c := range callers {
			caller, err := w.Auth.Authenticate(t.Context(), c.Key)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range gates {
				path := strings.NewReplacer("{id}", uuid.NewString(), "{version}", "1", "{path...}", "SKILL.md").Replace(g.path)
				a := c.Do(g.method, path, nil)
				switch {
				case !caller.Plan.Includes(g.plan):
					a.WantErrorWith(http.StatusForbidden, fmt.Sprintf("needs the %s plan", g.plan))
				case !caller.May(g.permission):
					a.WantErrorWith(http.StatusForbidden, "needs the permission "+string(g.permission))
				case !slices.Contains([]int{200, 400, 404}, a.Status):
					t.Errorf("%s as %s on %s: status %d", a.What, caller.Role, caller.Plan, a.Status)
				}
			}
		}
	})
}

// TestGatesCoverEveryRoute keeps the table above whole.
func TestGatesCoverEveryRoute(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, storetest.Open(t, "sqlite"))
	for _, r := range w.API.Routes() {
		known := slices.ContainsFunc(gates, func(g gate) bool { return g.method == r.Method && g.path == r.Path })
		if !known || r.Public {
			t.Errorf("%s %s is not in the table of the interface, or is open without a key", r.Method, r.Path)
		}
	}
	if got, want := len(w.API.Routes()), len(gates); got != want {
		t.Errorf("%d routes, want %d", got, want)
	}
}

func TestNoKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		if err := w.Auth.RevokeKey(t.Context(), ada.Org.ID, ada.KeyID); err != nil {
			t.Fatal(err)
		}
		unknown := w.Anonymous()
		unknown.Key = "st_live_" + strings.Repeat("x", 43)
		for _, c := range []struct {
			client *registrytest.Client
			text   string
		}{
			{w.Anonymous(), "Missing API key"},
			{unknown, "Unknown API key"},
			{ada, "revoked"},
		} {
			for _, g := range gates {
				a := c.client.Do(g.method, strings.NewReplacer("{id}", "x", "{version}", "1", "{path...}", "x").Replace(g.path), nil)
				a.WantErrorWith(http.StatusUnauthorized, c.text)
				if a.Header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s: WWW-Authenticate %q", a.What, a.Header.Get("WWW-Authenticate"))
				}
			}
		}
	})
}

// TestRolesAtWork does with each role what its permissions are for.
func TestRolesAtWork(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		owner := w.Org("acme", access.Team)
		role := func(r access.Role, p ...access.Permission) *registrytest.Client {
			return w.Member(auth.Organisation{ID: owner.Org.ID}, r, p...)
		}
		viewer, member, admin := role(access.Viewer), role(access.Member), role(access.AdminRole)
		id := member.Made("pdf", "1", registrytest.Skill(t, "1."))
		member.Pushed(id, "2", registrytest.Skill(t, "2."))
		member.Post(registrytest.EntryPath(id)+"/install", nil).Want(http.StatusOK)
		viewer.Get(registrytest.EntryPath(id)).Want(http.StatusOK)
		viewer.Get(registrytest.EntryPath(id) + "/installations").Want(http.StatusOK)
		viewer.Post(registrytest.SyncPath, object{"installations": []object{}}).Want(http.StatusOK)
		for _, c := range []*registrytest.Client{
			viewer, role(access.Owner, access.Read, access.Write), role(access.Owner, access.TelemetryWrite),
		} {
			c.Push(id, "3", registrytest.Skill(t, "3.")).WantErrorWith(http.StatusForbidden, "registry:push")
		}
		role(access.Member, access.RegistryPush).Pushed(id, "3", registrytest.Skill(t, "3."))
		member.Post(registrytest.EntryPath(id)+"/rollback", nil).WantErrorWith(http.StatusForbidden, "registry:rollback")
		admin.Post(registrytest.EntryPath(id)+"/rollback", nil).Want(http.StatusOK)
		admin.Do(http.MethodDelete, registrytest.EntryPath(id), nil).WantErrorWith(http.StatusForbidden, "registry:delete")
		role(access.Owner, access.Read, access.Write).Do(http.MethodDelete, registrytest.EntryPath(id), nil).
			WantErrorWith(http.StatusForbidden, "registry:delete")
		owner.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
	})
}
