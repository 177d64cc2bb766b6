package alerts_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var (
	wireTime  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	newSecret = regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=$`)
)

// hookURL leads nowhere: tests that use it send nothing.
const hookURL = "https://hooks.example.org/services/T0AAAAAAA/xYzSecretToken123456?key=querySecret99"

// chatA is a minimal alert.
var chatA = object{"type": "pass_rate_below", "channel": "chat_a", "config": object{"chat_a_webhook_url": hookURL}}

// settled checks the fields that differ each time and returns the others.
func settled(t *testing.T, o object) object {
	t.Helper()
	if _, err := uuid.Parse(o["id"].(string)); err != nil {
		t.Errorf("id %v", o["id"])
	}
	for _, field := range []string{"created_at", "updated_at"} {
		if at, _ := o[field].(string); !wireTime.MatchString(at) {
			t.Errorf("%s %v", field, o[field])
		}
	}
	return apptest.Without(o, "id", "created_at", "updated_at")
}

func TestCreate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db, setup{guarded: true}).org("acme")
		ada.sessions("pdf", 1)
		pdf := ada.skill("pdf")
		usual := object{
			"skill_id": nil, "type": "pass_rate_below", "threshold": 0.8, "sensitivity": "point", "action": nil,
			"channel": "chat_a", "config": object{"chat_a_webhook_url": "https://hooks.example.org/…"},
			"enabled": true, "disabled_reason": nil, "states": []any{},
		}
		for _, c := range []struct {
			name string
			body object // beside chatA
			want object // beside usual
		}{
			{"the least", object{}, object{}},
			{
				"all there is",
				object{"skill_id": pdf, "threshold": 0.75, "sensitivity": "confident", "action": "rollback", "unknown": true},
				object{"skill_id": pdf, "threshold": 0.75, "sensitivity": "confident", "action": "rollback"},
			},
			{"least threshold", object{"threshold": 0}, object{"threshold": 0}},
			{"greatest threshold", object{"threshold": 1}, object{"threshold": 1}},
			{"silence", object{"type": "no_data"}, object{"type": "no_data", "threshold": 7}},
			{"silence today", object{"type": "no_data", "threshold": 0}, object{"type": "no_data", "threshold": 0}},
			{"long silence", object{"type": "no_data", "threshold": 90}, object{"type": "no_data", "threshold": 90}},
			{
				"chat_b",
				object{"channel": "chat_b", "config": object{"chat_b_webhook_url": hookURL}},
				object{"channel": "chat_b", "config": object{"chat_b_webhook_url": "https://hooks.example.org/…"}},
			},
			{"longest URL", object{"config": object{"chat_a_webhook_url": long(2048)}}, object{}},
			{
				"fields of other channels",
				object{"config": object{"chat_a_webhook_url": hookURL, "email": "nobody", "webhook_secret": "short"}},
				object{},
			},
			{
				"no mail server",
				object{"channel": "email", "config": object{"email": "Ada <ada.lovelace@example.org>"}},
				object{
					"channel": "email", "config": object{"email": "a…@example.org"},
					"warnings": []string{"No mail server is configured, so deliveries will fail: set --smtp-url and --mail-from"},
				},
			},
			{
				"private target",
				object{"config": object{"chat_a_webhook_url": "http://127.0.0.1:9/hidden-part"}},
				object{
					"config":   object{"chat_a_webhook_url": "http://127.0.0.1:9/…"},
					"warnings": []string{"127.0.0.1 is a loopback address; requests to it are refused unless --allow-private-targets is set"},
				},
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				ada := ada.in(t)
				got := ada.Post(alertsPath, apptest.With(chatA, c.body)).Want(http.StatusCreated).Object()
				if diff := cmp.Diff(apptest.Plain(t, apptest.With(usual, c.want)), settled(t, got)); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				ada.Get(alertsPath + "/" + got["id"].(string)).Want(http.StatusOK).WantBody(got)
			})
		}
	})
}

// long returns a URL of that many characters.
func long(n int) string { return hookURL + strings.Repeat("x", n-len(hookURL)) }

// TestCreateWebhook: the signing secret, generated or the caller's, is only in
// the response to the creation.
func TestCreateWebhook(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db, setup{}).org("acme")
		own := "whsec_" + strings.Repeat("b3du", 8)
		for name, config := range map[string]object{
			"made":  {"webhook_url": hookURL},
			"given": {"webhook_url": hookURL, "webhook_secret": own},
		} {
			t.Run(name, func(t *testing.T) {
				ada := ada.in(t)
				got := ada.Post(alertsPath, apptest.With(passRate(""), object{"config": config})).Want(http.StatusCreated).Object()
				secret, _ := got["signing_secret"].(string)
				if name == "given" && secret != own || name == "made" && !newSecret.MatchString(secret) {
					t.Errorf("signing_secret %q", secret)
				}
				if diff := cmp.Diff(object{"webhook_url": "https://hooks.example.org/…"}, got["config"]); diff != "" {
					t.Errorf("config (-want +got):\n%s", diff)
				}
				ada.Get(alertsPath + "/" + got["id"].(string)).WantBody(apptest.Without(got, "signing_secret"))
			})
		}
	})
}

func TestCreateRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada, eve := w.org("acme"), w.org("evil")
		ada.sessions("pdf", 1)
		eve.sessions("pdf", 1)
		const (
			share  = "threshold must be between 0 and 1"
			days   = "threshold must be between 0 and 90 days"
			noURL  = "config.chat_a_webhook_url is required for the channel chat_a"
			badURL = "config.chat_a_webhook_url must be an http or https URL with a host, of at most 2048 characters"
			email  = "config.email must be one e-mail address"
			action = "action rollback needs an alert of type pass_rate_below or worse_than_previous on one skill"
		)
		url := func(value any) object { return object{"config": object{"chat_a_webhook_url": value}} }
		mail := func(value string) object { return object{"channel": "email", "config": object{"email": value}} }
		silent := func(threshold float64) object { return object{"type": "no_data", "threshold": threshold} }
		for _, c := range []struct {
			name string
			body object // beside chatA
			want []string
		}{
			{"75", object{"threshold": 75}, []string{"threshold", share}},
			{"-0.1", object{"threshold": -0.1}, []string{"threshold", share}},
			{"1.0001", object{"threshold": 1.0001}, []string{"threshold", share}},
			{"91 days", silent(91), []string{"threshold", days}},
			{"-1 day", silent(-1), []string{"threshold", days}},
			{"threshold as text", object{"threshold": "0.8"}, []string{"threshold", "threshold: expected number"}},
			{"type", object{"type": "pass_rate"}, []string{"type", `type: expected value to be one of "pass_rate_below, no_data, worse_than_previous, cost_above, silent_fall"`}},
			{"channel", object{"channel": "sms"}, []string{"channel", `channel: expected value to be one of "chat_a, chat_b, email, owners, webhook"`}},
			{"sensitivity", object{"sensitivity": "high"}, []string{"sensitivity", `sensitivity: expected value to be one of "point, confident, sequential"`}},
			{"action", object{"action": "delete"}, []string{"action", `action: expected value to be one of "rollback"`}},
			{"no field", object{"config": object{}}, []string{"config.chat_a_webhook_url", noURL}},
			{"field of another channel", object{"config": object{"webhook_url": hookURL}}, []string{"config.chat_a_webhook_url", noURL}},
			{"empty URL", url(""), []string{"config.chat_a_webhook_url", noURL}},
			{"URL as a number", url(7), []string{"config.chat_a_webhook_url", "config.chat_a_webhook_url: expected string"}},
			{"ftp", url("ftp://hooks.example.org/x"), []string{"config.chat_a_webhook_url", badURL}},
			{"no host", url("https:///x"), []string{"config.chat_a_webhook_url", badURL}},
			{"no URL", url("hooks.example.org"), []string{"config.chat_a_webhook_url", badURL}},
			{"URL with a password", url("https://ada:pw@hooks.example.org/"), []string{"config.chat_a_webhook_url", badURL}},
			{"URL too long", url(long(2049)), []string{"config.chat_a_webhook_url", badURL}},
			{"no e-mail", object{"channel": "email"}, []string{"config.email", "config.email is required for the channel email"}},
			{"e-mail with a line break", mail("ada@example.org\r\nBcc: eve@example.org"), []string{"config.email", email}},
			{"e-mail with LF", mail("ada@example.org\n"), []string{"config.email", email}},
			{"two e-mails", mail("ada@example.org, eve@example.org"), []string{"config.email", email}},
			{"no e-mail address", mail("ada"), []string{"config.email", email}},
			{
				"secret",
				object{"channel": "webhook", "config": object{"webhook_url": hookURL, "webhook_secret": "whsec_dG9vIHNob3J0"}},
				[]string{"config.webhook_secret", "config.webhook_secret must be whsec_ and the base64 of 24 to 64 bytes"},
			},
			{"unknown skill", object{"skill_id": uuid.NewString()}, []string{"skill_id", "skill_id names no skill of this organisation"}},
			{"another's skill", object{"skill_id": eve.skill("pdf")}, []string{"skill_id", "skill_id names no skill of this organisation"}},
			{"skill_id is no UUID", object{"skill_id": "pdf"}, []string{"skill_id", "skill_id: expected string to be RFC 4122 uuid: invalid UUID length: 3"}},
			{"action on all skills", object{"action": "rollback"}, []string{"action", action}},
			{"action on silence", object{"action": "rollback", "type": "no_data", "skill_id": ada.skill("pdf")}, []string{"action", action}},
			{
				"all at once",
				object{
					"threshold": 91, "action": "rollback", "skill_id": uuid.NewString(), "type": "no_data",
					"channel": "webhook", "config": object{"webhook_secret": "x"},
				},
				[]string{
					"skill_id", "skill_id names no skill of this organisation", "threshold", days, "action", action,
					"config.webhook_url", "config.webhook_url is required for the channel webhook",
					"config.webhook_secret", "config.webhook_secret must be whsec_ and the base64 of 24 to 64 bytes",
				},
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				ada.in(t).Post(alertsPath, apptest.With(chatA, c.body)).WantIssues(c.want...)
			})
		}
		for _, field := range []string{"type", "channel", "config"} {
			t.Run("no "+field, func(t *testing.T) {
				ada.in(t).Post(alertsPath, apptest.Without(chatA, field)).WantIssues(field, field+" is required")
			})
		}
		if n := w.Count("alert_rules"); n != 0 {
			t.Errorf("%d alerts are stored, want none", n)
		}
	})
}

// TestCreateMalformed sends bodies that are not JSON.
func TestCreateMalformed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		for name, body := range map[string]string{
			"NaN":   `{"type":"pass_rate_below","threshold":NaN,"channel":"email","config":{"email":"ada@example.org"}}`,
			"half":  `{"type":"pass_rate_below"`,
			"array": `[]`,
		} {
			t.Run(name, func(t *testing.T) {
				got := ada.in(t).Post(alertsPath, body).Want(http.StatusBadRequest).Object()
				if got["error"] != "Validation failed" || len(got["issues"].([]any)) != 1 {
					t.Errorf("got %v", got)
				}
			})
		}
		if n := w.Count("alert_rules"); n != 0 {
			t.Errorf("%d alerts are stored, want none", n)
		}
	})
}

// TestPermissions: with read, alerts can be seen but not changed. An alert that
// rolls back needs the permission to roll back.
func TestPermissions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.sessions("pdf", 1)
		id := ada.alert(chatA)
		path := alertsPath + "/" + id
		viewer, member, admin := w.member(ada.Org, access.Viewer), w.member(ada.Org, access.Member), w.member(ada.Org, access.AdminRole)
		for _, call := range []struct{ method, path string }{
			{"POST", alertsPath},
			{"PATCH", path},
			{"DELETE", path},
			{"POST", path + "/test"},
			{"POST", path + "/rotate-secret"},
		} {
			viewer.Do(call.method, call.path, object{}).WantError(http.StatusForbidden, "This needs the permission write")
		}
		for _, readable := range []string{alertsPath, path, path + "/deliveries", "/api/v1/alert-events"} {
			viewer.Get(readable).Want(http.StatusOK)
		}
		rollback := apptest.With(chatA, object{"action": "rollback", "skill_id": ada.skill("pdf"), "threshold": 75})
		member.Post(alertsPath, rollback).
			WantError(http.StatusForbidden, "This needs the permission registry:rollback, since the alert rolls back")
		member.alert(chatA)
		admin.alert(apptest.With(rollback, object{"threshold": 0.75}))
		nobody := w.Anonymous()
		nobody.Key = "st_live_nobody"
		nobody.Post(alertsPath, chatA).Want(http.StatusUnauthorized)
	})
}

// TestRollbackRuleIsChanged: every change of a rule that rolls back needs the
// permission to roll back; a test notification does not.
func TestRollbackRuleIsChanged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.sessions("pdf", 1)
		hook := notifytest.Receive(t, notifytest.Answering(http.StatusOK))
		id := ada.alert(object{
			"type": "pass_rate_below", "threshold": 0.1, "skill_id": ada.skill("pdf"), "action": "rollback",
			"channel": "webhook", "config": object{"webhook_url": hook.URL},
		})
		path := alertsPath + "/" + id
		before := ada.Get(path).Object()
		changes := []struct {
			method, path string
			body         any
		}{
			{"PATCH", path, object{"threshold": 1}},
			{"PATCH", path, object{"sensitivity": "confident"}},
			{"PATCH", path, object{"enabled": false}},
			{"POST", path + "/rotate-secret", nil},
			{"PATCH", path, object{"channel": "email", "config": object{"email": "eve@example.org"}}},
			{"PATCH", path, object{}},
			{"DELETE", path, nil},
		}
		for name, c := range map[string]*client{
			"member": w.member(ada.Org, access.Member), "narrowed owner": w.member(ada.Org, access.Owner, access.Read, access.Write),
		} {
			for _, change := range changes {
				a := c.Do(change.method, change.path, change.body)
				a.WantError(http.StatusForbidden, "This needs the permission registry:rollback, since the alert rolls back")
			}
			ada.Get(path).WantBody(before)
			if n := w.Count("audit_entries WHERE action IN ('alerts.rule.change', 'alerts.rule.rotate-secret', 'alerts.rule.delete')"); n != 0 {
				t.Errorf("%d changes by the %s are recorded", n, name)
			}
			c.Post(path+"/test", nil).Want(http.StatusOK)
		}
		admin := w.member(ada.Org, access.AdminRole)
		for _, change := range changes {
			if a := admin.Do(change.method, change.path, change.body); a.Status >= http.StatusBadRequest {
				t.Errorf("%s %v as an admin: %d", change.method, change.body, a.Status)
			}
		}
	})
}

// TestOtherOrganisations: alerts of another organisation are not found.
func TestOtherOrganisations(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada, eve := w.org("acme"), w.org("evil")
		ada.sessions("pdf", repeat(0, 5)...)
		id := ada.alert(passRate(hookURL))
		w.evaluate(ada, 1)
		ada.wantEvents("firing pdf")
		before := ada.Get(alertsPath + "/" + id).Object()
		for _, path := range []string{alertsPath + "/" + id, alertsPath + "/" + uuid.NewString(), alertsPath + "/none"} {
			for _, call := range []struct{ method, path string }{
				{"GET", path},
				{"PATCH", path},
				{"DELETE", path},
				{"POST", path + "/test"},
				{"POST", path + "/rotate-secret"},
				{"GET", path + "/deliveries"},
			} {
				var body any
				if call.method == "PATCH" {
					body = object{"enabled": false}
				}
				eve.Do(call.method, call.path, body).WantError(http.StatusNotFound, "Alert not found")
			}
		}
		empty := object{"page": 1, "per_page": 20, "total": 0}
		eve.Get(alertsPath).WantBody(object{"alerts": []any{}, "pagination": empty})
		for _, query := range []string{"", "?alert_id=" + id, "?skill_id=" + ada.skill("pdf")} {
			eve.Get("/api/v1/alert-events" + query).WantBody(object{"events": []any{}, "pagination": empty})
		}
		w.evaluate(eve, 1)
		ada.Get(alertsPath + "/" + id).WantBody(before)
	})
}
