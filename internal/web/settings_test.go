package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

var rawKey = regexp.MustCompile(`st_live_\w{43}`)

func TestSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite", "--retention-prompts", "14d", "--metrics-window", "7d")
	viewer := w.as(access.Viewer)
	viewer.get("/settings/plan").want(http.StatusOK).
		wantText("team current", "14 days", "7 days", "every 1 minute", `org set-plan "default"`)
	// The first page leads to all others that one may see, under the headings of the list.
	for b, want := range map[*browser][]string{
		viewer:             {"/settings/connect", "/settings/members", "/settings/teams", "/settings/grader", "/settings/privacy", "/settings/plan"},
		w.as(access.Owner): {"/settings/keys", "/settings/webhooks", "/settings/audit", "/settings/catalog"},
	} {
		page := b.get("/settings").want(http.StatusOK).wantText("People and access", "Connect agents")
		checkPage(t, page)
		for _, path := range want {
			found := 0
			for _, a := range page.all("a") {
				if attr(a, "href") == path {
					found++
				}
			}
			if found < 2 {
				t.Errorf("/settings leads to %s %d times, want the list and the page", path, found)
			}
		}
	}
	viewer.get("/settings").wantNoText("API keys", "Audit log")
}

// TestSearch: the search finds pages, actions and things by name, for those who may see
// them.
func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer := w.as(access.Owner), w.as(access.Viewer)
	b.sessions("pdf-tables", now(), 1, 0)
	checkPage(t, b.get("/search").want(http.StatusOK))
	checkPage(t, b.get("/search?q=zzz").want(http.StatusOK).wantText("Nothing found"))
	hits := func(b *browser, q string) string {
		t.Helper()
		page := b.get("/search?q=" + url.QueryEscape(q)).want(http.StatusOK)
		checkPage(t, page)
		return strings.Join(page.texts("li"), ", ")
	}
	for q, want := range map[string]string{
		"pdf": "pdf-tables skill", "pdf-tables": "Failed sessions of pdf-tables", "invite": "Invite a member action",
		"connect a": "Connect agents page", "AUDIT": "Audit log page",
	} {
		if got := hits(b, q); !strings.Contains(got, want) {
			t.Errorf("the search for %q finds %s, want %s", q, got, want)
		}
	}
	if got := hits(viewer, "invite"); strings.Contains(got, "Invite") {
		t.Errorf("a viewer may invite: %s", got)
	}
	for _, a := range b.get("/").all("a.find") {
		if attr(a, "href") == "/search" {
			return
		}
	}
	t.Error("Home has no way to the search")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, stranger := w.as(access.AdminRole), w.as(access.AdminRole)
		made := admin.post("/settings/keys", url.Values{"name": {"CI"}, "holder": {"member"}, "permission": {"read", "write"}, "days": {"30"}}).
			want(http.StatusOK).wantText("It is not shown again.", "read, write")
		raw := rawKey.FindString(made.body)
		c, err := w.Auth.Authenticate(t.Context(), raw)
		if err != nil || c.Email != "member@localhost" ||
			!slices.Equal(c.Permissions, []access.Permission{"read", "write", "telemetry:write"}) {
			t.Errorf("the key is of %+v, %v", c, err)
		}
		if strings.Contains(admin.get("/settings/keys").body, raw) {
			t.Error("the key is shown again")
		}
		k, err := w.Auth.Key(t.Context(), w.org.ID, c.KeyID)
		if err != nil || k.ExpiresAt == nil {
			t.Errorf("the key expires %v, %v", k.ExpiresAt, err)
		}
		own := admin.post("/settings/keys", url.Values{"name": {"mine"}, "preset": {"all"}}).want(http.StatusOK)
		if c, err := w.Auth.Authenticate(t.Context(), rawKey.FindString(own.body)); err != nil ||
			len(c.Permissions) != len(access.AdminRole.Permissions()) {
			t.Errorf("my key is of %+v, %v", c, err)
		}
		for problem, form := range map[string]url.Values{
			"Name must have 1 to 100 characters":           {"name": {" "}, "preset": {"all"}},
			"Days must be a whole number from 1 to 3650":   {"name": {"x"}, "days": {"0"}},
			"the role viewer does not have the permission": {"name": {"x"}, "holder": {"viewer"}, "permission": {"write"}},
			"Role must be viewer, member, admin or owner":  {"name": {"x"}, "holder": {"king"}, "preset": {"all"}},
			"Choose what the key may do":                   {"name": {"x"}, "preset": {"custom"}},
			`unknown permission "fly"`:                     {"name": {"x"}, "permission": {"fly"}},
		} {
			admin.post("/settings/keys", form).want(http.StatusBadRequest).wantText(problem)
		}
		admin.post("/settings/keys", url.Values{"name": {"x"}, "holder": {"owner"}, "preset": {"all"}}).want(http.StatusForbidden).
			wantText("You do not have the permission registry:delete and cannot give it")

		admin.post("/settings/keys/"+admin.api.KeyID+"/revoke", nil).want(http.StatusConflict).
			wantText("You are signed in with this key")
		admin.post("/settings/keys/"+stranger.api.KeyID+"/revoke", nil).wantLocation("/settings/keys")
		stranger.get("/account").wantLocation("/login?next=%2Faccount")
		admin.post("/settings/keys/none/revoke", nil).want(http.StatusNotFound)
	})
}

// TestRevokeOnPage: the page offers what the caller may do, and says what comes of
// it.
func TestRevokeOnPage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		owner, admin := w.as(access.Owner), w.as(access.AdminRole)
		made := rawKey.FindString(admin.post("/settings/keys", url.Values{"name": {"made"}, "preset": {"all"}}).body)
		revoke := func(b *browser, keyID string) []string {
			t.Helper()
			var texts []string
			for _, form := range b.get("/settings/keys").all("form") {
				if attr(form, "action") == "/settings/keys/"+keyID+"/revoke" {
					texts = append(texts, strings.Join(strings.Fields(textOf(form)), " "))
				}
			}
			return texts
		}
		if got := revoke(admin, owner.api.KeyID); len(got) > 0 {
			t.Errorf("an admin is offered to revoke an owner's key: %q", got)
		}
		admin.post("/settings/keys/"+owner.api.KeyID+"/revoke", nil).want(http.StatusForbidden).wantText("only an owner can revoke it")
		if got := revoke(owner, admin.api.KeyID); len(got) != 1 || !strings.HasPrefix(got[0], "with 1 key created with it Revoke") {
			t.Errorf("the owner is offered %q", got)
		}
		owner.post("/settings/keys/"+admin.api.KeyID+"/revoke", nil).wantLocation("/settings/keys")
		if _, err := w.Auth.Authenticate(t.Context(), made); err != nil {
			t.Errorf("the key that was made is revoked, too: %v", err)
		}
		if got := revoke(owner, admin.api.KeyID); len(got) != 1 || !strings.HasPrefix(got[0], "Revoke 1 key created with it") {
			t.Errorf("the owner is offered %q", got)
		}
		owner.post("/settings/keys/"+admin.api.KeyID+"/revoke", url.Values{"cascade": {"true"}}).wantLocation("/settings/keys")
		if _, err := (&auth.Service{DB: w.DB}).Authenticate(t.Context(), made); err == nil {
			t.Error("the key that was made is still good")
		}
	})
}

// TestExpiringKeyOnPages: what is made while signed in with an expiring key
// expires with it, and the pages say so.
func TestExpiringKeyOnPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	owner := w.as(access.Owner)
	brief := rawKey.FindString(owner.post("/settings/keys", url.Values{"name": {"brief"}, "preset": {"all"}, "days": {"2"}}).body)
	b := w.browser()
	b.post("/login", url.Values{"api_key": {brief}}).wantLocation("/")
	b.get("/settings/keys").wantText("It cannot last longer.")
	owner.get("/settings/keys").wantText("a key that does not expire")
	b.post("/settings/keys", url.Values{"name": {"longer"}, "preset": {"all"}, "days": {"3"}}).want(http.StatusBadRequest).
		wantText("when the key you use expires")
	d, err := w.Auth.StartDevice(t.Context(), "cli", "")
	if err != nil {
		t.Fatal(err)
	}
	b.get("/device?code=" + d.UserCode).wantText("at the latest")
	for path, form := range map[string]url.Values{
		"/settings/keys":    {"name": {"same"}, "preset": {"all"}},
		"/settings/connect": {"for": {"agents"}},
	} {
		page := b.post(path, form).want(http.StatusOK)
		if path != "/settings/keys" {
			page.wantText("It expires")
		}
		c, err := w.Auth.Authenticate(t.Context(), rawKey.FindString(page.body))
		if err != nil {
			t.Fatal(err)
		}
		if k, err := w.Auth.Key(t.Context(), w.org.ID, c.KeyID); err != nil || k.ExpiresAt == nil {
			t.Errorf("%s: the key expires %v, %v", path, k.ExpiresAt, err)
		}
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	viewer := w.as(access.Viewer)
	viewer.get("/settings/connect").want(http.StatusOK).
		wantText(`OTEL_EXPORTER_OTLP_ENDPOINT="`+w.URL+`"`, "[otel]", "COPILOT_OTEL_ENABLED=true", "GEMINI_TELEMETRY_ENABLED=true",
			`"openTelemetry": true`, "whetstone hook install claude-code --server "+w.URL, "whetstone hook install codex",
			"whetstone import ~/.codex/sessions", "npx skills add "+w.URL+"/o/default", "Bearer st_live_...", "owner to create one",
			"sends to its vendor").
		wantNoText("Create and fill in")
	viewer.post("/settings/connect", url.Values{"for": {"agents"}}).want(http.StatusForbidden)
	admin := w.as(access.AdminRole)
	page := admin.post("/settings/connect", url.Values{"for": {"agents"}}).want(http.StatusOK).wantText("The new key is filled in below.")
	raw := rawKey.FindString(page.body)
	page.wantText("Authorization=Bearer " + raw)
	caller, err := w.Auth.Authenticate(t.Context(), raw)
	if err != nil || !slices.Equal(caller.Permissions, []access.Permission{access.TelemetryWrite}) {
		t.Errorf("the key is of %+v, %v", caller, err)
	}
	page = admin.post("/settings/connect", url.Values{"for": {"installers"}}).want(http.StatusOK).
		wantText("The new catalog token is filled in below.")
	token := rawToken.FindString(page.body)
	page.wantText("DISABLE_TELEMETRY=1 npx skills add " + w.URL + "/o/default/" + token)
	w.wantToken(token, true)
	narrowed := w.as(access.Owner, access.Admin, access.Read)
	narrowed.post("/settings/connect", url.Values{"for": {"agents"}}).want(http.StatusForbidden).
		wantText("Your key does not have the permission telemetry:write and cannot give it")
}

// TestMenuMarks: every page of the menu's parts marks its entry.
func TestMenuMarks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	for path, want := range map[string]string{
		"/": "Home", "/skills": "Skills", "/signals": "Proposals", "/signals/pdf": "Proposals", "/community": "Proposals",
		"/catalogue": "Skills", "/gates": "Gates", "/incidents": "Incidents", "/costs": "Costs", "/search": "",
		"/runs/none": "Suites", "/improve-runs/none": "Suites", "/settings/audit": "Settings", "/suites/new": "Suites",
		"/settings/keys": "Settings", "/settings": "Settings", "/alerts/new": "Alerts",
	} {
		var got []string
		for _, a := range b.get(path).all("a") {
			if attr(a, "aria-current") == "page" {
				got = append(got, strings.TrimSpace(textOf(a)))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s marks %q, want %s", path, got, want)
		}
	}
}

var rawToken = regexp.MustCompile(`ct_[0-9A-Za-z]{43}`)

// wantToken says whether a catalog token opens the catalog.
func (w *world) wantToken(token string, opens bool) {
	w.T.Helper()
	status := http.StatusNotFound
	if opens {
		status = http.StatusOK
	}
	w.browser().get("/o/default/" + token + "/.well-known/agent-skills/index.json").want(status)
}

func TestCatalogTokens(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin := w.as(access.AdminRole)
		w.as(access.Member).get("/settings/catalog").want(http.StatusForbidden)
		checkPage(t, admin.get("/settings/catalog").want(http.StatusOK).wantForms("/settings/catalog"))
		admin.post("/settings/catalog", url.Values{"name": {""}}).want(http.StatusBadRequest).wantText("Name must have 1 to 100 characters")
		admin.post("/settings/catalog", url.Values{"name": {"x"}, "days": {"0"}}).want(http.StatusBadRequest).wantText("Days must be a whole number")

		made := admin.post("/settings/catalog", url.Values{"name": {"laptops <b>"}, "days": {"90"}}).want(http.StatusOK).
			wantText("New catalog token laptops <b>", "It is not shown again.")
		checkPage(t, made)
		old := rawToken.FindString(made.body)
		w.wantToken(old, true)
		list := admin.get("/settings/catalog").wantText(old[:7]+"…", "active")
		if strings.Contains(list.body, old) {
			t.Error("the list shows the token")
		}

		// One click rotates it; the old one works on for a while.
		id := regexp.MustCompile(`/settings/catalog/([^/"]+)/rotate`).FindStringSubmatch(list.body)[1]
		rotated := admin.post("/settings/catalog/"+id+"/rotate", url.Values{"overlap": {"168"}}).want(http.StatusOK).
			wantText("New catalog token laptops <b>", "The token that it replaces, "+old[:7]+"…, works until", "replaced")
		fresh := rawToken.FindString(rotated.body)
		w.wantToken(fresh, true)
		w.wantToken(old, true)
		admin.post("/settings/catalog/"+id+"/rotate", url.Values{"overlap": {"168"}}).want(http.StatusConflict)
		admin.post("/settings/catalog/"+id+"/delete", nil).wantLocation("/settings/catalog")
		w.wantToken(old, false)
		w.wantToken(fresh, true)
	})
}
