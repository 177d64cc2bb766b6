package members_test

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

type object = apptest.Object

const (
	people      = "/api/v1/members"
	invitations = "/api/v1/invitations"
	acceptance  = "/api/v1/invitations/accept"
)

// world serves the routes of members.
type world struct {
	*apptest.World
	members *members.Service
}

func newWorld(t *testing.T, db *store.DB) world {
	t.Helper()
	w := world{World: apptest.NewWorld(t, db, apptest.Options{})}
	w.members = &members.Service{DB: db, Auth: w.Auth, PublicURL: apptest.PublicURL}
	auth.API{Service: w.Auth}.Mount(w.API)
	w.members.Mount(w.API)
	return w
}

// org makes an organisation with an owner.
func (w world) org(name string) *apptest.Caller {
	w.T.Helper()
	o, err := w.Auth.CreateOrg(w.T.Context(), name, access.Team)
	if err != nil {
		w.T.Fatal(err)
	}
	return w.member(o, "owner@"+name+".example", access.Owner)
}

// member makes a member with a key.
func (w world) member(o auth.Organisation, email string, role access.Role) *apptest.Caller {
	w.T.Helper()
	u, k, raw, err := w.Auth.IssueKey(w.T.Context(), auth.Holder{Email: email, Role: role}, auth.NewKey{OrgID: o.ID, Name: "key"})
	if err != nil {
		w.T.Fatal(err)
	}
	return &apptest.Caller{T: w.T, World: w.World, Org: o, User: u, KeyID: k.ID, Key: raw}
}

// public calls without a key.
func (w world) public() *apptest.Caller { return w.Anonymous() }

// invite makes an invitation and returns its id and token.
func invite(c *apptest.Caller, body object) (id, token string) {
	c.T.Helper()
	made := c.Post(invitations, body).Want(http.StatusCreated)
	return made.Text("invitation", "id"), made.Text("token")
}

func TestInvite(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		made := ada.Post(invitations, object{"role": "member", "email": "Bob@Example.org"}).Want(http.StatusCreated)
		apptest.WantKeys(t, made.Object(), "invitation", "url", "token")
		token := made.Text("token")
		if !regexp.MustCompile(`^inv_[0-9A-Za-z]{43}$`).MatchString(token) || made.Text("url") != apptest.PublicURL+"/invite/"+token {
			t.Errorf("token %q, url %q", token, made.Text("url"))
		}
		listed := ada.Get(invitations).Want(http.StatusOK)
		first := listed.List("invitations")[0]
		apptest.WantKeys(t, first, "id", "role", "email", "state", "created_by", "created_at", "expires_at", "accepted_at", "accepted_by", "mail")
		if strings.Contains(string(listed.Body), token) || first["state"] != "pending" || first["email"] != "bob@example.org" || first["created_by"] != ada.User.ID {
			t.Errorf("listed %v", first)
		}
		week := time.Now().Add(7 * 24 * time.Hour)
		if at, err := time.Parse(time.RFC3339, first["expires_at"].(string)); err != nil || at.Sub(week).Abs() > time.Hour {
			t.Errorf("it expires %v, %v", at, err)
		}

		joined := w.public().Post(acceptance, object{"token": token, "name": "Bob"}).Want(http.StatusCreated)
		apptest.WantKeys(t, joined.Object(), "organisation", "member", "api_key")
		bob := &apptest.Caller{T: t, World: w.World, Key: joined.Text("api_key")}
		me := bob.Get("/api/v1/me").Want(http.StatusOK)
		if me.Text("user", "email") != "bob@example.org" || me.Text("user", "name") != "Bob" || me.Text("role") != "member" ||
			me.Text("organisation", "name") != "acme" || me.Text("key", "created_by_key") != ada.KeyID {
			t.Errorf("bob is %s", me.Body)
		}
		w.public().Post(acceptance, object{"token": token, "name": "Eve"}).
			WantError(http.StatusConflict, "This invitation was used already: a link works once; ask for a new one")
		first = ada.Get(invitations).List("invitations")[0]
		if first["state"] != "accepted" || first["accepted_by"] != me.Text("user", "id") || first["accepted_at"] == nil {
			t.Errorf("accepted %v", first)
		}
		ada.Do(http.MethodDelete, invitations+"/"+apptest.Text(first, "id"), nil).
			WantError(http.StatusConflict, "This invitation was used; remove the member instead")

		all := ada.Get(people).Want(http.StatusOK)
		if all.Object()["pagination"].(object)["total"] != 2.0 {
			t.Errorf("members %s", all.Body)
		}
		last := all.List("members")[1]
		apptest.WantKeys(t, last, "user_id", "name", "email", "role", "kind", "created_at", "last_seen_at", "removed_at")
		if last["kind"] != "person" || last["user_id"] != me.Text("user", "id") || last["removed_at"] != nil {
			t.Errorf("bob is listed as %v", last)
		}
		entries, _, err := (&audit.Service{DB: db}).List(t.Context(), ada.Org.ID, audit.Filter{Action: "auth.invitation.", Limit: 10})
		if err != nil || len(entries) != 2 || entries[0].ActorName != "bob@example.org" {
			t.Errorf("the audit log has %+v, %v", entries, err)
		}
		for _, secret := range []string{token, joined.Text("api_key")} {
			if strings.Contains(w.Logged.String(), secret) {
				t.Error("the log has a secret")
			}
		}
	})
}

// TestInviteRefused: who may invite whom, and with what.
func TestInviteRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		admin := w.member(ada.Org, "admin@acme.example", access.AdminRole)
		member := w.member(ada.Org, "member@acme.example", access.Member)
		member.Post(invitations, object{"role": "viewer"}).WantErrorWith(http.StatusForbidden, "permission admin")
		admin.Post(invitations, object{"role": "owner"}).
			WantError(http.StatusForbidden, "You do not have the permission registry:delete and cannot give it")
		for _, c := range []struct {
			body object
			path string
		}{
			{object{}, "role"},
			{object{"role": "king"}, "role"},
			{object{"role": "viewer", "email": "bob"}, "email"},
			{object{"role": "viewer", "email": "Trusted-Publisher@localhost"}, "email"},
			{object{"role": "admin", "email": "member@localhost"}, "email"},
			{object{"role": "viewer", "expires_at": "2020-01-02T03:04:05Z"}, "expires_at"},
			{object{"role": "viewer", "expires_at": time.Now().AddDate(0, 0, 40)}, "expires_at"},
			{object{"role": "viewer", "expires_in": 0}, "expires_in"},
			{object{"role": "viewer", "expires_in": 31 * 24 * 3600}, "expires_in"},
			{object{"role": "viewer", "expires_in": 60, "expires_at": time.Now().Add(time.Hour)}, "expires_in"},
		} {
			admin.Post(invitations, c.body).Want(http.StatusBadRequest).WantIssueWith(c.path, "")
		}
		admin.Post(invitations, object{"role": "viewer", "email": "Member@acme.example"}).
			WantError(http.StatusConflict, "member@acme.example is a member of this organisation already")
		if n := len(ada.Get(invitations).List("invitations")); n != 0 {
			t.Errorf("%d invitations were stored", n)
		}
		admin.Post(invitations, object{"role": "viewer", "expires_in": 2592000}).Want(http.StatusCreated)

		// An invitation ends with the key that made it, and so does the first key.
		end := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		_, brief, err := w.Auth.CreateKey(t.Context(), auth.NewKey{OrgID: ada.Org.ID, UserID: ada.User.ID, Name: "brief", ExpiresAt: &end})
		if err != nil {
			t.Fatal(err)
		}
		short := &apptest.Caller{T: t, World: w.World, Key: brief}
		short.Post(invitations, object{"role": "viewer", "expires_in": 7200}).Want(http.StatusBadRequest).WantIssueWith("expires_at", "when the key you use expires")
		made := short.Post(invitations, object{"role": "viewer"}).Want(http.StatusCreated)
		if at, err := time.Parse(time.RFC3339, made.Text("invitation", "expires_at")); err != nil || !at.Equal(end) {
			t.Errorf("it expires %v, not %v: %v", at, end, err)
		}
		joined := w.public().Post(acceptance, object{"token": made.Text("token"), "email": "dan@example.org"}).Want(http.StatusCreated)
		dan := &apptest.Caller{T: t, World: w.World, Key: joined.Text("api_key")}
		if at, err := time.Parse(time.RFC3339, dan.Get("/api/v1/me").Text("key", "expires_at")); err != nil || !at.Equal(end) {
			t.Errorf("the first key expires %v: %v", at, err)
		}

		// A request that began before its key was revoked, or its caller demoted.
		caller, err := w.Auth.Authenticate(t.Context(), admin.Key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Auth.SetRoleByOperator(t.Context(), ada.Org.ID, admin.User.ID, access.Member); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.members.Invite(t.Context(), caller, members.NewInvitation{Role: access.Viewer}); !fault.Is(err, fault.Denied) {
			t.Errorf("a former admin invites: %v", err)
		}
		if err := w.Auth.RevokeKey(t.Context(), ada.Org.ID, caller.KeyID); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.members.Invite(t.Context(), caller, members.NewInvitation{Role: access.Viewer}); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("a revoked key invites: %v", err)
		}
	})
}

// TestAcceptRefused: an invitation that cannot be used says why, and makes nothing.
func TestAcceptRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, other := w.org("acme"), w.org("other")
		admin := w.member(ada.Org, "admin@acme.example", access.AdminRole)
		accept := func(token string, more object) apptest.Response {
			t.Helper()
			return w.public().Post(acceptance, apptest.With(object{"token": token, "name": "Bob"}, more))
		}
		mail := object{"email": "bob@example.org"}
		for _, token := range []string{"inv_" + strings.Repeat("x", 43), "x", "inv_' OR 1=1 --", ada.Key} {
			accept(token, mail).WantErrorWith(http.StatusNotFound, "This invitation is not known")
		}
		w.public().Post(acceptance, object{"name": "Bob"}).Want(http.StatusBadRequest).WantIssueWith("token", "")

		_, bound := invite(admin, object{"role": "admin", "email": "bob@example.org"})
		id, open := invite(admin, object{"role": "viewer"})
		accept(bound, object{"email": "eve@example.org"}).Want(http.StatusBadRequest).WantIssueWith("email", "this invitation is for bob@example.org")
		accept(bound, object{"name": strings.Repeat("x", 101)}).Want(http.StatusBadRequest).WantIssueWith("name", "")
		accept(open, nil).Want(http.StatusBadRequest).WantIssueWith("email", "")
		accept(open, object{"email": "trusted-publisher@localhost"}).Want(http.StatusBadRequest).WantIssueWith("email", "is no person")
		accept(open, object{"email": "removed:" + ada.User.ID}).Want(http.StatusBadRequest).WantIssueWith("email", "")
		accept(open, object{"email": "admin@acme.example"}).WantError(http.StatusConflict, "admin@acme.example is a member of this organisation already")

		// Another organisation neither sees nor ends it.
		other.Do(http.MethodDelete, invitations+"/"+id, nil).Want(http.StatusNotFound)
		if n := len(other.Get(invitations).List("invitations")); n != 0 {
			t.Errorf("another organisation has %d invitations", n)
		}
		for range 2 {
			admin.Do(http.MethodDelete, invitations+"/"+id, nil).Want(http.StatusNoContent)
		}
		accept(open, mail).WantError(http.StatusConflict, "This invitation was withdrawn; ask for a new one")

		// The inviter is no longer an admin.
		ada.Do("PATCH", people+"/"+admin.User.ID, object{"role": "member"}).Want(http.StatusOK)
		accept(bound, nil).WantErrorWith(http.StatusConflict, "can no longer give the role admin")
		ada.Do("PATCH", people+"/"+admin.User.ID, object{"role": "admin"}).Want(http.StatusOK)
		_, pending := invite(admin, object{"role": "viewer"})
		ada.Do(http.MethodDelete, people+"/"+admin.User.ID, nil).Want(http.StatusNoContent)
		for _, token := range []string{bound, pending} {
			accept(token, object{"email": "bob@example.org"}).WantError(http.StatusConflict, "This invitation was withdrawn; ask for a new one")
		}

		_, late := invite(ada, object{"role": "viewer"})
		if _, err := db.Exec(t.Context(), `UPDATE invitations SET expires_at = 1 WHERE revoked_at IS NULL`); err != nil {
			t.Fatal(err)
		}
		accept(late, mail).WantError(http.StatusConflict, "This invitation expired on 1970-01-01 00:00 UTC; ask for a new one")
		if all := ada.Get(people).List("members"); len(all) != 1 {
			t.Errorf("members %v", all)
		}

		// A stolen key that invited: the cascade ends its invitations.
		k, raw, err := w.Auth.CreateKey(t.Context(), auth.NewKey{OrgID: ada.Org.ID, UserID: ada.User.ID, Name: "stolen"})
		if err != nil {
			t.Fatal(err)
		}
		thief := &apptest.Caller{T: t, World: w.World, Key: raw}
		_, unused := invite(thief, object{"role": "owner"})
		_, used := invite(thief, object{"role": "owner"})
		accomplice := &apptest.Caller{T: t, World: w.World, Key: accept(used, mail).Want(http.StatusCreated).Text("api_key")}
		accomplice.Get("/api/v1/me").Want(http.StatusOK)
		ada.Do(http.MethodDelete, "/api/v1/keys/"+k.ID+"?cascade=true", nil).Want(http.StatusNoContent)
		accept(unused, object{"email": "eve@example.org"}).WantError(http.StatusConflict, "This invitation was withdrawn; ask for a new one")
		accomplice.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")
	})
}

// TestAcceptRace: of many that use a link at the same instant, on two replicas, one
// becomes a member.
func TestAcceptRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		_, token := invite(ada, object{"role": "member"})
		replicas := []*members.Service{w.members, {DB: db, Auth: &auth.Service{DB: db}, PublicURL: apptest.PublicURL}}
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				email := string(rune('a'+i)) + "@example.org"
				_, errs[i] = replicas[i%2].Accept(t.Context(), members.Acceptance{Token: token, Email: email, KeyName: "first key"})
			})
		}
		wg.Wait()
		joined := 0
		for _, err := range errs {
			if err == nil {
				joined++
			} else if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "was used already") {
				t.Errorf("refused with %v", err)
			}
		}
		page := auth.MemberPage{Page: store.Page{Limit: 10}}
		if all, total, err := w.Auth.Members(t.Context(), ada.Org.ID, page); joined != 1 || total != 2 || err != nil {
			t.Errorf("%d joined; members %+v, %v", joined, all, err)
		}
	})
}

// TestMembersAPI: roles, transfer, removal and leaving.
func TestMembersAPI(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, other := w.org("acme"), w.org("other")
		admin := w.member(ada.Org, "admin@acme.example", access.AdminRole)
		bob := w.member(ada.Org, "bob@acme.example", access.Member)
		at := func(c *apptest.Caller) string { return people + "/" + c.User.ID }

		bob.Get(people).Want(http.StatusOK)
		// Escalation: of oneself, of others, to owner and of owners.
		bob.Do("PATCH", at(bob), object{"role": "owner"}).WantErrorWith(http.StatusForbidden, "permission admin")
		for _, c := range []struct {
			of   *apptest.Caller
			role string
		}{{admin, "owner"}, {bob, "owner"}, {ada, "member"}, {ada, "owner"}} {
			admin.Do("PATCH", at(c.of), object{"role": c.role}).WantErrorWith(http.StatusForbidden, "registry:delete")
		}
		admin.Do(http.MethodDelete, at(ada), nil).WantErrorWith(http.StatusForbidden, "registry:delete")
		admin.Do(http.MethodDelete, at(admin), nil).WantError(http.StatusConflict, "This is you; leave the organisation instead")
		for _, c := range []struct {
			method, path string
			body         any
		}{
			{"PATCH", at(bob), object{"role": "viewer"}},
			{http.MethodDelete, at(bob), nil},
			{http.MethodPost, at(bob) + "/transfer", nil},
		} {
			other.Do(c.method, c.path, c.body).WantError(http.StatusNotFound, "Member not found")
		}
		ada.Do("PATCH", at(bob), object{"role": "king"}).Want(http.StatusBadRequest).WantIssueWith("role", "")

		changed := admin.Do("PATCH", at(bob), object{"role": "admin"}).Want(http.StatusOK)
		if changed.Text("member", "role") != "admin" || bob.Get("/api/v1/me").Text("role") != "admin" {
			t.Errorf("bob is %s", changed.Body)
		}
		admin.Do(http.MethodPost, at(bob)+"/transfer", nil).WantErrorWith(http.StatusForbidden, "owner")
		moved := ada.Do(http.MethodPost, at(bob)+"/transfer", nil).Want(http.StatusOK)
		if moved.Text("owner", "email") != "bob@acme.example" || moved.Text("former_owner", "role") != "admin" {
			t.Errorf("transferred %s", moved.Body)
		}

		bob.Do(http.MethodDelete, at(ada), nil).Want(http.StatusNoContent)
		ada.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")
		bob.Do(http.MethodDelete, at(ada), nil).WantError(http.StatusNotFound, "Member not found")
		gone := bob.Get(people + "?state=removed").Want(http.StatusOK).List("members")
		if len(gone) != 1 || gone[0]["email"] != "owner@acme.example" || gone[0]["removed_at"] == nil {
			t.Errorf("removed %v", gone)
		}
		// Invited again, she is a member again, without the old key.
		_, token := invite(bob, object{"role": "viewer", "email": "owner@acme.example"})
		again := w.public().Post(acceptance, object{"token": token}).Want(http.StatusCreated)
		if again.Text("member", "user_id") == ada.User.ID {
			t.Error("she is the user of before")
		}
		ada.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")

		admin.Post("/api/v1/me/leave", object{"email": "x@example.org"}).Want(http.StatusBadRequest).WantIssueWith("email", "admin@acme.example")
		admin.Post("/api/v1/me/leave", object{"email": "admin@acme.example"}).Want(http.StatusNoContent)
		admin.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")
		entries, _, err := (&audit.Service{DB: db}).List(t.Context(), ada.Org.ID, audit.Filter{Action: "auth.user.remove", Limit: 10})
		if err != nil || len(entries) != 2 || entries[0].ActorName != "admin@acme.example" || entries[0].Target.Name != "admin@acme.example" {
			t.Errorf("the audit log has %+v, %v", entries, err)
		}
		bob.Post("/api/v1/me/leave", object{"email": "bob@acme.example"}).WantErrorWith(http.StatusConflict, "is the only owner")
	})
}

// TestAcceptLimit slows guessing down.
func TestAcceptLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	for range 120 {
		w.public().Post(acceptance, object{"token": "inv_" + strings.Repeat("x", 43)}).Want(http.StatusNotFound)
	}
	w.public().Post(acceptance, object{"token": "inv_" + strings.Repeat("x", 43)}).Want(http.StatusTooManyRequests)
}

func TestDeletedOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		_, token := invite(ada, object{"role": "viewer"})
		w.CloseOrg(ada.Org.ID)
		w.public().Post(acceptance, object{"token": token, "name": "Bob", "email": "bob@example.org"}).
			WantErrorWith(http.StatusNotFound, "This invitation is not known")
	})
}
