package auth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// site serves the routes of auth.
type site struct{ *apptest.World }

func newSite(t *testing.T, db *store.DB) site {
	t.Helper()
	w := apptest.NewWorld(t, db, apptest.Options{})
	auth.API{Service: w.Auth}.Mount(w.API)
	return site{w}
}

// member makes an organisation with one user and a key of theirs.
func (s site) member(t *testing.T, org string, role access.Role) (auth.User, auth.Key, string) {
	t.Helper()
	u := person(t, s.Auth, org, role)
	k, raw := newKey(t, s.Auth, u)
	return u, k, raw
}

// call sends a request with a key; an empty body sends none.
func (s site) call(t *testing.T, key, route, body string) apptest.Response {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	caller := apptest.Caller{T: t, World: s.World, Key: key}
	if body == "" {
		return caller.Do(method, path, nil)
	}
	return caller.Do(method, path, body)
}

// keyJSON is a key in an answer.
func keyJSON(k auth.Key) string {
	permissions, _ := json.Marshal(k.Permissions)
	return fmt.Sprintf(`{"id":%q,"user_id":%q,"name":%q,"prefix":%q,"permissions":%s,"created_at":%q,"last_used_at":null,"expires_at":null,"revoked_at":null,
		"created_by_key":null,"login":false,"allowed_ips":[]}`,
		k.ID, k.UserID, k.Name, k.Prefix, permissions, k.CreatedAt.Format("2006-01-02T15:04:05.000Z"))
}

func TestMe(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		u, k, raw := s.member(t, "acme", access.Member)
		s.call(t, raw, "GET /api/v1/me", "").WantJSON(200, fmt.Sprintf(`{
			"user":{"id":%q,"email":"ada@example.org","name":"ada"},"organisation":{"id":%q,"name":"acme"},
			"plan":"team","role":"member","permissions":["read","write","telemetry:write","registry:push","registry:install"],"key":%s}`,
			u.ID, u.OrgID, keyJSON(k)))
		narrow, raw := newKey(t, s.Auth, u, access.Read)
		me := s.call(t, raw, "GET /api/v1/me", "").Want(200).Object()
		if diff := cmp.Diff([]any{"read"}, me["permissions"]); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(apptest.Plain(t, json.RawMessage(keyJSON(narrow))), me["key"]); diff != "" {
			t.Error(diff)
		}
		if err := s.Auth.RevokeKey(t.Context(), u.OrgID, narrow.ID); err != nil {
			t.Fatal(err)
		}
		s.call(t, raw, "GET /api/v1/me", "").WantError(401, "This API key was revoked")
	})
}

func TestKeyRoutes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		u, first, raw := s.member(t, "acme", access.AdminRole)
		s.member(t, "other", access.Owner)
		s.call(t, raw, "GET /api/v1/keys", "").WantJSON(200, fmt.Sprintf(`{"keys":[%s],"pagination":{"page":1,"per_page":20,"total":1}}`, keyJSON(first)))

		created := s.call(t, raw, "POST /api/v1/keys", `{"name":"CI","permissions":["read","registry:push"],
			"expires_at":"2999-01-02T03:04:05+01:00"}`)
		made := created.Want(201).Object()
		second, id := apptest.Text(made, "api_key"), apptest.Text(made, "key", "id")
		prefix, at := apptest.Text(made, "key", "prefix"), apptest.Text(made, "key", "created_at")
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			t.Error(err)
		}
		created.WantJSON(201, fmt.Sprintf(`{"api_key":%q,"key":{"id":%q,"user_id":%q,"name":"CI","prefix":%q,
			"permissions":["read","registry:push"],"created_at":%q,"last_used_at":null,"expires_at":"2999-01-02T02:04:05.000Z",
			"revoked_at":null,"created_by_key":%q,"login":false,"allowed_ips":[]}}`, second, id, u.ID, prefix, at, first.ID))
		if !goodKey.MatchString(second) || !strings.HasPrefix(second, prefix) {
			t.Errorf("the key is %q, its prefix %q", second, prefix)
		}

		s.call(t, second, "GET /api/v1/keys", "").WantError(403, "This needs the permission admin")
		s.call(t, raw, "DELETE /api/v1/keys/"+id, "").Want(204)
		s.call(t, second, "GET /api/v1/me", "").WantError(401, "This API key was revoked")
		s.call(t, raw, "DELETE /api/v1/keys/"+id, "").Want(204)
		s.call(t, raw, "GET /api/v1/keys?page=2&per_page=1", "").WantJSON(200,
			fmt.Sprintf(`{"keys":[%s],"pagination":{"page":2,"per_page":1,"total":2}}`, keyJSON(first)))
		s.call(t, raw, "GET /api/v1/keys?page=9", "").WantJSON(200, `{"keys":[],"pagination":{"page":9,"per_page":20,"total":2}}`)
	})
}

func TestKeyRoutesRefuse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		admin, _, raw := s.member(t, "acme", access.AdminRole)
		_, strange, _ := s.member(t, "other", access.Owner)
		_, member := newKey(t, s.Auth, colleague(t, s.Auth, admin.OrgID, "bob@example.org", access.Member))
		_, narrow := newKey(t, s.Auth, admin, access.Admin)
		long := strings.Repeat("n", 101)
		for _, c := range []struct {
			name, key, route, body string
			status                 int
			field, message         string // no field if the status is not 400
		}{
			{"no key", "", "GET /api/v1/keys", "", 401, "", "Missing API key: send the header Authorization: Bearer <API_KEY>"},
			{"member lists", member, "GET /api/v1/keys", "", 403, "", "This needs the permission admin"},
			{"member creates", member, "POST /api/v1/keys", `{}`, 403, "", "This needs the permission admin"},
			{"member revokes", member, "DELETE /api/v1/keys/1", "", 403, "", "This needs the permission admin"},
			{"no name", raw, "POST /api/v1/keys", ``, 400, "name", "name is required"},
			{"empty name", raw, "POST /api/v1/keys", `{"name":""}`, 400, "name", "name: expected length >= 1"},
			{"long name", raw, "POST /api/v1/keys", `{"name":"` + long + `"}`, 400, "name", "name: expected length <= 100"},
			{"past", raw, "POST /api/v1/keys", `{"name":"CI","expires_at":"2020-01-01T00:00:00Z"}`, 400, "expires_at", "expires_at must lie in the future"},
			{"no time", raw, "POST /api/v1/keys", `{"name":"CI","expires_at":"soon"}`, 400, "expires_at", "expires_at: expected string to be RFC 3339 date-time"},
			{
				"unknown permission", raw, "POST /api/v1/keys", `{"name":"CI","permissions":["fly"]}`, 400, "permissions",
				`unknown permission "fly"; known are read write telemetry:write registry:push registry:install registry:rollback admin evidence:read registry:delete`,
			},
			{"beyond the role", raw, "POST /api/v1/keys", `{"name":"CI","permissions":["registry:delete"]}`, 400, "permissions", "the role admin does not have the permission registry:delete"},
			{"beyond the key", narrow, "POST /api/v1/keys", `{"name":"CI","permissions":["write"]}`, 403, "", "Your key does not have the permission write and cannot give it"},
			{"bad id", raw, "DELETE /api/v1/keys/1", "", 400, "id", "id: expected string to be RFC 4122 uuid: invalid UUID length: 1"},
			{"unknown id", raw, "DELETE /api/v1/keys/0197a3b2-0000-7000-8000-000000000000", "", 404, "", "Key not found"},
			{"key of another organisation", raw, "DELETE /api/v1/keys/" + strange.ID, "", 404, "", "Key not found"},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := s.call(t, c.key, c.route, c.body)
				if c.status == http.StatusBadRequest {
					r.WantIssues(c.field, c.message)
					return
				}
				r.WantError(c.status, c.message)
			})
		}
	})
}

// TestRevokeRoute: a key of an owner is the owners' matter, the last one stays, and
// cascade takes along what a key made.
func TestRevokeRoute(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		owner, last, raw := s.member(t, "acme", access.Owner)
		stolen, thief := newKey(t, s.Auth, owner)
		_, admin := newKey(t, s.Auth, colleague(t, s.Auth, owner.OrgID, "bob@example.org", access.AdminRole))
		door := apptest.Text(s.call(t, thief, "POST /api/v1/keys", `{"name":"back door"}`).Want(201).Object(), "api_key")
		s.call(t, admin, "DELETE /api/v1/keys/"+stolen.ID, "").
			WantError(403, "The key CI is held by ada@example.org, who is owner; only an owner can revoke it")
		s.call(t, raw, "DELETE /api/v1/keys/"+stolen.ID+"?cascade=perhaps", "").WantIssues("cascade", "cascade: invalid boolean")
		s.call(t, raw, "DELETE /api/v1/keys/"+stolen.ID, "").Want(204)
		s.call(t, door, "GET /api/v1/me", "").Want(200) // it lives on
		s.call(t, raw, "DELETE /api/v1/keys/"+stolen.ID+"?cascade=true", "").Want(204)
		s.call(t, door, "GET /api/v1/me", "").WantError(401, "This API key was revoked")
		s.call(t, raw, "DELETE /api/v1/keys/"+last.ID, "").WantError(409,
			"No owner would have a key left to manage the organisation with; make another one first, or run `whetstone key revoke` on the server")
	})
}

// startHTTP starts a login as a client does.
func (s site) startHTTP(t *testing.T) (deviceCode, userCode string) {
	t.Helper()
	r := s.call(t, "", "POST /api/v1/device-code", `{"client_id":"cli","scope":"push read"}`)
	login := r.Want(200).Object()
	deviceCode, userCode = apptest.Text(login, "device_code"), apptest.Text(login, "user_code")
	r.WantJSON(200, fmt.Sprintf(`{"device_code":%q,"user_code":%q,"verification_url":"https://whetstone.example.org/device",
		"expires_in":900,"interval":5}`, deviceCode, userCode))
	return deviceCode, userCode
}

func TestDeviceRoutes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		u := person(t, s.Auth, "acme", access.Member)
		polls := []func(string) (string, string){
			func(code string) (string, string) {
				return "POST /api/v1/device-code/poll", fmt.Sprintf(`{"device_code":%q,"client_id":"cli"}`, code)
			},
			func(code string) (string, string) { return "GET /api/v1/device-code/poll?device_code=" + code, "" },
		}
		for _, poll := range polls {
			device, user := s.startHTTP(t)
			route, body := poll(device)
			s.call(t, "", route, body).WantJSON(200, `{"status":"pending"}`)
			decide(t, s.Auth, user, u, true)
			r := s.call(t, "", route, body)
			key := apptest.Text(r.Object(), "api_key")
			r.WantJSON(200, fmt.Sprintf(`{"status":"approved","api_key":%q,"cloud_user_id":%q,"org_id":%q}`, key, u.ID, u.OrgID))
			authenticated(t, s.Auth, key)
			s.call(t, "", route, body).WantJSON(200, `{"status":"expired"}`)

			device, user = s.startHTTP(t)
			decide(t, s.Auth, user, u, false)
			route, body = poll(device)
			s.call(t, "", route, body).WantJSON(200, `{"status":"denied"}`)
			route, body = poll("nobody-knows-it")
			s.call(t, "", route, body).WantJSON(200, `{"status":"expired"}`)
		}
	})
}

func TestDeviceRoutesRefuse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		for _, c := range []struct{ route, body, field, message string }{
			{"POST /api/v1/device-code", ``, "client_id", "client_id is required"},
			{"POST /api/v1/device-code", `{"client_id":""}`, "client_id", "client_id: expected length >= 1"},
			{
				"POST /api/v1/device-code", `{"client_id":"cli","device_id":"` + strings.Repeat("d", 201) + `"}`,
				"device_id", "device_id: expected length <= 200",
			},
			{"POST /api/v1/device-code/poll", `{}`, "device_code", "device_code is required"},
			{"GET /api/v1/device-code/poll", ``, "device_code", "device_code is required"},
		} {
			t.Run(c.route+" "+c.body, func(t *testing.T) {
				s.call(t, "", c.route, c.body).WantIssues(c.field, c.message)
			})
		}
	})
}

// TestDeviceRoutesAreLimited keeps strangers from filling the table.
func TestDeviceRoutesAreLimited(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		for range 130 { // the limit of two minutes and more, if one ends meanwhile
			if r := s.call(t, "", "POST /api/v1/device-code", `{"client_id":"cli"}`); r.Status == http.StatusTooManyRequests {
				return
			}
		}
		t.Error("nothing stops a stranger")
	})
}

// TestTextNoDatabaseKeeps must not end in a 500 on either of them.
func TestTextNoDatabaseKeeps(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		_, _, raw := s.member(t, "acme", access.Owner)
		made := s.call(t, raw, "POST /api/v1/keys", "{\"name\":\"a\\u0000b\xffc\\ud800\"}").Want(201).Object()
		if got := apptest.Text(made, "key", "name"); got != "a\ufffdb\ufffdc\ufffd" {
			t.Errorf("the name is %q", got)
		}
		s.call(t, "", "GET /api/v1/device-code/poll?device_code=%00", "").WantIssues("device_code", "device_code: not valid text")
	})
}
