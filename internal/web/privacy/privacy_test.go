package privacy_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/web/privacy"
)

type object = apptest.Object

const (
	organisation = "/api/v1/organization"
	export       = "/api/v1/organization/export"
)

type world struct {
	*apptest.World
	privacy *privacy.Service
}

func newWorld(t *testing.T, db *store.DB, o apptest.Options) world {
	t.Helper()
	w := world{World: apptest.NewWorld(t, db, o)}
	w.privacy = &privacy.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Auth: w.Auth, Log: w.Log, Settle: time.Microsecond}
	w.privacy.Register()
	w.privacy.Mount(w.API)
	auth.API{Service: w.Auth}.Mount(w.API)
	return w
}

// TestTables: of every table it is known whose its rows are, what is left out exists,
// and columns that look like secrets are left out or known.
func TestTables(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		tables, err := privacy.Describe(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		exists := map[string]bool{}
		err = db.Snapshot(t.Context(), func(tx *store.Tx) error {
			all, err := tx.Tables(t.Context())
			for _, found := range all {
				exists[found.Name] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		secret := regexp.MustCompile(`(?i)(secret|sealed|token|password|private|hash$|_key$)`)
		known := []string{ // what they identify is no secret
			"catalog_commits.hash", "repohost_connections.repo_key", "repohost_deliveries.repo_key", "repohost_installations.account_key",
			"repohost_claims.account_key", "signals.source_key", "telemetry_prompts.hash", "telemetry_pushes.blob_key",
			"eval_trial_recordings.blob_key", "registry_versions.archive_key", "registry_versions.canonical_key",
			"trusted_publishers.repository_key", "api_keys.created_by_key", "cost_requests.use_key", "cost_groups.session_key",
			"grade_failures.session_key", "registry_tree_hashes.hash", "cost_prices.table_hash", "skill_totals.by_hash", "alert_rules.old_secret_until",
			"event_webhooks.old_secret_until", "scim_users.user_name_key", "scim_groups.name_key",
		}
		pseudonym := regexp.MustCompile(`(content|canonical|session|turn|prompt|version|device|contributor|current)_hash$`)
		for _, table := range tables {
			if !exists[table.Name] {
				t.Errorf("%s is no table", table.Name)
			}
			if table.Export == "" && privacy.LeftOutTables()[table.Name] == "" {
				t.Errorf("%s: say in leftOut why it is not in archives", table.Name)
			}
			if table.Export == "" {
				continue
			}
			for _, column := range table.Columns {
				name := table.Name + "." + column
				if secret.MatchString(column) && !slices.Contains(table.Omitted, column) && !slices.Contains(known, name) && !pseudonym.MatchString(column) {
					t.Errorf("%s looks like a secret: add it to omitted in scope_sql.go, or to known in this test", name)
				}
			}
			for _, column := range table.Omitted {
				if !slices.Contains(table.Columns, column) {
					t.Errorf("%s.%s is left out and does not exist", table.Name, column)
				}
			}
		}
		for name := range privacy.LeftOutTables() {
			if !exists[name] {
				t.Errorf("%s is left out and does not exist", name)
			}
		}
	})
}

// TestExport makes an archive, downloads it and lets it expire.
func TestExport(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, apptest.Options{})
		ada, other := w.Org("acme"), w.Org("other")
		ada.Get(export).WantError(http.StatusNotFound, "Export not found")
		made := ada.Post(export, nil).Want(http.StatusAccepted)
		apptest.WantKeys(t, made.Object()["export"].(object), "id", "state", "rows", "blobs", "size", "sha256", "created_at", "finished_at",
			"expires_at", "download_url", "download_expires_at", "error")
		if made.Text("export", "state") != "queued" || made.Object()["export"].(object)["download_url"] != nil {
			t.Errorf("started %s", made.Body)
		}
		if again := ada.Post(export, nil).Want(http.StatusAccepted); again.Text("export", "id") != made.Text("export", "id") {
			t.Errorf("two archives are being made: %s", again.Body)
		}
		other.Get(export).Want(http.StatusNotFound)
		w.Work()
		state := func() string { return ada.Get(export).Want(http.StatusOK).Text("export", "state") }
		apptest.Eventually(t, "the archive", func() bool { return state() == "done" })
		done := ada.Get(export).Object()["export"].(object)
		packed := w.download(done["download_url"].(string))
		if float64(len(packed)) != done["size"] {
			t.Errorf("%d bytes, not %v", len(packed), done["size"])
		}
		r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.File, func(f *zip.File) bool { return f.Name == "data/users.jsonl" }) {
			t.Error("the archive has no users")
		}

		// Another one takes the place of the first.
		first, err := w.privacy.Newest(t.Context(), w.caller(ada))
		if err != nil {
			t.Fatal(err)
		}
		ada.Post(export, nil).Want(http.StatusAccepted)
		apptest.Eventually(t, "the second archive", func() bool { return state() == "done" })
		apptest.Eventually(t, "the end of the first archive", func() bool {
			_, err := w.Blobs.Stat(t.Context(), first.Key())
			return fault.Is(err, fault.NotFound)
		})

		e, err := w.privacy.Newest(t.Context(), w.caller(ada))
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(*e.ExpiresAt); left > privacy.Lifetime || left < privacy.Lifetime-time.Hour {
			t.Errorf("it expires in %s", left)
		}
		if _, err := db.Exec(t.Context(), `UPDATE organisation_exports SET expires_at = 1`); err != nil {
			t.Fatal(err)
		}
		if got := ada.Get(export).Want(http.StatusOK); got.Text("export", "state") != "expired" || got.Object()["export"].(object)["download_url"] != nil {
			t.Errorf("expired: %s", got.Body)
		}
		for range 2 {
			if err := w.privacy.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Blobs.Stat(t.Context(), e.Key()); !fault.Is(err, fault.NotFound) {
			t.Errorf("the archive is still there: %v", err)
		}
	})
}

// download follows a signed link to the bucket.
func (w world) download(url string) []byte {
	w.T.Helper()
	rec := httptest.NewRecorder()
	w.Blobs.(*blob.Files).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, strings.TrimPrefix(url, apptest.PublicURL), nil))
	body, err := io.ReadAll(rec.Body)
	if err != nil || rec.Code != http.StatusOK {
		w.T.Fatalf("%s: %d %s, %v", url, rec.Code, body, err)
	}
	return body
}

func (w world) caller(c *apptest.Caller) access.Caller {
	w.T.Helper()
	found, err := w.Auth.Authenticate(w.T.Context(), c.Key)
	if err != nil {
		w.T.Fatal(err)
	}
	return found
}

// TestWho: only an owner with all permissions exports and deletes.
func TestWho(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, apptest.Options{})
		ada := w.Org("acme")
		almost := slices.DeleteFunc(access.Owner.Permissions(), func(p access.Permission) bool { return p == access.EvidenceRead })
		for name, c := range map[string]*apptest.Caller{
			"viewer": w.Member(ada.Org, access.Viewer), "admin": w.Member(ada.Org, access.AdminRole),
			"narrowed": w.Member(ada.Org, access.Owner, almost...),
		} {
			for _, a := range []apptest.Response{
				c.Post(export, nil), c.Get(export), c.Do(http.MethodDelete, organisation, object{"confirm": "acme"}),
			} {
				if a.Status != http.StatusForbidden {
					t.Errorf("%s: %d %s", name, a.Status, a.Body)
				}
			}
		}
		w.Member(ada.Org, access.Owner, almost...).Get("/api/v1/me/export").Want(http.StatusForbidden)
		for _, confirm := range []string{"", "Acme", "acme ", "other"} {
			ada.Do(http.MethodDelete, organisation, object{"confirm": confirm}).Want(http.StatusBadRequest).WantIssueWith("confirm", "acme")
		}
		ada.Do(http.MethodDelete, organisation, nil).Want(http.StatusBadRequest)
		ada.Get("/api/v1/me").Want(http.StatusOK)

		// A request that began before its caller was demoted.
		heir := w.Member(ada.Org, access.Owner)
		was := w.caller(ada)
		if _, err := w.Auth.SetRoleByOperator(t.Context(), ada.Org.ID, ada.User.ID, access.Member); err != nil {
			t.Fatal(err)
		}
		if err := w.privacy.Delete(t.Context(), was, "acme"); !fault.Is(err, fault.Denied) {
			t.Errorf("a former owner deletes the organisation: %v", err)
		}
		heir.Get("/api/v1/me").Want(http.StatusOK)
	})
}

// TestDelete ends an organisation at once. The operator keeps one entry, which names
// nobody.
func TestDelete(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, apptest.Options{})
		ada, other := w.Org("acme"), w.Org("other")
		member := w.Member(ada.Org, access.Member)
		_, session, err := w.Auth.SignIn(t.Context(), auth.NewSession{RawKey: member.Key})
		if err != nil {
			t.Fatal(err)
		}
		member.Get("/api/v1/me").Want(http.StatusOK)
		// It is not deleted while it is open, whatever a job says.
		if err := w.privacy.Purge(t.Context(), ada.Org.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("purged an organisation that is open: %v", err)
		}
		for _, c := range []*apptest.Caller{ada, other} {
			w.Exec(`INSERT INTO jobs (kind, args, state, attempt, max_attempts, run_at, created_at, org_id) VALUES ('x', '{}', 'waiting', 0, 1, 1, 1, $1)`, c.Org.ID)
		}
		ada.Do(http.MethodDelete, organisation, object{"confirm": "acme"}).Want(http.StatusNoContent)
		if ours, theirs := w.count(`jobs WHERE org_id = $1`, ada.Org.ID), w.count(`jobs WHERE org_id = $1`, other.Org.ID); ours != 0 || theirs != 1 {
			t.Errorf("%d and %d runs wait, want 0 and 1", ours, theirs)
		}
		for _, c := range []*apptest.Caller{ada, member} {
			c.Get("/api/v1/me").WantError(http.StatusUnauthorized, "Unknown API key")
		}
		if _, _, err := w.Auth.Resume(t.Context(), session); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the session goes on: %v", err)
		}
		if _, err := w.Auth.OrgByName(t.Context(), "acme"); !fault.Is(err, fault.NotFound) {
			t.Errorf("the organisation is still found: %v", err)
		}
		w.Work()
		apptest.Eventually(t, "the end of the organisation", func() bool { return w.count(`organisations WHERE id = $1`, ada.Org.ID) == 0 })
		apptest.Eventually(t, "the last pass", func() bool {
			return w.count(`organisation_deletions WHERE id = $1 AND finished_at IS NOT NULL`, ada.Org.ID) == 1
		})
		other.Get("/api/v1/me").Want(http.StatusOK)

		entries, _, err := (&audit.Service{DB: db}).List(t.Context(), ada.Org.ID, audit.Filter{Limit: 10})
		if err != nil || len(entries) != 1 || entries[0].Action != "privacy.organisation.delete" {
			t.Fatalf("the audit log has %+v, %v", entries, err)
		}
		if e := entries[0]; e.UserID != nil || e.KeyID != nil || e.ActorName != "" || e.Target.Name != "" {
			t.Errorf("it names somebody: %+v", e)
		}
		// The name is free again.
		if w.Org("acme").Get(export).Want(http.StatusNotFound); w.count(`audit_entries WHERE org_id = $1`, ada.Org.ID) != 1 {
			t.Error("the entry is gone")
		}

		// What a job wrote late goes with the next sweep.
		_, err = db.Exec(t.Context(), `INSERT INTO cost_models (org_id, day, model, requests) VALUES ($1, 1, 'm', 1)`, ada.Org.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.privacy.PurgeLate(t.Context()); err != nil || w.count(`cost_models`) != 0 {
			t.Errorf("a late row is left: %v", err)
		}
	})
}

func (w world) count(what string, args ...any) int {
	w.T.Helper()
	rows, err := w.DB.Query(context.WithoutCancel(w.T.Context()), `SELECT COUNT(*) FROM `+what, args...)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		w.T.Fatal(err)
	}
	return n
}

// dyingBucket fails at a number of deletes.
type dyingBucket struct {
	blob.Bucket
	left *int
}

func (b dyingBucket) Delete(ctx context.Context, key string) error {
	if *b.left--; *b.left < 0 {
		return fmt.Errorf("delete %s: the process died", key)
	}
	return b.Bucket.Delete(ctx, key)
}

// failingBucket stores no archive.
type failingBucket struct{ blob.Bucket }

func (b failingBucket) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if strings.HasPrefix(key, "exports/") {
		return fmt.Errorf("put %s: no space on the secret host", key)
	}
	return b.Bucket.Put(ctx, key, r, size)
}

// TestExportFails: an export whose job has used its attempts says so, and why, without
// what is internal; the next one can be started.
func TestExportFails(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, apptest.Options{Blobs: func(b blob.Bucket) blob.Bucket { return failingBucket{b} }})
		ada := w.Org("acme")
		first := ada.Post(export, nil).Want(http.StatusAccepted).Field("export")
		// All attempts but the last are made.
		if _, err := db.Exec(t.Context(), `UPDATE jobs SET max_attempts = 1`); err != nil {
			t.Fatal(err)
		}
		w.Work()
		var got object
		apptest.Eventually(t, "the end of the export", func() bool {
			got = ada.Get(export).Want(http.StatusOK).Field("export")
			return got["state"] != "queued" && got["state"] != "running"
		})
		if got["state"] != "failed" || got["error"] != "internal: the archive could not be made; the log of the service says why" ||
			got["finished_at"] == nil || got["download_url"] != nil {
			t.Errorf("the export is %v", got)
		}
		if next := ada.Post(export, nil).Want(http.StatusAccepted).Field("export"); next["id"] == first["id"] || next["error"] != nil {
			t.Errorf("the next export is %v", next)
		}
	})
}

// TestPurgeDies: a deletion that breaks off anywhere is finished by the next attempt,
// and spares the blobs that others refer to.
func TestPurgeDies(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		left := 0
		w := newWorld(t, db, apptest.Options{Blobs: func(b blob.Bucket) blob.Bucket { return dyingBucket{b, &left} }})
		ada, other := w.Org("acme"), w.Org("other")
		for _, c := range []*apptest.Caller{ada, other} {
			for i := range 5 {
				key := fmt.Sprintf("telemetry/%s/%d", c.Org.ID, i)
				if i == 0 {
					key = "sha256/shared"
				}
				w.put(key)
				_, err := db.Exec(t.Context(), `
					INSERT INTO telemetry_pushes (id, org_id, user_id, push_id, blob_key, accepted, rejected, received_at, bytes)
					VALUES ($1, $2, $3, $4, $5, 0, 0, 1, 1)`, store.NewID(), c.Org.ID, c.User.ID, fmt.Sprint(i), key)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.privacy.Delete(t.Context(), w.caller(ada), "acme"); err != nil {
			t.Fatal(err)
		}
		died := 0
		for {
			left = 1 // one more of the blobs
			err := w.privacy.Purge(t.Context(), ada.Org.ID)
			if err == nil {
				break
			}
			if died++; died > 20 {
				t.Fatalf("it does not come to an end: %v", err)
			}
			if !strings.Contains(err.Error(), "the process died") {
				t.Fatal(err)
			}
			left = 1_000
			if died == 2 { // then it is left to run through
				if err := w.privacy.Purge(t.Context(), ada.Org.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		if died != 2 || w.count(`telemetry_pushes WHERE org_id = $1`, ada.Org.ID) != 0 || w.count(`telemetry_pushes`) != 5 {
			t.Errorf("after %d deaths the wrong rows are left", died)
		}
		var keys []string
		for info, err := range w.Blobs.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, info.Key)
		}
		if len(keys) != 5 || !slices.Contains(keys, "sha256/shared") || strings.Contains(fmt.Sprint(keys), ada.Org.ID) {
			t.Errorf("the blobs %v are left", keys)
		}
	})
}

func (w world) put(key string) {
	w.T.Helper()
	if err := w.Blobs.Put(w.T.Context(), key, strings.NewReader("x"), 1); err != nil {
		w.T.Fatal(err)
	}
}

// TestPerson: a person gets what names them, and nothing of others.
func TestPerson(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, apptest.Options{})
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Viewer)
		hostile := "</script>\"\\\x00\u2028 bob's prompt"
		for _, c := range []*apptest.Caller{ada, bob} {
			_, err := db.Exec(t.Context(), `
				INSERT INTO telemetry_prompts (hash, org_id, user_id, prompt_id, kind, prompt_text, occurred_at, normalized_at, received_at)
				VALUES ($1, $2, $1, 'p', 'user', $3, $4, $4, $4)`, c.User.ID, c.Org.ID, strings.ReplaceAll(hostile, "\x00", ""), store.Micros(store.Now()))
			if err != nil {
				t.Fatal(err)
			}
		}
		w.Exec(`INSERT INTO scim_groups (id, org_id, name, name_key, created_at, updated_at) VALUES ('g', $1, 'Docs', 'docs', 1, 1)`, ada.Org.ID)
		for _, c := range []*apptest.Caller{ada, bob} {
			w.Exec(`
				INSERT INTO scim_users (id, org_id, user_id, user_name, user_name_key, email, profile, created_at, updated_at)
				VALUES ($1, $2, $1, $1, $1, $1, '{}', 1, 1)`, c.User.ID, c.Org.ID)
			w.Exec(`INSERT INTO scim_group_members (org_id, group_id, member_id) VALUES ($1, 'g', $2)`, c.Org.ID, c.User.ID)
		}
		// A row of another organisation that names bob, who cannot prevent it.
		eve := w.Org("other")
		w.Exec(`INSERT INTO audit_entries (id, org_id, at, actor, actor_name, user_id, via, action, target_kind, target_id, target_name, detail)
			VALUES ('x', $1, 1, 'key', 'eve', $2, 'api', 'x', 'x', 'x', 'x', '{}')`, eve.Org.ID, bob.User.ID)
		a := bob.Get("/api/v1/me/export").Want(http.StatusOK)
		var out struct {
			Person   object
			Tables   map[string][]object
			Complete bool
		}
		if err := json.Unmarshal(a.Body, &out); err != nil {
			t.Fatal(err)
		}
		if !out.Complete || out.Person["user_id"] != bob.User.ID || len(out.Tables["users"]) != 1 || len(out.Tables["api_keys"]) != 1 {
			t.Errorf("got %s", a.Body)
		}
		prompts := out.Tables["telemetry_prompts"]
		if len(prompts) != 1 || prompts[0]["prompt_text"] != strings.ReplaceAll(hostile, "\x00", "") {
			t.Errorf("prompts %v", prompts)
		}
		if at, err := time.Parse(time.RFC3339, fmt.Sprint(prompts[0]["occurred_at"])); err != nil || time.Since(at) > time.Hour {
			t.Errorf("it occurred %v, %v", at, err)
		}
		if len(out.Tables["scim_group_members"]) != 1 {
			t.Errorf("groups %v", out.Tables["scim_group_members"])
		}
		if strings.Contains(string(a.Body), eve.Org.ID) {
			t.Error("it has a row of another organisation")
		}
		if strings.Contains(string(a.Body), ada.User.ID) {
			t.Error("it names somebody else")
		}
		if _, has := out.Tables["api_keys"][0]["hash"]; has {
			t.Error("it has the hash of the key")
		}
	})
}
