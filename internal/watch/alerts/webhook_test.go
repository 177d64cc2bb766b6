package alerts_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestSendTest sends a notification at once and changes no state.
func TestSendTest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(200), notifytest.Answering(404))
		id := ada.alert(passRate(hook.URL))
		var sent []object // newest first
		for _, want := range []object{
			{"status": "delivered", "response_status": 200, "detail": "HTTP 200 OK"},
			{"status": "failed", "response_status": 404, "detail": "HTTP 404 Not Found"},
		} {
			got := ada.Post(alertsPath+"/"+id+"/test", nil).Want(http.StatusOK).Object()["delivery"].(object)
			want = apptest.With(want, object{"alert_id": id, "event_id": nil, "channel": "webhook", "recipient_id": nil, "attempts": 1, "next_attempt_at": nil})
			if diff := cmp.Diff(apptest.Plain(t, want), apptest.Without(got, "id", "created_at", "attempted_at")); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			sent = append([]object{got}, sent...)
		}
		requests := hook.Requests()
		if len(requests) != 2 || requests[0].Object(t)["status"] != "test" || requests[0].ID() != sent[1]["id"] {
			t.Errorf("the receiver got %d notices", len(requests))
		}
		if diff := cmp.Diff(sent, ada.deliveries(id)); diff != "" {
			t.Errorf("deliveries (-answered +listed):\n%s", diff)
		}
		ada.Get(alertsPath + "/" + id + "/deliveries?per_page=1&page=2").Want(http.StatusOK).
			WantBody(object{"deliveries": sent[1:], "pagination": object{"page": 2, "per_page": 1, "total": 2}})
		if w.Count("alert_states") != 0 {
			t.Error("the test has left a state")
		}
		ada.wantEvents()
	})
}

// TestSignature verifies with the library that receivers use. After a rotation
// both secrets verify, and a day later only the new one.
func TestSignature(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(200))
		made := ada.Post(alertsPath, passRate(hook.URL)).Want(http.StatusCreated).Object()
		path := alertsPath + "/" + made["id"].(string)
		old := made["signing_secret"].(string)
		verify := func(what string, want map[string]bool) {
			t.Helper()
			ada.Post(path+"/test", nil).Want(http.StatusOK)
			requests := hook.Requests()
			last := requests[len(requests)-1]
			for secret, good := range want {
				verifier, err := standardwebhooks.NewWebhook(secret)
				if err != nil {
					t.Fatal(err)
				}
				if err := verifier.Verify(last.Body, last.Header); (err == nil) != good {
					t.Errorf("%s: %v, want it to verify: %t", what, err, good)
				}
				if verifier.Verify(append(last.Body, ' '), last.Header) == nil {
					t.Errorf("%s: a changed body verifies", what)
				}
			}
		}
		stranger := "whsec_" + strings.Repeat("b3du", 8)
		verify("first secret", map[string]bool{old: true, stranger: false})
		rotated := ada.Post(path+"/rotate-secret", nil).Want(http.StatusOK).Object()["signing_secret"].(string)
		verify("after the rotation", map[string]bool{old: true, rotated: true, stranger: false})
		w.Exec(`UPDATE alert_rules SET old_secret_until = old_secret_until - $1`, day.Microseconds())
		verify("a day later", map[string]bool{old: false, rotated: true})
		third := ada.Post(path+"/rotate-secret", nil).Want(http.StatusOK).Object()["signing_secret"].(string)
		verify("after another rotation", map[string]bool{old: false, rotated: true, third: true})
	})
}
