package clawhub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestLogin approves and denies logins.
func TestLogin(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		start := func() (device, user string) {
			t.Helper()
			a := w.Anonymous().Post("/api/cli/device/code", object{"scope": "read write", "site_url": "https://clawhub.ai", "label": "CLI\ndevice"}).
				Want(http.StatusOK).Object()
			apptest.WantKeys(t, a, "device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval")
			if uri := apptest.Text(a, "verification_uri"); uri != w.Server.URL+"/device" {
				t.Errorf("verification_uri %s", uri)
			}
			return apptest.Text(a, "device_code"), apptest.Text(a, "user_code")
		}
		poll := func(device string) apptest.Response {
			t.Helper()
			return w.Anonymous().Post("/api/cli/device/token", object{
				"device_code": device, "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
			})
		}
		device, user := start()
		request, err := w.Auth.PendingDevice(t.Context(), user)
		if err != nil || request.ClientID != "clawhub (CLI device)" {
			t.Errorf("%q, %v", request.ClientID, err)
		}
		poll(device).WantJSON(http.StatusBadRequest, `{"error":"authorization_pending"}`)
		caller, err := w.Auth.Authenticate(t.Context(), ada.Key)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Auth.AnswerDevice(t.Context(), caller, user, true); err != nil {
			t.Fatal(err)
		}
		a := poll(device).Want(http.StatusOK).Object()
		apptest.WantKeys(t, a, "access_token", "token_type", "scope")
		logged := &registrytest.Client{Caller: &apptest.Caller{T: t, World: w.World, Key: apptest.Text(a, "access_token")}}
		published(logged, "", nil, folder("One.")...).Want(http.StatusOK)
		poll(device).WantJSON(http.StatusBadRequest, `{"error":"expired_token"}`)

		device, user = start()
		if err := w.Auth.AnswerDevice(t.Context(), caller, user, false); err != nil {
			t.Fatal(err)
		}
		poll(device).WantJSON(http.StatusBadRequest, `{"error":"access_denied"}`)
		poll("").WantJSON(http.StatusBadRequest, `{"error":"expired_token"}`)
		w.Anonymous().Do(http.MethodPost, "/api/cli/device/code", strings.Repeat(" ", 20<<10)).Want(http.StatusRequestEntityTooLarge)
		w.Anonymous().Do(http.MethodPost, "/api/cli/device/token", "{").Want(http.StatusBadRequest)
	})
}

// TestTelemetry records installations, and follows updates.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		id := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "One."))
		report := func(c *registrytest.Client, body object) apptest.Response {
			t.Helper()
			return c.Post("/api/cli/telemetry/install", apptest.With(object{"event": "install", "slug": "pdf", "version": "1.0.0"}, body))
		}
		installed := func() (version, client string) {
			t.Helper()
			list := ada.Get("/api/v1/registry/installed").Want(http.StatusOK).List("installations")
			if len(list) != 1 {
				t.Fatalf("installations %v", list)
			}
			return apptest.Text(list[0], "version"), apptest.Text(list[0], "client")
		}
		ada.Get("/api/v1/download?slug=pdf").Want(http.StatusOK) // one that disabled the report has no record
		if n := w.Count("registry_installations"); n != 0 {
			t.Errorf("%d records of a download", n)
		}
		for range 2 {
			report(ada, object{"ownerHandle": "acme"}).WantJSON(http.StatusOK, `{"ok":true}`)
		}
		if version, client := installed(); version != "1.0.0" || client != "clawhub" {
			t.Errorf("%s by %s", version, client)
		}
		ada.Pushed(id, "1.1.0", registrytest.Skill(t, "Two."))
		ada.Get("/api/v1/download?slug=pdf&version=1.1.0").Want(http.StatusOK)
		apptest.Eventually(t, "the update is recorded", func() bool { version, _ := installed(); return version == "1.1.0" })

		wantText(report(bob, nil), http.StatusNotFound, "Skill not found")
		wantText(report(ada, object{"version": "7.0.0"}), http.StatusNotFound, "Version not found")
		report(ada, object{"slug": "a\x00b"}).Want(http.StatusBadRequest)
		report(ada, object{"event": "plugin_install"}).Want(http.StatusOK)
		report(w.Anonymous(), nil).Want(http.StatusUnauthorized)
		report(w.Member(ada.Org, access.Viewer), nil).Want(http.StatusForbidden)
		if n := w.Count("registry_installations"); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

// TestBackfill gives versions from before there were hashes theirs.
func TestBackfill(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		ada := w.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 25) // more than one chunk
		ada.Made("agent", "1", registrytest.Pack(t, registrytest.File("x", "x")), object{"entry_type": "agent"})
		lost := ada.Made("lost", "1", registrytest.Skill(t, "Lost."))
		want := fingerprints(w, id)
		w.Exec(`DELETE FROM registry_tree_hashes`)
		w.Exec(`INSERT INTO registry_tree_backfill (after_id) VALUES ('')`)
		w.Exec(`UPDATE registry_versions SET archive_key = 'registry/00/missing' WHERE entry_id = $1`, lost)
		for range 2 {
			w.RunNow("clawhub.backfill")
			got := fingerprints(w, id)
			if len(want) != 25 || len(got) != 25 || got["7"] != want["7"] {
				t.Errorf("%d hashes, want %d", len(got), len(want))
			}
		}
		if n := w.Count("registry_tree_backfill"); n != 0 {
			t.Error("the backfill is not done")
		}
	})
}
