package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestNoSecretInTheDatabase drives the whole API, plants secrets wherever one
// can be, and looks for them in every column of every table.
func TestNoSecretInTheDatabase(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		h := newHouse(t, append(flags, "--secret-key", sealtest.Key(0)))
		planted := map[string]string{
			"first key": h.FirstKey, "viewer's key": h.viewer, "stranger's key": h.stranger, "webhook URL": plantedPath,
			"signing secret": alertSecret, "mailbox": plantedEmail, "code host's secret": hookSecret, "the key itself": sealtest.Key(0),
		}
		h.drive(func(c change, a apptest.Response) {
			if c.route == "POST /api/v1/keys" {
				planted["API key"] = a.Text("api_key")
			}
			if c.route == "POST /api/v1/invitations" {
				planted["invitation"] = a.Text("token")
			}
			if (strings.Contains(c.route, "/catalog-tokens") || strings.Contains(c.route, "/scim-tokens")) && a.Status == http.StatusCreated {
				planted["token of "+c.route] = a.Text("token")
			}
		})
		h.plantAlerts(planted)
		h.plantSession(planted)
		h.plantDevice(planted)
		secrets := &auth.Service{DB: h.db, Seal: sealtest.Keyring()}
		for _, name := range []string{"blob-urls", "contributors", "key-check"} {
			value, err := secrets.Secret(t.Context(), name)
			if err != nil || len(value) != 32 {
				t.Fatalf("secret %s: %v", name, err)
			}
			planted["secret "+name] = string(value)
		}
		scan(t, h.db, planted)
	})
}

// plantAlerts makes alerts that stay.
func (h *house) plantAlerts(planted map[string]string) {
	h.t.Helper()
	for _, config := range []object{
		{"webhook_url": h.hook.URL + plantedPath, "webhook_secret": alertSecret},
		{"chat_a_webhook_url": h.hook.URL + plantedPath},
		{"chat_b_webhook_url": h.hook.URL + plantedPath},
		{"email": plantedEmail},
	} {
		for field := range config {
			channel := strings.TrimSuffix(strings.TrimSuffix(field, "_url"), "_webhook")
			if field == "webhook_secret" {
				continue
			}
			a := h.as(h.FirstKey).Do("POST", "/api/v1/alerts", object{"type": "no_data", "channel": channel, "config": config})
			if a.Status != http.StatusCreated {
				h.t.Fatalf("alert: %d %s", a.Status, a.Body)
			}
			h.ids[channel] = a.Text("id")
			h.as(h.FirstKey).Do("POST", "/api/v1/alerts/"+a.Text("id")+"/test", nil)
		}
	}
	rotated := h.as(h.FirstKey).Do("POST", "/api/v1/alerts/"+h.ids["webhook"]+"/rotate-secret", nil)
	if planted["new signing secret"] = rotated.Text("signing_secret"); planted["new signing secret"] == "" {
		h.t.Fatalf("rotate: %s", rotated.Body)
	}
}

// plantSession signs a browser in.
func (h *house) plantSession(planted map[string]string) {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	res, err := browser.PostForm(h.url+"/login", url.Values{"api_key": {h.FirstKey}})
	if err != nil {
		h.t.Fatal(err)
	}
	_ = res.Body.Close()
	home, _ := url.Parse(h.url)
	for _, cookie := range jar.Cookies(home) {
		if len(cookie.Value) >= 43 {
			planted["session "+cookie.Name] = cookie.Value
		}
	}
	if len(jar.Cookies(home)) == 0 {
		h.t.Fatal("no session")
	}
}

// plantDevice logs a program in.
func (h *house) plantDevice(planted map[string]string) {
	h.t.Helper()
	started := h.as("").Do("POST", "/api/v1/device-code", object{"client_id": "cli"})
	planted["device code"] = started.Text("device_code")
	people := &auth.Service{DB: h.db}
	users, err := people.Users(h.t.Context(), h.orgID)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := people.DecideDevice(h.t.Context(), started.Text("user_code"), users[0], true); err != nil {
		h.t.Fatal(err)
	}
	polled := h.as("").Do("POST", "/api/v1/device-code/poll", object{"device_code": planted["device code"]})
	if planted["key of the login"] = polled.Text("api_key"); planted["key of the login"] == "" {
		h.t.Fatalf("poll: %s", polled.Body)
	}
}

// scan looks for secrets in everything that the database holds, also spelt in
// hex or base64.
func scan(t *testing.T, db *store.DB, planted map[string]string) {
	t.Helper()
	const harmless = "owner@localhost" // what is not found proves nothing unless this is
	seen := false
	for table, hexes := range tablesAsHex(t, db) {
		rows, err := db.Query(t.Context(), `SELECT `+hexes+` FROM `+table)
		all, err := store.All(rows, err, store.Value[string])
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		content := strings.ToLower(strings.Join(all, "\n"))
		seen = seen || strings.Contains(content, hex.EncodeToString([]byte(harmless)))
		for name, secret := range planted {
			for _, spelt := range []string{
				secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
			} {
				if strings.Contains(content, hex.EncodeToString([]byte(spelt))) {
					t.Errorf("%s has the %s", table, name)
				}
			}
		}
	}
	if !seen {
		t.Errorf("%s is found nowhere: the search is broken", harmless)
	}
}

// tablesAsHex maps every table to the expression of all its columns in hex.
func tablesAsHex(t *testing.T, db *store.DB) map[string]string {
	t.Helper()
	text := `SELECT m.name, 'hex(' || c.name || ')' FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'`
	if db.Dialect().Name() == "postgres" {
		text = `SELECT table_name, CASE data_type WHEN 'bytea' THEN 'encode(' || column_name || ', ''hex'')'
			ELSE 'encode(convert_to(' || column_name || '::text, ''UTF8''), ''hex'')' END
			FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT IN (SELECT relname FROM pg_class WHERE relispartition)`
	}
	tables := map[string]string{}
	rows, err := db.Query(t.Context(), text)
	_, err = store.All(rows, err, func(row store.Row) (_ struct{}, err error) {
		var table, column string
		err = row.Scan(&table, &column)
		if tables[table] != "" {
			tables[table] += " || '/' || "
		}
		tables[table] += "COALESCE(" + column + ", '')"
		return struct{}{}, err
	})
	if err != nil || len(tables) < 30 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	return tables
}

// refused starts a service that must not come up, and returns why.
func refused(t *testing.T, flags ...string) string {
	t.Helper()
	a, err := app.New(t.Context(), options(settings(t, flags...), io.Discard))
	if err == nil {
		_ = run(t, a, &apptest.Buffer{}).stop()
		t.Fatal("it started")
	}
	return err.Error()
}

// restart starts a service, which must know the organisation, and stops it.
func restart(t *testing.T, key string, flags ...string) {
	t.Helper()
	s := start(t, settings(t, flags...))
	s.me(t, key)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
}

func TestSecretKeySetting(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		with := func(keys ...int) []string {
			var all []string
			for _, n := range keys {
				all = append(all, sealtest.Key(n))
			}
			return append(flags[:len(flags):len(flags)], "--secret-key", strings.Join(all, ","))
		}
		first := start(t, settings(t, with(0)...))
		key := first.FirstKey
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		// Another key is refused, and changes nothing.
		if got := refused(t, with(1)...); !strings.Contains(got, "sealed with another key; set --secret-key to that one") {
			t.Errorf("another key: %s", got)
		}
		if got := refused(t, flags...); !strings.Contains(got, "is missing; put it back, or set --secret-key") {
			t.Errorf("no key: %s", got)
		}
		restart(t, key, with(0)...)
		// A new key takes over, and the old one can be forgotten.
		restart(t, key, with(1, 0)...)
		restart(t, key, with(1)...)
		if got := refused(t, with(0)...); !strings.Contains(got, "sealed with another key") {
			t.Errorf("the forgotten key: %s", got)
		}
		c := settings(t, with(2, 1)...)
		if n, err := app.Rekey(t.Context(), c.Database, c.SecretKey); err != nil || n == 0 {
			t.Errorf("Rekey = %d, %v", n, err)
		}
		if n, err := app.Rekey(t.Context(), c.Database, c.SecretKey); err != nil || n != 0 {
			t.Errorf("Rekey again = %d, %v; want nothing to do", n, err)
		}
		restart(t, key, with(2)...)
	})
}

func TestSecretKeyFile(t *testing.T) {
	data := t.TempDir()
	path := filepath.Join(data, "secret.key")
	first := start(t, settings(t, "--data", data))
	key := first.FirstKey
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key file: %v, %v", info, err)
	}
	aside := path + ".aside"
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	if got := refused(t, "--data", data); !strings.Contains(got, path+" is missing; put it back") {
		t.Errorf("without the file: %s", got)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a refused start made another key")
	}
	findings := examine(t, settings(t, "--data", data))
	if f := finding(findings, "secret key"); f.Status != invariants.Broken || !strings.Contains(f.Message, "put it back or set --secret-key") {
		t.Errorf("the doctor says %+v", f)
	}
	findings = examine(t, settings(t, "--data", data, "--secret-key", sealtest.Key(0)))
	if f := finding(findings, "secret key"); f.Status != invariants.Broken || !strings.Contains(f.Message, "another key") {
		t.Errorf("the doctor says of another key %+v", f)
	}
	if err := errors.Join(os.Rename(aside, path), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	if f := finding(examine(t, settings(t, "--data", data)), "secret key"); f.Status != invariants.Advice || !strings.Contains(f.Message, "chmod 600") {
		t.Errorf("the doctor says of an open file %+v", f)
	}
	restart(t, key, "--data", data)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("after the next start: %v, %v; want it closed", info, err)
	}
}

func finding(all []invariants.Finding, check string) invariants.Finding {
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	return invariants.Finding{}
}

// TestLostKey follows what docs/operate.md says of one.
func TestLostKey(t *testing.T) {
	data := t.TempDir()
	h := newHouse(t, []string{"--data", data})
	h.plantAlerts(map[string]string{})
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(data, "secret.key")); err != nil {
		t.Fatal(err)
	}
	refused(t, "--data", data)
	for _, table := range []string{"service_secrets", "alert_states", "alert_rules"} {
		if _, err := h.db.Exec(t.Context(), `DELETE FROM `+table); err != nil {
			t.Fatal(err)
		}
	}
	restart(t, h.FirstKey, "--data", data)
}

// TestReplicasNeedOneKey starts two that made a key each: the second is told.
func TestReplicasNeedOneKey(t *testing.T) {
	databaseURL := storetest.URL(t, "postgres")
	start(t, settings(t, "--database-url", databaseURL, "--data", t.TempDir()))
	if got := refused(t, "--database-url", databaseURL, "--data", t.TempDir()); !strings.Contains(got, "the key that the other replicas have") {
		t.Errorf("the second replica: %s", got)
	}
}

// TestPlainRowsAreSealed starts on what a release without sealing left.
func TestPlainRowsAreSealed(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		h := newHouse(t, flags)
		h.plantAlerts(map[string]string{})
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		exec := func(text string, args ...any) {
			t.Helper()
			if _, err := h.db.Exec(t.Context(), text, args...); err != nil {
				t.Fatal(err)
			}
		}
		secret := strings.Repeat("plain-secret-bytes-", 2)[:32]
		exec(`UPDATE service_secrets SET value = $1 WHERE name <> 'key-check'`, []byte(secret))
		exec(`DELETE FROM service_secrets WHERE name = 'key-check'`)
		exec(`UPDATE alert_rules SET address = $1`, h.hook.URL+plantedPath)
		exec(`UPDATE alert_rules SET secret = $1, old_secret = $1 WHERE secret IS NOT NULL`, alertSecret)

		s := start(t, settings(t, append(flags, "--secret-key", sealtest.Key(3), "--allow-private-targets")...))
		h.url = s.url
		got, err := (&auth.Service{DB: h.db, Seal: keyringOf(t, 3)}).Secret(t.Context(), "blob-urls")
		if err != nil || string(got) != secret {
			t.Errorf("blob-urls is %q, %v; want what it was", got, err)
		}
		scan(t, h.db, map[string]string{"secret": secret, "webhook URL": plantedPath, "signing secret": alertSecret})
		tested := h.as(h.FirstKey).Do("POST", "/api/v1/alerts/"+h.ids["webhook"]+"/test", nil)
		if !strings.Contains(string(tested.Body), `"delivered":true`) && !strings.Contains(string(tested.Body), `"status":"delivered"`) {
			t.Errorf("the alert's target is lost: %s", tested.Body)
		}
	})
}

func keyringOf(t *testing.T, n int) *seal.Keyring {
	t.Helper()
	k, err := seal.New(sealtest.Key(n))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestSwappedRowsAreRefused moves sealed values between rows and columns, as
// somebody with the database but not the key could.
func TestSwappedRowsAreRefused(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		h := newHouse(t, flags)
		h.plantAlerts(map[string]string{})
		for what, text := range map[string]string{
			"another row":    `UPDATE alert_rules SET address = (SELECT address FROM alert_rules WHERE id = $2) WHERE id = $1`,
			"another column": `UPDATE alert_rules SET address = (SELECT secret FROM alert_rules WHERE id = $2) WHERE id = $1`,
		} {
			target := h.ids["chat_a"]
			if what == "another column" {
				target = h.ids["chat_b"]
			}
			if _, err := h.db.Exec(t.Context(), text, target, h.ids["webhook"]); err != nil {
				t.Fatal(err)
			}
			a := h.as(h.FirstKey).Do("POST", fmt.Sprintf("/api/v1/alerts/%s/test", target), nil)
			if a.Status != http.StatusInternalServerError {
				t.Errorf("from %s: %d %s, want it refused", what, a.Status, a.Body)
			}
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		if got := refused(t, flags...); !strings.Contains(got, "alert_rules.address of "+h.ids["chat_a"]) {
			t.Errorf("at the next start: %s", got)
		}
	})
}

// TestAuditRetention prunes what is old enough, and nothing by default.
func TestAuditRetention(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		h := newHouse(t, flags)
		before := len(h.entries(h.FirstKey, url.Values{}))
		old := store.Micros(time.Now().Add(-48 * time.Hour))
		if _, err := h.db.Exec(t.Context(), `UPDATE audit_entries SET at = $1 WHERE action = 'auth.organisation.create'`, old); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			retention string
			removed   int
		}{{"0", 0}, {"3d", 0}, {"1d", 1}} {
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			key := h.FirstKey
			h.service = start(t, settings(t, append(flags, "--roles", "web", "--retention-audit", c.retention)...))
			h.FirstKey = key
			if err := h.SweepAudit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(h.entries(h.FirstKey, url.Values{})); got != before-c.removed {
				t.Errorf("with %s: %d entries, want %d", c.retention, got, before-c.removed)
			}
		}
	})
}
