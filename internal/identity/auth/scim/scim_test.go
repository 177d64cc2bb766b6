package scim_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/scim"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/events/eventstest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

type object = apptest.Object

const (
	tokens = "/api/v1/scim-tokens"
	roles  = "/api/v1/scim-groups"
	users  = "/scim/v2/Users"
	groups = "/scim/v2/Groups"
)

// world serves SCIM, and members.
type world struct {
	*apptest.World
	scim *scim.Service
}

func newWorld(t *testing.T, db *store.DB) world {
	t.Helper()
	w := world{World: apptest.NewWorld(t, db, apptest.Options{})}
	w.scim = &scim.Service{DB: db, Auth: w.Auth, PublicURL: apptest.PublicURL, Log: w.Log}
	auth.API{Service: w.Auth}.Mount(w.API)
	(&members.Service{DB: db, Auth: w.Auth, PublicURL: apptest.PublicURL}).Mount(w.API)
	w.scim.Mount(w.API)
	return w
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

// provider makes a token and returns who calls with it.
func (w world) provider(owner *apptest.Caller) *apptest.Caller {
	w.T.Helper()
	raw := owner.Post(tokens, object{"name": "okta"}).Want(http.StatusCreated).Text("token")
	return &apptest.Caller{T: w.T, World: w.World, Org: owner.Org, Key: raw}
}

// person is what a provider sends to create somebody.
func person(email string) object {
	return object{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": email,
		"emails": []object{{"value": email, "primary": true, "type": "work"}}, "active": true,
	}
}

// create makes a person and returns their SCIM id.
func create(p *apptest.Caller, email string) string {
	p.T.Helper()
	return p.Post(users, person(email)).Want(http.StatusCreated).Text("id")
}

func patch(p *apptest.Caller, path string, operations ...object) apptest.Response {
	p.T.Helper()
	return p.Do(http.MethodPatch, path, object{
		"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"}, "Operations": operations,
	})
}

// wantProblem checks an error in SCIM's shape.
func wantProblem(t *testing.T, r apptest.Response, status int, word, detail string) {
	t.Helper()
	body := r.Want(status).Object()
	got, _ := body["scimType"].(string)
	if got != word || !strings.Contains(apptest.Text(body, "detail"), detail) || body["status"] != strconv.Itoa(status) {
		t.Errorf("%s: %s, want %q and %q", r.What, r.Body, word, detail)
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/scim+json" {
		t.Errorf("%s: the content type is %q", r.What, kind)
	}
	if schemas, ok := body["schemas"].([]any); !ok || len(schemas) != 1 || schemas[0] != "urn:ietf:params:scim:api:messages:2.0:Error" {
		t.Errorf("%s: schemas %v", r.What, body["schemas"])
	}
}

// roleOf returns the role of a member by address; "" if there is none.
func (w world) roleOf(o auth.Organisation, email string) access.Role {
	w.T.Helper()
	u, err := w.Auth.UserByEmail(w.T.Context(), o.ID, email)
	if err != nil {
		return ""
	}
	return u.Role
}

func TestTokens(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		made := ada.Post(tokens, object{"name": "okta"}).Want(http.StatusCreated)
		apptest.WantKeys(t, made.Object(), "scim_token", "url", "token")
		raw := made.Text("token")
		if !regexp.MustCompile(`^scim_[0-9A-Za-z]{43}$`).MatchString(raw) || made.Text("url") != apptest.PublicURL+"/scim/v2" {
			t.Errorf("made %s", made.Body)
		}
		if found := w.TablesWith(raw); len(found) > 0 {
			t.Errorf("the token is in %v", found)
		}
		p := &apptest.Caller{T: t, World: w.World, Key: raw}
		p.Get(users).Want(http.StatusOK)
		listed := ada.Get(tokens).Want(http.StatusOK)
		first := listed.List("scim_tokens")[0]
		apptest.WantKeys(t, first, "id", "name", "prefix", "state", "created_by", "created_at", "last_used_at", "expires_at")
		if strings.Contains(string(listed.Body), raw) || first["state"] != "active" || first["last_used_at"] == nil || first["created_by"] != ada.User.ID ||
			first["prefix"] != raw[:9] {
			t.Errorf("listed %v", first)
		}

		// It opens nothing else, and nothing else opens SCIM.
		p.Get("/api/v1/me").WantError(http.StatusUnauthorized, "SCIM tokens are for /scim/v2, not for the API; use an API key")
		wantProblem(t, ada.Get(users), http.StatusUnauthorized, "", "Unknown SCIM token")
		wantProblem(t, w.Anonymous().Get(users), http.StatusUnauthorized, "", "Missing SCIM token")
		half := &apptest.Caller{T: t, World: w.World, Key: raw[:47]}
		wantProblem(t, half.Get(users), http.StatusUnauthorized, "", "Unknown SCIM token")

		ada.Do(http.MethodDelete, tokens+"/"+apptest.Text(first, "id"), nil).Want(http.StatusNoContent)
		wantProblem(t, p.Get(users), http.StatusUnauthorized, "", "Unknown SCIM token")
		ada.Do(http.MethodDelete, tokens+"/"+apptest.Text(first, "id"), nil).WantError(http.StatusNotFound, "SCIM token not found")

		soon := time.Now().Add(time.Hour)
		raw = ada.Post(tokens, object{"name": "entra", "expires_at": soon}).Want(http.StatusCreated).Text("token")
		w.Exec(`UPDATE scim_tokens SET expires_at = 1`)
		p.Key = raw
		wantProblem(t, p.Get(users), http.StatusUnauthorized, "", "This SCIM token has expired")
		if state := ada.Get(tokens).List("scim_tokens")[0]["state"]; state != "expired" {
			t.Errorf("state %v", state)
		}
	})
}

func TestTokensRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	ada := w.Org("acme")
	ada.Post(tokens, object{}).Want(http.StatusBadRequest).WantIssueWith("name", "name is required")
	ada.Post(tokens, object{"name": "x", "expires_at": "2020-01-01T00:00:00Z"}).Want(http.StatusBadRequest).WantIssueWith("expires_at", "in the future")
	// An admin with a token could take an owner's place.
	w.Member(ada.Org, access.AdminRole).Post(tokens, object{"name": "x"}).WantErrorWith(http.StatusForbidden, "role owner")
	w.Member(ada.Org, access.Owner, access.Read, access.Admin).Post(tokens, object{"name": "x"}).WantErrorWith(http.StatusForbidden, "Only an owner")
	w.Member(ada.Org, access.AdminRole).Get(tokens).Want(http.StatusOK)
	w.Member(ada.Org, access.Member).Get(tokens).Want(http.StatusForbidden)
	for range 20 {
		ada.Post(tokens, object{"name": "x"}).Want(http.StatusCreated)
	}
	ada.Post(tokens, object{"name": "x"}).WantErrorWith(http.StatusConflict, "20 SCIM tokens, the maximum")
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	p := w.provider(w.Org("acme"))
	config := p.Get("/scim/v2/ServiceProviderConfig").Want(http.StatusOK)
	if config.Header.Get("Content-Type") != "application/scim+json" || config.Object()["patch"].(object)["supported"] != true ||
		config.Object()["bulk"].(object)["supported"] != false {
		t.Errorf("%s", config.Body)
	}
	for path, want := range map[string]int{"/scim/v2/ResourceTypes": 2, "/scim/v2/Schemas": 2} {
		all := p.Get(path).Want(http.StatusOK).List("Resources")
		if len(all) != want {
			t.Errorf("%s has %d", path, len(all))
		}
		for _, r := range all {
			p.Get(path + "/" + apptest.Text(r, "id")).Want(http.StatusOK)
		}
	}
	wantProblem(t, p.Get("/scim/v2/Schemas/urn:x"), http.StatusNotFound, "", "No such schema")
	wantProblem(t, p.Post("/scim/v2/Bulk", object{}), http.StatusNotFound, "", "No such endpoint")
	r := p.Do(http.MethodPut, users, object{})
	wantProblem(t, r, http.StatusMethodNotAllowed, "", "allowed: GET, HEAD, POST")
	if r.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow: %s", r.Header.Get("Allow"))
	}
}

// TestDeactivationIsAnEvent: other systems are told of who was deactivated.
func TestDeactivationIsAnEvent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		bob := w.member(ada.Org, "bob@acme.example", access.AdminRole)
		told := eventstest.Register(w.World)
		w.Work()
		hook := eventstest.Subscribe(t, told, ada.Org.ID)
		p := w.provider(ada)
		id := p.Post(users, person("bob@acme.example")).Want(http.StatusCreated).Text("id")
		patch(p, users+"/"+id, object{"op": "replace", "value": object{"active": false}}).Want(http.StatusOK)
		if err := told.Dispatch(t.Context()); err != nil { // the people of the world have no queue
			t.Fatal(err)
		}
		if data := hook.Only(events.MemberRemoved); data["user_id"] != bob.User.ID || data["role"] != "admin" {
			t.Errorf("removed: %v", data)
		}
	})
}

// TestDeactivate: a deactivated person's key and session end at once, what they made
// stays, and reactivation brings back the same user without them.
func TestDeactivate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		bob := w.member(ada.Org, "bob@acme.example", access.AdminRole)
		p := w.provider(ada)
		// The member who has the address is linked, and keeps their role and key.
		made := p.Post(users, person("Bob@Acme.example")).Want(http.StatusCreated)
		id := made.Text("id")
		if made.Header.Get("Location") != apptest.PublicURL+users+"/"+id || w.Count(`users WHERE org_id = $1`, ada.Org.ID) != 2 {
			t.Errorf("made %s", made.Body)
		}
		if me := bob.Get("/api/v1/me").Want(http.StatusOK); me.Text("role") != "admin" {
			t.Errorf("bob is %s", me.Body)
		}
		_, session, err := w.Auth.SignIn(t.Context(), auth.NewSession{RawKey: bob.Key})
		if err != nil {
			t.Fatal(err)
		}
		off := patch(p, users+"/"+id, object{"op": "replace", "value": object{"active": false}}).Want(http.StatusOK)
		if off.Object()["active"] != false {
			t.Errorf("%s", off.Body)
		}
		bob.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")
		if _, _, err := w.Auth.Resume(t.Context(), session); err == nil {
			t.Error("the session goes on")
		}
		if w.roleOf(ada.Org, "bob@acme.example") != "" {
			t.Error("bob is a member")
		}
		if p.Get(users + "/" + id).Want(http.StatusOK).Object()["active"] != false {
			t.Error("still active")
		}

		on := patch(p, users+"/"+id, object{"op": "replace", "value": object{"active": true}}).Want(http.StatusOK)
		u, err := w.Auth.UserByEmail(t.Context(), ada.Org.ID, "bob@acme.example")
		if err != nil || u.ID != bob.User.ID || u.Role != access.Member || on.Object()["active"] != true {
			t.Errorf("%+v, %v; %s", u, err, on.Body)
		}
		bob.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")

		p.Do(http.MethodDelete, users+"/"+id, nil).Want(http.StatusNoContent)
		wantProblem(t, p.Get(users+"/"+id), http.StatusNotFound, "", "User not found")
		if w.roleOf(ada.Org, "bob@acme.example") != "" {
			t.Error("bob is a member")
		}
		// Whoever is created then is somebody new.
		create(p, "bob@acme.example")
		if u, err := w.Auth.UserByEmail(t.Context(), ada.Org.ID, "bob@acme.example"); err != nil || u.ID == bob.User.ID {
			t.Errorf("%+v, %v", u, err)
		}
		entries, _, err := (&audit.Service{DB: db}).List(t.Context(), ada.Org.ID, audit.Filter{Action: "auth.user.", Limit: 20})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			if e.ActorName == "SCIM token okta" {
				got = append(got, e.Action)
			}
		}
		if want := "auth.user.create auth.user.remove auth.user.reinstate auth.user.remove"; strings.Join(got, " ") != want {
			t.Errorf("the audit log has %q, want %q", got, want)
		}
	})
}

// TestLastOwner: no request takes the last owner away.
func TestLastOwner(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p := w.provider(ada)
		id := create(p, ada.User.Email)
		const only = "is the only owner; make another person owner first"
		wantProblem(t, patch(p, users+"/"+id, object{"op": "Replace", "path": "active", "value": "False"}), http.StatusConflict, "", only)
		gone := person(ada.User.Email)
		gone["active"] = false
		wantProblem(t, p.Do(http.MethodPut, users+"/"+id, gone), http.StatusConflict, "", only)
		wantProblem(t, p.Do(http.MethodDelete, users+"/"+id, nil), http.StatusConflict, "", only)

		group := p.Post(groups, object{"displayName": "Owners", "members": []object{{"value": id}}}).Want(http.StatusCreated).Text("id")
		ada.Do(http.MethodPut, roles+"/"+group, object{"role": "viewer"}).WantErrorWith(http.StatusConflict, only)
		ada.Do(http.MethodPut, roles+"/"+group, object{"role": "owner"}).Want(http.StatusOK)
		wantProblem(t, patch(p, groups+"/"+group, object{"op": "remove", "path": "members"}), http.StatusConflict, "", only)
		wantProblem(t, p.Do(http.MethodDelete, groups+"/"+group, nil), http.StatusConflict, "", only)
		ada.Do(http.MethodPut, roles+"/"+group, object{"role": nil}).WantErrorWith(http.StatusConflict, only)

		ada.Get("/api/v1/me").Want(http.StatusOK)
		if len(p.Get(groups+"/"+group).Want(http.StatusOK).List("members")) != 1 || w.roleOf(ada.Org, ada.User.Email) != access.Owner {
			t.Error("something of what was refused was done")
		}
		// With another owner in the group, she can go.
		bob := create(p, "bob@acme.example")
		patch(p, groups+"/"+group, object{"op": "add", "path": "members", "value": []object{{"value": bob}}}).Want(http.StatusNoContent)
		patch(p, users+"/"+id, object{"op": "replace", "path": "active", "value": false}).Want(http.StatusOK)
		ada.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")
		wantProblem(t, patch(p, users+"/"+bob, object{"op": "replace", "path": "active", "value": false}), http.StatusConflict, "", only)
	})
}

func TestUsersRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p := w.provider(ada)
		id := create(p, "bob@acme.example")
		other := p.Post(users, object{"userName": "eve@acme.example", "externalId": "e1"}).Want(http.StatusCreated).Text("id")
		long := strings.Repeat("x", 255)
		for name, c := range map[string]struct {
			body         any
			word, detail string
			status       int
		}{
			"no JSON":             {`{"userName":`, "invalidSyntax", "not the JSON", 400},
			"a list":              {`[]`, "invalidValue", "unexpected array", 400},
			"nothing":             {``, "invalidSyntax", "not the JSON", 400},
			"no name":             {object{"emails": []object{{"value": "x@y.example"}}}, "invalidValue", "userName is required", 400},
			"number":              {`{"userName":7}`, "invalidValue", "userName: unexpected number", 400},
			"no address":          {object{"userName": "bob"}, "invalidValue", "emails must have an address", 400},
			"bad address":         {object{"userName": "bob", "emails": []object{{"value": "bob"}}}, "invalidValue", "emails.value must be an address", 400},
			"long":                {object{"userName": long + "@x.example"}, "invalidValue", "userName must have at most 254", 400},
			"long name":           {object{"userName": "x@y.example", "displayName": long}, "invalidValue", "displayName must have at most 254", 400},
			"control":             {object{"userName": "x@y.example", "displayName": "a\x1b[31m"}, "invalidValue", "control characters", 400},
			"NUL":                 {`{"userName":"x@y.example","externalId":"a\u0000"}`, "invalidValue", "externalId must not", 400},
			"machine":             {object{"userName": "member@localhost"}, "invalidValue", "holds the keys of machines", 400},
			"publisher":           {object{"userName": "trusted-publisher@localhost"}, "invalidValue", "holds the keys of machines", 400},
			"first owner":         {object{"userName": "x", "emails": []object{{"value": "Owner@localhost"}}}, "invalidValue", "holds the keys of machines", 400},
			"same name":           {person("BOB@acme.example"), "uniqueness", "exists", 409},
			"same id":             {object{"userName": "new@acme.example", "externalId": "e1"}, "uniqueness", "exists", 409},
			"same address":        {object{"userName": "robert", "emails": []object{{"value": "bob@acme.example"}}}, "uniqueness", "belongs to another user", 409},
			"active is a number":  {`{"userName":"x@y.example","active":7}`, "invalidSyntax", "true or false", 400},
			"too many addresses":  {`{"userName":"x@y.example","emails":[` + strings.Repeat(`{"value":"a@b.example"},`, 20) + `{"value":"a@b.example"}]}`, "invalidValue", "at most 20", 400},
			"deep":                {`{"userName":"x@y.example","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "invalidSyntax", "not the JSON", 400},
			"address of a header": {object{"userName": "Bob <bob@x.example>"}, "invalidValue", "emails must have an address", 400},
		} {
			t.Run(name, func(t *testing.T) { wantProblem(t, p.In(t).Post(users, c.body), c.status, c.word, c.detail) })
		}
		wantProblem(t, p.Post(users, `{"userName":"`+strings.Repeat("x", 1<<20)+`"}`), http.StatusRequestEntityTooLarge, "", "1024 KiB")

		for name, c := range map[string]struct {
			operation    object
			word, detail string
		}{
			"unknown op":       {object{"op": "move", "path": "active"}, "invalidSyntax", "op must be"},
			"remove nothing":   {object{"op": "remove"}, "noTarget", "remove needs a path"},
			"no value":         {object{"op": "replace", "path": "active"}, "invalidValue", "needs a value"},
			"pathless text":    {object{"op": "replace", "value": "x"}, "invalidValue", "needs an object"},
			"id":               {object{"op": "replace", "path": "id", "value": "x"}, "mutability", "id is read-only"},
			"userName removed": {object{"op": "remove", "path": "userName"}, "invalidValue", "userName is required"},
			"active removed":   {object{"op": "remove", "path": "active"}, "invalidValue", "active cannot be removed"},
			"active list":      {object{"op": "replace", "path": "active", "value": []int{}}, "invalidValue", "active has a value of the wrong type"},
			"bad path":         {object{"op": "replace", "path": "emails[type eq", "value": "x"}, "invalidPath", "not understood"},
			"SQL":              {object{"op": "replace", "path": "x'; DROP TABLE users --", "value": "x"}, "invalidPath", "not understood"},
			"long path":        {object{"op": "replace", "path": strings.Repeat("x", 1001), "value": "x"}, "invalidPath", "at most 1000"},
			"bad address":      {object{"op": "replace", "path": `emails[type eq "work"].value`, "value": "x"}, "invalidValue", "must be an address"},
			"name of another":  {object{"op": "replace", "path": "userName", "value": "Eve@acme.example"}, "uniqueness", "exists"},
			"address of another": {
				object{"op": "replace", "path": "emails", "value": []object{{"value": "eve@acme.example"}}}, "uniqueness", "exists in this organisation",
			},
			"address of a member": {
				object{"op": "replace", "path": "emails", "value": object{"value": ada.User.Email}}, "uniqueness", "exists in this organisation",
			},
			"address of machines": {object{"op": "replace", "path": "emails", "value": object{"value": "admin@localhost"}}, "invalidValue", "holds the keys"},
		} {
			t.Run("patch/"+name, func(t *testing.T) {
				status := http.StatusBadRequest
				if c.word == "uniqueness" {
					status = http.StatusConflict
				}
				wantProblem(t, patch(p.In(t), users+"/"+id, c.operation), status, c.word, c.detail)
			})
		}
		wantProblem(t, patch(p, users+"/"+id), http.StatusBadRequest, "invalidSyntax", "at least one")
		many := make([]object, 1001)
		for i := range many {
			many[i] = object{"op": "replace", "path": "active", "value": false}
		}
		wantProblem(t, patch(p, users+"/"+id, many...), http.StatusBadRequest, "invalidSyntax", "at most 1000")
		// Of a patch with a mistake, nothing is done.
		wantProblem(t, patch(p, users+"/"+id, many[0], object{"op": "move"}), http.StatusBadRequest, "invalidSyntax", "op must be")
		for _, path := range []string{users + "/" + id, users + "/" + other} {
			if u := p.Get(path).Want(http.StatusOK); u.Object()["active"] != true {
				t.Errorf("%s", u.Body)
			}
		}
		for _, missing := range []string{"x", "%00", store.NewID(), "..%2fx"} {
			if r := p.Get(users + "/" + missing); r.Status != http.StatusNotFound && r.Status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", missing, r.Status, r.Body)
			}
		}
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		p := w.provider(w.Org("acme"))
		bob := p.Post(users, object{
			"userName": "bob", "externalId": `a"b\c`, "emails": []object{{"value": "Bob@acme.example"}},
		}).Want(http.StatusCreated).Text("id")
		create(p, "eve@acme.example")
		group := p.Post(groups, object{"displayName": "Engineering", "externalId": "g1", "members": []object{{"value": bob}}}).
			Want(http.StatusCreated).Text("id")
		for _, c := range []struct {
			path, filter string
			want         int
		}{
			{users, ``, 2},
			{users, `userName eq "BOB"`, 1},
			{users, `username EQ "bob"`, 1},
			{users, `userName eq "nobody"`, 0},
			{users, `externalId eq "a\"b\\c"`, 1},
			{users, `externalId eq "A\"b\\c"`, 0},
			{users, `emails.value eq "bob@acme.example"`, 1},
			{users, `emails[type eq "work"].value eq "bob@acme.example"`, 1},
			{users, `emails eq "eve@acme.example"`, 1},
			{users, `id eq "` + bob + `" and userName eq "bob"`, 1},
			{users, `id eq "` + bob + `" and userName eq "eve@acme.example"`, 0},
			{users, `urn:ietf:params:scim:schemas:core:2.0:User:userName eq "bob"`, 1},
			{users, `userName eq "' OR 1=1 --"`, 0},
			{groups, `displayName eq "engineering"`, 1},
			{groups, `externalId eq "g1"`, 1},
			{groups, `id eq "` + group + `" and members eq "` + bob + `"`, 1},
			{groups, `members.value eq "` + group + `"`, 0},
		} {
			found := p.Get(c.path + "?filter=" + url.QueryEscape(c.filter)).Want(http.StatusOK)
			apptest.WantKeys(t, found.Object(), "schemas", "totalResults", "startIndex", "itemsPerPage", "Resources")
			if found.Object()["totalResults"] != float64(c.want) || len(found.List("Resources")) != c.want {
				t.Errorf("%s: %s", c.filter, found.Body)
			}
		}
		for _, bad := range []string{
			`userName`, `userName co "b"`, `userName eq bob`, `active eq true`, `password eq "x"`, `userName eq "a" or userName eq "b"`,
			`userName eq "a" and userName eq "b"`, `(userName eq "a")`, `userName eq "` + strings.Repeat("x", 1000) + `"`,
			`externalId eq "\u0000"`,
		} {
			for _, path := range []string{users, groups} {
				wantProblem(t, p.Get(path+"?filter="+url.QueryEscape(bad)), http.StatusBadRequest, "invalidFilter", "")
			}
		}

		one := p.Get(users + "?count=1&startIndex=2").Want(http.StatusOK)
		if o := one.Object(); o["totalResults"] != 2.0 || o["itemsPerPage"] != 1.0 || o["startIndex"] != 2.0 || one.List("Resources")[0]["userName"] != "eve@acme.example" {
			t.Errorf("%s", one.Body)
		}
		for query, want := range map[string]int{"count=0": 0, "count=-1": 0, "startIndex=0": 2, "startIndex=-5": 2, "startIndex=3": 0, "count=100000": 2} {
			if found := p.Get(users + "?" + query).Want(http.StatusOK); len(found.List("Resources")) != want || found.Object()["totalResults"] != 2.0 {
				t.Errorf("%s: %s", query, found.Body)
			}
		}
		wantProblem(t, p.Get(users+"?count=x"), http.StatusBadRequest, "invalidValue", "count must be a whole number")
		wantProblem(t, p.Get(users+"?startIndex=99999999999999999999"), http.StatusBadRequest, "invalidValue", "startIndex must be a whole number")

		apptest.WantKeys(t, p.Get(users+"/"+bob+"?attributes=userName,name.givenName").Object(), "schemas", "id", "userName")
		apptest.WantKeys(t, p.Get(groups+"/"+group+"?excludedAttributes=members").Object(), "schemas", "id", "externalId", "displayName", "meta")
		apptest.WantKeys(t, p.Get(groups + "?excludedAttributes=members").List("Resources")[0], "schemas", "id", "externalId", "displayName", "meta")
	})
}

// TestIsolation: a token sees and changes nothing of another organisation.
func TestIsolation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.Org("acme"), w.Org("evil")
		ours, theirs := w.provider(ada), w.provider(eve)
		bob := w.member(ada.Org, "bob@acme.example", access.Member)
		id := create(ours, "bob@acme.example")
		group := ours.Post(groups, object{"displayName": "Engineering", "members": []object{{"value": id}}}).Want(http.StatusCreated).Text("id")

		off := object{"op": "replace", "path": "active", "value": false}
		for _, r := range []apptest.Response{
			theirs.Get(users + "/" + id), theirs.Do(http.MethodPut, users+"/"+id, person("bob@acme.example")), patch(theirs, users+"/"+id, off),
			theirs.Do(http.MethodDelete, users+"/"+id, nil),
		} {
			wantProblem(t, r, http.StatusNotFound, "", "User not found")
		}
		for _, r := range []apptest.Response{
			theirs.Get(groups + "/" + group), theirs.Do(http.MethodPut, groups+"/"+group, object{"displayName": "x"}),
			patch(theirs, groups+"/"+group, object{"op": "remove", "path": "members"}), theirs.Do(http.MethodDelete, groups+"/"+group, nil),
		} {
			wantProblem(t, r, http.StatusNotFound, "", "Group not found")
		}
		wantProblem(t, theirs.Post(groups, object{"displayName": "x", "members": []object{{"value": id}}}), http.StatusBadRequest, "invalidValue", "no user has the id "+id)
		eve.Do(http.MethodPut, roles+"/"+group, object{"role": "owner"}).WantError(http.StatusNotFound, "Group not found")
		for _, path := range []string{
			users, groups, users + "?filter=" + url.QueryEscape(`id eq "`+id+`"`), groups + "?filter=" + url.QueryEscape(`members eq "`+id+`"`),
		} {
			if found := theirs.Get(path).Want(http.StatusOK); found.Object()["totalResults"] != 0.0 {
				t.Errorf("%s: %s", path, found.Body)
			}
		}
		// The same address, user name and group in another organisation are somebody else's.
		same := create(theirs, "bob@acme.example")
		patch(theirs, users+"/"+same, off).Want(http.StatusOK)
		theirs.Do(http.MethodDelete, users+"/"+same, nil).Want(http.StatusNoContent)
		theirs.Post(groups, object{"displayName": "Engineering"}).Want(http.StatusCreated)
		if me := bob.Get("/api/v1/me").Want(http.StatusOK); me.Text("user", "id") != bob.User.ID || me.Text("role") != "member" {
			t.Errorf("bob is %s", me.Body)
		}
		if len(ours.Get(groups+"/"+group).List("members")) != 1 {
			t.Error("bob left the group")
		}
	})
}

// TestInactiveFromTheBeginning: nobody becomes a member, and who is one is removed.
func TestInactiveFromTheBeginning(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p := w.provider(ada)
		bob := w.member(ada.Org, "bob@acme.example", access.Member)
		inactive := func(email string) object {
			body := person(email)
			body["active"] = "False"
			return body
		}
		p.Post(users, inactive("bob@acme.example")).Want(http.StatusCreated)
		bob.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")
		eve := p.Post(users, inactive("eve@acme.example")).Want(http.StatusCreated)
		if eve.Object()["active"] != false || w.roleOf(ada.Org, "eve@acme.example") != "" {
			t.Errorf("%s", eve.Body)
		}
		patch(p, users+"/"+eve.Text("id"), object{"op": "add", "path": "active", "value": "True"}).Want(http.StatusOK)
		if w.roleOf(ada.Org, "eve@acme.example") != access.Member {
			t.Error("eve is no member")
		}
		// Somebody else has her address by the time that she comes back: they are linked.
		patch(p, users+"/"+eve.Text("id"), object{"op": "replace", "path": "active", "value": false}).Want(http.StatusOK)
		again := w.member(ada.Org, "eve@acme.example", access.AdminRole)
		patch(p, users+"/"+eve.Text("id"), object{"op": "replace", "path": "active", "value": true}).Want(http.StatusOK)
		again.Get("/api/v1/me").Want(http.StatusOK)
		patch(p, users+"/"+eve.Text("id"), object{"op": "replace", "path": "active", "value": false}).Want(http.StatusOK)
		again.Get("/api/v1/me").WantError(http.StatusUnauthorized, "This API key was revoked")
	})
}

func TestDeletedOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p, other := w.provider(ada), w.provider(w.Org("other"))
		p.Get(users).Want(http.StatusOK)
		w.CloseOrg(ada.Org.ID)
		p.Get(users).Want(http.StatusUnauthorized)
		p.Post(users, person("eve@acme.example")).Want(http.StatusUnauthorized)
		other.Get(users).Want(http.StatusOK)
	})
}
