package auth_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// site is the service's routes behind a real HTTP server.
type site struct {
	*auth.Service
	url string
}

func newSite(t *testing.T, db *store.DB) site {
	t.Helper()
	s := newService(db)
	api := httpapi.New(httpapi.Options{DB: db, Auth: s, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	s.Mount(api)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return site{s, server.URL}
}

// member makes an organisation with one user and a key of theirs.
func (s site) member(t *testing.T, org string, role access.Role) (auth.User, auth.Key, string) {
	t.Helper()
	u := person(t, s.Service, org, role)
	k, raw := newKey(t, s.Service, u)
	return u, k, raw
}

// call sends a request and returns the answer's JSON, nil if there is none.
func (s site) call(t *testing.T, key, route, body string) (status int, answer any) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 0 {
		answer = parse(t, string(raw))
	}
	return res.StatusCode, answer
}

// want calls and compares the whole answer; an empty one stands for no body.
func (s site) want(t *testing.T, key, route, body string, status int, want string) {
	t.Helper()
	gotStatus, got := s.call(t, key, route, body)
	var wanted any
	if want != "" {
		wanted = parse(t, want)
	}
	if diff := cmp.Diff(wanted, got); gotStatus != status || diff != "" {
		t.Errorf("%s: status %d, want %d; body (-want +got):\n%s", route, gotStatus, status, diff)
	}
}

func parse(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

// field returns a text inside an answer, and takes it out to compare the rest.
func field(t *testing.T, answer any, path ...string) string {
	t.Helper()
	for _, name := range path[:len(path)-1] {
		answer = answer.(map[string]any)[name]
	}
	object, last := answer.(map[string]any), path[len(path)-1]
	text, ok := object[last].(string)
	if !ok {
		t.Fatalf("no text %v in %v", path, object)
	}
	object[last] = ""
	return text
}

// keyJSON is a key in an answer.
func keyJSON(k auth.Key) string {
	permissions, _ := json.Marshal(k.Permissions)
	return fmt.Sprintf(`{"id":%q,"user_id":%q,"name":%q,"prefix":%q,"permissions":%s,"created_at":%q,"last_used_at":null,"expires_at":null,"revoked_at":null,
		"created_by_key":null,"login":false}`,
		k.ID, k.UserID, k.Name, k.Prefix, permissions, k.CreatedAt.Format("2006-01-02T15:04:05.000Z"))
}

func errorJSON(status int, message string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"status":%d}}`, message, status)
}

func issueJSON(path, message string) string {
	issue := fmt.Sprintf(`{"path":[%q],"message":%q}`, path, message)
	return fmt.Sprintf(`{"error":"Validation failed","details":%s,"issues":[%s]}`, issue, issue)
}

func TestMe(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		u, k, raw := s.member(t, "acme", access.Member)
		s.want(t, raw, "GET /api/v1/me", "", 200, fmt.Sprintf(`{
			"user":{"id":%q,"email":"ada@example.org","name":"ada"},"organisation":{"id":%q,"name":"acme"},
			"plan":"team","role":"member","permissions":["read","write","telemetry:write","registry:push","registry:install"],"key":%s}`,
			u.ID, u.OrgID, keyJSON(k)))
		narrow, raw := newKey(t, s.Service, u, access.Read)
		_, me := s.call(t, raw, "GET /api/v1/me", "")
		if diff := cmp.Diff([]any{"read"}, me.(map[string]any)["permissions"]); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(parse(t, keyJSON(narrow)), me.(map[string]any)["key"]); diff != "" {
			t.Error(diff)
		}
		if err := s.RevokeKey(t.Context(), u.OrgID, narrow.ID); err != nil {
			t.Fatal(err)
		}
		s.want(t, raw, "GET /api/v1/me", "", 401, errorJSON(401, "This API key was revoked"))
	})
}

func TestKeyRoutes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		u, first, raw := s.member(t, "acme", access.AdminRole)
		s.member(t, "other", access.Owner)
		s.want(t, raw, "GET /api/v1/keys", "", 200, fmt.Sprintf(`{"keys":[%s],"pagination":{"page":1,"per_page":20,"total":1}}`, keyJSON(first)))

		status, made := s.call(t, raw, "POST /api/v1/keys", `{"name":"CI","permissions":["read","registry:push"],"expires_at":"2999-01-02T03:04:05+01:00"}`)
		if status != http.StatusCreated {
			t.Fatalf("status %d: %v", status, made)
		}
		second := field(t, made, "api_key")
		id, prefix := field(t, made, "key", "id"), field(t, made, "key", "prefix")
		if _, err := time.Parse(time.RFC3339, field(t, made, "key", "created_at")); err != nil {
			t.Error(err)
		}
		rest := fmt.Sprintf(`{"api_key":"","key":{"id":"","user_id":%q,"name":"CI","prefix":"","permissions":["read","registry:push"],"created_at":"",
			"last_used_at":null,"expires_at":"2999-01-02T02:04:05.000Z","revoked_at":null,"created_by_key":%q,"login":false}}`, u.ID, first.ID)
		if diff := cmp.Diff(parse(t, rest), made); diff != "" {
			t.Error(diff)
		}
		if !goodKey.MatchString(second) || !strings.HasPrefix(second, prefix) {
			t.Errorf("the key is %q, its prefix %q", second, prefix)
		}

		s.want(t, second, "GET /api/v1/keys", "", 403, errorJSON(403, "This needs the permission admin"))
		s.want(t, raw, "DELETE /api/v1/keys/"+id, "", 204, "")
		s.want(t, second, "GET /api/v1/me", "", 401, errorJSON(401, "This API key was revoked"))
		s.want(t, raw, "DELETE /api/v1/keys/"+id, "", 204, "")
		_, page := s.call(t, raw, "GET /api/v1/keys?page=2&per_page=1", "")
		want := fmt.Sprintf(`{"keys":[%s],"pagination":{"page":2,"per_page":1,"total":2}}`, keyJSON(first))
		if diff := cmp.Diff(parse(t, want), page); diff != "" {
			t.Error(diff)
		}
		s.want(t, raw, "GET /api/v1/keys?page=9", "", 200, `{"keys":[],"pagination":{"page":9,"per_page":20,"total":2}}`)
	})
}

func TestKeyRoutesRefuse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		admin, _, raw := s.member(t, "acme", access.AdminRole)
		_, strange, _ := s.member(t, "other", access.Owner)
		_, member := newKey(t, s.Service, colleague(t, s.Service, admin.OrgID, "bob@example.org", access.Member))
		_, narrow := newKey(t, s.Service, admin, access.Admin)
		long := strings.Repeat("n", 101)
		for _, c := range []struct {
			name, key, route, body string
			status                 int
			want                   string
		}{
			{"no key", "", "GET /api/v1/keys", "", 401, errorJSON(401, "Missing API key: send the header Authorization: Bearer <API_KEY>")},
			{"member lists", member, "GET /api/v1/keys", "", 403, errorJSON(403, "This needs the permission admin")},
			{"member creates", member, "POST /api/v1/keys", `{}`, 403, errorJSON(403, "This needs the permission admin")},
			{"member revokes", member, "DELETE /api/v1/keys/1", "", 403, errorJSON(403, "This needs the permission admin")},
			{"no name", raw, "POST /api/v1/keys", ``, 400, issueJSON("name", "name is required")},
			{"empty name", raw, "POST /api/v1/keys", `{"name":""}`, 400, issueJSON("name", "name: expected length >= 1")},
			{"long name", raw, "POST /api/v1/keys", `{"name":"` + long + `"}`, 400, issueJSON("name", "name: expected length <= 100")},
			{"past", raw, "POST /api/v1/keys", `{"name":"CI","expires_at":"2020-01-01T00:00:00Z"}`, 400, issueJSON("expires_at", "expires_at must lie in the future")},
			{"no time", raw, "POST /api/v1/keys", `{"name":"CI","expires_at":"soon"}`, 400, issueJSON("expires_at", "expires_at: expected string to be RFC 3339 date-time")},
			{"unknown permission", raw, "POST /api/v1/keys", `{"name":"CI","permissions":["fly"]}`, 400, issueJSON("permissions",
				`unknown permission "fly"; known are read write telemetry:write registry:push registry:install registry:rollback admin registry:delete`)},
			{"beyond the role", raw, "POST /api/v1/keys", `{"name":"CI","permissions":["registry:delete"]}`, 400, issueJSON("permissions", "the role admin does not have the permission registry:delete")},
			{"beyond the key", narrow, "POST /api/v1/keys", `{"name":"CI","permissions":["write"]}`, 403, errorJSON(403, "Your key does not have the permission write and cannot give it")},
			{"bad id", raw, "DELETE /api/v1/keys/1", "", 400, issueJSON("id", "id: expected string to be RFC 4122 uuid: invalid UUID length: 1")},
			{"unknown id", raw, "DELETE /api/v1/keys/0197a3b2-0000-7000-8000-000000000000", "", 404, errorJSON(404, "Key not found")},
			{"key of another organisation", raw, "DELETE /api/v1/keys/" + strange.ID, "", 404, errorJSON(404, "Key not found")},
		} {
			t.Run(c.name, func(t *testing.T) {
				s.want(t, c.key, c.route, c.body, c.status, c.want)
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
		stolen, thief := newKey(t, s.Service, owner)
		_, admin := newKey(t, s.Service, colleague(t, s.Service, owner.OrgID, "bob@example.org", access.AdminRole))
		_, made := s.call(t, thief, "POST /api/v1/keys", `{"name":"back door"}`)
		s.want(t, admin, "DELETE /api/v1/keys/"+stolen.ID, "", 403,
			errorJSON(403, "The key CI is held by ada@example.org, who is owner; only an owner can revoke it"))
		s.want(t, raw, "DELETE /api/v1/keys/"+stolen.ID+"?cascade=perhaps", "", 400, issueJSON("cascade", "cascade: invalid boolean"))
		s.want(t, raw, "DELETE /api/v1/keys/"+stolen.ID, "", 204, "")
		door := field(t, made, "api_key")
		if status, _ := s.call(t, door, "GET /api/v1/me", ""); status != http.StatusOK {
			t.Errorf("a key that was made is answered with %d", status)
		}
		s.want(t, raw, "DELETE /api/v1/keys/"+stolen.ID+"?cascade=true", "", 204, "")
		s.want(t, door, "GET /api/v1/me", "", 401, errorJSON(401, "This API key was revoked"))
		s.want(t, raw, "DELETE /api/v1/keys/"+last.ID, "", 409, errorJSON(409,
			"No owner would have a key left to manage the organisation with; make another one first, or run `whetstone key revoke` on the server"))
	})
}

// startHTTP starts a login as a client does.
func (s site) startHTTP(t *testing.T) (deviceCode, userCode string) {
	t.Helper()
	status, login := s.call(t, "", "POST /api/v1/device-code", `{"client_id":"cli","scope":"push read"}`)
	if status != http.StatusOK {
		t.Fatalf("status %d: %v", status, login)
	}
	deviceCode, userCode = field(t, login, "device_code"), field(t, login, "user_code")
	rest := `{"device_code":"","user_code":"","verification_url":"https://whetstone.example.org/device","expires_in":900,"interval":5}`
	if diff := cmp.Diff(parse(t, rest), login); diff != "" {
		t.Error(diff)
	}
	return deviceCode, userCode
}

func TestDeviceRoutes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		u := person(t, s.Service, "acme", access.Member)
		polls := []func(string) (string, string){
			func(code string) (string, string) {
				return "POST /api/v1/device-code/poll", fmt.Sprintf(`{"device_code":%q,"client_id":"cli"}`, code)
			},
			func(code string) (string, string) { return "GET /api/v1/device-code/poll?device_code=" + code, "" },
		}
		for _, poll := range polls {
			device, user := s.startHTTP(t)
			route, body := poll(device)
			s.want(t, "", route, body, 200, `{"status":"pending"}`)
			decide(t, s.Service, user, u, true)
			status, answer := s.call(t, "", route, body)
			key := field(t, answer, "api_key")
			rest := fmt.Sprintf(`{"status":"approved","api_key":"","cloud_user_id":%q,"org_id":%q}`, u.ID, u.OrgID)
			if diff := cmp.Diff(parse(t, rest), answer); status != 200 || diff != "" {
				t.Errorf("status %d: %s", status, diff)
			}
			authenticated(t, s.Service, key)
			s.want(t, "", route, body, 200, `{"status":"expired"}`)

			device, user = s.startHTTP(t)
			decide(t, s.Service, user, u, false)
			route, body = poll(device)
			s.want(t, "", route, body, 200, `{"status":"denied"}`)
			route, body = poll("nobody-knows-it")
			s.want(t, "", route, body, 200, `{"status":"expired"}`)
		}
	})
}

func TestDeviceRoutesRefuse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		for _, c := range []struct{ route, body, want string }{
			{"POST /api/v1/device-code", ``, issueJSON("client_id", "client_id is required")},
			{"POST /api/v1/device-code", `{"client_id":""}`, issueJSON("client_id", "client_id: expected length >= 1")},
			{"POST /api/v1/device-code/poll", `{}`, issueJSON("device_code", "device_code is required")},
			{"GET /api/v1/device-code/poll", ``, issueJSON("device_code", "device_code is required")},
		} {
			t.Run(c.route+" "+c.body, func(t *testing.T) {
				s.want(t, "", c.route, c.body, 400, c.want)
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
			if status, _ := s.call(t, "", "POST /api/v1/device-code", `{"client_id":"cli"}`); status == http.StatusTooManyRequests {
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
		status, made := s.call(t, raw, "POST /api/v1/keys", "{\"name\":\"a\\u0000b\xffc\\ud800\"}")
		if got := made.(map[string]any)["key"]; status != 201 || got.(map[string]any)["name"] != "a\ufffdb\ufffdc\ufffd" {
			t.Errorf("status %d: %v", status, made)
		}
		s.want(t, "", "GET /api/v1/device-code/poll?device_code=%00", "", 400, issueJSON("device_code", "device_code: not valid text"))
	})
}
