package alerts_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestList(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		var ids []string // newest first
		for range 5 {
			ids = append([]string{ada.alert(chatA)}, ids...)
		}
		for _, c := range []struct {
			query         string
			page, perPage int
			want          []string
		}{
			{"", 1, 20, ids},
			{"?per_page=2", 1, 2, ids[:2]},
			{"?page=3&per_page=2", 3, 2, ids[4:]},
			{"?page=4&per_page=2", 4, 2, []string{}},
		} {
			a := ada.Get(alertsPath + c.query).Want(http.StatusOK)
			got := []string{}
			for _, alert := range a.List("alerts") {
				ada.Get(alertsPath + "/" + alert["id"].(string)).WantBody(alert)
				got = append(got, alert["id"].(string))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.query, diff)
			}
			pagination := apptest.Plain(t, object{"page": c.page, "per_page": c.perPage, "total": 5})
			if diff := cmp.Diff(pagination, a.Object()["pagination"]); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.query, diff)
			}
		}
		for _, query := range []string{"?page=0", "?per_page=0", "?per_page=101", "?page=x"} {
			ada.Get(alertsPath + query).Want(http.StatusBadRequest)
		}
	})
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db, setup{guarded: true}).org("acme")
		masked := object{"chat_a_webhook_url": "https://hooks.example.org/…"}
		for _, c := range []struct {
			name   string
			patch  any
			change object
		}{
			{"nothing", object{}, object{}},
			{"no body", nil, object{}},
			{"nulls", object{"threshold": nil, "config": nil, "enabled": nil}, object{}},
			{"threshold", object{"threshold": 0.5}, object{"threshold": 0.5}},
			{"sensitivity", object{"sensitivity": "confident"}, object{"sensitivity": "confident"}},
			{"enabled", object{"enabled": false}, object{"enabled": false}},
			{"same channel", object{"channel": "chat_a"}, object{"config": masked}},
			{
				"config",
				object{"config": object{"chat_a_webhook_url": "https://other.example.org/secret-part"}},
				object{"config": object{"chat_a_webhook_url": "https://other.example.org/…"}},
			},
			{
				"channel",
				object{"channel": "email", "config": object{"email": "ada@example.org"}},
				object{
					"channel": "email", "config": object{"email": "a…@example.org"},
					"warnings": []string{"No mail server is configured, so deliveries will fail: set --smtp-url and --mail-from"},
				},
			},
			{"what cannot be changed", object{"type": "no_data", "skill_id": nil, "action": "rollback"}, object{}},
		} {
			t.Run(c.name, func(t *testing.T) {
				ada := ada.in(t)
				path := alertsPath + "/" + ada.alert(chatA)
				before := ada.Get(path).Object()
				got := ada.Do(http.MethodPatch, path, c.patch).Want(http.StatusOK).Object()
				if diff := cmp.Diff(apptest.Plain(t, apptest.With(settled(t, before), c.change)), settled(t, got)); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				if got["updated_at"].(string) < before["updated_at"].(string) || got["created_at"] != before["created_at"] {
					t.Errorf("times %v, before %v", got, before)
				}
				ada.Get(path).WantBody(got)
			})
		}
	})
}

func TestUpdateRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db, setup{}).org("acme")
		share := ada.alert(chatA)
		silence := ada.alert(apptest.With(chatA, object{"type": "no_data"}))
		const badURL = "config.chat_a_webhook_url must be an http or https URL with a host, of at most 2048 characters"
		for _, c := range []struct {
			name  string
			id    string
			patch object
			want  []string
		}{
			{"share", share, object{"threshold": 7}, []string{"threshold", "threshold must be between 0 and 1"}},
			{"days", silence, object{"threshold": 91}, []string{"threshold", "threshold must be between 0 and 90 days"}},
			{"channel alone", share, object{"channel": "email"}, []string{"config", "config is required when the channel changes"}},
			{
				"config of the old channel", share,
				object{"channel": "email", "config": object{"chat_a_webhook_url": hookURL}},
				[]string{"config.email", "config.email is required for the channel email"},
			},
			{"bad URL", share, object{"config": object{"chat_a_webhook_url": "ftp://x"}}, []string{"config.chat_a_webhook_url", badURL}},
			{"bad channel", share, object{"channel": "sms"}, []string{"channel", `channel: expected value to be one of "chat_a, chat_b, email, owners, webhook"`}},
			{"enabled as text", share, object{"enabled": "no"}, []string{"enabled", "enabled: expected boolean"}},
			{
				"two problems", share,
				object{"threshold": 7, "channel": "webhook", "config": object{"webhook_url": "x"}},
				[]string{
					"threshold", "threshold must be between 0 and 1",
					"config.webhook_url", "config.webhook_url must be an http or https URL with a host, of at most 2048 characters",
				},
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				ada := ada.in(t)
				before := ada.Get(alertsPath + "/" + c.id).Object()
				ada.Do(http.MethodPatch, alertsPath+"/"+c.id, apptest.With(c.patch, object{"sensitivity": "confident"})).WantIssues(c.want...)
				ada.Get(alertsPath + "/" + c.id).WantBody(before)
			})
		}
		ada.Do(http.MethodPatch, alertsPath+"/"+silence, object{"threshold": 90}).Want(http.StatusOK)
	})
}

// TestSecretOfUpdate: a change returns a secret only if it generated or set one.
func TestSecretOfUpdate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db, setup{}).org("acme")
		path := alertsPath + "/" + ada.alert(chatA)
		patch := func(body object) string {
			secret, _ := ada.Do(http.MethodPatch, path, body).Want(http.StatusOK).Object()["signing_secret"].(string)
			return secret
		}
		webhook := object{"channel": "webhook", "config": object{"webhook_url": hookURL}}
		first := patch(webhook)
		if !newSecret.MatchString(first) {
			t.Errorf("the new webhook shows %q, want its secret", first)
		}
		if again := patch(webhook); again != "" {
			t.Errorf("the same webhook shows %q, want nothing: it keeps its secret", again)
		}
		patch(object{"channel": "chat_a", "config": object{"chat_a_webhook_url": hookURL}})
		if second := patch(webhook); second == first || !newSecret.MatchString(second) {
			t.Errorf("a webhook after a chat shows %q, want a new secret", second)
		}
		own := "whsec_" + strings.Repeat("b3du", 8)
		if third := patch(object{"config": object{"webhook_url": hookURL, "webhook_secret": own}}); third != own {
			t.Errorf("a secret of the caller's own is shown as %q", third)
		}
	})
}

func TestRotateSecret(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db, setup{}).org("acme")
		got := ada.Post(alertsPath+"/"+ada.alert(passRate(hookURL))+"/rotate-secret", nil).Want(http.StatusOK).Object()
		if secret, _ := got["signing_secret"].(string); len(got) != 2 || !newSecret.MatchString(secret) {
			t.Errorf("got %v", got)
		}
		until, err := time.Parse(time.RFC3339, got["old_secret_until"].(string))
		if left := time.Until(until); err != nil || left > day || left < day-time.Minute {
			t.Errorf("the old secret signs until %v, want for a day", got["old_secret_until"])
		}
		ada.Post(alertsPath+"/"+ada.alert(chatA)+"/rotate-secret", nil).WantError(
			http.StatusConflict, "Only a webhook alert has a signing secret")
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(http.StatusOK))
		ada.sessions("pdf", repeat(0, 5)...)
		path := alertsPath + "/" + ada.alert(passRate(hook.URL))
		w.evaluate(ada, 1)
		if a := ada.Do(http.MethodDelete, path, nil).Want(http.StatusNoContent); len(a.Body) != 0 {
			t.Errorf("body %q, want none", a.Body)
		}
		for _, method := range []string{"GET", "DELETE"} {
			ada.Do(method, path, nil).WantError(http.StatusNotFound, "Alert not found")
		}
		ada.sessions("pdf", repeat(1, 50)...)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf") // events stay
		if n := w.Count("alert_states"); n != 0 {
			t.Errorf("%d states are left", n)
		}

		// A pending notification is not sent; one of another alert is.
		ada.alert(passRate(hook.URL + "/second"))
		ada.sessions("csv", repeat(0, 5)...)
		w.evaluate(ada, 1)
		w.Work()
		got := hook.Await(1)
		w.Settle()
		if len(hook.Requests()) != 1 || got[0].Object(t)["skill"] != "csv" {
			t.Errorf("the receiver got %d notices, the first: %s", len(hook.Requests()), got[0].Body)
		}
	})
}

// A recorder keeps a copy of the bodies that pass through it.
type recorder struct {
	http.ResponseWriter
	bodies *apptest.Buffer
}

func (r recorder) Write(p []byte) (int, error) {
	_, _ = r.bodies.Write(p) // never fails
	return r.ResponseWriter.Write(p)
}

// TestSecretsStaySecret uses every operation with alerts whose targets fail and
// echo the request, and searches the responses and the log for secrets.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{backoff: []time.Duration{time.Millisecond}})
		var answers apptest.Buffer
		w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.API.ServeHTTP(recorder{rw, &answers}, r)
		}))
		t.Cleanup(w.Server.Close)
		ada := w.org("acme")
		echo := notifytest.Receive(t, func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(rw, "cannot %s %s for %s", r.Method, r.URL, r.Header)
		})
		const path, query, local = "/hooks/xYzSecretToken123456", "?key=querySecret99", "ada.lovelace"
		own := "whsec_" + strings.Repeat("b3du", 8)
		ada.sessions("pdf", repeat(0, 5)...)
		var ids []string
		for channel, config := range map[string]object{
			"chat_a":  {"chat_a_webhook_url": echo.URL + path + query},
			"chat_b":  {"chat_b_webhook_url": echo.URL + path + query},
			"email":   {"email": local + "@example.org"},
			"webhook": {"webhook_url": echo.URL + path + query, "webhook_secret": own},
		} {
			ids = append(ids, ada.alert(object{"type": "pass_rate_below", "channel": channel, "config": config}))
		}
		made := ada.Post(alertsPath, passRate(echo.URL+path+query)).Object()
		ids = append(ids, made["id"].(string))
		for _, id := range ids {
			ada.Post(alertsPath+"/"+id+"/test", nil).Want(http.StatusOK)
		}
		w.evaluate(ada, 1)
		w.Work()
		w.Settle()
		for _, id := range ids {
			for _, d := range ada.deliveries(id) {
				if d["status"] != "failed" || d["detail"] == nil {
					t.Errorf("delivery %v, want it failed and to say why", d)
				}
			}
			ada.Get(alertsPath + "/" + id)
			ada.Do(http.MethodPatch, alertsPath+"/"+id, object{"threshold": 0.5})
			ada.Do(http.MethodPatch, alertsPath+"/"+id, object{"config": object{"email": local + "@"}})
		}
		ada.Get(alertsPath)
		ada.Get("/api/v1/alert-events")

		bodies, log := answers.String(), w.Logged.String()
		secret := made["signing_secret"].(string)
		for _, word := range []string{"xYzSecretToken123456", "querySecret99", local} {
			if strings.Contains(bodies, word) || strings.Contains(log, word) {
				t.Errorf("%q is in an answer or the log", word)
			}
		}
		for _, word := range []string{own, secret} {
			if strings.Count(bodies, word) != 1 || strings.Contains(log, word) {
				t.Errorf("a signing secret is in %d answers, want one, or in the log", strings.Count(bodies, word))
			}
		}
		if !strings.Contains(log, "job failed and will be retried") {
			t.Error("the log does not tell of failures")
		}
	})
}
