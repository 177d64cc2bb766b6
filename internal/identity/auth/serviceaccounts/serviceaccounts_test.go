package serviceaccounts_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/serviceaccounts"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

type object = apptest.Object

const (
	accounts = "/api/v1/service-accounts"
	keys     = "/api/v1/keys"
	policy   = "/api/v1/key-policy"
	me       = "/api/v1/me"
)

// newWorld serves the routes of keys, members and service accounts.
func newWorld(t *testing.T, db *store.DB) *apptest.World {
	t.Helper()
	w := apptest.NewWorld(t, db, apptest.Options{})
	mount(w.API, w.Auth)
	return w
}

func mount(a *httpapi.API, s *auth.Service) {
	for _, m := range []interface{ Mount(a *httpapi.API) }{
		auth.API{Service: s}, &members.Service{DB: s.DB, Auth: s, PublicURL: apptest.PublicURL}, &serviceaccounts.Service{DB: s.DB, Auth: s}, &keyrules.Service{DB: s.DB},
	} {
		m.Mount(a)
	}
}

// create makes a service account.
func create(c *apptest.Caller, name, role string) (id string) {
	c.T.Helper()
	return c.Post(accounts, object{"name": name, "role": role}).Want(http.StatusCreated).Text("service_account", "id")
}

// newKey makes a key, of a service account if the body names one.
func newKey(c *apptest.Caller, body object) *apptest.Caller {
	c.T.Helper()
	made := c.Post(keys, apptest.With(object{"name": "CI"}, body)).Want(http.StatusCreated)
	return &apptest.Caller{T: c.T, World: c.World, KeyID: made.Text("key", "id"), Key: made.Text("api_key")}
}

func entries(t *testing.T, db *store.DB, orgID, action string) []audit.Entry {
	t.Helper()
	found, _, err := (&audit.Service{DB: db}).List(t.Context(), orgID, audit.Filter{Action: action, Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestServiceAccount: create, list, change, use, delete.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner, other := w.Org("acme"), w.Org("other")
		admin := w.Member(owner.Org, access.AdminRole)
		made := admin.Post(accounts, object{"name": "deploy-bot", "role": "member"}).Want(http.StatusCreated)
		account := made.Field("service_account")
		apptest.WantKeys(t, account, "id", "name", "role", "keys", "created_at", "last_used_at", "deleted_at")
		id := apptest.Text(account, "id")
		admin.Get(accounts + "/" + id).Want(http.StatusOK).WantBody(made.Object())
		other.Post(accounts, object{"name": "deploy-bot", "role": "admin"}).Want(http.StatusCreated)

		bot := newKey(admin, object{"service_account_id": id})
		who := bot.Get(me).Want(http.StatusOK)
		if who.Text("user", "id") != id || who.Text("user", "name") != "deploy-bot" || who.Text("role") != "member" {
			t.Errorf("the key belongs to %s", who.Body)
		}
		if got := who.Text("user", "email"); got != "service-account:deploy-bot" {
			t.Errorf("its address is %s", got)
		}
		listed := admin.Get(keys + "?service_account_id=" + id).Want(http.StatusOK).List("keys")
		if len(listed) != 1 || listed[0]["id"] != bot.KeyID || listed[0]["user_id"] != id {
			t.Errorf("its keys are %v", listed)
		}
		if n := len(other.Get(keys + "?service_account_id=" + id).Want(http.StatusOK).List("keys")); n != 0 {
			t.Errorf("another organisation sees %d of its keys", n)
		}

		// It is no member.
		for _, m := range admin.Get("/api/v1/members").List("members") {
			if m["user_id"] == id {
				t.Errorf("it is listed as %v", m)
			}
		}
		at := "/api/v1/members/" + id
		owner.Do("PATCH", at, object{"role": "owner"}).WantError(http.StatusNotFound, "Member not found")
		owner.Do("POST", at+"/transfer", nil).WantError(http.StatusNotFound, "Member not found")
		owner.Do("DELETE", at, nil).WantError(http.StatusNotFound, "Member not found")

		changed := admin.Do("PATCH", accounts+"/"+id, object{"name": "release.bot_2", "role": "admin"}).Want(http.StatusOK)
		if changed.Text("service_account", "name") != "release.bot_2" || changed.Field("service_account")["keys"] != 1.0 {
			t.Errorf("changed to %s", changed.Body)
		}
		if who := bot.Get(me); who.Text("role") != "admin" || who.Text("user", "email") != "service-account:release.bot_2" {
			t.Errorf("the key belongs to %s", who.Body)
		}
		create(admin, "deploy-bot", "viewer") // the name is free again

		// What it does is audited with its name.
		child := newKey(bot, object{"name": "of the bot"})
		newest := entries(t, db, owner.Org.ID, "auth.key.create")[0]
		if newest.ActorName != "service-account:release.bot_2" || *newest.UserID != id {
			t.Errorf("the audit log says %+v", newest)
		}

		bot.Do("DELETE", accounts+"/"+id, nil).WantErrorWith(http.StatusConflict, "This is the service account whose key you use")
		other.Do("DELETE", accounts+"/"+id, nil).WantError(http.StatusNotFound, "Service account not found")
		admin.Do("DELETE", accounts+"/"+id, nil).Want(http.StatusNoContent)
		for _, c := range []*apptest.Caller{bot, child} {
			c.Get(me).WantError(http.StatusUnauthorized, "This API key was revoked")
		}
		admin.Do("DELETE", accounts+"/"+id, nil).WantError(http.StatusNotFound, "Service account not found")
		admin.Do("PATCH", accounts+"/"+id, object{"role": "viewer"}).WantError(http.StatusNotFound, "Service account not found")
		admin.Post(keys, object{"name": "late", "service_account_id": id}).Want(http.StatusBadRequest).
			WantIssueWith("service_account_id", "no service account has this id")
		gone := admin.Get(accounts + "?state=deleted").Want(http.StatusOK).List("service_accounts")
		if len(gone) != 1 || gone[0]["name"] != "release.bot_2" || gone[0]["deleted_at"] == nil || gone[0]["keys"] != 0.0 {
			t.Errorf("deleted are %v", gone)
		}
		if left := admin.Get(accounts).List("service_accounts"); len(left) != 1 || left[0]["name"] != "deploy-bot" {
			t.Errorf("left are %v", left)
		}
		create(admin, "release.bot_2", "viewer")
		if n := len(entries(t, db, owner.Org.ID, "auth.serviceaccount.")); n != 5 {
			t.Errorf("%d entries in the audit log", n)
		}
	})
}

// TestServiceAccountRefused: names, roles and who may.
func TestServiceAccountRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme")
		member := w.Member(owner.Org, access.Member)
		// Narrowed to admin, it may not give write.
		narrow := w.Member(owner.Org, access.AdminRole, access.Admin, access.Read)
		for _, c := range []struct {
			body object
			path string
		}{
			{object{}, "name"},
			{object{"name": "", "role": "member"}, "name"},
			{object{"name": "Deploy", "role": "member"}, "name"},
			{object{"name": "a b", "role": "member"}, "name"},
			{object{"name": "-a", "role": "member"}, "name"},
			{object{"name": "a\nb", "role": "member"}, "name"},
			{object{"name": "a@example.org", "role": "member"}, "name"},
			{object{"name": "bö", "role": "member"}, "name"},
			{object{"name": strings.Repeat("a", 64), "role": "member"}, "name"},
			{object{"name": "a", "role": "owner"}, "role"},
			{object{"name": "a", "role": "king"}, "role"},
			{object{"name": "a"}, "role"},
			{object{"name": 1, "role": "member"}, "name"},
		} {
			owner.Post(accounts, c.body).Want(http.StatusBadRequest).WantIssueWith(c.path, "")
		}
		member.Post(accounts, object{"name": "a", "role": "viewer"}).WantErrorWith(http.StatusForbidden, "permission admin")
		member.Get(accounts).WantErrorWith(http.StatusForbidden, "permission admin")
		narrow.Post(accounts, object{"name": "a", "role": "member"}).
			WantError(http.StatusForbidden, "You do not have the permission write and cannot give it")
		if n := len(owner.Get(accounts).List("service_accounts")); n != 0 {
			t.Errorf("%d were made", n)
		}

		id := create(owner, strings.Repeat("a", 63), "admin")
		owner.Post(accounts, object{"name": strings.Repeat("a", 63), "role": "viewer"}).
			WantErrorWith(http.StatusConflict, "exists in this organisation")
		at := accounts + "/" + id
		owner.Do("PATCH", at, object{"role": "owner"}).Want(http.StatusBadRequest).WantIssueWith("role", "")
		owner.Do("PATCH", at, object{"name": "A"}).Want(http.StatusBadRequest).WantIssueWith("name", "")
		owner.Do("PATCH", at, object{}).Want(http.StatusOK)
		narrow.Do("PATCH", at, object{"name": "b"}).WantErrorWith(http.StatusForbidden, "cannot give it")
		narrow.Do("DELETE", at, nil).WantErrorWith(http.StatusForbidden, "cannot give it")
		narrow.Post(keys, object{"name": "x", "service_account_id": id}).WantErrorWith(http.StatusForbidden, "cannot give it")
		newKey(narrow, object{"service_account_id": id, "permissions": []string{"read"}})
		owner.Get(accounts+"/"+uuid.NewString()).WantError(http.StatusNotFound, "Service account not found")
		owner.Get(accounts+"/"+owner.User.ID).WantError(http.StatusNotFound, "Service account not found")
		owner.Do("DELETE", accounts+"/"+member.User.ID, nil).WantError(http.StatusNotFound, "Service account not found")
		owner.Do("PATCH", accounts+"/"+member.User.ID, object{"role": "admin"}).WantError(http.StatusNotFound, "Service account not found")
		// Nobody makes a key for another person.
		owner.Post(keys, object{"name": "x", "service_account_id": member.User.ID}).Want(http.StatusBadRequest).WantIssueWith("service_account_id", "")
	})
}

// TestNoPerson: what needs a person is closed to service accounts.
func TestNoPerson(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme")
		bot := newKey(owner, object{"service_account_id": create(owner, "bot", "admin")})
		bot.Post("/api/v1/invitations", object{"role": "viewer"}).WantError(http.StatusForbidden, "This needs a person; a service account cannot do it")
		bot.Post("/api/v1/me/leave", object{"email": "service-account:bot"}).WantErrorWith(http.StatusForbidden, "This needs a person")
		if _, _, err := w.Auth.SignIn(t.Context(), auth.NewSession{RawKey: bot.Key}); !fault.Is(err, fault.Denied) {
			t.Errorf("it signs in: %v", err)
		}
		login := w.Anonymous().Post("/api/v1/device-code", object{"client_id": "cli"}).Want(http.StatusOK)
		c, err := w.Auth.Authenticate(t.Context(), bot.Key)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Auth.AnswerDevice(t.Context(), c, login.Text("user_code"), true); !fault.Is(err, fault.Denied) {
			t.Errorf("it approves a login: %v", err)
		}
		// As an admin it manages machines, and gives no more than it has.
		create(bot, "helper", "admin")
		bot.Post(accounts, object{"name": "chief", "role": "owner"}).Want(http.StatusBadRequest)
	})
}

// TestStaysWhenPeopleGo is what service accounts are for.
func TestStaysWhenPeopleGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme")
		admin := w.Member(owner.Org, access.AdminRole)
		bot := newKey(admin, object{"service_account_id": create(admin, "bot", "member")})
		own := newKey(admin, nil)
		owner.Do("DELETE", "/api/v1/members/"+admin.User.ID, nil).Want(http.StatusNoContent)
		own.Get(me).WantError(http.StatusUnauthorized, "This API key was revoked")
		bot.Get(me).Want(http.StatusOK)

		// Unless somebody says that the member's keys were stolen.
		thief := w.Member(owner.Org, access.AdminRole)
		bad := newKey(thief, object{"service_account_id": create(thief, "bad", "member")})
		owner.Do("DELETE", "/api/v1/members/"+thief.User.ID+"?cascade=true", nil).Want(http.StatusNoContent)
		bad.Get(me).WantError(http.StatusUnauthorized, "This API key was revoked")
		bot.Get(me).Want(http.StatusOK)

		// A service account whose key made others.
		id := create(owner, "spread", "admin")
		spread := newKey(owner, object{"service_account_id": id})
		far := newKey(spread, object{"service_account_id": create(spread, "far", "member")})
		owner.Do("DELETE", accounts+"/"+id+"?cascade=true", nil).Want(http.StatusNoContent)
		far.Get(me).WantError(http.StatusUnauthorized, "This API key was revoked")
	})
}

// TestReplicas: another replica refuses the keys of a deleted service account, and of
// one whose networks changed, within 5 s.
func TestReplicas(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		here, there := newWorld(t, db), newWorld(t, db)
		owner := here.Org("acme")
		id := create(owner, "bot", "member")
		doomed, moved := newKey(owner, object{"service_account_id": id}), newKey(owner, nil)
		for _, c := range []struct {
			key     *apptest.Caller
			change  func()
			message string
			status  int
		}{
			{doomed, func() { owner.Do("DELETE", accounts+"/"+id, nil).Want(http.StatusNoContent) }, "This API key was revoked", 401},
			{moved, func() {
				owner.Do("PATCH", keys+"/"+moved.KeyID, object{"allowed_ips": []string{"10.0.0.0/8"}}).Want(http.StatusOK)
			}, "This API key does not work from the address 192.0.2.1", 403},
		} {
			on := *c.key
			on.World = there
			on.Get(me).Want(http.StatusOK) // it is cached there
			c.change()
			changed := time.Now()
			c.key.Get(me).WantError(c.status, c.message)
			for {
				late := time.Since(changed) > 5*time.Second
				if got := on.Get(me); got.Status != http.StatusOK {
					got.WantError(c.status, c.message)
					break
				}
				if late {
					t.Fatal("a replica takes the key 5 s later")
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
}

// TestDeleteRace: keys that are made while their account is deleted do not work.
func TestDeleteRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme")
		id := create(owner, "bot", "member")
		var wg sync.WaitGroup
		made := make([]string, 8)
		for i := range made {
			wg.Go(func() {
				made[i] = owner.Post(keys, object{"name": "k", "service_account_id": id}).Text("api_key")
			})
		}
		wg.Go(func() { owner.Do("DELETE", accounts+"/"+id, nil).Want(http.StatusNoContent) })
		wg.Wait()
		for _, raw := range made {
			if raw != "" {
				(&apptest.Caller{T: t, World: w, Key: raw}).Get(me).WantError(http.StatusUnauthorized, "This API key was revoked")
			}
		}
		if got := owner.Get(accounts + "/" + id).Field("service_account"); got["keys"] != 0.0 {
			t.Errorf("it has %v keys", got["keys"])
		}
	})
}

// TestAllowedIPs: the client of these tests is 192.0.2.1.
func TestAllowedIPs(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme")
		here := newKey(owner, object{"allowed_ips": []string{"192.0.2.9/24", "2001:db8::/32", "192.0.2.0/24"}})
		away := newKey(owner, object{"allowed_ips": []string{"10.0.0.0/8"}})
		if got := here.Get(me).Want(http.StatusOK).Field("key")["allowed_ips"]; !cmp.Equal(got, []any{"192.0.2.0/24", "2001:db8::/32"}) {
			t.Errorf("it works from %v", got)
		}
		refused := "This API key does not work from the address 192.0.2.1"
		for _, header := range []string{
			"X-Forwarded-For: 10.0.0.1", "X-Forwarded-For: 192.0.2.1, 10.0.0.1", "Forwarded: for=10.0.0.1", "X-Real-Ip: 10.0.0.1",
			"X-Client-Ip: 10.0.0.1", "True-Client-Ip: 10.0.0.1",
		} {
			away.Do("GET", me, nil, header).WantError(http.StatusForbidden, refused)
		}
		if _, _, err := w.Auth.SignIn(t.Context(), auth.NewSession{RawKey: away.Key}); !fault.Is(err, fault.Denied) {
			t.Errorf("it signs in from nowhere: %v", err)
		}
		// One entry for all of them, on all replicas, and no last use.
		newWorld(t, db).Auth.Authenticate(t.Context(), away.Key) //nolint:errcheck // refused
		found := entries(t, db, owner.Org.ID, "auth.key.refuse")
		if len(found) != 1 || found[0].Target.ID != away.KeyID || found[0].Target.Name != "CI" || found[0].Detail["address"] != "192.0.2.1" {
			t.Errorf("the audit log has %+v", found)
		}

		// Unknown and revoked keys are told nothing of it.
		owner.Do("DELETE", keys+"/"+away.KeyID, nil).Want(http.StatusNoContent)
		away.Get(me).WantError(http.StatusUnauthorized, "This API key was revoked")

		// The keys that a key makes for its holder work from the same networks, or fewer.
		child := here.Post(keys, object{"name": "child"}).Want(http.StatusCreated)
		if got := child.Field("key")["allowed_ips"]; !cmp.Equal(got, []any{"192.0.2.0/24", "2001:db8::/32"}) {
			t.Errorf("the child works from %v", got)
		}
		newKey(here, object{"allowed_ips": []string{"192.0.2.128/25"}})
		for _, wider := range [][]string{{"192.0.0.0/16"}, {"192.0.2.0/24", "10.0.0.0/8"}} {
			here.Post(keys, object{"name": "wide", "allowed_ips": wider}).Want(http.StatusBadRequest).
				WantIssueWith("allowed_ips", "must lie within the networks of the key you use")
		}
		newKey(here, object{"service_account_id": create(here, "bot", "member"), "allowed_ips": []string{"10.0.0.0/8"}})

		many := make([]string, 51)
		for i := range many {
			many[i] = fmt.Sprintf("10.0.%d.0/24", i)
		}
		for _, c := range []struct {
			value any
			path  string
		}{
			{"10.0.0.0/8", "allowed_ips"},
			{many, "allowed_ips"},
			{[]any{1}, "allowed_ips.0"},
			{[]string{"10.0.0.0/8", "nonsense"}, "allowed_ips.1"},
			{[]string{"10.0.0.0/33"}, "allowed_ips.0"},
			{[]string{"::ffff:10.0.0.0/90"}, "allowed_ips.0"},
			{[]string{"0.0.0.0/0"}, "allowed_ips.0"},
			{[]string{"::/0"}, "allowed_ips.0"},
			{[]string{"fe80::1%eth0"}, "allowed_ips.0"},
			{[]string{strings.Repeat("9", 100_000)}, "allowed_ips.0"},
		} {
			owner.Post(keys, object{"name": "x", "allowed_ips": c.value}).Want(http.StatusBadRequest).WantIssueWith(c.path, "")
			owner.Do("PATCH", keys+"/"+here.KeyID, object{"allowed_ips": c.value}).Want(http.StatusBadRequest).WantIssueWith(c.path, "")
		}
		newKey(owner, object{"allowed_ips": many[:50]})
	})
}

// TestSessionFromElsewhere: a session ends where its key does not work.
func TestSessionFromElsewhere(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme")
		k := newKey(owner, nil)
		_, token, err := w.Auth.SignIn(t.Context(), auth.NewSession{RawKey: k.Key, Browser: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.Auth.Resume(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		owner.Do("PATCH", keys+"/"+k.KeyID, object{"allowed_ips": []string{"10.0.0.0/8"}}).Want(http.StatusOK)
		if _, _, err := w.Auth.Resume(t.Context(), token); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the session goes on: %v", err)
		}
	})
}

// TestBehindProxy: a trusted proxy says who the client is, and nobody else does.
func TestBehindProxy(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		away := newKey(w.Org("acme"), object{"allowed_ips": []string{"203.0.113.0/24", "2001:db8::/32"}})
		api := httpapi.New(httpapi.Options{
			DB: db, Auth: w.Auth, Log: w.Log, Metrics: prometheus.NewRegistry(), Version: "test",
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		})
		mount(api, w.Auth)
		for _, c := range []struct {
			peer, forwarded string
			want            int
		}{
			{"203.0.113.5:1", "", 200},
			{"[2001:db8::5]:1", "", 200},
			{"[::ffff:203.0.113.5]:1", "", 200},
			{"[2001:db9::5]:1", "", 403},
			{"10.0.0.1:1", "203.0.113.5", 200},
			{"10.0.0.1:1", "6.6.6.6, 203.0.113.5, 10.0.0.2", 200},
			{"10.0.0.1:1", "203.0.113.5, 6.6.6.6", 403},
			{"10.0.0.1:1", "", 403},
			{"10.0.0.1:1", "nonsense", 403},
			{"192.0.2.1:1", "203.0.113.5", 403},
			{"@", "203.0.113.5", 403},
		} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, me, nil)
			req.RemoteAddr = c.peer
			req.Header.Set("Authorization", "Bearer "+away.Key)
			if c.forwarded != "" {
				req.Header.Set("X-Forwarded-For", c.forwarded)
			}
			answer := httptest.NewRecorder()
			if api.ServeHTTP(answer, req); answer.Code != c.want {
				t.Errorf("%s for %q: %d %s", c.peer, c.forwarded, answer.Code, answer.Body)
			}
		}
	})
}

// TestUpdateKey: who may change which key, and to what.
func TestUpdateKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner, other := w.Org("acme"), w.Org("other")
		admin := w.Member(owner.Org, access.AdminRole)
		k := newKey(admin, nil)
		at := keys + "/" + k.KeyID
		got := owner.Do("PATCH", at, object{"name": "CI 2", "allowed_ips": []string{"192.0.2.1"}}).Want(http.StatusOK)
		if got.Text("key", "name") != "CI 2" || !cmp.Equal(got.Field("key")["allowed_ips"], []any{"192.0.2.1/32"}) {
			t.Errorf("changed to %s", got.Body)
		}
		owner.Do("PATCH", at, object{"name": "CI 3"}).Want(http.StatusOK)
		if got := k.Get(me).Field("key")["allowed_ips"]; !cmp.Equal(got, []any{"192.0.2.1/32"}) {
			t.Errorf("it works from %v", got)
		}
		// A limited key does not free itself, nor another of its holder.
		k.Do("PATCH", at, object{"allowed_ips": []string{}}).Want(http.StatusBadRequest).WantIssueWith("allowed_ips", "must lie within")
		k.Do("PATCH", keys+"/"+admin.KeyID, object{"allowed_ips": []string{"192.0.2.0/24"}}).Want(http.StatusBadRequest).WantIssueWith("allowed_ips", "must lie within")
		admin.Do("PATCH", keys+"/"+admin.KeyID, object{"allowed_ips": []string{"10.0.0.0/8"}}).Want(http.StatusBadRequest).
			WantIssueWith("allowed_ips", "must have your own address, 192.0.2.1")
		admin.Do("PATCH", at, object{"allowed_ips": []string{}}).Want(http.StatusOK)

		admin.Do("PATCH", keys+"/"+owner.KeyID, object{"name": "mine"}).WantErrorWith(http.StatusForbidden, "only an owner can change it")
		other.Do("PATCH", at, object{"name": "mine"}).WantError(http.StatusNotFound, "Key not found")
		owner.Do("PATCH", at, object{"name": ""}).Want(http.StatusBadRequest).WantIssueWith("name", "")
		owner.Do("PATCH", at, object{"name": strings.Repeat("x", 101)}).Want(http.StatusBadRequest).WantIssueWith("name", "")
		owner.Do("DELETE", at, nil).Want(http.StatusNoContent)
		owner.Do("PATCH", at, object{"name": "late"}).WantError(http.StatusConflict, "This key is revoked, and cannot be changed")
	})
}

func expiry(t *testing.T, key object) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, apptest.Text(key, "expires_at"))
	if err != nil {
		t.Fatalf("%v: %v", key, err)
	}
	return at
}

// TestKeyPolicy: new keys follow it, and old ones are shown.
func TestKeyPolicy(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner, other := w.Org("acme"), w.Org("other")
		member := w.Member(owner.Org, access.Member)
		owner.Get(policy).WantJSON(200, `{"max_days":null,"require_allowed_ips":false,"updated_at":null,"violating_keys":0}`)
		member.Get(policy).WantErrorWith(http.StatusForbidden, "permission admin")
		member.Do("PUT", policy, object{}).WantErrorWith(http.StatusForbidden, "permission admin")
		for _, c := range []struct {
			body object
			path string
		}{
			{object{"max_days": 0}, "max_days"},
			{object{"max_days": -1}, "max_days"},
			{object{"max_days": 3651}, "max_days"},
			{object{"max_days": 1.5}, "max_days"},
			{object{"max_days": "90"}, "max_days"},
			{object{"require_allowed_ips": "yes"}, "require_allowed_ips"},
		} {
			owner.Do("PUT", policy, c.body).Want(http.StatusBadRequest).WantIssueWith(c.path, "")
		}

		// Without a policy, keys need not expire, and expires_in_days is a shorthand.
		if got := owner.Post(keys, object{"name": "old"}).Field("key"); got["expires_at"] != nil {
			t.Errorf("it expires: %v", got)
		}
		day := 24 * time.Hour
		if left := time.Until(expiry(t, owner.Post(keys, object{"name": "a", "expires_in_days": 7}).Field("key"))); left > 7*day || left < 7*day-time.Hour {
			t.Errorf("7 days are %s", left)
		}
		for _, days := range []any{0, -1, 3651, "7"} {
			owner.Post(keys, object{"name": "a", "expires_in_days": days}).Want(http.StatusBadRequest).WantIssueWith("expires_in_days", "")
		}
		owner.Post(keys, object{"name": "a", "expires_in_days": 7, "expires_at": time.Now().Add(day)}).Want(http.StatusBadRequest).
			WantIssueWith("expires_in_days", "not both")

		set := owner.Do("PUT", policy, object{"max_days": 90, "require_allowed_ips": true}).Want(http.StatusOK)
		apptest.WantKeys(t, set.Object(), "max_days", "require_allowed_ips", "updated_at", "violating_keys")
		if got := set.Object(); got["max_days"] != 90.0 || got["require_allowed_ips"] != true || got["violating_keys"] != 4.0 {
			t.Errorf("the policy is %v", got)
		}
		owner.Get(policy).WantBody(set.Object())
		if got := other.Get(policy).Object()["max_days"]; got != nil {
			t.Errorf("another organisation has %v", got)
		}
		violates := map[string]any{}
		for _, k := range owner.Get(keys).List("keys") {
			violates[apptest.Text(k, "name")] = k["violates"]
		}
		both := []any{"max_days", "require_allowed_ips"}
		if diff := cmp.Diff(map[string]any{"test": both, "old": both, "a": []any{"require_allowed_ips"}}, violates); diff != "" {
			t.Error(diff)
		}
		owner.Get(me).Want(http.StatusOK) // it works all the same

		office := []string{"192.0.2.0/24"}
		owner.Post(keys, object{"name": "b"}).Want(http.StatusBadRequest).WantIssueWith("allowed_ips", "the organisation's key policy asks for it")
		owner.Post(keys, object{"name": "b", "allowed_ips": office, "expires_in_days": 91}).Want(http.StatusBadRequest).
			WantIssueWith("expires_at", "expires_at must be within 90 days")
		owner.Post(keys, object{"name": "b", "allowed_ips": office, "expires_at": time.Now().AddDate(1, 0, 0)}).Want(http.StatusBadRequest).WantIssueWith("expires_at", "")
		newKey(owner, object{"allowed_ips": office, "expires_in_days": 90})
		account := create(owner, "bot", "member")
		owner.Post(keys, object{"name": "b", "service_account_id": account}).Want(http.StatusBadRequest).WantIssueWith("allowed_ips", "")
		made := owner.Post(keys, object{"name": "b", "allowed_ips": office, "service_account_id": account}).Want(http.StatusCreated).Field("key")
		if left := time.Until(expiry(t, made)); left > 90*day || left < 90*day-time.Hour || made["violates"] != nil {
			t.Errorf("it lasts %s: %v", left, made)
		}
		owner.Do("PATCH", keys+"/"+apptest.Text(made, "id"), object{"allowed_ips": []string{}}).Want(http.StatusBadRequest).WantIssueWith("allowed_ips", "key policy")

		// The first key of a person expires, too, but works from everywhere.
		token := owner.Post("/api/v1/invitations", object{"role": "viewer"}).Text("token")
		joined := w.Anonymous().Post("/api/v1/invitations/accept", object{"token": token, "email": "bob@example.org"}).Want(http.StatusCreated)
		bob := &apptest.Caller{T: t, World: w, Key: joined.Text("api_key")}
		if left := time.Until(expiry(t, bob.Get(me).Want(http.StatusOK).Field("key"))); left > 90*day || left < 90*day-time.Hour {
			t.Errorf("the first key lasts %s", left)
		}
		// So do keys that the operator makes.
		_, _, _, err := w.Auth.IssueKey(t.Context(), auth.Holder{Role: access.Member}, auth.NewKey{OrgID: owner.Org.ID, Name: "x"})
		if !fault.Is(err, fault.Malformed) {
			t.Errorf("the operator makes a key against the policy: %v", err)
		}

		owner.Do("PUT", policy, object{"max_days": nil}).Want(http.StatusOK)
		if got := owner.Post(keys, object{"name": "free"}).Want(http.StatusCreated).Field("key"); got["expires_at"] != nil {
			t.Errorf("it expires: %v", got)
		}
		if found := entries(t, db, owner.Org.ID, "auth.keypolicy.set"); len(found) != 2 || found[1].Detail["to"].(object)["max_days"] != 90.0 {
			t.Errorf("the audit log has %+v", found)
		}
	})
}

// TestDeviceLoginFollowsPolicy: a login's key expires by the policy, and works where the
// key of its approver does.
func TestDeviceLoginFollowsPolicy(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme")
		limited := newKey(owner, object{"allowed_ips": []string{"192.0.2.0/24"}})
		owner.Do("PUT", policy, object{"max_days": 1, "require_allowed_ips": true}).Want(http.StatusOK)
		for _, c := range []struct {
			by   string
			want []any
		}{{owner.KeyID, []any{}}, {limited.KeyID, []any{"192.0.2.0/24"}}} {
			login := w.Anonymous().Post("/api/v1/device-code", object{"client_id": c.by, "device_id": c.by}).Want(http.StatusOK)
			caller := access.Caller{
				OrgID: owner.Org.ID, UserID: owner.User.ID, KeyID: c.by, Role: access.Owner, Permissions: access.Owner.Permissions(),
			}
			if err := w.Auth.AnswerDevice(t.Context(), caller, login.Text("user_code"), true); err != nil {
				t.Fatal(err)
			}
			raw := w.Anonymous().Post("/api/v1/device-code/poll", object{"device_code": login.Text("device_code")}).Text("api_key")
			k := (&apptest.Caller{T: t, World: w, Key: raw}).Get(me).Want(http.StatusOK).Field("key")
			if !cmp.Equal(k["allowed_ips"], c.want) || time.Until(expiry(t, k)) > 24*time.Hour {
				t.Errorf("the login has %v", k)
			}
		}
	})
}

func TestDeletedOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := w.Org("acme")
		bot := newKey(owner, object{"service_account_id": create(owner, "bot", "member")})
		bot.Get(me).Want(http.StatusOK)
		w.CloseOrg(owner.Org.ID)
		bot.Get(me).WantError(http.StatusUnauthorized, "Unknown API key")
	})
}
