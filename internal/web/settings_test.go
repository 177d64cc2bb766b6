package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/access"
)

var rawKey = regexp.MustCompile(`st_live_\w{43}`)

func TestSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite", "--retention-prompts", "14d", "--metrics-window", "7d")
	w.as(access.Viewer).get("/settings").want(http.StatusOK).wantText("team yours", "14 days", "7 days", "every 1 minute", `org set-plan "default"`)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, stranger := w.as(access.AdminRole), w.as(access.AdminRole)
		made := admin.post("/settings/keys", url.Values{"name": {"CI"}, "holder": {"member"}, "permission": {"read", "write"}, "days": {"30"}}).
			want(http.StatusOK).wantText("It is not shown again.", "read, write")
		raw := rawKey.FindString(made.body)
		c, err := w.auth.Authenticate(t.Context(), raw)
		if err != nil || c.Email != "member@localhost" || !slices.Equal(c.Permissions, []access.Permission{"read", "write"}) {
			t.Errorf("the key is of %+v, %v", c, err)
		}
		if strings.Contains(admin.get("/settings/keys").body, raw) {
			t.Error("the key is shown again")
		}
		k, err := w.auth.Key(t.Context(), w.org.ID, c.KeyID)
		if err != nil || k.ExpiresAt == nil {
			t.Errorf("the key expires %v, %v", k.ExpiresAt, err)
		}
		own := admin.post("/settings/keys", url.Values{"name": {"mine"}}).want(http.StatusOK)
		if c, err := w.auth.Authenticate(t.Context(), rawKey.FindString(own.body)); err != nil || len(c.Permissions) != len(access.AdminRole.Permissions()) {
			t.Errorf("my key is of %+v, %v", c, err)
		}
		for problem, form := range map[string]url.Values{
			"name must have 1 to 100 characters":           {"name": {" "}},
			"Days must be a whole number from 1 to 3650":   {"name": {"x"}, "days": {"0"}},
			"the role viewer does not have the permission": {"name": {"x"}, "holder": {"viewer"}, "permission": {"write"}},
			"role must be viewer, member, admin or owner":  {"name": {"x"}, "holder": {"king"}},
			`unknown permission "fly"`:                     {"name": {"x"}, "permission": {"fly"}},
		} {
			admin.post("/settings/keys", form).want(http.StatusBadRequest).wantText(problem)
		}
		admin.post("/settings/keys", url.Values{"name": {"x"}, "holder": {"owner"}}).want(http.StatusForbidden).
			wantText("You do not have the permission registry:delete and cannot give it")

		admin.post("/settings/keys/"+admin.keyID+"/revoke", nil).want(http.StatusConflict).wantText("You are signed in with this key")
		admin.post("/settings/keys/"+stranger.keyID+"/revoke", nil).wantLocation("/settings/keys")
		stranger.get("/account").wantLocation("/login?next=%2Faccount")
		admin.post("/settings/keys/none/revoke", nil).want(http.StatusNotFound)
	})
}

func TestMembers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, viewer := w.as(access.AdminRole), w.as(access.Viewer)
		viewer.get("/settings/members").want(http.StatusOK).wantText("owner@localhost", "Admins and owners add people").wantNoText("Add a person", "Save")
		added := admin.post("/settings/members", url.Values{"email": {"Grace@example.org"}, "name": {"Grace <b>"}, "role": {"member"}}).
			want(http.StatusOK).wantText("First key of grace@example.org", "It is not shown again.")
		grace, err := w.auth.Authenticate(t.Context(), rawKey.FindString(added.body))
		if err != nil || grace.Role != access.Member || grace.Name != "Grace <b>" {
			t.Errorf("grace is %+v, %v", grace, err)
		}
		admin.get("/settings/members").wantText("Grace <b>", "grace@example.org")
		admin.post("/settings/members", url.Values{"email": {"grace@example.org"}, "role": {"member"}}).want(http.StatusConflict).
			wantText("A user with the address grace@example.org exists")
		admin.post("/settings/members", url.Values{"email": {"eve@example.org"}, "role": {"owner"}}).want(http.StatusForbidden)
		viewer.post("/settings/members", url.Values{"email": {"eve@example.org"}, "role": {"viewer"}}).want(http.StatusForbidden)

		role := "/settings/members/" + grace.UserID + "/role"
		admin.post(role, url.Values{"role": {"viewer"}}).wantLocation("/settings/members")
		admin.get("/settings/members").wantText("Grace <b> is viewer now.")
		admin.post(role, url.Values{"role": {"owner"}}).want(http.StatusForbidden)
		viewer.post(role, url.Values{"role": {"admin"}}).want(http.StatusForbidden)
		owner, err := w.auth.UserByEmail(t.Context(), w.org.ID, "owner@localhost")
		if err != nil {
			t.Fatal(err)
		}
		w.as(access.Owner).post("/settings/members/"+owner.ID+"/role", url.Values{"role": {"viewer"}}).wantLocation("/settings/members")
	})
}

func TestConnect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	viewer := w.as(access.Viewer)
	viewer.get("/settings/connect").want(http.StatusOK).
		wantText(`OTEL_EXPORTER_OTLP_ENDPOINT="`+w.url+`"`, "[otel]", "COPILOT_OTEL_ENABLED=true", "npx skills add "+w.url+"/o/default", "Bearer st_live_...", "owner can make one").
		wantNoText("Fill in a new key")
	viewer.post("/settings/connect", url.Values{"for": {"agents"}}).want(http.StatusForbidden)
	admin := w.as(access.AdminRole)
	for purpose, c := range map[string]struct {
		may  access.Permission
		text string
	}{
		"agents":     {access.Write, "Authorization=Bearer "},
		"installers": {access.Read, "npx skills add " + w.url + "/o/default/"},
	} {
		page := admin.post("/settings/connect", url.Values{"for": {purpose}}).want(http.StatusOK).wantText("The new key is filled in below.")
		raw := rawKey.FindString(page.body)
		page.wantText(c.text + raw)
		caller, err := w.auth.Authenticate(t.Context(), raw)
		if err != nil || !slices.Equal(caller.Permissions, []access.Permission{c.may}) {
			t.Errorf("%s: the key is of %+v, %v", purpose, caller, err)
		}
	}
	narrowed := w.as(access.Owner, access.Admin, access.Read)
	narrowed.post("/settings/connect", url.Values{"for": {"agents"}}).want(http.StatusForbidden).
		wantText("Your key does not have the permission write and cannot give it")
}

// TestMenuMarks: every page of the menu's parts marks its entry.
func TestMenuMarks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	for path, want := range map[string]string{
		"/": "Home", "/skills": "Skills", "/signals": "Community", "/signals/pdf": "Community", "/community": "Community",
		"/runs/none": "Suites", "/improve-runs/none": "Suites", "/settings/audit": "Settings", "/suites/new": "Suites", "/settings/keys": "Settings", "/settings": "Settings", "/alerts/new": "Alerts",
	} {
		var got []string
		for _, a := range b.get(path).all("a") {
			if attr(a, "aria-current") == "page" {
				got = append(got, strings.TrimSpace(textOf(a)))
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s marks %q, want %s", path, got, want)
		}
	}
}
